"""Counts unanswered CONSUMER_SEND_MSG_BACK (36), which may lead to second copies (B-80)."""

from __future__ import annotations

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.frame import FrameDecoder

PATIENCE_S = 2.9
"""A client ignores answers after 3 s (P-41)."""


class SendBackWatch:
    """Follows send-backs of consumers to brokers."""

    def __init__(self) -> None:
        self.asked = 0
        self._open: dict[object, dict[int, float]] = {}
        """Connection -> opaque -> when it was sent."""
        self._late = 0
        self._copies = 0

    @property
    def lost(self) -> int:
        """Number of send-backs without an answer in time, or with an error although the copy may
        be stored, and of copies that clients sent because of that."""
        return self._late + self._copies + sum(map(len, self._open.values()))

    def sent(self, connection: object, data: bytes, now: float) -> None:
        """Note bytes from a consumer to a broker."""
        if b"originMsgId" in data:
            for command in FrameDecoder().feed(data):
                if command.code == RequestCode.CONSUMER_SEND_MSG_BACK:
                    self.asked += 1
                    self._open.setdefault(connection, {})[command.opaque] = now
        elif b"ORIGIN_MESSAGE_ID" in data:
            self._copies += 1

    def answered(self, connection: object, data: bytes, now: float) -> None:
        """Note bytes that arrived from a broker."""
        waiting = self._open.get(connection)
        if not waiting:
            return
        for command in FrameDecoder().feed(data):
            sent_at = waiting.pop(command.opaque, None) if command.is_response else None
            if sent_at is None:
                continue
            if now - sent_at > PATIENCE_S or command.code != ResponseCode.SUCCESS:
                self._late += 1

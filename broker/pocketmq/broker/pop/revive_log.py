"""Stores check points and acks: timer messages for the revive topic (K-70)."""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.pop.records import (
    ACK_TAG,
    AHEAD_MS,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    Ack,
    CheckPoint,
)
from pocketmq.broker.store import PutResult, PutStatus, StoredMessage
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.broker.timers.rules import TimerRules, check_room
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import TIMER_TOPIC

_CODES = {tag: tags_code(tag) for tag in (CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG)}


class ReviveLog:
    """Writes to the revive topic through the timers.

    A record is what a send with TIMER_DELIVER_MS stores, put together without that send's work.

    Args:
        core: store, clock and address.
        rules: of the timers.
        topic: the revive topic.
        queues: how many queues it has.
        puts: says when records are safe.
    """

    def __init__(
        self, core: BrokerCore, rules: TimerRules, topic: str, queues: int, puts: SafePuts
    ) -> None:
        self.topic = topic
        self.queues = queues
        self.when_kept = puts.when_kept
        """(log end, callback): when records are as safe as a note that passes them must be."""
        self._core = core
        self._rules = rules
        self._next_queue = 0

    def next_queue(self) -> int:
        """The revive queue of the next pop (K-32)."""
        self._next_queue = (self._next_queue + 1) % self.queues
        return self._next_queue

    def check_point(self, point: CheckPoint, queue_id: int) -> StoredMessage:
        """The message that stores a check point."""
        # A second before its acks, which are ignored if they come first (K-70, K-82).
        due_ms = point.revive_time_ms - AHEAD_MS
        return self._message(queue_id, CHECK_POINT_TAG, point.encode(), point.uniq_key, due_ms)

    def ack(self, ack: Ack, queue_id: int, due_ms: int) -> StoredMessage:
        """The message that stores an ack.

        Args:
            ack: of one message or of several.
            queue_id: revive queue of its check point.
            due_ms: when the messages are seen again.

        Raises:
            RequestRefusedError: MESSAGE_ILLEGAL (13): no pop hides messages until then.
        """
        try:
            return self._message(queue_id, ack.tag, ack.encode(), ack.uniq_key, due_ms)
        except RequestRefusedError as exc:
            if exc.code != ResponseCode.MESSAGE_ILLEGAL:
                raise
            raise RequestRefusedError(
                exc.code,
                f"the receipt handle has the impossible time {due_ms}; send the message's "
                "property POP_CK unchanged",
            ) from exc

    def put(self, messages: Sequence[StoredMessage]) -> list[PutResult] | None:
        """Store them; None when one could not be stored."""
        results = self._core.store.put_messages(messages)
        return None if any(r.status is not PutStatus.PUT_OK for r in results) else results

    def _message(
        self, queue_id: int, tag: str, body: bytes, key: str, due_ms: int
    ) -> StoredMessage:
        now_ms = self._core.clock.time_ms()
        # None if it is due already: then it goes straight into the revive topic.
        out_ms = self._rules.out_ms_of(due_ms, now_ms)
        properties = (
            f"{names.TIMER_DELIVER_MS}\x01{due_ms}\x02{names.UNIQ_KEY}\x01{key}\x02"
            f"{names.TAGS}\x01{tag}\x02"
        )
        topic, queue = self.topic, queue_id
        # The timers put it into the revive topic when it is due (K-70).
        if out_ms is not None:
            properties += (
                f"{names.TIMER_OUT_MS}\x01{out_ms}\x02{names.REAL_TOPIC}\x01{topic}\x02"
                f"{names.REAL_QUEUE_ID}\x01{queue_id}\x02"
            )
            topic, queue = TIMER_TOPIC, 0
        # A separator in the key would break the encoded properties.
        if "\x01" in key or "\x02" in key:
            encode_properties({names.UNIQ_KEY: key})  # says why it is refused
        stored = properties.encode()
        check_room(stored)
        host = self._core.address.packed
        return StoredMessage(
            topic=topic,
            queue_id=queue,
            body=body,
            properties=stored,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=now_ms,
            born_host=host,
            store_host=host,
            tags_code=_CODES[tag],
            uniq_key=key,
        )

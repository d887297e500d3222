"""The receipt handle that a gRPC client gets: a broker's, with one word more (G-90).

    7 1700000000123 60000 1 0 broker-a 3 9 884736
    |                                    | where the message lies in the broker's log
    the eight words of a broker's handle, as `protocol/messages/receipts.py` explains them

The ninth word is what a message is sent to the dead letters by. A handle of eight words, as a
client of another proxy may hold one, can do all else. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.messages.receipts import pop_retry_topic
from pocketmq.protocol.scalars import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

NO_LOG_OFFSET: Final = -1
"""What a handle of eight words has for the ninth."""

MAX_CHARS: Final = 1_024
"""No broker's name and numbers take so many; a longer one would be sent on to a broker."""

_WORDS: Final = 8
_RETRY_V1, _RETRY_V2 = "1", "2"


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """Names one delivery of one message to a gRPC client."""

    start_offset: int
    popped_ms: int
    invisible_ms: int
    revive_queue_id: int
    mark: str
    """0: the topic itself; 1 and 2: its retry topics. Anything else counts as 0, as in RocketMQ."""
    broker_name: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    text: str
    """As the client has it."""

    @property
    def due_ms(self) -> int:
        """When the message is seen again unless it was acknowledged, epoch ms."""
        return self.popped_ms + self.invisible_ms

    def expired(self, now_ms: int) -> bool:
        """Whether nothing can be done with it any more (G-91)."""
        return self.due_ms <= now_ms

    def real_topic(self, topic: str, group: str) -> str:
        """Where the message lies: the topic, or the retry topic that it came from."""
        if self.mark in (_RETRY_V1, _RETRY_V2):
            return pop_retry_topic(topic, group, v2=self.mark == _RETRY_V2)
        return topic

    def renewed(self, popped_ms: int, invisible_ms: int, revive_queue_id: int) -> Receipt:
        """The handle that holds after the broker changed the invisible time (K-48)."""
        # Any other mark counts as 0, so the new handle has 0.
        mark = self.mark if self.mark in (_RETRY_V1, _RETRY_V2) else "0"
        return make_receipt(
            f"{self.queue_offset} {popped_ms} {invisible_ms} {revive_queue_id} {mark} "
            f"{self.broker_name} {self.queue_id} {self.queue_offset}",
            self.commit_log_offset,
        )

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """Read what a client handed back.

        Raises:
            BadRequestError: it is no handle; with the words of RocketMQ's proxy.
        """
        # Before it is split: a text of megabytes would become as many words.
        if len(text) > MAX_CHARS:
            raise BadRequestError(
                f"Parse failed, a receipt handle may have at most {MAX_CHARS} characters, but "
                f"has {len(text)}"
            )
        words = text.split(" ")
        while len(words) > 1 and not words[-1]:  # as Java splits
            words.pop()
        if len(words) < _WORDS:
            # Java's split gives no word at all for a text of spaces.
            count = 0 if text and not text.strip(" ") else len(words)
            raise BadRequestError(f"Parse failed, dataList size {count}")
        start, popped, invisible, revive, mark, broker, queue, offset, *more = words
        return cls(
            _long(start),
            _long(popped),
            _long(invisible),
            _int(revive),
            mark,
            broker,
            _int(queue),
            _long(offset),
            _long(more[0]) if more else NO_LOG_OFFSET,
            text,
        )


def make_receipt(handle: object, commit_log_offset: int) -> Receipt:
    """The handle that a client gets for a popped message.

    Args:
        handle: The broker's; `str` of it are eight words.
        commit_log_offset: Where the message lies in the broker's log.

    Raises:
        BadRequestError: the broker's handle is none.
    """
    return Receipt.parse(f"{handle} {commit_log_offset}")


def _long(word: str) -> int:
    return _number(word, INT64_MIN, INT64_MAX)


def _int(word: str) -> int:
    return _number(word, INT32_MIN, INT32_MAX)


def _number(word: str, low: int, high: int) -> int:
    # Java's `Long.parseLong` takes one sign, but no spaces or underscores, unlike Python's `int`.
    digits = word[1:] if word[:1] in ("-", "+") else word
    # Leading zeros are as many as somebody likes; what is longer without them is too large anyway.
    if digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= len(str(INT64_MAX)):
        value = int(digits.lstrip("0") or "0") * (-1 if word[0] == "-" else 1)
        if low <= value <= high:
            return value
    raise BadRequestError(f'For input string: "{word[:40]}"')

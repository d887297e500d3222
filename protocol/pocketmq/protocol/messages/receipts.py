"""What a client hands back to a broker: receipt handles of popped messages, recall handles.

A receipt handle is one line of words (K-45), also kept in the property POP_CK:

    7 1700000000123 60000 1 0 broker-a 3 9
    | |             |     | | |        | message's offset
    | |             |     | | |        queue id
    | |             |     | | broker name
    | |             |     | mark: 0 the topic, 1 and 2 its retry topics
    | |             |     revive queue, 999 for an ordered pop
    | |             how long it is invisible, ms
    | when it was popped, epoch ms
    offset that the pop began at

A broker does not repeat these words for each message: its answer has them once, with the offsets of
each queue beside them, and the client puts the handles together (K-37, K-47).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.java import java_split
from pocketmq.protocol.messages.validation import RETRY_PREFIX
from pocketmq.protocol.scalars import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

NORMAL: Final = 0
RETRY_V1: Final = 1
RETRY_V2: Final = 2

ORDERED_QUEUE: Final = 999
"""Revive queue in the handles of ordered pops; nothing is stored for them (K-17)."""

_WORDS: Final = 8
_LONG, _INT = "([0-9]{1,18})", "([0-9]{1,9})"
_PLAIN: Final = re.compile(
    f"{_LONG} {_LONG} {_LONG} {_INT} {_INT} ([^ ]+) {_INT} {_LONG}"
).fullmatch
"""Matches nearly every handle; the others are looked at word by word."""


def pop_retry_topic(topic: str, group: str, *, v2: bool = False) -> str:
    """Where messages come back that were popped and not acknowledged (K-12, K-13)."""
    return f"{RETRY_PREFIX}{group}{'+' if v2 else '_'}{topic}"


def retry_mark(topic: str) -> int:
    """Which kind of topic a message came from (K-14)."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def marked_topic(topic: str, group: str, mark: int | str) -> str:
    """The topic itself or its retry topic, as a mark says.

    Raises:
        BadRequestError: the mark is none of 0, 1 and 2.
    """
    match str(mark):
        case "0":
            return topic
        case "1":
            return pop_retry_topic(topic, group)
        case "2":
            return pop_retry_topic(topic, group, v2=True)
        case other:
            raise BadRequestError(f"the retry mark must be 0, 1 or 2, but is {other!r}")


def user_topic(topic: str, group: str) -> str:
    """The application's topic of a pop retry topic; any other topic as it is (K-15)."""
    for separator in "+_":
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix) and len(topic) > len(prefix):
            return topic[len(prefix) :]
    return topic


class ReceiptHandle(msgspec.Struct, frozen=True, gc=False):
    """Names one delivery of one message."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    mark: int
    broker_name: str
    queue_id: int
    queue_offset: int

    @property
    def is_ordered(self) -> bool:
        """Whether it comes from a pop that keeps messages in order."""
        return self.revive_queue_id == ORDERED_QUEUE

    @property
    def due_ms(self) -> int:
        """When the message is seen again unless it was acknowledged, epoch ms."""
        return self.pop_time_ms + self.invisible_ms

    def __str__(self) -> str:
        return (
            f"{self.start_offset} {self.pop_time_ms} {self.invisible_ms} {self.revive_queue_id} "
            f"{self.mark} {self.broker_name} {self.queue_id} {self.queue_offset}"
        )

    @classmethod
    def parse(cls, text: str, queue_offset: int | None = None) -> ReceiptHandle:
        """Read a handle.

        Args:
            text: as `str()` writes it.
            queue_offset: the message's, for a handle of seven words, as old clients send it (K-46).

        Raises:
            BadRequestError: a word is missing or no number; names it.
        """
        # Almost every handle matches, which saves eight conversions.
        plain = _PLAIN(text)
        if plain is not None:
            start, popped, invisible, revive, mark, broker, queue, offset = plain.groups()
            return cls(
                int(start), int(popped), int(invisible), int(revive), int(mark), broker,
                int(queue), int(offset),
            )  # fmt: skip
        words = java_split(text, " ")
        # Old clients send seven words; the message's offset comes in the header then (K-46).
        if len(words) == _WORDS - 1 and queue_offset is not None:
            words.append(str(queue_offset))
        if len(words) < _WORDS:
            raise BadRequestError(
                f"receipt handle {text[:200]!r} has {len(words)} words, but must have {_WORDS}; "
                "send the message's property POP_CK unchanged"
            )
        start, popped, invisible, revive, mark, broker, queue, offset = words[:_WORDS]
        return cls(
            _number("start offset", start, wide=True),
            _number("pop time", popped, wide=True),
            _number("invisible time", invisible, wide=True),
            _number("revive queue", revive),
            _number("retry mark", mark),
            broker,
            _number("queue id", queue),
            _number("queue offset", offset, wide=True),
        )


def _number(what: str, text: str, *, wide: bool = False) -> int:
    low, high = (INT64_MIN, INT64_MAX) if wide else (INT32_MIN, INT32_MAX)
    digits = text[1:] if text[:1] in ("-", "+") else text
    # ASCII digits only, and no more than a long has: `int` is slow for long texts.
    if digits.isascii() and digits.isdigit() and len(digits) <= len(str(INT64_MAX)):
        value = int(text)
        if low <= value <= high:
            return value
    raise BadRequestError(
        f"the {what} of a receipt handle must be an integer from {low} to {high}, but is "
        f"{text[:40]!r}"
    )


# -- an answer's offsets ------------------------------------------------------------------------

QueueKey = tuple[int, int]
"""(mark, queue id): no answer holds the same twice (K-38)."""


def start_offset_info(starts: Iterable[tuple[QueueKey, int]]) -> str:
    """`0 3 7;1 0 2`: at which offset the pop of each queue began."""
    return ";".join(f"{mark} {queue} {offset}" for (mark, queue), offset in starts)


def msg_offset_info(offsets: Iterable[tuple[QueueKey, Sequence[int]]]) -> str:
    """`0 3 7,9`: the offsets taken of each queue, in the order of the body."""
    return ";".join(
        f"{mark} {queue} {','.join(map(str, taken))}" for (mark, queue), taken in offsets
    )


def parse_start_offset_info(text: str | None) -> dict[QueueKey, int]:
    """Read what `start_offset_info` wrote; nothing for nothing.

    Raises:
        BadRequestError: it is malformed, or names a queue twice.
    """
    return {key: _offset(word) for key, word in _entries(text).items()}


def parse_msg_offset_info(text: str | None) -> dict[QueueKey, list[int]]:
    """Read what `msg_offset_info` wrote; nothing for nothing.

    Raises:
        BadRequestError: it is malformed, or names a queue twice.
    """
    return {key: _offsets(words) for key, words in _entries(text).items()}


def order_count_info(
    key: QueueKey, by_offset: Iterable[tuple[int, int]], smallest: int
) -> Iterable[str]:
    """The entries of one queue in `orderCountInfo`; join all with `;`."""
    mark, queue = key
    for offset, count in by_offset:
        yield f"{mark} qo{queue}%{offset} {count}"
    yield f"{mark} {queue} {smallest}"


def _entries(text: str | None) -> dict[QueueKey, str]:
    found: dict[QueueKey, str] = {}
    for entry in text.split(";") if text else ():
        words = entry.split(" ")
        if len(words) != 3:
            raise BadRequestError(f"offset info {entry[:100]!r} has not 3 words")
        key = _offset(words[0]), _offset(words[1])
        # Clients join the two parts of an answer by mark and queue, so each pair is unique (K-38).
        if key in found:
            raise BadRequestError(
                f"the offset info has two entries for queue {key[1]} with retry mark {key[0]}, "
                "but may have only one"
            )
        found[key] = words[2]
    return found


def _offsets(words: str) -> list[int]:
    try:
        return list(map(int, words.split(",")))
    except ValueError as exc:
        raise BadRequestError(
            f"in an offset info, {words[:100]!r} must be a list of numbers, separated by commas"
        ) from exc


def _offset(text: str) -> int:
    try:
        return int(text)
    except ValueError as exc:
        raise BadRequestError(f"in an offset info, {text[:40]!r} must be a number") from exc


# -- recall -------------------------------------------------------------------------------------


class RecallHandle(msgspec.Struct, frozen=True, gc=False):
    """Names one timer message; base64 of `v1 topic broker dueMs uniqKey` (R-30)."""

    topic: str
    broker_name: str
    due_ms: int
    """One more than the message's TIMER_OUT_MS, so that rounding leads to the same slot."""
    uniq_key: str

    def encode(self) -> str:
        """As the send's answer carries it."""
        text = f"v1 {self.topic} {self.broker_name} {self.due_ms} {self.uniq_key}"
        return urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> RecallHandle:
        """Read a handle.

        Raises:
            BadRequestError: it is none.
        """
        try:
            # Some clients leave out the padding that Java writes.
            words = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().split(" ")
            version, topic, broker, due, key = words[:5]
            if version == "v1":
                # No other version than "v1" exists.
                return cls(topic, broker, int(due), key)
        except ValueError:  # UnicodeDecodeError and binascii.Error are such
            pass
        raise BadRequestError(
            "recall handle is invalid; take the handle from the answer to the send, and pass it on "
            "unchanged"
        )

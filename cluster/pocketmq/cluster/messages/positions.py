"""Where reading of a queue begins or ends, as people write it: pure.

start             the oldest message that is still stored
end               the next message to be stored
-10               ten messages before the end
120               the message at offset 120
10m-ago           the first message stored ten minutes ago or later
2026-11-22T09:30  the first message stored then or later; local time, or with Z, +01:00
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pocketmq.cluster.durations import parse_duration_ms
from pocketmq.runtime.errors import CallerError

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?[a-z]+)-ago").fullmatch


@dataclass(frozen=True, slots=True)
class Position:
    """One of the four; exactly one field is set."""

    offset: int | None = None
    """0 stands for the start: a smaller one than the oldest is moved up to it."""
    before_end: int | None = None
    """Messages before the end; 0 is the end."""
    time_ms: int | None = None
    """Epoch ms."""
    ago_ms: int | None = None
    """Before the cluster's present."""


START: Final = Position(offset=0)
END: Final = Position(before_end=0)


def position(text: str) -> Position:
    """Read a position.

    Raises:
        CallerError: the text is none.
    """
    words = text.strip()
    if words == "start":
        return START
    if words == "end":
        return END
    # ASCII first: `isdigit` is true for digits of other scripts as well.
    if words.isascii() and words.isdigit():
        return Position(offset=int(words))
    # A negative number counts from the end; no date begins with a minus sign.
    if words[:1] == "-" and words[1:].isascii() and words[1:].isdigit():
        return Position(before_end=int(words[1:]))
    if found := _DURATION(words):
        return Position(ago_ms=parse_duration_ms(found[1]))
    try:
        return Position(time_ms=round(datetime.fromisoformat(words).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise CallerError(
            f"{text!r} is not a position; write start, end, an offset like 120, -10 for the last "
            "ten messages, 10m-ago, or a time like 2026-11-22T09:30"
        ) from None


@dataclass(frozen=True, slots=True)
class QueueName:
    """A queue as people write it: `broker-a/0`."""

    broker: str
    queue: int

    def __str__(self) -> str:
        return f"{self.broker}/{self.queue}"


def queue_name(text: str) -> QueueName:
    """Read `broker-a/0`.

    Raises:
        CallerError: it is no queue.
    """
    # From the right, as a broker's name may contain a slash.
    broker, slash, number = text.rpartition("/")
    if not (slash and broker and number.isascii() and number.isdigit()):
        raise CallerError(f"{text!r} names no queue; write broker-a/0")
    return QueueName(broker, int(number))

"""Decisions about a queue without touching a file: where a pull stands, which offset a time means.

Rules: B-59 for pulls, S-40 and S-41 for times.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, unique

import msgspec


@unique
class GetStatus(Enum):
    """How a pull's offset relates to the queue; the name goes into the reply's remark (B-64)."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    """Messages were looked at, and the filter took none."""
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    """The queue still has entries, but their records are deleted."""
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    """In range, but the file that should hold the entry is missing."""
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    """The consumer has read everything: the one case in which waiting makes sense."""
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


class GetResult(msgspec.Struct, gc=False):
    """What a pull found."""

    status: GetStatus
    next_begin_offset: int
    """Where the next pull should start."""
    min_offset: int
    max_offset: int
    """The queue's bounds; 0 and 0 when there is no queue."""
    records: list[memoryview] = []
    """Views of the log, each of one or more whole records back to back; join them once."""
    count: int = 0
    """Records in all views."""
    size_bytes: int = 0
    """Bytes in all views."""
    suggest_pulling_from_slave: bool = False
    """The reader is so far behind that its data has left this machine's memory (B-62)."""
    filtered_bytes: int = 0
    """What its filter cost, as if it were bytes of properties that were read."""


@unique
class Boundary(Enum):
    """Which of two neighbours a time between them means, and which of equals (S-41)."""

    LOWER = "LOWER"
    """The first message stored at the time or later."""
    UPPER = "UPPER"
    """The last message stored at the time or earlier."""


def outside(offset: int, min_offset: int, max_offset: int) -> tuple[GetStatus, int]:
    """Status and next offset of a pull from where the queue has nothing to read (B-59)."""
    # An empty queue tells nothing about offsets: the client goes on at 0.
    if max_offset == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < min_offset:
        return GetStatus.OFFSET_TOO_SMALL, min_offset
    # Everything is read: only in this status does the broker hold the pull (B-70).
    if offset == max_offset:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    return GetStatus.OFFSET_OVERFLOW_BADLY, max_offset


# behaviour 25
def offset_by_time(
    time_ms: int,
    low: int,
    high: int,
    stored_at: Callable[[int], int],
    boundary: Boundary = Boundary.LOWER,
) -> int:
    """The offset in [low, high] that a moment means; `high` is one behind the last message.

    `stored_at(offset)` gives a message's store time, which never falls along a queue. LOWER beyond
    the last message gives `high`; UPPER before the first gives `low` (S-41).
    """
    # Bisection works because store times never fall along a queue (S-12).
    first, last = low, high
    if boundary is Boundary.LOWER:
        while first < last:
            middle = (first + last) // 2
            if stored_at(middle) < time_ms:
                first = middle + 1
            else:
                last = middle
        return first
    while first < last:
        middle = (first + last) // 2
        if stored_at(middle) <= time_ms:
            first = middle + 1
        else:
            last = middle
    # All messages are later than the time: the answer is the minimum (S-41).
    return max(low, first - 1)


def offset_nearest_time(time_ms: int, low: int, high: int, stored_at: Callable[[int], int]) -> int:
    """4.9's answer: an exact hit, or the neighbour nearer in time, the left on a tie (S-40)."""
    if low >= high:
        return low
    right = offset_by_time(time_ms, low, high, stored_at)
    # The time is later than all messages: 4.9 answers with the last message, not the end (S-40).
    if right == high:
        return high - 1
    if right == low or stored_at(right) == time_ms:
        return right
    left_gap = time_ms - stored_at(right - 1)
    right_gap = stored_at(right) - time_ms
    return right - 1 if left_gap <= right_gap else right

"""Narrows queues of a store to where rows within a query's bounds can be: by bisection.

Offsets in the queue are entries; log offsets ascend along a queue. So do store times, as long as
the broker's clock is not set back: RocketMQ's own search by time relies on it too. `SLACK_MS` is
allowed for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

from pocketmq.pipeline.options.row_filter import Range, RowFilter
from pocketmq.pipeline.stores.store_files import FileRow, QueueFiles
from pocketmq.protocol.store_layout import FILLER_SIZE, FIXED_SIZE, store_time_ms

SLACK_MS: Final = 60_000
"""So far back a broker's clock may have been set, and rows are found by their time all the same."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Entries [low, high) of one queue."""

    topic: str
    queue_id: int
    low: int
    high: int


Bounded = tuple[QueueFiles, int, int]
"""Entries [low, high) of a queue's files."""


def bounded(files: QueueFiles, low: int, high: int, row_filter: RowFilter, log: FileRow) -> Bounded:
    """The entries of [low, high) that may have rows within the bounds."""
    numbers, places = row_filter.range("queueOffset"), row_filter.range("physicalOffset")
    if numbers.low is not None:
        low = max(low, numbers.low)
    if numbers.high is not None:
        high = min(high, numbers.high + 1)
    # Log offsets first: they are in the entries, while times have to be read from the log.
    files, low, high = within(files, low, high, places)
    times = row_filter.times("storeTimestamp")
    if low < high and not times.is_open:
        low, high = _in_time(files, low, high, times, log)
    return files, low, high


def within(files: QueueFiles, low: int, high: int, places: Range) -> Bounded:
    """The entries of [low, high) whose records begin within these log offsets."""
    if low < high and places.low is not None:
        low = files.index_at(places.low, low, high)
    if low < high and places.high is not None:
        high = files.index_at(places.high + 1, low, high)
    return files, low, high


class _NoRecordError(Exception):
    """An entry has none."""


def _in_time(files: QueueFiles, low: int, high: int, times: Range, log: FileRow) -> tuple[int, int]:
    def stored_ms(number: int) -> int:
        found = files.entries(number, number + 1)
        # A filler has no record, so the bisection cannot use it.
        if not len(found) or found["size"][0] == FILLER_SIZE:
            raise _NoRecordError
        head = log.read(int(found["offset"][0]), FIXED_SIZE)
        if len(head) < FIXED_SIZE:
            raise _NoRecordError
        return store_time_ms(head)

    try:
        first, last = low, high
        if times.low is not None:
            # Earlier by the slack: a clock that was set back puts younger messages before older
            # ones.
            first = bisect_left(range(high), times.low - SLACK_MS, low, high, key=stored_ms)
        if times.high is not None:
            last = bisect_right(range(high), times.high + SLACK_MS, low, high, key=stored_ms)
    except _NoRecordError:  # such a queue is read in full
        return low, high
    return first, last

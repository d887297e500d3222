"""Plans a read of a store: which entries of which queues, split into which parts.

A store may be in use. So a read begins with a snapshot: the end of each queue, and the end of the
log's valid records. Messages stored later are not part of the read, however late its tasks run; nor
are entries whose records are already deleted (S-34) or not yet written.

    queue A   . . [low . . . . . . . high)         a part has the entries of all queues whose
    queue B       [low . . . . high)               records lie in one section of the log, so that
    log       ....|====part 1====|====part 2====|  each part reads the files once and in order
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pocketmq.pipeline.columns.record_columns import ROWS
from pocketmq.pipeline.errors import near
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.stores import store_keys
from pocketmq.pipeline.stores.log_walk import sound_end, walk
from pocketmq.pipeline.stores.places import Place
from pocketmq.pipeline.stores.store_bounds import Slice, bounded
from pocketmq.pipeline.stores.store_files import (
    FileRow,
    QueueFiles,
    log_files,
    queues_of,
)
from pocketmq.pipeline.stores.store_roots import Root
from pocketmq.protocol.store_layout import FILLER_SIZE, FIXED_SIZE
from pocketmq.protocol.stored.record_check import RecordKind, check_record

LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
"""Topics of light queues (RocketMQ 5), which list records of other topics a second time."""

SLICES: Final = 1000
"""Maximum messages that the index has found, of one part."""


@dataclass(frozen=True, slots=True)
class QueuePart:
    """One task: the records of queue entries, within a section of the log."""

    root: Place
    broker_name: str
    slices: tuple[Slice, ...]

    @property
    def rows(self) -> int:
        """Number of entries, before filters."""
        return sum(each.high - each.low for each in self.slices)


@dataclass(frozen=True, slots=True)
class LogPart:
    """One task: the records found by reading the log from a record's begin to `end`."""

    root: Place
    broker_name: str
    start: int
    end: int
    is_closed: bool = False
    """Whether it is a whole file, at whose end a mark must stand."""


Part = QueuePart | LogPart


def choose_queues(
    root: Root, topics: Sequence[str], row_filter: RowFilter
) -> list[tuple[str, int]]:
    """Queues of a store that may have rows within the filter's bounds."""
    ids = row_filter.range("queueId")
    return [
        (topic, queue_id)
        for topic, queue_id in queues_of(root.path)
        if is_named(topic, topics) and row_filter.allows("topic", topic) and queue_id in ids
    ]


def is_named(topic: str, topics: Sequence[str]) -> bool:
    """Whether these topics, or all where none is said, have this one among them."""
    # Light queues list records of other topics, which would then appear twice.
    return topic in topics if topics else not topic.startswith(LIGHT_QUEUE_PREFIX)


def check_topics(
    roots: Sequence[Root], topics: Sequence[str], error: Callable[..., Exception]
) -> None:
    """Raise `error(problem, near=...)` for a topic of which no store has a queue."""
    known = {topic for root in roots for topic, _ in queues_of(root.path)}
    for topic in topics:
        # A store without queues is read from its log, which may have any topic.
        if known and topic not in known:
            raise error(f"no store has a queue of topic {topic!r}", near=near(topic, known))


def check_queues(roots: Sequence[Root], error: Callable[[str], Exception]) -> None:
    """Raise `error(problem)` for a store with messages but no queues, which would read as empty."""
    for root in roots:
        # The first queue settles it; a store may have thousands.
        if next(queues_of(root.path), None) is None and _has_messages(root):
            advice = (
                f"run `pocketmq store rebuild {root.path}`, which makes them from the log, unless "
                "its topics were deleted: it would bring them back"
            )
            raise error(f"{root.path} has messages but no queues; {advice}")


def _has_messages(root: Root) -> bool:
    with log_files(root.path) as log:
        return any(
            len(window.positions)
            for start, length in zip(log.starts, log.lengths, strict=True)
            for window in walk(log, start, start + length)
        )


def plan_queues(
    root: Root,
    queues: Iterable[tuple[str, int]],
    row_filter: RowFilter,
    *,
    part_bytes: int,
    least_parts: int,
    slots: int | None = None,
) -> list[QueuePart]:
    """Plan the parts for the queues of one store.

    Conditions on offsets and times narrow the queues by bisection; those on keys are looked up in
    the index, and only what it does not cover is read.
    """
    with log_files(root.path) as log:
        slices, end = snapshot(root, queues, log)
        # After the snapshot, since the search reads records.
        bounds = [bounded(files, low, high, row_filter, log) for files, low, high in slices]
        bounds = [(files, low, high) for files, low, high in bounds if low < high]
        # Last, since the other bounds leave fewer queues to search.
        by_key = store_keys.choose(root, row_filter, bounds, log, end, slots)
        if by_key is None:
            parts = _split(root, bounds, end, part_bytes, least_parts)
        else:
            parts = [
                QueuePart(root.path, root.broker_name, tuple(by_key.slices[at : at + SLICES]))
                for at in range(0, len(by_key.slices), SLICES)
            ]
            for spans in by_key.unindexed:
                parts += _split(root, spans, end, part_bytes, 1)
    for files, _, _ in slices:
        files.row.close()
    return parts


def snapshot(
    root: Root, queues: Iterable[tuple[str, int]], log: FileRow
) -> tuple[list[tuple[QueueFiles, int, int]], int]:
    """Find the entries [low, high) of each queue whose records exist, and the end of those records.

    The end is behind the last valid record that any queue has an entry for. Entries that point
    behind it were left by a broker that died, or by a copy that was made while it ran.
    """
    found = []
    end = log.start
    for topic, queue_id in queues:
        files = QueueFiles(root.path, topic, queue_id)
        # The end is fixed now: messages that are stored later are no part of this read.
        high = files.written_end()
        low = files.index_at(log.start, files.first, high)
        sound_high = _sound_end(files, low, high, log)
        if sound_high > low:
            last = files.entries(sound_high - 1, sound_high)
            end = max(end, int(last["offset"][0]) + int(last["size"][0]))
        found.append((files, low, high))
    return [
        # Cut at the common end of the log: queues are written after the log, and not equally far.
        (files, low, files.index_at(end, low, high) if low < high else high)
        for files, low, high in found
    ], end


def _sound_end(files: QueueFiles, low: int, high: int, log: FileRow) -> int:
    """Queue offset behind the last entry whose record is valid; nearly always `high`."""

    def is_sound(number: int) -> bool:
        entry = files.entries(number, number + 1)
        if not len(entry) or entry["size"][0] == FILLER_SIZE:
            return False
        offset, size = int(entry["offset"][0]), int(entry["size"][0])
        head = log.read(offset, FIXED_SIZE)
        # Checked before the whole record is read, since its size may be nonsense.
        if len(head) < FIXED_SIZE or int.from_bytes(head[:4], "big") != size:
            return False
        found = check_record(log.read(offset, size), 0, check_crc=False)
        return found.kind is RecordKind.RECORD and found.physical_offset == offset

    if low < high and is_sound(high - 1):
        return high
    # The steps back double, since an unsound end is mostly short.
    bad, step = high - 1, 1
    while bad > low:
        probe = max(low, bad - step)
        if is_sound(probe):
            between = range(probe + 1, bad)
            return probe + 1 + bisect_left(between, True, key=lambda number: not is_sound(number))
        bad, step = probe, step * 2
    return low


def _split(
    root: Root,
    bounds: Sequence[tuple[QueueFiles, int, int]],
    end: int,
    part_bytes: int,
    least_parts: int,
) -> list[QueuePart]:
    rows = sum(high - low for _, low, high in bounds)
    if rows == 0:
        return []
    start = min(files.first_offset(low, high) for files, low, high in bounds)
    by_bytes = math.ceil((end - start) / part_bytes)
    # Not more parts than batches of rows: a task costs more than a few rows.
    count = max(min(by_bytes, math.ceil(rows / ROWS)), least_parts, 1)
    points = [start + (end - start) * number // count for number in range(1, count)]
    # All queues are cut at the same places of the log, so that each part reads its own files.
    cuts = [
        [low, *(files.index_at(point, low, high) for point in points), high]
        for files, low, high in bounds
    ]
    parts = []
    for number in range(count):
        slices = tuple(
            Slice(files.topic, files.queue_id, cut[number], cut[number + 1])
            for (files, _, _), cut in zip(bounds, cuts, strict=True)
            if cut[number] < cut[number + 1]
        )
        if slices:
            parts.append(QueuePart(root.path, root.broker_name, slices))
    return parts


def plan_log(root: Root) -> list[LogPart]:
    """Plan to read the log of a store without queues: a part per file, up to the last record."""
    with log_files(root.path) as log:
        ends = [start + length for start, length in zip(log.starts, log.lengths, strict=True)]
        if ends:
            # Only the last log file is longer than its records.
            ends[-1] = sound_end(log, log.starts[-1])
        return [
            LogPart(root.path, root.broker_name, start, end)
            for start, end in zip(log.starts, ends, strict=True)
            if start < end
        ]

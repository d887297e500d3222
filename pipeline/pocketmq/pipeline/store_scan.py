"""Reads a part of a store as record batches, on a worker (S-5, S-30).

The queues' entries say where records begin. They are sorted by log offset, and the records are read
in sections of a few megabytes into one buffer that stays in the cache. Each section becomes one
record batch. Every record is compared with its entry: size, log offset, queue and queue offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.pipeline.arrow import MessageBatch, Shape
from pocketmq.pipeline.errors import CorruptRecordError
from pocketmq.pipeline.fixed_fields import QUEUE_ENTRY, Bytes, Ints
from pocketmq.pipeline.log_walk import walk
from pocketmq.pipeline.places import Place
from pocketmq.pipeline.read_counts import ReadCounts
from pocketmq.pipeline.record_columns import ROWS, RecordColumns, read_columns
from pocketmq.pipeline.row_choice import of_topics, wanted
from pocketmq.pipeline.row_filter import RowFilter
from pocketmq.pipeline.store_files import FileRow, QueueFiles, log_files
from pocketmq.pipeline.store_plan import LIGHT_QUEUE_PREFIX, LogPart, Part, QueuePart
from pocketmq.pipeline.worker_log import log as worker_log
from pocketmq.protocol.ledger import HEAD_SIZE, REST_OF_FILE, record_place
from pocketmq.protocol.record_check import RecordKind, check_record
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import BLANK, FILLER_SIZE, FIXED_SIZE, MAGIC_BLANK
from pocketmq.protocol.subscription import tags_code

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Read and decoded at a time: with it 1 KiB messages decode at 7 GB/s, mapped files at 5.8."""
FIRST_BYTES: Final = 64 * 1024
GAP_BYTES: Final = 4 * 1024
"""Gaps of up to this many bytes between records are read too: cheaper than a second read."""
SHOWN: Final = 5
"""Skipped records that are logged one by one; more are only counted."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"

_INT32_MIN: Final = -(2**31)


@dataclass(slots=True)
class Scan:
    """Reads parts; `skipped` is the number of broken records of the last one."""

    shape: Shape
    row_filter: RowFilter
    permissive: bool = False
    topics: Sequence[str] = ()
    """Topics to keep when the log is read; queues were chosen when the read was planned."""
    rows: int = 0
    skipped: int = 0
    """Number of broken records that were skipped."""
    _buffer: Bytes = field(default_factory=lambda: np.empty(CHUNK_BYTES, np.uint8))

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the part's rows, in the log's order.

        Raises:
            CorruptRecordError: A record is broken or missing, and the mode is FAILFAST.
        """
        self.rows = self.skipped = 0
        with log_files(part.root) as log:
            if isinstance(part, LogPart):
                batches = self._walked(part, log)
            else:
                batches = self._queued(part, log)
            for batch in batches:
                self.rows += len(batch)
                if len(batch):
                    yield batch
            bytes_read = log.bytes_read
        ReadCounts(
            "pocketmq-store", str(part.root), self.rows, bytes_read, skipped=self.skipped
        ).tell()
        if self.skipped:
            worker_log.warning(
                "records.skipped", count=self.skipped, rows=self.rows, store=str(part.root)
            )

    # -- by the queues' entries --------------------------------------------------------------

    def _queued(self, part: QueuePart, log: FileRow) -> Iterator[pa.RecordBatch]:
        for entries in self._by_file(self._entries(part), log):
            for low, high in _chunks(entries):
                yield self._chunk(part, log, entries[low:high])

    def _by_file(self, entries: _Entries, log: FileRow) -> Iterator[_Entries]:
        """The entries file by file; one that cannot lie within its file counts as broken."""
        cuts = np.searchsorted(entries.offsets, log.starts).tolist()
        for row in range(cuts[0] if cuts else len(entries.offsets)):
            self._lost(log, int(entries.offsets[row]), int(entries.sizes[row]))
        for index, low in enumerate(cuts):
            high = cuts[index + 1] if index + 1 < len(cuts) else len(entries.offsets)
            if low == high:
                continue
            found = entries[low:high]
            outside = found.outside(log, log.starts[index] + log.lengths[index])
            if outside.any():
                for row in np.flatnonzero(outside).tolist():
                    self._lost(log, int(found.offsets[row]), int(found.sizes[row]))
                found = found[np.flatnonzero(~outside)]
            yield found

    def _entries(self, part: QueuePart) -> _Entries:
        parts = []
        for number, each in enumerate(part.slices):
            files = QueueFiles(part.root, each.topic, each.queue_id)
            with files.row:
                found = files.entries(each.low, each.high)
            if len(found) < each.high - each.low:
                path, position = files.row.place((each.low + len(found)) * QUEUE_ENTRY.itemsize)
                missing = each.high - each.low - len(found)
                self._broken(
                    path, position, f"{missing} entries of the queue are missing", count=missing
                )
            parts.append(_Entries.of(found, number, each.low))
        entries = _Entries.joined(parts)
        kept = entries.sizes != FILLER_SIZE
        codes = self._tag_codes()
        if codes is not None:
            no_hash = [each.topic == SCHEDULE_TOPIC for each in part.slices]
            kept &= (
                np.isin(entries.tags, codes)
                | (entries.tags < _INT32_MIN)  # not a hash, but an address in the queue's extension
                | np.array(no_hash, np.bool_)[entries.queue]
            )
        return entries[np.flatnonzero(kept)].sorted()

    def _tag_codes(self) -> list[int] | None:
        tags = self.row_filter.texts.get("tags")
        return None if tags is None else [tags_code(tag) for tag in tags]

    def _chunk(self, part: QueuePart, log: FileRow, entries: _Entries) -> pa.RecordBatch:
        buffer, positions = self._read(log, entries)
        records = read_columns(buffer, positions, entries.sizes)
        for row in records.bad.tolist():
            self._lost(log, int(entries.offsets[row]), int(entries.sizes[row]))
        elsewhere = self._elsewhere(part, entries, records)
        if elsewhere.any():
            for row in records.rows[elsewhere].tolist():
                reason = "the record there belongs to another queue or offset than the entry"
                self._broken(*log.place(int(entries.offsets[row])), reason)
            records = records.take(~elsewhere)
        places = entries.offsets - positions
        return self._batch(part, log, records, places)

    def _read(self, log: FileRow, entries: _Entries) -> tuple[Bytes, Ints]:
        """Read all these records; returns a buffer and where in it each begins."""
        first, last = entries.runs()
        ends = np.maximum.accumulate(entries.ends)
        lows, highs = entries.offsets[first], ends[last]
        lengths = highs - lows
        bases = np.cumsum(lengths) - lengths
        total = int(lengths.sum())
        if total > len(self._buffer):
            self._buffer = np.empty(total, np.uint8)
        view = self._buffer.data
        for low, base, length in zip(lows.tolist(), bases.tolist(), lengths.tolist(), strict=True):
            done = log.read_into(view[base : base + length], low)
            if done < length:
                self._buffer[base + done : base + length] = 0
        counts = np.append(first[1:], len(entries.offsets)) - first
        return self._buffer[:total], entries.offsets - np.repeat(lows - bases, counts)

    def _elsewhere(
        self, part: QueuePart, entries: _Entries, records: RecordColumns
    ) -> npt.NDArray[np.bool_]:
        """Which records are not those of their entries: other log offset, queue or queue offset."""
        rows = records.rows
        head = records.head
        wrong: npt.NDArray[np.bool_] = head["physical_offset"] != entries.offsets[rows]
        queue = entries.queue[rows]
        ids = np.array([each.queue_id for each in part.slices], np.int64)
        lengths = np.array([len(each.topic.encode()) for each in part.slices], np.int64)
        own = np.array([not each.topic.startswith(LIGHT_QUEUE_PREFIX) for each in part.slices])
        strange = (head["queue_offset"] != entries.numbers[rows]) | (head["queue_id"] != ids[queue])
        strange |= records.topic_len != lengths[queue]
        wrong |= strange & own[queue]
        return wrong

    # -- by reading the log ------------------------------------------------------------------

    def _walked(self, part: LogPart, log: FileRow) -> Iterator[pa.RecordBatch]:
        end = part.start
        for window in walk(log, part.start, part.end):
            end = window.end
            records = read_columns(window.buffer, window.positions)
            for row in records.bad.tolist():
                self._lost(log, window.base + int(window.positions[row]), 0)
            for offset, reason in window.broken:
                self._broken(*log.place(offset), reason)
            # Queues do not list them either: transactions' half and rollback records (S-22).
            kind = records.sys_flags & MessageSysFlag.TRANSACTION_MASK
            listed = (kind == MessageSysFlag.TRANSACTION_NONE) | (
                kind == MessageSysFlag.TRANSACTION_COMMIT
            )
            if self.topics:
                listed &= of_topics(records, self.topics)
            records = records.take(listed)
            places = np.full(len(window.positions), window.base, np.int64)
            yield self._batch(part, log, records, places)
        if part.is_closed and not _is_closed_at(log, end):
            # The file is gone, or its copy is not complete.
            self._broken(*log.place(end), "there is neither a record nor the mark of a file's end")

    # -- both -------------------------------------------------------------------------------

    def _batch(
        self, part: Part, log: FileRow, records: RecordColumns, places: Ints
    ) -> pa.RecordBatch:
        """The record batch of the records within the filter's bounds.

        Args:
            places: For each requested position, what to add to it to get the log offset.
        """
        records = wanted(records, self.row_filter)
        batch = MessageBatch(records, self.shape, part.broker_name)
        made = batch.build()
        if batch.problems:
            where = dict(zip(records.rows.tolist(), records.positions.tolist(), strict=True))
            for problem in batch.problems:
                offset = where[problem.row] + int(places[problem.row])
                self._broken(*log.place(offset), problem.reason)
        return made

    def _lost(self, log: FileRow, offset: int, size: int) -> None:
        """Find out why there is no record at a log offset, and count or raise it."""
        path, position = log.place(offset)
        if log.index(offset) < 0:
            self._broken(path, position, "the file, or this part of it, is missing")
            return
        head = log.read(offset, FIXED_SIZE)
        if len(head) == FIXED_SIZE and size:
            said = int.from_bytes(head[:4], "big", signed=True)
            if said != size:
                reason = f"its size is {said} bytes, but {size} in the queue's entry"
                self._broken(path, position, reason)
                return
            head = log.read(offset, size)
        found = check_record(memoryview(head), 0, check_crc=False)
        reason = found.reason or ("zeros" if found.kind is RecordKind.END else "its topic")
        self._broken(path, position, reason)

    def _broken(self, path: Place, position: int, reason: str, *, count: int = 1) -> None:
        if not self.permissive:
            raise CorruptRecordError(str(path), position, reason)
        self.skipped += count
        if self.skipped <= SHOWN:
            worker_log.warning(
                "record.skipped", file=str(path), position=position, reason=reason, count=count
            )


@dataclass(slots=True)
class _Entries:
    """Entries of several queues, as columns."""

    offsets: Ints
    sizes: Ints
    tags: Ints
    queue: Ints
    """Index of the entry's slice in the part."""
    numbers: Ints
    """Queue offset."""

    @classmethod
    def of(cls, found: Any, queue: int, low: int) -> _Entries:
        count = len(found)
        return cls(
            found["offset"].astype(np.int64),
            found["size"].astype(np.int64),
            found["tags"].astype(np.int64),
            np.full(count, queue, np.int64),
            np.arange(low, low + count),
        )

    @classmethod
    def joined(cls, parts: Sequence[_Entries]) -> _Entries:
        columns = zip(
            *((p.offsets, p.sizes, p.tags, p.queue, p.numbers) for p in parts), strict=True
        )
        return cls(*(np.concatenate(column) for column in columns))

    def __getitem__(self, rows: Any) -> _Entries:
        return _Entries(
            self.offsets[rows],
            self.sizes[rows],
            self.tags[rows],
            self.queue[rows],
            self.numbers[rows],
        )

    def sorted(self) -> _Entries:
        """The entries in the log's order."""
        return self[np.argsort(self.offsets, kind="stable")]

    @property
    def ends(self) -> Ints:
        """Log offset behind each record."""
        return self.offsets + self.sizes

    def outside(self, log: FileRow, file_end: int) -> npt.NDArray[np.bool_]:
        """Which entries cannot be right: too short, or beyond the end of their file."""
        beyond: npt.NDArray[np.bool_] = self.ends > file_end
        beyond |= self.sizes < FIXED_SIZE
        for row in np.flatnonzero((self.sizes > CHUNK_BYTES) & ~beyond).tolist():
            # Before so much memory is allocated, the record's own size field must be the same.
            head = log.read(int(self.offsets[row]), 4)
            beyond[row] = int.from_bytes(head, "big") != self.sizes[row]
        return beyond

    def runs(self) -> tuple[Ints, Ints]:
        """First and last row of each section that is read at once, with the gaps in it."""
        ends = np.maximum.accumulate(self.ends)
        first = np.flatnonzero(self.offsets[1:] - ends[:-1] > GAP_BYTES) + 1
        last = len(self.offsets) - 1
        return np.append(0, first), np.append(first - 1, last)


def _is_closed_at(log: FileRow, offset: int) -> bool:
    head = log.read(offset, HEAD_SIZE)
    if record_place(head, 0, offset) == REST_OF_FILE:  # of DLedger's
        return True
    size = BLANK.struct.size
    return len(head) >= size and BLANK.struct.unpack_from(head)[1] == MAGIC_BLANK


def _chunks(entries: _Entries) -> Iterator[tuple[int, int]]:
    """Rows [low, high) to read and decode together: bounded in number and bytes.

    The first are few, for a query that wants no more than some rows.
    """
    count = len(entries.offsets)
    taken = entries.sizes.copy()
    gaps = entries.offsets[1:] - entries.ends[:-1]
    taken[1:] += np.where((gaps > 0) & (gaps <= GAP_BYTES), gaps, 0)
    until = np.cumsum(taken)
    low = 0
    size = FIRST_BYTES
    while low < count:
        before = until[low - 1] if low else 0
        high = int(np.searchsorted(until, before + size, "right"))
        size = min(size * 8, CHUNK_BYTES)
        high = min(max(high, low + 1), low + ROWS, count)
        yield low, high
        low = high

"""Reads a part of a store as record batches, on a worker (S-5, S-30).

The queues' entries say where records begin. They are sorted by log offset, and the records are read
in sections of a few megabytes into one buffer that stays in the cache. Each section becomes one
record batch. Every record is compared with its entry: size, log offset, queue and queue offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.pipeline.columns.arrow import MessageBatch, Shape
from pocketmq.pipeline.columns.arrow_arrays import numbers, pooled, texts
from pocketmq.pipeline.columns.fixed_fields import QUEUE_ENTRY, Bytes, Ints
from pocketmq.pipeline.columns.record_columns import RecordColumns, read_columns
from pocketmq.pipeline.columns.record_heads import RecordHeads, read_heads
from pocketmq.pipeline.columns.row_choice import fields_of, heads_wanted, of_topics, wanted
from pocketmq.pipeline.errors import CorruptRecordError
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.stores.entry_columns import ENTRY_COLUMNS, entry_batch
from pocketmq.pipeline.stores.log_walk import walk
from pocketmq.pipeline.stores.places import Place
from pocketmq.pipeline.stores.queue_entries import (
    CHUNK_BYTES,
    FIRST_BYTES,
    GAP_BYTES,
    Entries,
    Run,
    in_log_order,
)
from pocketmq.pipeline.stores.sound_heads import sound_heads
from pocketmq.pipeline.stores.store_files import FileRow, QueueFiles, log_files
from pocketmq.pipeline.stores.store_plan import LIGHT_QUEUE_PREFIX, LogPart, Part, QueuePart
from pocketmq.pipeline.workers.read_counts import ReadCounts
from pocketmq.pipeline.workers.worker_log import log as worker_log
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import BLANK, FILLER_SIZE, FIXED_SIZE, MAGIC_BLANK
from pocketmq.protocol.stored.ledger import HEAD_SIZE, REST_OF_FILE, record_place
from pocketmq.protocol.stored.record_check import RecordKind, check_record

MAPPED_BYTES: Final = 32 * 1024 * 1024
"""Mapped at a time, where few of the bytes are looked at."""
SPARSE: Final = 1.5
"""Bytes of the log for each byte of the wanted records, from which on files are mapped."""
TOO_SPARSE: Final = 16
"""From here on records are read one by one."""
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
        """Yield the part's rows; batches follow each other in the log's order.

        Raises:
            CorruptRecordError: A record is broken or missing, and the mode is FAILFAST.
        """
        self.rows = self.skipped = 0
        with log_files(part.root) as log:
            if isinstance(part, LogPart):
                batches = self._walked(part, log)
            else:
                batches = self._queued(part, log)
            try:
                for batch in batches:
                    self.rows += len(batch)
                    if len(batch):
                        yield batch
            finally:  # also for a query that wanted no more than some rows
                self._tell(part, log.bytes_read)

    def _tell(self, part: Part, bytes_read: int) -> None:
        ReadCounts(
            "pocketmq-store", str(part.root), self.rows, bytes_read, skipped=self.skipped
        ).tell()
        if self.skipped:
            worker_log.warning(
                "records.skipped", count=self.skipped, rows=self.rows, store=str(part.root)
            )

    # -- by the queues' entries --------------------------------------------------------------

    def _queued(self, part: QueuePart, log: FileRow) -> Iterator[pa.RecordBatch]:
        entries_only, heads_only = self._needs_entries_only(part), self._needs_heads_only(part)
        first_bytes: int | None = FIRST_BYTES
        for found in in_log_order(self._runs(part)):
            for entries in self._by_file(found, log):
                if entries_only:
                    yield entry_batch(part, entries, self.shape.columns, self.row_filter)
                    continue
                spread = entries.spread()
                # Mapping saves the copy if few of the bytes are wanted. If very few are, each
                # touches a page of its own.
                mapped = (
                    spread < TOO_SPARSE
                    and (heads_only or spread > SPARSE)
                    and log.may_map(int(entries.offsets[0]))
                )
                chunks = (
                    entries.chunks(MAPPED_BYTES)
                    if mapped
                    else entries.chunks(CHUNK_BYTES, GAP_BYTES, first_bytes)
                )
                first_bytes = None
                for chunk in chunks:
                    yield from self._chunk(part, log, chunk, mapped=mapped)

    def _by_file(self, entries: Entries, log: FileRow) -> Iterator[Entries]:
        """The entries file by file; one that cannot lie within its file counts as broken."""
        cuts = np.searchsorted(entries.offsets, log.starts).tolist()
        # Entries before the first file: retention has deleted their records since the plan.
        for row in range(cuts[0] if cuts else len(entries.offsets)):
            self._lost(log, int(entries.offsets[row]), int(entries.sizes[row]))
        for index, low in enumerate(cuts):
            high = cuts[index + 1] if index + 1 < len(cuts) else len(entries.offsets)
            if low == high:
                continue
            found = entries[low:high]
            outside = found.outside(log, log.starts[index] + log.lengths[index])
            if outside is not None and outside.any():
                for row in np.flatnonzero(outside).tolist():
                    self._lost(log, int(found.offsets[row]), int(found.sizes[row]))
                found = found[np.flatnonzero(~outside)]
            if len(found):
                yield found

    def _runs(self, part: QueuePart) -> list[Run]:
        runs = []
        codes = self._tag_codes()
        # One buffer for all queues: each of thousands of small ones would cause page faults.
        room = pooled(part.rows * QUEUE_ENTRY.itemsize)
        for number, each in enumerate(part.slices):
            files = QueueFiles(part.root, each.topic, each.queue_id)
            with files.row:
                found = files.entries(each.low, each.high, room)
            room = room[found.nbytes :]
            # Some of the queue's files were deleted or cut since the plan.
            if len(found) < each.high - each.low:
                path, position = files.row.place((each.low + len(found)) * QUEUE_ENTRY.itemsize)
                missing = each.high - each.low - len(found)
                self._broken(
                    path, position, f"{missing} entries of the queue are missing", count=missing
                )
            # Fillers before a queue's first entry stand for no message (S-33).
            kept = found["size"] != FILLER_SIZE
            if codes is not None and each.topic != SCHEDULE_TOPIC:  # its entries have no hash
                tags = found["tags"].astype(np.int64)
                # Below is not a hash, but an address in the queue's extension.
                kept &= np.isin(tags, codes) | (tags < _INT32_MIN)
            runs.append(Run(number, found, each.low, None if kept.all() else np.flatnonzero(kept)))
        return runs

    def _tag_codes(self) -> list[int] | None:
        tags = self.row_filter.texts.get("tags")
        return None if tags is None else [tags_code(tag) for tag in tags]

    def _needs_heads_only(self, part: QueuePart) -> bool:
        """Whether fixed fields are enough for the columns and conditions of a part.

        Which topic a record has is known from its queue then, unless that is a light queue.
        """
        return (
            self.shape.wants_heads_only
            and self.row_filter.texts.keys() <= {"topic", "brokerName"}
            and not any(each.topic.startswith(LIGHT_QUEUE_PREFIX) for each in part.slices)
        )

    def _needs_entries_only(self, part: QueuePart) -> bool:
        """Whether the entries of a part's queues are enough: then no record is looked at."""
        return (
            self.shape.columns.keys() <= ENTRY_COLUMNS
            and not self.row_filter.times_ms
            and self._needs_heads_only(part)
        )

    def _chunk(
        self, part: QueuePart, log: FileRow, entries: Entries, *, mapped: bool
    ) -> Iterator[pa.RecordBatch]:
        where = _mapped(log, entries) if mapped else None
        heads_only = where is not None and self._needs_heads_only(part)
        buffer, positions = self._read(log, entries) if where is None else where
        if heads_only:
            ids = np.array([each.queue_id for each in part.slices], np.int32)
            names = self.shape.head_fields | fields_of(self.row_filter)
            sound = sound_heads(buffer, positions, entries, ids, sorted(names))
            if sound is not None:
                yield self._head_batch(part, entries, sound)
                return
        # Read again in the slower way, which shows which record is broken.
        read = read_heads if heads_only else read_columns
        records: RecordHeads = read(buffer, positions, entries.sizes)
        for row in records.bad.tolist():
            self._lost(log, int(entries.offsets[row]), int(entries.sizes[row]))
        # A sound record may belong to another queue: then the entry is wrong.
        elsewhere = self._elsewhere(part, entries, records)
        if elsewhere.any():
            for row in records.rows[elsewhere].tolist():
                reason = "the record there belongs to another queue or offset than the entry"
                self._broken(*log.place(int(entries.offsets[row])), reason)
            records = records.take(~elsewhere)
        if isinstance(records, RecordColumns):
            yield from self._batches(part, log, records, entries.offsets - positions)
        else:
            yield self._head_batch(part, entries, records)

    def _head_batch(
        self, part: QueuePart, entries: Entries, records: RecordHeads
    ) -> pa.RecordBatch:
        records = heads_wanted(records, self.row_filter)
        topics = None
        if "topic" in self.shape.columns:
            names = texts([each.topic for each in part.slices])
            topics = names.take(numbers(entries.queue[records.rows]))
        (made,) = MessageBatch(records, self.shape, part.broker_name, topics=topics).builds()
        return made

    def _read(self, log: FileRow, entries: Entries) -> tuple[Bytes, Ints]:
        """Read all these records; returns a buffer and where in it each begins."""
        first, lows, highs = entries.sections()
        lengths = highs - lows
        bases = np.cumsum(lengths) - lengths
        total = int(lengths.sum())
        # One record may be longer than the buffer.
        if total > len(self._buffer):
            self._buffer = np.empty(total, np.uint8)
        view = self._buffer.data
        for low, base, length in zip(lows.tolist(), bases.tolist(), lengths.tolist(), strict=True):
            done = log.read_into(view[base : base + length], low)
            if done < length:
                # Cleared, since old content of the buffer must not pass for a record.
                self._buffer[base + done : base + length] = 0
        counts = np.append(first[1:], len(entries)) - first
        return self._buffer[:total], entries.offsets - np.repeat(lows - bases, counts)

    def _elsewhere(
        self, part: QueuePart, entries: Entries, records: RecordHeads
    ) -> npt.NDArray[np.bool_]:
        """Which records are not those of their entries: other log offset, queue or queue offset."""
        rows = records.rows
        head = records.head
        wrong: npt.NDArray[np.bool_] = head["physical_offset"] != entries.offsets[rows]
        queue = entries.queue[rows]
        ids = np.array([each.queue_id for each in part.slices], np.int64)
        own = np.array([not each.topic.startswith(LIGHT_QUEUE_PREFIX) for each in part.slices])
        # Entries of light queues have their own numbers, so only the place is compared.
        strange = (head["queue_offset"] != entries.numbers[rows]) | (head["queue_id"] != ids[queue])
        # Only the topic's length: comparing names takes longer and hardly finds more.
        if isinstance(records, RecordColumns):
            lengths = np.array([len(each.topic.encode()) for each in part.slices], np.int64)
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
            yield from self._batches(part, log, records, places)
        if part.is_closed and not _is_closed_at(log, end):
            # The file is gone, or its copy is not complete.
            self._broken(*log.place(end), "there is neither a record nor the mark of a file's end")

    # -- both -------------------------------------------------------------------------------

    def _batches(
        self, part: Part, log: FileRow, records: RecordColumns, places: Ints
    ) -> Iterator[pa.RecordBatch]:
        """The record batches of the records within the filter's bounds.

        Args:
            places: For each requested position, what to add to it to get the log offset.
        """
        records = wanted(records, self.row_filter)
        batch = MessageBatch(records, self.shape, part.broker_name)
        for made in batch.builds():
            # Judged before the batch is yielded, so that FAILFAST yields no row after the fault.
            if batch.problems:
                where = dict(zip(records.rows.tolist(), records.positions.tolist(), strict=True))
                for problem in batch.problems:
                    offset = where[problem.row] + int(places[problem.row])
                    self._broken(*log.place(offset), problem.reason)
                batch.problems.clear()
            yield made

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


def _mapped(log: FileRow, entries: Entries) -> tuple[Bytes, Ints] | None:
    """The bytes around these records, mapped, and where in them each begins; None if impossible."""
    low, high = int(entries.offsets[0]), int(np.max(entries.ends))
    buffer = log.mapped(low, high - low)
    return None if buffer is None else (buffer, entries.offsets - low)


def _is_closed_at(log: FileRow, offset: int) -> bool:
    head = log.read(offset, HEAD_SIZE)
    if record_place(head, 0, offset) == REST_OF_FILE:  # of DLedger's
        return True
    size = BLANK.struct.size
    return len(head) >= size and BLANK.struct.unpack_from(head)[1] == MAGIC_BLANK

"""Reads a range of a queue's messages from its broker as record batches, on a worker.

The loop's thread pulls ahead while this one decodes: it passes replies on in portions, a block of
`block_reads` at most each, and waits while two of them are not yet taken.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pocketmq.pipeline.columns.arrow import MessageBatch, Shape
from pocketmq.pipeline.columns.fixed_fields import Bytes, Ints
from pocketmq.pipeline.columns.record_columns import RecordColumns, read_columns
from pocketmq.pipeline.columns.record_places import places_in
from pocketmq.pipeline.columns.repeats import SeenRows
from pocketmq.pipeline.columns.row_choice import wanted
from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.topics.cluster_client import Access
from pocketmq.pipeline.topics.pull_range import PullOptions, RangePull, Reply
from pocketmq.pipeline.workers.loop import shared_loop
from pocketmq.pipeline.workers.read_counts import ReadCounts
from pocketmq.pipeline.workers.worker_log import log
from pocketmq.protocol.errors import BodyError, RecordError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.store_layout import FIXED_SIZE

PORTIONS_AHEAD: Final = 2
PARTS_AHEAD: Final = 4
"""Parts of a task that are pulled at a time, the one that is decoded included."""
MIXED_BYTES: Final = 1024 * 1024
"""A portion that lies in several blocks ends with so many bytes, as it has to be copied."""
SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class PullPart:
    """One task: offsets [start, end) of a queue."""

    queue: MessageQueue
    start: int
    end: int
    partition: int = 0
    """The queue's partition number in a `kafkaCompatible` table."""
    seen_from: int = -1
    """Offsets from here to `start` are read only to recognise repeats; -1 for none."""


class _Feed(NamedTuple):
    """A range that the loop's thread pulls."""

    pull: RangePull
    ready: queue.SimpleQueue[list[Reply] | BaseException | None]
    credit: asyncio.Semaphore
    running: Future[None]


@dataclass(slots=True)
class WireRead:
    """Reads parts; counts what the last one lost, skipped and dropped as repeats."""

    access: Access
    pull: PullOptions
    shape: Shape
    row_filter: RowFilter
    batch_rows: int
    permissive: bool = False
    dedupe: bool = False
    lost: int = 0
    skipped: int = 0
    repeats: int = 0
    counts: ReadCounts = field(default_factory=lambda: ReadCounts("pocketmq", ""))
    _seen: SeenRows = field(default_factory=SeenRows)
    _begun: _Feed | None = None

    def begin(self, part: PullPart) -> None:
        """Begin to pull a part; `batches` of it, or `cancel`, must follow."""
        # With deduplication the first range is the one before the part.
        start, end, may_fail = self._ranges(part)[0]
        self._begun = self._feed(part, start, end, may_fail=may_fail)

    def cancel(self) -> None:
        """Stop to pull a part that was begun and is not read."""
        if self._begun is not None:
            self._begun.running.cancel()
            self._begun = None

    def batches(self, part: PullPart) -> Iterator[pa.RecordBatch]:
        """Yield the part's rows, in the queue's order.

        Raises:
            DataLossError: Offsets of the part are not stored any more; with `failOnDataLoss`.
            BrokerError, RemotingError: The broker refused, or did not answer after all retries.
            RecordError, BodyError: A message is broken, and the mode is FAILFAST.
        """
        self._seen = SeenRows()
        self.counts = ReadCounts("pocketmq", str(part.queue))
        *before, (start, end, _) = self._ranges(part)
        # Read before the rows, so that repeats of an earlier batch are recognized.
        for seen_from, seen_to, may_fail in before:
            for portion in self._portions(part, seen_from, seen_to, may_fail=may_fail):
                self._records(part, portion, may_fail=may_fail)
            # Repeats within these belong to earlier batches.
            self._seen.dropped = 0
        for portion in self._portions(part, start, end):
            for made in self._batches(part, portion):
                self.counts.rows += len(made)
                if len(made):
                    yield made
        self._tell(part)

    def _ranges(self, part: PullPart) -> list[tuple[int, int, bool]]:
        """What is pulled: begin, end, whether all must be there. The last one has the rows."""
        ranges = [(part.start, part.end, True)]
        if self.dedupe and 0 <= part.seen_from < part.start:
            ranges.insert(0, (part.seen_from, part.start, False))
        return ranges

    def _portions(
        self, part: PullPart, start: int, end: int, *, may_fail: bool = True
    ) -> Iterator[list[Reply]]:
        """Yield replies in portions; the loop's thread pulls them."""
        feed, self._begun = self._begun, None
        if feed is None:
            feed = self._feed(part, start, end, may_fail=may_fail)
        loop = shared_loop().loop
        try:
            while (portion := feed.ready.get()) is not None:
                if isinstance(portion, BaseException):
                    raise portion
                # asyncio's semaphore must be used in its loop's thread only.
                loop.call_soon_threadsafe(feed.credit.release)
                self.counts.bytes += sum(len(reply.records) for reply in portion)
                yield portion
        finally:
            # Also if Spark wants no more rows: further pulls would fill the memory.
            feed.running.cancel()
        self.counts.requests += feed.pull.requests
        self.counts.repeated += feed.pull.repeated
        if may_fail:
            self.lost += feed.pull.lost

    def _feed(self, part: PullPart, start: int, end: int, *, may_fail: bool) -> _Feed:
        # Messages that are read only for comparison may be gone.
        options = self.pull if may_fail else replace(self.pull, fail_on_data_loss=False)
        pull = RangePull(self.access.client(), part.queue, start, end, options)
        ready: queue.SimpleQueue[list[Reply] | BaseException | None] = queue.SimpleQueue()
        credit = asyncio.Semaphore(PORTIONS_AHEAD)
        running = shared_loop().submit(_fill(pull, ready, credit, self.batch_rows))
        return _Feed(pull, ready, credit, running)

    def _records(
        self, part: PullPart, portion: list[Reply], *, may_fail: bool = True
    ) -> MessageBatch:
        block, begins, ends = _together(portion)
        places = places_in(block, begins, ends)
        records = read_columns(block, places.positions, places.sizes)
        for row in records.bad.tolist():
            at = int(places.positions[row])
            self._broken(part, RecordError("its lengths are inconsistent", at=at))
        # A reply may have more than was asked for; these messages come again with the next one.
        highs = np.array([reply.high for reply in portion])[places.stretch[records.rows]]
        inside = records.head["queue_offset"] < highs
        if not inside.all():
            records = records.take(np.flatnonzero(inside))
        # With a filter, missing messages are not lost ones.
        if may_fail and not self.pull.is_filtered:
            self._count_gaps(part, portion, records)
        records = wanted(records, self.row_filter)
        if self.dedupe:
            records = records.take(self._seen.first_time(records))
        return MessageBatch(records, self.shape, part.queue.broker_name, part.partition)

    def _count_gaps(self, part: PullPart, portion: list[Reply], records: RecordColumns) -> None:
        """Messages that should have been in the replies."""
        expected = sum(reply.high - reply.low for reply in portion)
        # Nearly always true, so offsets are compared only if some are missing.
        if len(records) + len(records.bad) >= expected:
            return
        asked = np.concatenate([np.arange(reply.low, reply.high) for reply in portion])
        found = records.head["queue_offset"].astype(np.int64)
        gone = np.setdiff1d(asked, found)
        if self.pull.fail_on_data_loss:
            wanted_offset = int(gone[0])
            later = found[found > wanted_offset]
            next_offset = int(np.min(later)) if len(later) else portion[-1].high
            raise DataLossError(str(part.queue), wanted_offset, next_offset)
        # Broken records are there, and are counted as broken.
        self.lost += len(gone) - len(records.bad)

    def _batches(self, part: PullPart, portion: list[Reply]) -> Iterator[pa.RecordBatch]:
        batch = self._records(part, portion)
        where = batch.records
        for made in batch.builds():
            if batch.problems:
                offsets = dict(
                    zip(where.rows.tolist(), where.head["queue_offset"].tolist(), strict=True)
                )
                for problem in batch.problems:
                    reason = f"{part.queue} offset {offsets[problem.row]}: {problem.reason}"
                    self._broken(part, BodyError(reason))
                batch.problems.clear()
            yield made

    def _broken(self, part: PullPart, error: Exception) -> None:
        if not self.permissive:
            raise error
        self.skipped += 1
        if self.skipped <= SHOWN:
            log.warning("message.skipped", queue=str(part.queue), reason=str(error))

    def _tell(self, part: PullPart) -> None:
        self.repeats += self._seen.dropped
        self.counts.lost, self.counts.skipped = self.lost, self.skipped
        self.counts.tell()
        for event, count in (
            ("messages.lost", self.lost),
            ("messages.skipped", self.skipped),
            ("messages.repeated", self.repeats),
        ):
            if count:
                log.warning(
                    event, count=count, queue=str(part.queue), start=part.start, end=part.end
                )


def in_turn(reads: Sequence[tuple[WireRead, PullPart]], most_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one part after the other; the next ones are pulled meanwhile.

    Small parts mostly wait for their broker. Of those that are pulled ahead, the messages are
    `most_rows` at most.
    """
    begun = rows = 0
    try:
        for at, (read, part) in enumerate(reads):
            # Requests go out ahead: otherwise small parts would wait for their broker one after
            # another.
            while begun < min(len(reads), at + PARTS_AHEAD):
                later, its = reads[begun]
                # The current part begins whatever its size.
                if begun > at and rows + its.end - its.start > most_rows:
                    break
                later.begin(its)
                rows += its.end - its.start
                begun += 1
            yield from read.batches(part)
            rows -= part.end - part.start
    finally:
        for read, _ in reads[:begun]:
            read.cancel()


async def _fill(
    pull: RangePull,
    ready: queue.SimpleQueue[list[Reply] | BaseException | None],
    credit: asyncio.Semaphore,
    most_rows: int,
) -> None:
    """Put replies into `ready` in portions, and at the end None, or the error that stopped it."""
    portion: list[Reply] = []
    is_mixed = False
    rows = size = 0
    try:
        async for replies in pull.replies():
            for reply in replies:
                most = min(reply.high - reply.low, len(reply.records) // FIXED_SIZE)
                # Replies of one block need no copy, so their portion may be large.
                is_other = bool(portion) and _block_of(reply) is not _block_of(portion[0])
                is_mixed = is_mixed or is_other
                if portion and (rows + most > most_rows or (is_mixed and size >= MIXED_BYTES)):
                    # Waits while two portions are not yet taken, so that the reader sets the pace.
                    await credit.acquire()
                    ready.put(portion)
                    portion, rows, size, is_mixed = [], 0, 0, False
                portion.append(reply)
                rows += most
                size += len(reply.records)
        if portion:
            await credit.acquire()
            ready.put(portion)
        ready.put(None)
    except BaseException as exc:
        # Also for a cancellation: otherwise the reader would wait for ever.
        ready.put(exc)
        if isinstance(exc, asyncio.CancelledError):
            raise


def _together(portion: list[Reply]) -> tuple[Bytes, Ints, Ints]:
    """A buffer that has all the replies, and where each begins and ends in it.

    It is a copy if they lie in several blocks.
    """
    sizes = np.array([len(reply.records) for reply in portion], np.int64)
    first = _block_of(portion[0])
    if any(_block_of(reply) is not first for reply in portion):
        ends = np.cumsum(sizes)
        data = b"".join([reply.records for reply in portion])
        return np.frombuffer(data, np.uint8), ends - sizes, ends
    block = np.frombuffer(first, np.uint8)
    # All are views of one block: their addresses give their places in it.
    begins = np.array([pa.py_buffer(reply.records).address for reply in portion], np.int64)
    begins -= block.ctypes.data
    return block, begins, begins + sizes


def _block_of(reply: Reply) -> Any:
    """What holds the reply's bytes."""
    return memoryview(reply.records).obj

"""Reads a range of a queue's messages from its broker as record batches, on a worker.

The loop's thread pulls ahead while this one decodes: it passes replies on in portions of a few
megabytes, and waits while two of them are not yet taken.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from pocketmq.pipeline.arrow import MessageBatch, Shape
from pocketmq.pipeline.cluster_client import Access, ClusterClient
from pocketmq.pipeline.loop import shared_loop
from pocketmq.pipeline.pull_range import PullOptions, RangePull, Reply
from pocketmq.pipeline.read_counts import ReadCounts
from pocketmq.pipeline.record_columns import read_columns
from pocketmq.pipeline.repeats import SeenRows
from pocketmq.pipeline.row_choice import wanted
from pocketmq.pipeline.row_filter import RowFilter
from pocketmq.pipeline.worker_log import log
from pocketmq.protocol.errors import BodyError, RecordError
from pocketmq.protocol.message import MessageQueue

PORTION_BYTES: Final = 4 * 1024 * 1024
PORTIONS_AHEAD: Final = 2
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

    def batches(self, part: PullPart) -> Iterator[pa.RecordBatch]:
        """Yield the part's rows, in the queue's order.

        Raises:
            DataLossError: Offsets of the part are not stored any more; with `failOnDataLoss`.
            BrokerError, RemotingError: The broker refused, or did not answer after all retries.
            RecordError, BodyError: A message is broken, and the mode is FAILFAST.
        """
        self._seen = SeenRows()
        self.counts = ReadCounts("pocketmq", str(part.queue))
        if self.dedupe and 0 <= part.seen_from < part.start:
            for portion in self._portions(part, part.seen_from, part.start, may_fail=False):
                self._records(part, portion)
            self._seen.dropped = 0
        for portion in self._portions(part, part.start, part.end):
            made = self._batch(part, portion)
            self.counts.rows += len(made)
            if len(made):
                yield made
        self._tell(part)

    def _portions(
        self, part: PullPart, start: int, end: int, *, may_fail: bool = True
    ) -> Iterator[list[Reply]]:
        """Yield replies in portions; the loop's thread pulls them."""
        ready: queue.SimpleQueue[list[Reply] | BaseException | None] = queue.SimpleQueue()
        client = self.access.client()
        loop = shared_loop()
        credit = asyncio.Semaphore(PORTIONS_AHEAD)
        pull = self._pull_of(client, part, start, end, may_fail=may_fail)
        feeding = loop.start(_feed(pull, ready, credit, self.batch_rows))
        try:
            while (portion := ready.get()) is not None:
                if isinstance(portion, BaseException):
                    raise portion
                loop.loop.call_soon_threadsafe(credit.release)
                self.counts.bytes += sum(len(reply.records) for reply in portion)
                yield portion
        finally:
            feeding.cancel()
        self.counts.requests += pull.requests
        self.counts.repeated += pull.repeated
        if may_fail:
            self.lost += pull.lost

    def _pull_of(
        self, client: ClusterClient, part: PullPart, start: int, end: int, *, may_fail: bool
    ) -> RangePull:
        from dataclasses import replace

        options = self.pull if may_fail else replace(self.pull, fail_on_data_loss=False)
        return RangePull(client, part.queue, start, end, options)

    def _records(self, part: PullPart, portion: list[Reply]) -> MessageBatch:
        data = b"".join([reply.records for reply in portion])
        sizes = np.array([len(reply.records) for reply in portion])
        counts = np.array([len(reply.positions) for reply in portion])
        within = np.array([at for reply in portion for at in reply.positions], np.int64)
        positions = within + np.repeat(np.cumsum(sizes) - sizes, counts)
        records = read_columns(np.frombuffer(data, np.uint8), positions)
        for row in records.bad.tolist():
            at = int(positions[row])
            self._broken(part, RecordError("its lengths are inconsistent", at=at))
        records = wanted(records, self.row_filter)
        if self.dedupe:
            records = records.take(self._seen.first_time(records))
        return MessageBatch(records, self.shape, part.queue.broker_name, part.partition)

    def _batch(self, part: PullPart, portion: list[Reply]) -> pa.RecordBatch:
        batch = self._records(part, portion)
        where = batch.records
        made = batch.build()
        if batch.problems:
            offsets = dict(
                zip(where.rows.tolist(), where.head["queue_offset"].tolist(), strict=True)
            )
            for problem in batch.problems:
                reason = f"{part.queue} offset {offsets[problem.row]}: {problem.reason}"
                self._broken(part, BodyError(reason))
        return made

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


async def _feed(
    pull: RangePull,
    ready: queue.SimpleQueue[list[Reply] | BaseException | None],
    credit: asyncio.Semaphore,
    most_rows: int,
) -> None:
    """Put replies into `ready` in portions, and at the end None, or the error that stopped it."""
    portion: list[Reply] = []
    rows = size = 0
    try:
        async for reply in pull.replies():
            if portion and (
                size + len(reply.records) > PORTION_BYTES or rows + len(reply.positions) > most_rows
            ):
                await credit.acquire()
                ready.put(portion)
                portion, rows, size = [], 0, 0
            portion.append(reply)
            rows += len(reply.positions)
            size += len(reply.records)
        if portion:
            await credit.acquire()
            ready.put(portion)
        ready.put(None)
    except BaseException as exc:
        ready.put(exc)
        if isinstance(exc, asyncio.CancelledError):
            raise

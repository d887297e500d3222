"""The stream reader of data source `pocketmq`: micro-batches between offsets that Spark stores.

Offsets are stored in the form of option `startingOffsets`. Each trigger fetches the routes again,
so new queues and brokers are found while the query runs; a new queue is read from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pocketmq.pipeline.plainly import plainly, rows_plainly
from pocketmq.pipeline.settings import ReadSettings
from pocketmq.pipeline.source import reading, row_filter_of
from pocketmq.runtime.errors import CallerError


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query's reader; it is in a process beside the driver, with a copy on each worker."""

    def __init__(self, settings: ReadSettings, columns: dict[str, str]) -> None:
        self.settings = settings
        self.columns = columns
        self._target: dict[Any, int] | None = None
        self._waiting_since: float | None = None
        self._committed: dict[Any, int] | None = None
        self._initial: dict[Any, int] | None = None
        self._is_pinned = not settings.start.moves

    # -- offsets --------------------------------------------------------------------------------

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; Spark calls it twice and must get the same result."""
        from pocketmq.pipeline.offsets import to_tree

        if self._initial is None:
            self._initial = _run(self._find_initial())
        return to_tree(self._initial)

    async def _find_initial(self) -> dict[Any, int]:
        from pocketmq.pipeline import plan_reads

        settings = self.settings
        client = _client(settings)
        bounds = await client.bounds(await plan_reads.find_queues(client, settings))
        start = await plan_reads.resolve(client, settings, settings.start, bounds)
        return plan_reads.checked(settings, start, bounds)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The options' limits for a batch."""
        if self.settings.max_rows is not None:
            return ReadMaxRows(self.settings.max_rows)
        if self.settings.min_rows is not None:
            return ReadMinRows(self.settings.min_rows)
        return ReadAllAvailable()

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` while there is nothing to read, or too little."""
        from pocketmq.pipeline.offsets import from_tree, to_tree

        return to_tree(_run(self._latest(from_tree(start), limit)))

    async def _latest(self, start: dict[Any, int], limit: ReadLimit) -> dict[Any, int]:
        from pocketmq.pipeline import plan_reads
        from pocketmq.pipeline.offsets import limited

        client = _client(self.settings)
        if not self._is_pinned and start == self._initial:
            # Spark stores where a batch ends. If the first batch was interrupted, it asks again for
            # its begin. So a begin that moves, such as `latest`, is stored by an empty batch.
            self._is_pinned = True
            return start
        # Spark asks for the next end when the previous batch is done, but calls `commit` for it
        # only with the next batch, and never for the last one of a finished query.
        await self._commit(start)
        ends = await client.ends(await plan_reads.find_queues(client, self.settings))
        if self._target is not None:
            ends = {queue: min(end, self._target.get(queue, 0)) for queue, end in ends.items()}
        begin = await self._with_new_queues(client, start, ends)
        # The offset of a queue without a route (its broker is down) stays as it is, and that of a
        # truncated queue does not go back.
        end = {queue: max(offset, ends.get(queue, offset)) for queue, offset in begin.items()}
        if isinstance(limit, ReadAllAvailable):
            return end
        if not isinstance(limit, (ReadMaxRows, ReadMinRows)):
            raise CallerError(f"pocketmq: a batch cannot be limited by {type(limit).__name__}")
        if self._is_too_little(client.clock.monotonic(), begin, end, limit):
            return start
        return limited(begin, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end

    async def _with_new_queues(
        self, client: Any, start: dict[Any, int], ends: dict[Any, int]
    ) -> dict[Any, int]:
        new = [queue for queue, end in ends.items() if queue not in start and end > 0]
        if not new:
            return dict(start)
        bounds = await client.bounds(new)
        return {**start, **{queue: min(bounds[queue].low, ends[queue]) for queue in new}}

    def _is_too_little(
        self, now: float, start: dict[Any, int], end: dict[Any, int], limit: ReadLimit
    ) -> bool:
        least = limit.min_rows if isinstance(limit, ReadMinRows) else self.settings.min_rows
        if least is None or self._target is not None:  # AvailableNow must end, with any number
            return False
        waiting = sum(end[queue] - start[queue] for queue in end)
        if waiting == 0 or waiting >= least:
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since < self.settings.max_delay_ms / 1000:
            return True
        self._waiting_since = None
        return False

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the current end of every queue; a queue created later is not read."""
        self._target = _run(self._ends())

    @plainly
    def reportLatestOffset(self) -> dict[str, Any]:
        """The current end of every queue, for the query's progress."""
        from pocketmq.pipeline.offsets import to_tree

        return to_tree(_run(self._ends()))

    async def _ends(self) -> dict[Any, int]:
        from pocketmq.pipeline import plan_reads

        client = _client(self.settings)
        queues = await plan_reads.find_queues(client, self.settings)
        ends: dict[Any, int] = await client.ends(queues)
        return ends

    # -- batches --------------------------------------------------------------------------------

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan a task for each queue with new messages, or several for its parts."""
        from pocketmq.pipeline.offsets import from_tree

        return [InputPartition(part) for part in _run(self._plan(from_tree(start), from_tree(end)))]

    async def _plan(self, start: dict[Any, int], end: dict[Any, int]) -> list[Any]:
        from pocketmq.pipeline import plan_reads
        from pocketmq.pipeline.offsets import split_ranges
        from pocketmq.pipeline.wire_read import PullPart

        settings = self.settings
        client = _client(settings)
        moved = [queue for queue in end if start.get(queue, 0) < end[queue]]
        bounds = await client.bounds(moved)
        begin = {queue: start.get(queue, bounds[queue].low) for queue in moved}
        begin = plan_reads.checked(settings, begin, bounds)
        ranges = {
            queue: (begin[queue], stop)
            for queue, stop in plan_reads.checked(
                settings, {queue: end[queue] for queue in moved}, bounds
            ).items()
        }
        numbers = plan_reads.kafka_partitions(list(end))
        least = 1 if settings.dedupe else settings.least_parts
        parts = []
        for queue, low, high in split_ranges(ranges, least):
            seen_from = -1
            if settings.dedupe and settings.dedupe_window:
                seen_from = max(bounds[queue].low, low - settings.dedupe_window)
            parts.append(PullPart(queue, low, high, numbers[queue], seen_from))
        return parts

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one task as Arrow record batches."""
        read = reading(self.settings, self.columns, row_filter_of(self.settings))
        return rows_plainly(read.batches(partition.value))

    @plainly
    def commit(self, end: dict[str, Any]) -> None:
        """Commit the query's offsets to the brokers, if option `commitGroup` is given."""
        from pocketmq.pipeline.offsets import from_tree

        _run(self._commit(from_tree(end)))

    async def _commit(self, offsets: dict[Any, int]) -> None:
        from pocketmq.pipeline.worker_log import log
        from pocketmq.protocol.errors import BrokerNotFoundError, RemotingError

        group = self.settings.commit_group
        if not group or offsets == self._committed:
            return
        try:
            await _client(self.settings).commit(group, offsets)
        except (RemotingError, BrokerNotFoundError) as exc:
            # The query goes on from Spark's offsets; these only show its progress at the brokers.
            log.warning("progress.not_committed", group=group, reason=str(exc))
        else:
            self._committed = dict(offsets)


def _client(settings: ReadSettings) -> Any:
    from pocketmq.pipeline.cluster_client import client_on_loop

    return client_on_loop(settings.access)


def _run(coroutine: Any) -> Any:
    from pocketmq.pipeline.loop import shared_loop

    return shared_loop().run(coroutine)

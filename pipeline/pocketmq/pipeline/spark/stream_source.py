"""The stream reader of data source `pocketmq`: micro-batches between offsets that Spark stores.

Spark's side of a stream; what it asks the cluster stands in `stream_plan`, and what Spark stores in
`checkpoint`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pocketmq.pipeline.spark.plainly import leave_quietly, plainly, rows_plainly
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    from pocketmq.pipeline.options.offsets import Offsets
    from pocketmq.pipeline.progress.checkpoint import Checkpoint
    from pocketmq.pipeline.progress.stream_plan import StreamPlan

T = TypeVar("T")


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query's reader; it is in a process beside the driver, with a copy on each worker."""

    def __init__(self, settings: ReadSettings, columns: dict[str, str]) -> None:
        self.settings = settings
        self.columns = columns
        self._plan: StreamPlan | None = None
        self._waiting_since: float | None = None
        self._committed: dict[Any, int] | None = None
        self._initial: Checkpoint | None = None

    @property
    def plan(self) -> StreamPlan:
        """The query's state, made where Spark first asks for it."""
        if self._plan is None:
            from pocketmq.pipeline.progress.stream_plan import StreamPlan

            self._plan = StreamPlan(self.settings.access.client(), self.settings)
        return self._plan

    # -- offsets --------------------------------------------------------------------------------

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; Spark calls it twice and must get the same result.

        A query whose first batch has failed is asked too; it goes on where that batch begins.
        """
        if self._initial is None:
            self._initial = _run(self.plan.initial())
        return self._initial.tree()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The options' limits for a batch."""
        # Spark takes only one limit; `_is_too_little` checks the minimum.
        if self.settings.max_rows is not None:
            return ReadMaxRows(self.settings.max_rows)
        if self.settings.min_rows is not None:
            return ReadMinRows(self.settings.min_rows)
        return ReadAllAvailable()

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` while there is nothing to read, or too little."""
        from pocketmq.pipeline.progress.checkpoint import Checkpoint, with_begin

        if not isinstance(limit, (ReadAllAvailable, ReadMaxRows, ReadMinRows)):
            raise CallerError(
                f"pocketmq: the source cannot limit a batch by {type(limit).__name__}; limit it "
                "by rows, or not at all"
            )
        begun = Checkpoint.of_tree(start)
        # Spark asks for the next end when the previous batch is done, but calls `commit` for it
        # only with the next batch, and never for the last one of a finished query.
        _run(self._commit(begun.offsets))
        end = _run(self.plan.latest(begun, lambda low, high: self._limited(low, high, limit)))
        if end == begun:
            return start
        return with_begin(end.tree(), start) if begun == self._initial else end.tree()

    def _limited(self, begin: Offsets, end: Offsets, limit: ReadLimit) -> Offsets | None:
        from pocketmq.pipeline.options.offsets import limited

        if isinstance(limit, ReadAllAvailable):
            return end
        if self._is_too_little(self.plan.client.clock.monotonic(), begin, end, limit):
            return None
        return limited(begin, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end

    def _is_too_little(self, now: float, begin: Offsets, end: Offsets, limit: ReadLimit) -> bool:
        least = limit.min_rows if isinstance(limit, ReadMinRows) else self.settings.min_rows
        if least is None or self.plan.is_bounded:  # AvailableNow must end, with any number
            return False
        waiting = sum(end[queue] - begin[queue] for queue in end)
        # The delay counts from the first waiting message; idle time does not count.
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
        _run(self.plan.set_target())

    @plainly
    def reportLatestOffset(self) -> dict[str, Any]:
        """The current end of every queue, and what was counted, for the query's progress."""
        from pocketmq.pipeline.options.offsets import to_tree
        from pocketmq.pipeline.progress.checkpoint import COUNTS

        ends: dict[str, Any] = dict(to_tree(_run(self.plan.ends())))
        return {**ends, COUNTS: self.plan.counts()}

    # -- batches --------------------------------------------------------------------------------

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan tasks: one for each queue with new messages, or as the options say."""
        from pocketmq.pipeline.progress.checkpoint import Checkpoint, begin_of

        # The end of a first batch says where it begins: after a failure Spark asks for the begin
        # again, and may get another (see `checkpoint`).
        begun, ended = Checkpoint.of_tree(begin_of(end, start)), Checkpoint.of_tree(end)
        return [InputPartition(parts) for parts in _run(self.plan.parts(begun, ended))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one task as Arrow record batches."""
        from pocketmq.pipeline.progress.topic_read import read_parts
        from pocketmq.pipeline.workers.read_counts import in_worker

        in_worker()
        return rows_plainly(read_parts(self.settings, self.columns, partition.value))

    @plainly
    def commit(self, end: dict[str, Any]) -> None:
        """Commit the query's offsets to the brokers, if option `commitGroup` is given."""
        from pocketmq.pipeline.progress.checkpoint import Checkpoint

        _run(self._commit(Checkpoint.of_tree(end).offsets))

    async def _commit(self, offsets: Offsets) -> None:
        from pocketmq.pipeline.errors import OptionError
        from pocketmq.pipeline.workers.worker_log import log
        from pocketmq.protocol.errors import BrokerError, BrokerNotFoundError, RemotingError

        group = self.settings.commit_group
        # Spark calls this after each trigger, even if nothing has moved.
        if not group or offsets == self._committed:
            return
        try:
            await self.plan.client.commit(group, offsets)
        except (RemotingError, BrokerError, BrokerNotFoundError, OptionError) as exc:
            # The query goes on from Spark's offsets; these only show its progress at the brokers.
            log.warning("progress.not_committed", group=group, reason=str(exc))
        else:
            self._committed = dict(offsets)

    def stop(self) -> None:
        """The query has ended, or this reader had an error."""
        leave_quietly()

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the workers: connections stay behind."""
        return {**self.__dict__, "_plan": None}


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    from pocketmq.pipeline.workers.loop import shared_loop

    return shared_loop().result(coroutine)

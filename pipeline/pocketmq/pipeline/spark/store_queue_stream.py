"""The stream reader of data source `pocketmq-store` by queues: each up to its last message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pocketmq.pipeline.spark.plainly import leave_quietly, plainly, rows_plainly
from pocketmq.pipeline.stores.store_read import StoreSettings, batches
from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    from pocketmq.pipeline.progress.checkpoint import Checkpoint
    from pocketmq.pipeline.progress.store_queue_plan import StoreQueuePlan


class StoreQueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query's reader; it is in a process beside the driver, with a copy on each worker."""

    def __init__(self, settings: StoreSettings, columns: dict[str, str]) -> None:
        if settings.table != "messages":
            problem = f"{settings.table!r} cannot be read as a stream, only `messages`"
            raise settings.options.error("table", problem)
        if settings.max_files is not None:
            problem = "it limits a stream by files (streamBy=files); set maxOffsetsPerTrigger"
            raise settings.options.error("maxFilesPerTrigger", problem)
        if settings.scan == "commitlog":
            problem = "a stream with streamBy=queues reads the queues; leave it out"
            raise settings.options.error("scan", problem)
        self.settings = settings
        self.columns = columns
        self._plan: StoreQueuePlan | None = None
        self._initial: Checkpoint | None = None

    @property
    def plan(self) -> StoreQueuePlan:
        """The query's state, made where Spark first asks for it."""
        if self._plan is None:
            from pocketmq.pipeline.progress.store_queue_plan import StoreQueuePlan

            self._plan = StoreQueuePlan(self.settings)
        return self._plan

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; Spark calls it twice and must get the same result."""
        if self._initial is None:
            self._initial = self.plan.initial()
        return self._initial.tree()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The option's limit for a batch."""
        most = self.settings.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` while there is nothing to read."""
        from pocketmq.pipeline.progress.checkpoint import Checkpoint, with_begin

        # Later Spark versions may pass new kinds of limits; reading all would be worse than an
        # error.
        if not isinstance(limit, (ReadAllAvailable, ReadMaxRows)):
            raise CallerError(
                f"pocketmq-store: the source cannot limit a batch by {limit!r}; limit it by a "
                "maximum of rows, or not at all"
            )
        begun = Checkpoint.of_tree(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self.plan.latest(begun, most)
        # The same object: Spark takes an equal offset for no new data.
        if end == begun:
            return start
        # Only the first batch needs its begin (see `checkpoint`).
        return with_begin(end.tree(), start) if begun == self._initial else end.tree()

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the present end of every queue."""
        self.plan.set_target()

    @plainly
    def reportLatestOffset(self) -> dict[str, Any]:
        """The present end of every queue, and what was counted, for the query's progress."""
        from pocketmq.pipeline.options.offsets import to_tree
        from pocketmq.pipeline.progress.checkpoint import COUNTS

        ends: dict[str, Any] = dict(to_tree(self.plan.ends()))
        return {**ends, COUNTS: self.plan.counts()}

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan a task for each queue that has something new."""
        from pocketmq.pipeline.progress.checkpoint import Checkpoint, begin_of

        begun = Checkpoint.of_tree(begin_of(end, start))
        parts = self.plan.parts(begun, Checkpoint.of_tree(end))
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one task as Arrow record batches."""
        from pocketmq.pipeline.options.row_filter import RowFilter
        from pocketmq.pipeline.workers.read_counts import in_worker

        in_worker()
        row_filter = RowFilter.of_tags(self.settings.tags)
        return rows_plainly(batches(self.settings, self.columns, row_filter, partition.value))

    def stop(self) -> None:
        """The query has ended, or this reader had an error."""
        leave_quietly()

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the workers."""
        # Only the driver needs the plan.
        return {**self.__dict__, "_plan": None}

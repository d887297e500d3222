"""The stream reader of data source `pocketmq-store`: files of a store's log, as they close."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from pocketmq.pipeline.spark.plainly import leave_quietly, plainly, rows_plainly
from pocketmq.pipeline.stores.store_read import StoreSettings, batches, find_stores
from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    from pocketmq.pipeline.progress.store_stands import Stands
    from pocketmq.pipeline.progress.store_stream_plan import StoreStreamPlan


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query's reader; it is in a process beside the driver, with a copy on each worker."""

    def __init__(self, settings: StoreSettings, columns: dict[str, str]) -> None:
        if settings.table != "messages":
            problem = f"{settings.table!r} cannot be read as a stream, only `messages`"
            raise settings.options.error("table", problem)
        if settings.max_rows is not None:
            problem = "it limits a stream by queues (streamBy=queues); set maxFilesPerTrigger"
            raise settings.options.error("maxOffsetsPerTrigger", problem)
        self.settings = settings
        self.columns = columns
        self._plan: StoreStreamPlan | None = None
        self._initial: Stands | None = None

    @property
    def plan(self) -> StoreStreamPlan:
        """The query's state, made where Spark first asks for it."""
        if self._plan is None:
            from pocketmq.pipeline.progress.store_stream_plan import StoreStreamPlan

            self._plan = StoreStreamPlan(
                lambda: find_stores(self.settings), fails=self.settings.fail_on_data_loss
            )
        return self._plan

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; Spark calls it twice and must get the same result."""
        from pocketmq.pipeline.progress.store_stands import to_tree

        if self._initial is None:
            self._initial = self.plan.initial(earliest=self.settings.starts_earliest)
        return to_tree(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The option's limit for a batch."""
        most = self.settings.max_files
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` while no file has closed."""
        from pocketmq.pipeline.progress.checkpoint import with_begin
        from pocketmq.pipeline.progress.store_stands import from_tree, to_tree

        # An unknown limit would be taken for no limit.
        if not isinstance(limit, (ReadAllAvailable, ReadMaxFiles)):
            raise CallerError(
                f"pocketmq-store: the source cannot limit a batch by {limit!r}; limit it by a "
                "maximum of files, or not at all"
            )
        begun = from_tree(start)
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        end = self.plan.latest(begun, most)
        # The same object: Spark takes an equal offset for no new data.
        if end == begun:
            return start
        return with_begin(to_tree(end), start) if begun == self._initial else to_tree(end)

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        """Remember which files are closed now."""
        self.plan.set_target()

    @plainly
    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the closed files, and what was counted, for the query's progress."""
        from pocketmq.pipeline.progress.checkpoint import COUNTS
        from pocketmq.pipeline.progress.store_stands import to_tree

        # Read again: the query's progress should include files that were closed after the batch was
        # planned.
        ends = {name: each.stand(each.end) for name, each in self.plan.files().items()}
        return {**to_tree(ends), COUNTS: self.plan.counts()}

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan a task for each file."""
        from pocketmq.pipeline.progress.checkpoint import begin_of
        from pocketmq.pipeline.progress.store_stands import from_tree

        parts = self.plan.parts(from_tree(begin_of(end, start)), from_tree(end))
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
        return {**self.__dict__, "_plan": None}

"""The batch reader of data source `pocketmq`: topics as tables, straight from the brokers.

    spark.read.format("pocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "T").load()

The driver asks for the queues' offsets; each task pulls a range of one queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.spark.plainly import plainly, rows_plainly
from pocketmq.pipeline.spark.pushdown import QuietPushdown
from pocketmq.pipeline.topics.settings import ReadSettings

if TYPE_CHECKING:
    pass


class TopicReader(DataSourceReader):
    """Plans tasks on the driver, and reads one on a worker."""

    def __init__(self, settings: ReadSettings, columns: dict[str, str]) -> None:
        self.settings = settings
        self.columns = columns
        # The option `tags` narrows the rows as the query's own filters do.
        self.row_filter = RowFilter.of_tags(settings.tags)
        self.pushFilters = QuietPushdown(self._absorb)  # type: ignore[method-assign]

    def _absorb(self, filters: list[Any]) -> list[Any]:
        exact = ("topic", "brokerName", "queueId", "queueOffset", "physicalOffset")
        return self.row_filter.absorb(filters, exact=exact)

    @plainly
    def partitions(self) -> list[InputPartition]:
        """Plan a task for each queue, or several for parts of a queue."""
        from pocketmq.pipeline.progress.topic_read import plan
        from pocketmq.pipeline.workers.loop import shared_loop

        return [
            InputPartition(part)
            for part in shared_loop().result(plan(self.settings, self.row_filter))
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one task as Arrow record batches."""
        if partition.value is None:  # Spark passes None if `partitions` returned nothing
            return iter(())
        from pocketmq.pipeline.progress.topic_read import reading
        from pocketmq.pipeline.workers.read_counts import in_worker

        in_worker()
        read = reading(self.settings, self.columns, self.row_filter)
        return rows_plainly(read.batches(partition.value))

"""The data source `pocketmq-store`: reads a broker's store directories without a broker.

    spark.read.format("pocketmq-store").load("/data/broker-a/store,/data/broker-b/store")

RocketMQ's stores and PocketMQ's have the same format. They may be in use while they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.spark.plainly import plainly, rows_plainly
from pocketmq.pipeline.spark.pushdown import QuietPushdown
from pocketmq.pipeline.stores.store_read import StoreSettings, batches, plan
from pocketmq.pipeline.workers.read_counts import in_worker


class StoreReader(DataSourceReader):
    """Plans tasks on the driver, and reads one on a worker."""

    def __init__(self, settings: StoreSettings, columns: dict[str, str]) -> None:
        self.settings = settings
        self.columns = columns
        self.row_filter = RowFilter.of_tags(settings.tags)
        # The other tables are small, so Spark filters them itself.
        if settings.table == "messages":
            self.pushFilters = QuietPushdown(self._absorb)  # type: ignore[method-assign]

    def _absorb(self, filters: list[Any]) -> list[Any]:
        exact = ("topic", "queueId", "queueOffset", "physicalOffset", "tags", "keys", "uniqKey")
        return self.row_filter.absorb(filters, exact=exact)

    @plainly
    def partitions(self) -> list[InputPartition]:
        """Plan a task for each section of the log, or of the table's files."""
        return [InputPartition(part) for part in plan(self.settings, self.row_filter)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one task as Arrow record batches."""
        if partition.value is None:  # Spark passes None if `partitions` returned nothing
            return iter(())
        in_worker()
        rows = batches(self.settings, self.columns, self.row_filter, partition.value)
        return rows_plainly(rows)

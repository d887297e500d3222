"""Spark finds this module by its name: `format("pocketmq-store")` needs no `register()`.

Spark imports it when a session first uses any Python data source, so it imports little at first;
modules that import Arrow are imported when they are needed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from pocketmq.pipeline.spark.plainly import plainly


class DefaultSource(DataSource):
    """The data source `pocketmq-store`: a broker's store directories as tables."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "pocketmq-store"

    @plainly
    def schema(self) -> str:
        """The columns, which depend on option `columns`."""
        from pocketmq.pipeline.options.schema import ddl
        from pocketmq.pipeline.stores.store_read import StoreSettings

        return ddl(StoreSettings(self.options).columns)

    @plainly
    def reader(self, schema: Any) -> Any:
        """The reader for `spark.read`."""
        from pocketmq.pipeline.options.schema import of_spark
        from pocketmq.pipeline.spark.store_source import StoreReader
        from pocketmq.pipeline.stores.store_read import TABLES, StoreSettings

        settings = StoreSettings(self.options)
        return StoreReader(settings, of_spark(schema, TABLES[settings.table], "pocketmq-store"))

    @plainly
    def streamReader(self, schema: Any) -> Any:
        """The reader for `spark.readStream`."""
        from pocketmq.pipeline.options.schema import of_spark
        from pocketmq.pipeline.spark.store_queue_stream import StoreQueueReader
        from pocketmq.pipeline.spark.store_stream import StoreStreamReader
        from pocketmq.pipeline.stores.store_read import TABLES, StoreSettings

        settings = StoreSettings(self.options)
        columns = of_spark(schema, TABLES[settings.table], "pocketmq-store")
        if settings.stream_by == "queues":
            return StoreQueueReader(settings, columns)
        return StoreStreamReader(settings, columns)

"""Spark finds this module by its name: `spark.read.format("pocketmq-store")` needs no `register()`.

Spark imports it whenever a session first uses any Python data source, so it is light: what works
with Arrow is imported when it is needed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from pocketmq.pipeline.plainly import plainly


class DefaultSource(DataSource):
    """A broker's store directories as tables."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "pocketmq-store"

    @plainly
    def schema(self) -> str:
        """The columns, after option `columns`."""
        from pocketmq.pipeline.schema import ddl
        from pocketmq.pipeline.store_source import StoreSettings

        return ddl(StoreSettings(self.options).columns)

    @plainly
    def reader(self, schema: Any) -> Any:
        """Reads a table."""
        from pocketmq.pipeline.schema import of_spark
        from pocketmq.pipeline.store_source import TABLES, StoreReader, StoreSettings

        settings = StoreSettings(self.options)
        return StoreReader(settings, of_spark(schema, TABLES[settings.table], "pocketmq-store"))

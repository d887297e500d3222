"""Spark finds this module by its name: `spark.read.format("pocketmq")` needs no `register()`.

Spark imports it whenever a session first uses any Python data source, so it is light: what works
with Arrow or asyncio is imported when it is needed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from pocketmq.pipeline.plainly import plainly


class DefaultSource(DataSource):
    """Topics as tables."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "pocketmq"

    @plainly
    def schema(self) -> str:
        """The columns, after the options."""
        from pocketmq.pipeline.schema import ddl
        from pocketmq.pipeline.settings import ReadSettings

        return ddl(ReadSettings(self.options).columns)

    @plainly
    def reader(self, schema: Any) -> Any:
        """Reads a batch."""
        from pocketmq.pipeline.schema import of_spark
        from pocketmq.pipeline.settings import ReadSettings
        from pocketmq.pipeline.source import TopicReader

        settings = ReadSettings(self.options)
        return TopicReader(settings, of_spark(schema, settings.known_columns, "pocketmq"))

    @plainly
    def streamReader(self, schema: Any) -> Any:
        """Reads a stream."""
        from pocketmq.pipeline.schema import of_spark
        from pocketmq.pipeline.settings import ReadSettings
        from pocketmq.pipeline.stream_source import TopicStreamReader

        settings = ReadSettings(self.options, streaming=True)
        return TopicStreamReader(settings, of_spark(schema, settings.known_columns, "pocketmq"))

    @plainly
    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Writes a data frame."""
        from pocketmq.pipeline.sink import TopicWriter, WriteSettings, refuse_overwrite

        refuse_overwrite(overwrite)
        return TopicWriter(WriteSettings(self.options, schema))

    @plainly
    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """Writes a stream."""
        from pocketmq.pipeline.sink import TopicStreamWriter, WriteSettings, refuse_overwrite

        refuse_overwrite(overwrite)
        return TopicStreamWriter(WriteSettings(self.options, schema))

"""Spark finds this module by its name, so `spark.read.format("pocketmq")` needs no `register()`.

Spark imports it when a session first uses any Python data source, so it imports little at first;
modules that import Arrow or asyncio are imported when they are needed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from pocketmq.pipeline.spark.plainly import plainly


class DefaultSource(DataSource):
    """The data source `pocketmq`: topics as tables."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "pocketmq"

    @plainly
    def schema(self) -> str:
        """The columns, which depend on the options."""
        from pocketmq.pipeline.options.schema import ddl
        from pocketmq.pipeline.topics.settings import ReadSettings

        return ddl(ReadSettings(self.options).columns)

    @plainly
    def reader(self, schema: Any) -> Any:
        """The reader for `spark.read`."""
        from pocketmq.pipeline.options.schema import of_spark
        from pocketmq.pipeline.spark.source import TopicReader
        from pocketmq.pipeline.topics.settings import ReadSettings

        settings = ReadSettings(self.options)
        return TopicReader(settings, of_spark(schema, settings.known_columns, "pocketmq"))

    @plainly
    def streamReader(self, schema: Any) -> Any:
        """The reader for `spark.readStream`."""
        from pocketmq.pipeline.options.schema import of_spark
        from pocketmq.pipeline.spark.stream_source import TopicStreamReader
        from pocketmq.pipeline.topics.settings import ReadSettings

        settings = ReadSettings(self.options, streaming=True)
        return TopicStreamReader(settings, of_spark(schema, settings.known_columns, "pocketmq"))

    @plainly
    def writer(self, schema: Any, overwrite: bool) -> Any:
        """The writer for `write`."""
        from pocketmq.pipeline.spark.sink import TopicWriter, WriteSettings, refuse_overwrite

        refuse_overwrite(overwrite)
        return TopicWriter(WriteSettings(self.options, schema))

    @plainly
    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """The writer for `writeStream`."""
        from pocketmq.pipeline.spark.sink import TopicStreamWriter, WriteSettings, refuse_overwrite

        refuse_overwrite(overwrite)
        return TopicStreamWriter(WriteSettings(self.options, schema, streaming=True))

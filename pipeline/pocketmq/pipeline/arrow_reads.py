"""Topics and stores as Arrow record batches for Polars, DuckDB and pandas: no Spark, no Java.

    polars.from_arrow(read_topic("orders", nameServer="127.0.0.1:9876"))
    duckdb.from_arrow(read_store("cluster/broker-a", topic="orders")).aggregate("count(*)")

The readers stream: a batch is read when the one before it was taken, so a topic may be larger than
memory. Options are those of the data sources (docs/spark-options.md). Both need PyArrow and NumPy,
which the extra `pocketmq[arrow]` brings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pocketmq.pipeline.installed import check_arrow
from pocketmq.pipeline.options.row_filter import RowFilter

if TYPE_CHECKING:
    import pyarrow as pa


def read_topic(topic: str, **options: str) -> pa.RecordBatchReader:
    """The messages of a topic, or of several separated by commas, queue by queue.

    Args:
        topic: What to read.
        options: `nameServer`, `startingOffsets`, `columns` and the others of `pocketmq`.

    Raises:
        OptionError: An option is wrong, or the topic does not exist.
        DataLossError: While reading, if offsets are not stored any more.
        MissingToolError: PyArrow or NumPy is not installed.
    """
    # Before the imports below, whose own error would not say what to install.
    check_arrow("read_topic")
    from pocketmq.pipeline.progress.topic_read import plan, reading
    from pocketmq.pipeline.topics.settings import ReadSettings
    from pocketmq.pipeline.workers.loop import shared_loop

    settings = ReadSettings({"topic": topic, **options})
    row_filter = RowFilter.of_tags(settings.tags)
    # The ends are fixed now, so that the read ends even if the topic grows.
    parts = shared_loop().result(plan(settings, row_filter))
    read = reading(settings, settings.columns, row_filter)
    return _reader(settings.columns, (batch for part in parts for batch in read.batches(part)))


def read_store(path: str, **options: str) -> pa.RecordBatchReader:
    """The messages of a store directory, or another of its tables (`table="consumequeue"`).

    Args:
        path: One directory, or several separated by commas.
        options: `topic`, `columns` and the others of `pocketmq-store`.

    Raises:
        OptionError: An option is wrong.
        CorruptRecordError: While reading, if a record is broken and the mode is FAILFAST.
        MissingToolError: PyArrow or NumPy is not installed.
    """
    check_arrow("read_store")
    from pocketmq.pipeline.stores import store_read

    settings = store_read.StoreSettings({"path": path, **options})
    row_filter = RowFilter.of_tags(settings.tags)

    def rows() -> Iterator[pa.RecordBatch]:
        # Planned at the first batch, so that nothing of a store is mapped before anybody reads.
        for part in store_read.plan(settings, row_filter):
            yield from store_read.batches(settings, settings.columns, row_filter, part)

    return _reader(settings.columns, rows())


def _reader(columns: dict[str, str], batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    import pyarrow as pa

    from pocketmq.pipeline.columns.arrow import arrow_schema

    return pa.RecordBatchReader.from_batches(arrow_schema(columns), batches)

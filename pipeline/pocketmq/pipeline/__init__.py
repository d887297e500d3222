"""Data sources and a sink for Spark: reads topics and stores as tables, writes tables to topics.

    from pocketmq.pipeline import session

    spark = session()
    spark.read.format("pocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "T").load()

Importing this imports neither Spark nor Arrow; they are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.pipeline.arrow_reads import read_store, read_topic
from pocketmq.pipeline.spark.session import check_java, session
from pocketmq.pipeline.workers.read_counts import read_counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pocketmq.pipeline.spark.stream_figures import StreamFigures, figures, measured

__all__ = [
    "StreamFigures",
    "check_java",
    "figures",
    "measured",
    "read_counts",
    "read_store",
    "read_topic",
    "register",
    "session",
]


def __getattr__(name: str) -> object:
    """What is made from PySpark's classes, on first use."""
    # PySpark is imported only on first use: whoever reads with Arrow alone may not have it.
    if name in ("StreamFigures", "figures", "measured"):
        from pocketmq.pipeline.spark import stream_figures

        return getattr(stream_figures, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: SparkSession) -> None:
    """Register the data sources in a session.

    Only needed for a session that was started before PocketMQ was installed; others find the
    sources by themselves.
    """
    import pyspark_pocketmq
    import pyspark_pocketmq_store

    spark.dataSource.register(pyspark_pocketmq.DefaultSource)
    spark.dataSource.register(pyspark_pocketmq_store.DefaultSource)

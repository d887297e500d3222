"""Topics and stores as tables in Spark, and tables as topics.

    from pocketmq.pipeline import session

    spark = session()
    spark.read.format("pocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "T").load()

Importing this imports neither Spark nor Arrow; they come when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.pipeline.session import check_java, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_java", "register", "session"]


def register(spark: SparkSession) -> None:
    """Make the sources known to a session.

    Spark finds them by itself when PocketMQ is installed where its workers run. This is for a
    session that was started before that.
    """
    import pyspark_pocketmq
    import pyspark_pocketmq_store

    spark.dataSource.register(pyspark_pocketmq.DefaultSource)
    spark.dataSource.register(pyspark_pocketmq_store.DefaultSource)

"""Streams as tests run them: of one topic into Parquet, once or for as long as a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketmq.client import Message, MessageQueue
from support.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def send(
    cluster: SparkCluster,
    topic: str,
    numbers: Sequence[int],
    *,
    size: int = 1,
    queue: MessageQueue | None = None,
) -> None:
    """Messages whose bodies are these numbers, filled up to `size` bytes."""
    bodies = [str(number).encode().rjust(size) for number in numbers]
    cluster.send([Message(topic, body) for body in bodies], queue=queue)


def bodies(frame: DataFrame) -> list[int]:
    """The numbers in a table's bodies, in order."""
    return sorted(int(row.body) for row in frame.select("body").collect())


def log_lines(spark: SparkSession, event: str, queue: str) -> list[str]:
    """What workers have logged of an event in a queue."""
    logs = spark.tvf.python_worker_logs().select("msg").collect()
    return [row.msg for row in logs if f"event='{event}'" in row.msg and queue in row.msg]


class Query:
    """A stream of one topic into Parquet."""

    def __init__(
        self, spark: SparkSession, cluster: SparkCluster, topic: str, folder: Path, **options: str
    ):
        self.spark = spark
        what = {} if "subscribePattern" in options else {"topic": topic}
        self.options = {"nameServer": cluster.nameservers, **what, **options}
        self.folder = folder

    def _writer(self, options: dict[str, str]) -> Any:
        given = {"startingOffsets": "earliest", **self.options, **options}
        frame = self.spark.readStream.format("pocketmq").options(**given).load()
        writer = frame.writeStream.format("parquet").option("path", str(self.folder / "rows"))
        return writer.option("checkpointLocation", str(self.folder / "checkpoint"))

    def run(self, **options: str) -> Any:
        """Read what there is, and end; goes on where the last run ended."""
        query = self._writer(options).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    @contextmanager
    def running(self, **options: str) -> Iterator[Any]:
        """Read for the length of a block."""
        query = self._writer(options).start()
        try:
            yield query
        finally:
            query.stop()

    def rows(self) -> list[int]:
        """What has been written, in order."""
        return bodies(self.spark.read.parquet(str(self.folder / "rows")))

"""Spark when something is gone: messages removed by retention, a query's first batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pocketmq.client import Admin, Message, MessageQueue
from support.spark_cluster import SparkCluster, spark_cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHORT_LIVED = (
    *("--mapped-file-size-commit-log", str(64 * 1024), "--max-message-size", "4096"),
    *("--file-reserved-time-h", "0", "--delete-when", ";".join(map(str, range(24)))),
)
"""A broker that deletes every file of its log but the last when it looks."""


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("forgetful")
    with spark_cluster(folder, brokers=1, broker_arguments=SHORT_LIVED, clock="manual") as cluster:
        yield cluster


def send(cluster: SparkCluster, topic: str, *numbers: int, size: int = 1) -> None:
    bodies = [str(number).encode().rjust(size) for number in numbers]
    cluster.send([Message(topic, body) for body in bodies])


def retain(cluster: SparkCluster, topic: str) -> int:
    """Let retention do its work; the first offset that is left in queue 0."""
    cluster.advance(3600)

    async def ask() -> int:
        async with Admin(nameservers=cluster.nameservers) as admin:
            return await admin.min_offset(MessageQueue(topic, "broker-a", 0))

    return cluster.run(ask())


def bodies(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


def log_lines(spark: SparkSession, event: str, queue: str) -> list[str]:
    """What workers have logged of an event in a queue."""
    logs = spark.tvf.python_worker_logs().select("msg").collect()
    return [row.msg for row in logs if f"event='{event}'" in row.msg and queue in row.msg]


class Query:
    """A stream of one topic into Parquet that reads what there is, and goes on when run again."""

    def __init__(self, spark: SparkSession, cluster: SparkCluster, topic: str, folder: Path):
        self.spark = spark
        self.options = {"nameServer": cluster.nameservers, "topic": topic}
        self.folder = folder

    def run(self, **options: str) -> None:
        frame = self.spark.readStream.format("pocketmq").options(**self.options, **options).load()
        writer = frame.writeStream.format("parquet").option("path", str(self.folder / "rows"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def rows(self) -> list[int]:
        return bodies(self.spark.read.parquet(str(self.folder / "rows")))


def test_what_retention_removed_stops_a_stream_or_is_left_out(
    spark: SparkSession, forgetful: SparkCluster, tmp_path: Path
) -> None:
    forgetful.create_topic("Stream", queues=1)
    query = Query(spark, forgetful, "Stream", tmp_path)
    send(forgetful, "Stream", *range(10))
    query.run(startingOffsets="earliest")
    assert query.rows() == list(range(10))
    send(forgetful, "Stream", *range(10, 200), size=2000)  # six files
    first = retain(forgetful, "Stream")
    assert 10 < first < 200
    with pytest.raises(Exception, match=rf"queueId=0\]: offsets 10 to {first - 1} \(") as caught:
        query.run()
    assert f"the queue now begins at {first}" in str(caught.value)
    assert query.rows() == list(range(10))
    query.run(failOnDataLoss="false")
    assert query.rows() == [*range(10), *range(first, 200)]


def test_what_retention_removed_stops_a_batch_or_is_counted(
    spark: SparkSession, forgetful: SparkCluster
) -> None:
    forgetful.create_topic("Batch", queues=1)
    send(forgetful, "Batch", *range(200), size=2000)
    first = retain(forgetful, "Batch")
    assert 3 < first < 200
    reader = spark.read.format("pocketmq").options(
        nameServer=forgetful.nameservers,
        topic="Batch",
        startingOffsets='{"Batch":{"broker-a":{"0":3}}}',
    )
    with pytest.raises(Exception, match=rf"queueId=0\]: offsets 3 to {first - 1} "):
        reader.load().count()
    assert bodies(reader.option("failOnDataLoss", "false").load()) == list(range(first, 200))
    assert any(f"count={first - 3}" in line for line in log_lines(spark, "messages.lost", "Batch"))


def test_a_query_that_fails_in_its_first_batch_goes_on_where_it_had_begun(
    spark: SparkSession, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    spark_brokers.create_topic("Killed")
    send(spark_brokers, "Killed", *range(10))
    seen: list[int] = []

    def fail(_frame: DataFrame, _batch: int) -> None:
        raise ZeroDivisionError

    def take(frame: DataFrame, _batch: int) -> None:
        seen.extend(bodies(frame))

    def run(action: Any) -> None:
        frame = spark.readStream.format("pocketmq").options(
            nameServer=spark_brokers.nameservers, topic="Killed"
        )
        writer = frame.load().writeStream.foreachBatch(action)
        writer = writer.option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="ZeroDivisionError"):
        run(fail)
    send(spark_brokers, "Killed", *range(10, 30))
    run(take)
    assert sorted(seen) == list(range(10, 30))

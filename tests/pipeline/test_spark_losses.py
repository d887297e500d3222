"""Spark when something is gone: messages removed by retention, a query's first batch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pocketmq.client import MessageQueue
from pocketmq.pipeline import StreamFigures
from pocketmq.pipeline.spark.stream_figures import BatchFigures
from support.eventually import eventually
from support.forgetful import SHORT_LIVED, retain
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_query import Query, bodies, log_lines, send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("forgetful")
    with spark_cluster(folder, brokers=1, broker_arguments=SHORT_LIVED, clock="manual") as cluster:
        yield cluster


@contextmanager
def listening(spark: SparkSession) -> Iterator[Callable[[Any], list[BatchFigures]]]:
    """A function that gives the figures of a query's batches, once it has ended."""
    told: list[BatchFigures] = []
    listener = StreamFigures(told.append)
    spark.streams.addListener(listener)

    def figures(query: Any) -> list[BatchFigures]:
        last = query.lastProgress["batchId"]

        async def wait() -> list[BatchFigures]:
            name = str(query.id)

            def is_told() -> bool:
                return name in listener.last and listener.last[name].batch == last

            await eventually(is_told, "the listener was told")
            return [each for each in told if each.query == name]

        return asyncio.run(wait())

    try:
        yield figures
    finally:
        spark.streams.removeListener(listener)


def test_what_retention_removed_stops_a_stream_or_is_left_out(
    spark: SparkSession, forgetful: SparkCluster, tmp_path: Path
) -> None:
    forgetful.create_topic("Stream", queues=1)
    query = Query(spark, forgetful, "Stream", tmp_path)
    send(forgetful, "Stream", range(10))
    query.run()
    assert query.rows() == list(range(10))
    send(forgetful, "Stream", range(10, 200), size=2000)  # six files
    first = retain(forgetful, "Stream")
    assert 10 < first < 200
    with pytest.raises(Exception, match=rf"queueId=0\]: offsets 10 to {first - 1} \(") as caught:
        query.run()
    assert f"the queue now begins at {first}" in str(caught.value)
    assert query.rows() == list(range(10))
    with listening(spark) as figures:
        told = figures(query.run(failOnDataLoss="false"))
    assert query.rows() == [*range(10), *range(first, 200)]
    assert [(each.rows, each.lost, each.unread) for each in told if each.rows] == [
        (200 - first, first - 10, 0)
    ]


def test_what_retention_removes_while_a_batch_runs_is_told_by_the_listener(
    spark: SparkSession, forgetful: SparkCluster, tmp_path: Path
) -> None:
    forgetful.create_topic("While", queues=1)
    send(forgetful, "While", range(200), size=2000)
    seen: list[int] = []
    firsts: list[int] = []

    def take(frame: DataFrame, _batch: int) -> None:
        firsts.append(retain(forgetful, "While"))
        seen.extend(bodies(frame))

    stream = spark.readStream.format("pocketmq").options(
        nameServer=forgetful.nameservers,
        topic="While",
        startingOffsets="earliest",
        failOnDataLoss="false",
    )
    writer = stream.load().writeStream.foreachBatch(take).trigger(availableNow=True)
    with listening(spark) as figures:
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        query.awaitTermination()
        told = figures(query)
    assert firsts[0] > 0
    assert seen == list(range(firsts[0], 200))
    assert [(each.rows, each.lost, each.unread) for each in told if each.rows] == [
        (200 - firsts[0], 0, firsts[0])
    ]


def test_what_retention_removed_stops_a_batch_or_is_counted(
    spark: SparkSession, forgetful: SparkCluster
) -> None:
    forgetful.create_topic("Batch", queues=1)
    send(forgetful, "Batch", range(200), size=2000)
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
    send(spark_brokers, "Killed", range(10))
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
    send(spark_brokers, "Killed", range(10, 30))
    run(take)
    assert sorted(seen) == list(range(10, 30))


def test_what_retention_removed_of_a_first_batch_that_failed_stops_the_stream_or_is_counted(
    spark: SparkSession, forgetful: SparkCluster, tmp_path: Path
) -> None:
    forgetful.create_topic("Retried", queues=1)
    send(forgetful, "Retried", range(200), size=2000)
    seen: list[int] = []
    firsts: list[int] = []

    def fail(_frame: DataFrame, _batch: int) -> None:
        firsts.append(retain(forgetful, "Retried"))
        raise ZeroDivisionError

    def take(frame: DataFrame, _batch: int) -> None:
        seen.extend(bodies(frame))

    def run(action: Any, **options: str) -> None:
        stream = spark.readStream.format("pocketmq").options(
            nameServer=forgetful.nameservers, topic="Retried", startingOffsets="earliest", **options
        )
        writer = stream.load().writeStream.foreachBatch(action).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()

    with pytest.raises(Exception, match="ZeroDivisionError"):
        run(fail)
    first = firsts[0]
    assert 0 < first < 200
    with pytest.raises(Exception, match=rf"queueId=0\]: offsets 0 to {first - 1} \("):
        run(take)
    assert seen == []
    run(take, failOnDataLoss="false")
    assert seen == list(range(first, 200))


def test_a_queue_that_appears_and_begins_behind_0_stops_a_stream_or_is_counted(
    spark: SparkSession, forgetful: SparkCluster, tmp_path: Path
) -> None:
    forgetful.create_topic("Appears", queues=1)
    query = Query(spark, forgetful, "Appears", tmp_path)
    send(forgetful, "Appears", range(10))
    query.run()
    forgetful.shape_topic("Appears", 2)
    newcomer = MessageQueue("Appears", "broker-a", 1)
    send(forgetful, "Appears", range(10, 200), size=2000, queue=newcomer)
    first = retain(forgetful, "Appears", queue_id=1)
    assert 0 < first < 190
    says = rf"queueId=1\]: is new and begins at {first}: messages 0 to {first - 1}"
    with pytest.raises(Exception, match=says):
        query.run()
    query.run(failOnDataLoss="false")
    assert query.rows() == [*range(10), *range(10 + first, 200)]


@pytest.mark.parametrize("kept", ["badRowsPath", "badRowsTopic"])
def test_rows_that_cannot_be_sent_are_kept_and_the_others_are_sent(
    spark: SparkSession, forgetful: SparkCluster, tmp_path: Path, kept: str
) -> None:
    """This broker takes 4096 bytes a message; what it refuses is known only by asking."""
    good, bad = f"Good-{kept}", f"Bad-{kept}"
    forgetful.create_topic(good, queues=1)
    forgetful.create_topic(bad, queues=1)
    rows = spark.range(40).selectExpr(
        "case when id = 3 then null when id = 4 then '' when id = 5 then repeat('x', 5000) "
        "else cast(id as string) end as body",
        f"case when id = 6 then 'Nowhere' else '{good}' end as topic",
        "'k' || id as keys",
    )
    cluster = {"nameServer": forgetful.nameservers}
    writer = rows.coalesce(1).write.format("pocketmq").options(**cluster).mode("append")
    with pytest.raises(Exception, match="row 3: RocketMQ refuses a message with an empty body"):
        writer.save()
    where = {"badRowsPath": str(tmp_path / "bad"), "badRowsTopic": bad}
    writer.option(kept, where[kept]).save()
    read = spark.read.format("pocketmq").options(**cluster)
    sent = bodies(read.load(topic=good))
    assert set(sent) == set(range(40)) - {3, 4, 5, 6}
    if kept == "badRowsPath":
        table = spark.read.parquet(where[kept])
        keys = [row.properties["KEYS"] for row in table.orderBy("row").collect()]
        reasons = [row.reason for row in table.orderBy("row").collect()]
    else:
        messages = read.load(topic=bad).collect()
        told = sorted((json.loads(row.body) for row in messages), key=lambda each: each["row"])
        keys = [each["properties"]["KEYS"] for each in told]
        reasons = [each["reason"] for each in told]
        assert (told[2]["bodyBytes"], told[2]["body"]) == (5000, None)  # too long for this broker
    assert keys == ["k3", "k4", "k5", "k6"]
    for reason, says in zip(
        reasons, ["empty body", "empty body", "MESSAGE_ILLEGAL", "Nowhere"], strict=True
    ):
        assert says in reason

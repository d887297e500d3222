"""Spark when what it reads changes under it: topics made anew, queues that go or come, brokers
that die. Nothing of it may be lost without a word."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pocketmq.client import MessageQueue
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_query import Query, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """One broker, which tests kill."""
    with spark_cluster(tmp_path_factory.mktemp("fragile"), brokers=1) as cluster:
        yield cluster


def test_a_topic_made_anew_stops_a_stream_or_is_read_from_its_new_beginning(
    spark: SparkSession, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    topic, again = "Anew", 30
    on_a = MessageQueue(topic, "broker-a", 0)
    spark_brokers.create_topic(topic, queues=1)
    query = Query(spark, spark_brokers, topic, tmp_path, maxOffsetsPerTrigger="15")
    send(spark_brokers, topic, range(20), queue=on_a)
    query.run()
    assert query.rows() == list(range(20))

    spark_brokers.remake_topic(topic, queues=1)
    send(spark_brokers, topic, range(100, 100 + again), queue=on_a)
    with pytest.raises(Exception, match="DataLossError") as caught:
        query.run()
    line = next(line for line in str(caught.value).splitlines() if "DataLossError" in line)
    assert str(on_a) in line
    assert "offset 20" in line
    assert f"ends at {again}" in line
    assert query.rows() == list(range(20))

    query.run(failOnDataLoss="false")
    assert query.rows() == [*range(20), *range(100, 100 + again)]
    send(spark_brokers, topic, range(200, 210), queue=on_a)
    query.run()  # what was lost has been told; it goes on from there
    assert query.rows() == [*range(20), *range(100, 100 + again), *range(200, 210)]


def test_a_wiped_store_stops_a_stream_or_is_read_from_its_new_beginning(
    spark: SparkSession, fragile: SparkCluster, tmp_path: Path
) -> None:
    fragile.create_topic("Wiped", queues=1)
    query = Query(spark, fragile, "Wiped", tmp_path)
    send(fragile, "Wiped", range(20))
    query.run()
    fragile.kill("broker-a")
    shutil.rmtree(fragile.store("broker-a"))
    fragile.restart("broker-a")
    fragile.create_topic("Wiped", queues=1)
    send(fragile, "Wiped", range(100, 103))
    with pytest.raises(Exception, match=r"queueId=0\].*offset 20.*ends at 3"):
        query.run()
    query.run(failOnDataLoss="false")
    assert query.rows() == [*range(20), 100, 101, 102]


def test_queues_that_go_away_with_messages_not_yet_read_are_named(
    spark: SparkSession, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    spark_brokers.create_topic("Shrunk")
    query = Query(spark, spark_brokers, "Shrunk", tmp_path)
    queues = spark_brokers.queues("Shrunk")
    for queue in queues:
        send(spark_brokers, "Shrunk", [queue.queue_id], queue=queue)
    query.run()
    for queue in queues:
        send(spark_brokers, "Shrunk", [10 + queue.queue_id] * 5, queue=queue)
    spark_brokers.shape_topic("Shrunk", 2)
    with pytest.raises(Exception, match="DataLossError") as caught:
        query.run()
    line = next(line for line in str(caught.value).splitlines() if "DataLossError" in line)
    assert "queueId=2]" in line
    assert "5 messages from offset 1 on" in line
    assert "3 more queues" in line
    query.run(failOnDataLoss="false")
    read = [*sorted([0, 1, 2, 3] * 2), *sorted([10, 11] * 10)]
    assert query.rows() == read
    spark_brokers.shape_topic("Shrunk", 4)
    query.run()  # they are back, and nothing of them was lost
    assert query.rows() == sorted([*read, *[12, 13] * 10])


def test_a_broker_that_dies_is_waited_for(
    spark: SparkSession, fragile: SparkCluster, tmp_path: Path
) -> None:
    fragile.create_topic("Dies")
    query = Query(spark, fragile, "Dies", tmp_path, retries="40")
    send(fragile, "Dies", range(10))
    with query.running() as running:
        running.processAllAvailable()
        for number in range(10, 30, 10):
            fragile.kill("broker-a")
            fragile.wait_until_unknown("Dies")
            fragile.restart("broker-a")
            send(fragile, "Dies", range(number, number + 10))
            running.processAllAvailable()
        assert running.exception() is None
    assert query.rows() == list(range(30))


def test_a_broker_that_stays_away_ends_a_stream_when_the_retries_are_used_up(
    spark: SparkSession, fragile: SparkCluster, tmp_path: Path
) -> None:
    fragile.create_topic("Away")
    query = Query(spark, fragile, "Away", tmp_path, retries="2", retryIntervalMs="100")
    send(fragile, "Away", range(10))
    query.run()
    fragile.kill("broker-a")
    try:
        fragile.wait_until_unknown("Away")
        with pytest.raises(Exception, match=r"'Away'.*asked 3 times.*retries"):
            query.run()
    finally:
        fragile.restart("broker-a")
    send(fragile, "Away", range(10, 20))
    query.run()
    assert query.rows() == list(range(20))


def test_a_run_over_what_there_is_does_not_leave_out_a_dead_broker(
    spark: SparkSession, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    spark_brokers.create_topic("Half")
    query = Query(spark, spark_brokers, "Half", tmp_path)
    send(spark_brokers, "Half", range(40))
    query.run()
    send(spark_brokers, "Half", range(40, 80))
    spark_brokers.kill("broker-b")
    try:
        with pytest.raises(Exception, match="broker-b") as caught:
            query.run(retries="2", retryIntervalMs="100")
        assert "is not registered with any name server" in str(caught.value)
    finally:
        spark_brokers.restart("broker-b")
    query.run()
    assert query.rows() == list(range(80))


def test_a_pattern_that_matches_nothing_yet_waits_for_a_topic(
    spark: SparkSession, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    query = Query(spark, spark_brokers, "", tmp_path, subscribePattern="Later-.*")
    with query.running() as running:
        running.processAllAvailable()
        spark_brokers.create_topic("Later-one")
        send(spark_brokers, "Later-one", range(10))
        running.processAllAvailable()
        spark_brokers.create_topic("Later-two")
        send(spark_brokers, "Later-two", range(10, 20))
        running.processAllAvailable()
    assert query.rows() == list(range(20))

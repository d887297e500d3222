"""Streams' offsets on a real cluster, without Spark around them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from pocketmq.client import Message
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.progress.checkpoint import BEGIN
from pocketmq.pipeline.spark.stream_source import TopicStreamReader
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.runtime.errors import CallerError
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_store import plain

pytestmark = pytest.mark.cluster

Tree = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster"), brokers=1) as cluster:
        yield cluster


def stream(cluster: SparkCluster, topic: str, **options: str) -> TopicStreamReader:
    given = {"nameServer": cluster.nameservers, "topic": topic, **options}
    settings = ReadSettings(given, streaming=True)
    return TopicStreamReader(settings, settings.columns)


def send(cluster: SparkCluster, topic: str, *numbers: int) -> None:
    cluster.send([Message(topic, str(number).encode()) for number in numbers])


def batch(reader: TopicStreamReader, start: Tree, end: Tree) -> list[int]:
    """The bodies of one micro-batch."""
    rows: list[dict[str, Any]] = []
    for part in reader.partitions(start, end):
        for each in reader.read(part):
            rows += plain(each.to_pylist())
    return sorted(int(row["body"]) for row in rows)


def total(tree: Tree) -> int:
    return sum(
        offset
        for topic, brokers in tree.items()
        if not topic.startswith("@")
        for queues in brokers.values()
        for offset in queues.values()
    )


def test_the_first_batch_has_what_there_is(cluster: SparkCluster) -> None:
    cluster.create_topic("Fixed")
    send(cluster, "Fixed", *range(10))
    reader = stream(cluster, "Fixed", startingOffsets="earliest")
    begun = reader.initialOffset()
    assert batch(reader, begun, reader.latestOffset(begun, ReadAllAvailable())) == list(range(10))


def test_small_queues_share_a_task(cluster: SparkCluster) -> None:
    cluster.create_topic("Small")
    send(cluster, "Small", *range(100))
    tasks = {}
    for least in ("1", "40", ""):
        options = {} if least == "" else {"minRecordsPerPartition": least}
        reader = stream(cluster, "Small", startingOffsets="earliest", **options)
        begun = reader.initialOffset()
        end = reader.latestOffset(begun, ReadAllAvailable())
        tasks[least] = len(reader.partitions(begun, end))
        assert batch(reader, begun, end) == list(range(100))
    assert tasks == {"1": 4, "40": 2, "": 1}


def test_each_limit_that_spark_may_give_is_obeyed(cluster: SparkCluster) -> None:
    cluster.create_topic("Limits")
    send(cluster, "Limits", *range(100))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    reader = stream(cluster, "Limits", **options)
    begun = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(30)
    assert total(reader.latestOffset(begun, ReadMaxRows(30))) == 30
    # Trigger.AvailableNow may ask for everything whatever the options say.
    assert total(reader.latestOffset(begun, ReadAllAvailable())) == 100
    assert total(reader.latestOffset(begun, ReadMinRows(100))) == 100
    assert reader.latestOffset(begun, ReadMinRows(101)) == begun
    with pytest.raises(CallerError, match="cannot limit a batch by ReadMaxBytes"):
        reader.latestOffset(begun, ReadMaxBytes(1000))


def test_available_now_ends_where_the_queues_ended_when_it_began(cluster: SparkCluster) -> None:
    cluster.create_topic("Now", queues=1)
    send(cluster, "Now", *range(10))
    reader = stream(cluster, "Now", startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    cluster.create_topic("Now", queues=2)
    send(cluster, "Now", *range(10, 20))
    begun = reader.initialOffset()
    end = reader.latestOffset(begun, ReadAllAvailable())
    assert batch(reader, begun, end) == list(range(10))
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert total(reader.reportLatestOffset()) == 20


def test_offsets_that_are_not_stored_stop_the_stream_or_are_left_out(
    cluster: SparkCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("Cut", queues=1)
    send(cluster, "Cut", *range(10))
    beyond = {"Cut": {"broker-a": {"0": 15}}}
    reader = stream(cluster, "Cut", startingOffsets="earliest")
    with pytest.raises(DataLossError, match=r"queueId=0\]: offset 15 does not exist"):
        reader.partitions(reader.initialOffset(), beyond)
    reader = stream(cluster, "Cut", startingOffsets="earliest", failOnDataLoss="false")
    assert batch(reader, reader.initialOffset(), beyond) == list(range(10))
    assert "event='messages.lost'" in caplog.text
    assert "wanted=15 found=10 count=5" in caplog.text


def test_a_broker_that_comes_while_the_query_runs_is_read_from_its_beginning(
    cluster: SparkCluster,
) -> None:
    cluster.create_topic("Wide", queues=1)
    send(cluster, "Wide", *range(10))
    reader = stream(cluster, "Wide", startingOffsets="earliest")
    begun = reader.initialOffset()
    before = reader.latestOffset(begun, ReadAllAvailable())
    assert list(before["Wide"]) == ["broker-a"]

    options = ClusterOptions(brokers=2, any_port=True)
    newcomer = cluster_spec(options, cluster.supervisor.spec.data).brokers[1]
    cluster.run(cluster.supervisor.add(newcomer))
    cluster.create_topic("Wide", queues=1)
    send(cluster, "Wide", *range(10, 30))
    after = reader.latestOffset(before, ReadAllAvailable())
    assert list(after["Wide"]) == ["broker-a", "broker-b"]
    assert batch(reader, before, after) == list(range(10, 30))


def test_queues_that_went_away_when_all_of_them_was_read_are_no_loss(
    cluster: SparkCluster,
) -> None:
    cluster.create_topic("Drained")
    send(cluster, "Drained", *range(40))
    reader = stream(cluster, "Drained", startingOffsets="earliest")
    before = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    cluster.shape_topic("Drained", 1)
    assert reader.latestOffset(before, ReadAllAvailable()) == before
    send(cluster, "Drained", *range(40, 50))
    after = reader.latestOffset(before, ReadAllAvailable())
    assert batch(reader, before, after) == list(range(40, 50))


def test_a_topic_made_anew_with_fewer_queues_stops_the_stream_and_names_those_that_are_gone(
    cluster: SparkCluster,
) -> None:
    cluster.create_topic("Fewer")
    last = cluster.queues("Fewer")[3]
    cluster.send([Message("Fewer", b"1")] * 5, queue=last)
    reader = stream(cluster, "Fewer", startingOffsets="earliest")
    before = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    cluster.remake_topic("Fewer", queues=2)
    with pytest.raises(DataLossError, match=r"queueId=3\]: the topic was deleted on this broker"):
        reader.latestOffset(before, ReadAllAvailable())


def test_a_batch_that_is_repeated_after_its_topic_was_made_anew_notices_it(
    cluster: SparkCluster,
) -> None:
    """As after a kill: the query's new process is asked for a batch that another one planned."""
    cluster.create_topic("Again", queues=1)
    send(cluster, "Again", *range(10))
    first = stream(cluster, "Again", startingOffsets="earliest")
    start = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    send(cluster, "Again", *range(10, 20))
    end = first.latestOffset(start, ReadAllAvailable())
    cluster.remake_topic("Again", queues=2)
    queue = cluster.queues("Again")[0]
    cluster.send([Message("Again", b"7")] * 30, queue=queue)
    with pytest.raises(DataLossError, match="with another message at offset"):
        stream(cluster, "Again").partitions(start, end)


def test_a_checkpoint_can_be_given_as_a_beginning(cluster: SparkCluster) -> None:
    cluster.create_topic("Given", queues=1)
    send(cluster, "Given", *range(10))
    reader = stream(cluster, "Given", startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    given = stream(cluster, "Given", startingOffsets=json.dumps(end)).initialOffset()
    assert given == {name: each for name, each in end.items() if name != BEGIN}

"""Where a stream began whose first batch was planned and failed: nothing goes silently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pocketmq.client import Message, MessageQueue
from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.spark.store_stream import StoreStreamReader
from pocketmq.pipeline.spark.stream_source import TopicStreamReader
from pocketmq.pipeline.stores.store_read import StoreSettings
from pocketmq.pipeline.topics.settings import ReadSettings
from support.forgetful import forget, forgetful
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_store import log_files, mixed, open_store, plain, put, read_rows

ALL = ReadAllAvailable()
FIRST = 10
"""Messages that there are when the first batch is planned."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder, arguments = tmp_path_factory.mktemp("begins"), forgetful(64 * 1024)
    with spark_cluster(folder, brokers=1, broker_arguments=arguments) as cluster:
        yield cluster


def stream(cluster: SparkCluster, topic: str, **options: str) -> TopicStreamReader:
    given = {"nameServer": cluster.nameservers, "topic": topic, **options}
    settings = ReadSettings(given, streaming=True)
    return TopicStreamReader(settings, settings.columns)


def send(cluster: SparkCluster, topic: str, first: int, end: int, size: int = 1) -> None:
    cluster.send([Message(topic, str(n).encode().rjust(size)) for n in range(first, end)])


def batch(reader: TopicStreamReader, start: Any, end: Any) -> list[int]:
    rows: list[dict[str, Any]] = []
    for part in reader.partitions(start, end):
        for each in reader.read(part):
            rows += plain(each.to_pylist())
    return sorted(int(row["body"]) for row in rows)


FORMS = {
    "earliest": ({"startingOffsets": "earliest"}, 0),
    "latest": ({"startingOffsets": "latest"}, 0),
    "group": ({"startingOffsets": "group:Readers"}, 5),
    "json": ({"startingOffsets": '{"TOPIC":{"broker-a":{"0":3}}}'}, 3),
    "json-earliest": ({"startingOffsets": '{"TOPIC":{"broker-a":{"0":-2}}}'}, 0),
    "timestamp": ({"startingTimestamp": "1"}, 0),
    "timestamps": (
        {
            "startingOffsetsByTimestamp": '{"TOPIC":{"broker-a":{"0":1}}}',
            "startingOffsetsByTimestampStrategy": "latest",
        },
        0,
    ),
}


@pytest.mark.cluster
@pytest.mark.parametrize("form", FORMS)
def test_messages_of_a_first_batch_that_failed_and_retention_removed_are_told(
    cluster: SparkCluster, form: str
) -> None:
    """Spark stores where a batch ends before it runs it, and asks again where the first begins."""
    topic = f"Begin-{form}"
    options, begin = FORMS[form]
    options = {name: text.replace("TOPIC", topic) for name, text in options.items()}
    cluster.create_topic(topic, queues=1)
    if form != "latest":
        send(cluster, topic, 0, FIRST)
    if form == "group":
        group = stream(cluster, topic, commitGroup="Readers")
        group.commit({topic: {"broker-a": {"0": 5}}})

    first = stream(cluster, topic, **options)
    start = first.initialOffset()
    if form == "latest":
        send(cluster, topic, 0, FIRST)
    planned = json.loads(json.dumps(first.latestOffset(start, ALL)))  # as Spark's log keeps it
    assert batch(first, start, planned) == list(range(begin, FIRST))

    # It failed. What it had planned is removed, and the query is started again.
    send(cluster, topic, FIRST, 200, size=2000)
    low = forget(cluster, topic)[MessageQueue(topic, "broker-a", 0)]
    assert FIRST < low < 200
    second = stream(cluster, topic, **options)
    says = rf"queueId=0\]: offsets {begin} to {low - 1} \({low - begin} messages\)"
    with pytest.raises(DataLossError, match=says):
        second.partitions(second.initialOffset(), planned)

    third = stream(cluster, topic, failOnDataLoss="false", **options)
    assert batch(third, third.initialOffset(), planned) == []
    end = third.latestOffset(planned, ALL)
    assert batch(third, planned, end) == list(range(low, 200))
    assert third.plan.counts()["lost"] == low - begin


@pytest.mark.cluster
def test_a_query_cut_off_in_its_first_batch_begins_again_where_it_had_begun(
    cluster: SparkCluster,
) -> None:
    cluster.create_topic("Latest")
    send(cluster, "Latest", 0, 10)
    first = stream(cluster, "Latest")
    begun = first.initialOffset()
    # A batch without messages ends where it begins, whose end is the beginning.
    assert first.latestOffset(begun, ALL) == begun
    send(cluster, "Latest", 10, 20)
    stored = first.latestOffset(begun, ALL)
    assert first.initialOffset() == begun  # Spark asks a second time for the batch itself
    assert batch(first, begun, stored) == list(range(10, 20))

    send(cluster, "Latest", 20, 30)
    second = stream(cluster, "Latest")  # the first one was killed
    moved = second.initialOffset()
    assert batch(second, moved, stored) == list(range(10, 20))
    end = second.latestOffset(stored, ALL)
    assert batch(second, stored, end) == list(range(20, 30))
    assert second.latestOffset(end, ALL) == end


@pytest.mark.parametrize("starts", ["earliest", "latest"])
def test_files_of_a_first_batch_that_failed_and_were_removed_are_told(
    tmp_path: Path, starts: str
) -> None:
    root = tmp_path / "s"

    def reader(**options: str) -> StoreStreamReader:
        given = {"path": str(root), "columns": "physicalOffset", "startingOffsets": starts}
        settings = StoreSettings({**given, **options})
        return StoreStreamReader(settings, settings.columns)

    with open_store(root) as store:
        put(store, mixed(200))
        first = reader()
        start = first.initialOffset()
        put(store, mixed(400))
        planned = json.loads(json.dumps(first.latestOffset(start, ALL)))
        put(store, mixed(600))
    begin, end = (tree[str(root)]["end"] for tree in (start, planned))
    assert begin < end
    assert read_rows(first, first.partitions(start, planned))
    gone = [path for path in log_files(root) if int(path.name) < end]
    for path in gone:
        path.unlink()

    second = reader()
    says = f"the log begins at {end}, and the stream has read it up to {begin}"
    with pytest.raises(DataLossError, match=says):
        second.partitions(second.initialOffset(), planned)

    third = reader(failOnDataLoss="false")
    assert third.partitions(third.initialOffset(), planned) == []
    after = third.latestOffset(planned, ALL)
    rows = read_rows(third, third.partitions(planned, after))
    assert rows[0]["physicalOffset"] == end
    assert third.plan.counts()["lostFiles"] == sum(int(path.name) >= begin for path in gone)

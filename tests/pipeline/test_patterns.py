"""Which topics a pattern means: those of people, and the cluster's own only by their names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pocketmq.client import Message, MessageExt, TransactionProducer, TransactionState
from pocketmq.pipeline.progress import plan_reads
from pocketmq.pipeline.spark.stream_source import TopicStreamReader
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.pipeline.workers.loop import shared_loop
from support.spark_cluster import SparkCluster, spark_cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster"), brokers=1) as cluster:
        for topic in ("Orders", "%DLQ%Billing", "%RETRY%Billing"):
            cluster.create_topic(topic, queues=1)
        yield cluster


class RollBack:
    """Never commits."""

    async def execute_local_transaction(
        self, message: Message, argument: object
    ) -> TransactionState:
        return TransactionState.ROLLBACK

    async def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return TransactionState.ROLLBACK


def meant(cluster: SparkCluster, **options: str) -> list[str]:
    settings = ReadSettings({"nameServer": cluster.nameservers, **options})

    client = settings.access.client()

    async def ask() -> list[str]:
        queues = await plan_reads.find_queues(client, settings)
        assert await plan_reads.present_queues(client, settings) == queues
        return sorted({queue.topic for queue in queues})

    return shared_loop().result(ask())


def test_a_pattern_that_matches_all_means_peoples_topics_only(cluster: SparkCluster) -> None:
    """Or a rolled back transaction becomes a row, and a delayed message two."""

    async def roll_back() -> None:
        async with TransactionProducer(
            "senders", RollBack(), nameservers=cluster.nameservers
        ) as producer:
            await producer.send_in_transaction(Message("Orders", b"rolled back"))

    cluster.run(roll_back())
    cluster.send([Message("Orders", b"later", delay_level=18)])
    cluster.send([Message("Orders", b"later", delay_ms=3_600_000)])
    assert meant(cluster, subscribePattern=".*") == ["Orders"]


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("%DLQ%.*", ["%DLQ%Billing"]),
        ("Orders|%RETRY%.*", ["%RETRY%Billing", "Orders"]),
        ("RMQ_SYS_TRANS_HALF_TOPIC|Ord.*", ["Orders", "RMQ_SYS_TRANS_HALF_TOPIC"]),
        ("rmq_sys_wheel_timer", ["rmq_sys_wheel_timer"]),
    ],
)
def test_topics_of_the_cluster_itself_are_read_by_their_names(
    cluster: SparkCluster, pattern: str, topics: list[str]
) -> None:
    assert meant(cluster, subscribePattern=pattern) == topics


def test_a_topic_of_the_cluster_itself_that_is_named_is_read(cluster: SparkCluster) -> None:
    assert meant(cluster, topic="SCHEDULE_TOPIC_XXXX") == ["SCHEDULE_TOPIC_XXXX"]


def test_a_checkpoint_from_when_patterns_meant_all_topics_is_read_on(cluster: SparkCluster) -> None:
    own = ("RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a")
    options = {"nameServer": cluster.nameservers, "subscribePattern": ".*"}
    settings = ReadSettings(options, streaming=True)
    reader = TopicStreamReader(settings, settings.columns)
    at = {topic: {"broker-a": {"0": 0}} for topic in ("Orders", *own)}
    cluster.send([Message("Orders", b"new")])
    end = reader.latestOffset(at, ReadAllAvailable())
    assert {topic for topic in end if end[topic] != at.get(topic)} - {"@marks", "@early"} == {
        "Orders"
    }

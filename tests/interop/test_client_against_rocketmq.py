"""PocketMQ's own client works against a real RocketMQ, in both of its encodings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.client import ConsumeFromWhere, Message, Producer, PushConsumer
from pocketmq.pipeline.spark.source import TopicReader
from pocketmq.pipeline.topics.settings import ReadSettings
from support import spark_store
from support.eventually import PATIENCE_MS
from support.java import run_java
from support.real_rocketmq import RealRocketMQ, real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

ENCODINGS = ["json", "rocketmq"]
COUNT = 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRocketMQ]:
    folder: Path = tmp_path_factory.mktemp("real")
    with real_rocketmq(folder / "store") as running:
        yield running


async def consumed(cluster: RealRocketMQ, encoding: str, topic: str, count: int) -> list[str]:
    """The keys that a new group of ours receives, until `count` are there."""
    keys: list[str] = []
    consumer = PushConsumer(
        f"ours-{topic}",
        nameservers=cluster.namesrv_addr,
        encoding=encoding,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    )
    consumer.subscribe(topic)
    async with consumer, asyncio.timeout(200):
        async for message in consumer:
            keys.append(message.keys or "")
            if len(keys) == count:
                break
    return keys


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_our_producer_stores_in_rocketmq_what_java_and_we_read(
    cluster: RealRocketMQ, encoding: str
) -> None:
    topic = f"Ours-{encoding}"
    async with Producer(
        "ours", nameservers=cluster.namesrv_addr, encoding=encoding, send_timeout_ms=PATIENCE_MS
    ) as producer:
        for index in range(COUNT):
            key = f"key-{index:08}"
            tag = f"Tag{'ABC'[index % 3]}"
            body = f"{topic} message {index} ".encode()
            await producer.send(Message(topic, body, tags=tag, keys=key))
    args = (cluster.namesrv_addr, f"java-{encoding}", topic, "*", COUNT, 240)
    received = await asyncio.to_thread(run_java, "ConsumeMessages", *args)
    assert received.tally("RECEIVED")["damaged"] == 0
    keys = await consumed(cluster, encoding, topic, COUNT)
    assert sorted(keys) == [f"key-{index:08}" for index in range(COUNT)]


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_our_consumer_reads_from_rocketmq_what_java_sent(
    cluster: RealRocketMQ, encoding: str
) -> None:
    topic = f"Javas-{encoding}"
    args = (cluster.namesrv_addr, topic, COUNT, "--batch", 10)
    await asyncio.to_thread(run_java, "SendMessages", *args)
    keys = await consumed(cluster, encoding, topic, COUNT)
    assert sorted(keys) == [f"key-{index:08}" for index in range(COUNT)]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_spark_reads_a_new_store_of_rocketmq_and_its_topics_as_java_does(
    cluster: RealRocketMQ, encoding: str
) -> None:
    """The files of the running broker, and its answers, are the same table."""
    topic = f"Table-{encoding}"
    for options in ((), ("--batch", 16), ("--size", 6000)):
        run_java("SendMessages", cluster.namesrv_addr, topic, 96, *options)
    dumped = run_java("DumpTopics", cluster.namesrv_addr, topic).stdout.splitlines()
    expected = {line["commitLogOffset"]: line for line in map(json.loads, dumped)}
    assert len(expected) == 288
    settings = ReadSettings(
        {"nameServer": cluster.namesrv_addr, "topic": topic, "encoding": encoding}
    )
    reader = TopicReader(settings, settings.columns)
    pulled = spark_store.read_rows(reader, reader.partitions())
    stored = spark_store.rows(
        path=str(cluster.store_dir), topic=topic, brokerName="broker-a", verifyCrc="true"
    )
    walked = spark_store.rows(
        path=str(cluster.store_dir), topic=topic, brokerName="broker-a", scan="commitlog"
    )
    pulled.sort(key=lambda row: row["physicalOffset"])
    assert pulled == stored == walked
    assert len(stored) == len(expected)
    for row in map(spark_store.as_java_says, stored):
        said = expected[row["commitLogOffset"]]
        assert row == {name: said[name] for name in row}

"""An unmodified RocketMQ Java client (5.3.3) works against a PocketMQ cluster of processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster, running
from support.java import JavaError, JavaRun, run_java

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads the client
]

COUNT = 10_000
PATIENCE = 240
"""Seconds that a consumer waits for its messages."""
BINARY = {"rocketmq.serialize.type": "ROCKETMQ"}


async def java(cluster: Cluster, main: str, *args: object, **options: Any) -> JavaRun:
    """Run a Java program against the cluster; a failure also tells the cluster's story."""
    try:
        return await asyncio.to_thread(run_java, main, cluster.nameservers, *args, **options)
    except JavaError as exc:
        raise JavaError(f"{exc}\n{cluster.story()}") from None


async def send(cluster: Cluster, topic: str, count: int, *options: object, **more: Any) -> JavaRun:
    sent = await java(cluster, "SendMessages", topic, count, *options, **more)
    assert sent.tally("SENT") == {"SENT": count}
    return sent


async def consume(
    cluster: Cluster, group: str, topic: str, expression: str, count: int, *options: object,
    **more: Any,
) -> JavaRun:  # fmt: skip
    """Run a push consumer that must receive exactly `count` distinct messages, undamaged."""
    args = (group, topic, expression, count, PATIENCE, *options)
    return await java(cluster, "ConsumeMessages", *args, **more)


async def test_java_sends_10_000_messages_and_java_groups_receive_exactly_theirs(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, brokers=2) as cluster:
        sent = await send(cluster, "Flights", COUNT)
        assert len(sent.lines("QUEUE")) == 8  # auto-created with 4 queues on each broker
        everything = await consume(cluster, "everything", "Flights", "*", COUNT)
        assert everything.tally("RECEIVED")["RECEIVED"] == COUNT  # nothing twice
        assert everything.counts("TAG") == {"TagA": 3334, "TagB": 3333, "TagC": 3333}
        assert everything.lines("QUEUE") == sent.lines("QUEUE")
        some = await consume(cluster, "some", "Flights", "TagA || TagC", 6667)
        assert some.tally("RECEIVED")["RECEIVED"] == 6667
        assert some.counts("TAG") == {"TagA": 3334, "TagC": 3333}


async def test_a_java_group_goes_on_where_it_stopped(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2) as cluster:
        await send(cluster, "Parts", 600)
        await consume(cluster, "readers", "Parts", "*", 600)
        await send(cluster, "Parts", 300, "--first", 600)
        again = await consume(cluster, "readers", "Parts", "*", 300)
        assert again.tally("RECEIVED")["RECEIVED"] == 300


async def test_java_batches_and_compressed_bodies_arrive_whole(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2) as cluster:
        await send(cluster, "Batches", 640, "--batch", 32)
        await send(cluster, "Batches", 20, "--first", 640, "--size", 9000)
        received = await consume(cluster, "all", "Batches", "*", 660)
        assert received.tally("RECEIVED")["damaged"] == 0


async def test_java_with_binary_headers_understands_us(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2) as cluster:
        await send(cluster, "Binary", 500, properties=BINARY)
        received = await consume(cluster, "all", "Binary", "TagB", 167, properties=BINARY)
        assert received.counts("TAG") == {"TagB": 167}
        mixed = await consume(cluster, "json", "Binary", "*", 500)
        assert mixed.tally("RECEIVED")["RECEIVED"] == 500


async def test_a_java_consumer_in_order_sees_each_queue_in_order(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2) as cluster:
        await send(cluster, "Ordered", 900, "--shards", 6)
        received = await consume(cluster, "inorder", "Ordered", "*", 900, "--mode", "orderly")
        assert received.tally("RECEIVED")["disordered"] == 0


async def test_what_a_java_consumer_refuses_comes_again(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2) as cluster:
        await send(cluster, "Refused", 90)
        received = await consume(cluster, "later", "Refused", "*", 90, "--fail", "TagC")
        assert received.tally("RECEIVED")["retried"] == 30


async def test_java_finds_messages_by_offset_id_and_key(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2) as cluster:
        await send(cluster, "Found", 60)
        dump = await java(cluster, "DumpTopics", "Found", "--query", "yes")
        messages = [json.loads(line) for line in dump.stdout.splitlines()]
        assert len(messages) == 60
        assert all(message["viewed"] and message["queried"] for message in messages)

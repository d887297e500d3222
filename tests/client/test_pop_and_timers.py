"""Popping, delivery times and recalls with the real nameserver and brokers, in one loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pocketmq.client import ConsumeFromWhere, Message, MessageExt, SimpleConsumer
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BadRequestError, BrokerError, ClientError, IllegalMessageError
from support.memory_cluster import MemoryCluster, memory_cluster

FIRST = ConsumeFromWhere.FIRST_OFFSET


def simple(cluster: MemoryCluster, group: str = "poppers") -> SimpleConsumer:
    return SimpleConsumer(group, consume_from_where=FIRST, **cluster.client_options)


async def received(consumer: SimpleConsumer, **options: float) -> list[MessageExt]:
    """All there is now."""
    found: list[MessageExt] = []
    while some := await consumer.receive(32, wait_s=0, **options):
        found += some
    return found


async def test_two_simple_consumers_share_a_topic_of_two_brokers(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("T")
        one, two = simple(cluster), simple(cluster)
        for consumer in (one, two):
            consumer.subscribe("T", "wanted")
        async with one, two, cluster.producer() as producer:
            for number in range(120):
                tag = "wanted" if number % 2 else "other"
                await producer.send(Message("T", b"%03d" % number, tags=tag))
            first = await one.receive(10, invisible_s=30, wait_s=0)
            rest = await received(two, invisible_s=30)
            rest += await received(one, invisible_s=30)
            bodies = sorted(message.body for message in first + rest)
            assert bodies == [b"%03d" % n for n in range(1, 120, 2)]
            await one.ack(*first)
            await two.ack(*rest[5:])
            await cluster.advance(40)
            again = await received(one, invisible_s=30)
            assert {m.body for m in again} == {m.body for m in rest[:5]}
            assert {m.reconsume_times for m in again} == {1}


async def test_a_message_can_be_hidden_longer_and_then_acknowledged(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        consumer = simple(cluster)
        consumer.subscribe("T")
        async with consumer, cluster.producer() as producer:
            await producer.send(Message("T", b"slow"))
            [message] = await consumer.receive(invisible_s=10, wait_s=0)
            await consumer.change_invisible(message, 60)
            await cluster.advance(30)
            assert await received(consumer) == []
            await consumer.ack(message)
            await cluster.advance(90)
            assert await received(consumer) == []


async def test_a_receive_waits_for_the_next_message(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        consumer = simple(cluster)
        consumer.subscribe("T")
        async with consumer, cluster.producer() as producer:
            task = asyncio.create_task(consumer.receive(wait_s=20))
            await cluster.advance(1)
            assert not task.done()
            await producer.send(Message("T", b"now"))
            assert [m.body for m in await task] == [b"now"]
            task = asyncio.create_task(consumer.receive(wait_s=5))
            await cluster.advance(6)
            assert await task == []


async def test_what_was_not_popped_cannot_be_acknowledged(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        consumer = simple(cluster)
        with pytest.raises(ClientError, match="not running"):
            await consumer.receive()
        async with consumer, cluster.producer() as producer:
            with pytest.raises(ClientError, match="nothing is subscribed"):
                await consumer.receive()
            consumer.subscribe("T")
            await producer.send(Message("T", b"x"))
            [message] = await consumer.receive(wait_s=0)
            del message.properties["POP_CK"]
            with pytest.raises(BadRequestError, match="no receipt handle"):
                await consumer.ack(message)


async def test_messages_come_at_their_time_and_not_when_recalled(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path, recall_message_enable=True) as cluster:
        await cluster.create_topic("T")
        consumer = simple(cluster)
        consumer.subscribe("T")
        async with consumer, cluster.producer() as producer:
            now_ms = cluster.clock.time_ms()
            late = await producer.send(Message("T", b"late", delay_ms=90_000))
            await producer.send(Message("T", b"soon", deliver_at=now_ms + 30_000))
            gone = await producer.send(Message("T", b"gone", delay_ms=60_000))
            at_once = await producer.send(Message("T", b"at once"))
            assert late.recall_handle is not None
            assert at_once.recall_handle is None
            assert gone.recall_handle is not None
            assert await producer.recall(gone.recall_handle) == gone.msg_id
            assert [m.body for m in await received(consumer, invisible_s=900)] == [b"at once"]
            await cluster.advance(31)
            assert [m.body for m in await received(consumer, invisible_s=900)] == [b"soon"]
            await cluster.advance(60)
            assert [m.body for m in await received(consumer, invisible_s=900)] == [b"late"]
            with pytest.raises(BrokerError) as refused:
                await producer.recall(late.recall_handle)
            assert refused.value.code == ResponseCode.ILLEGAL_OPERATION
            with pytest.raises(BadRequestError):
                await producer.recall("no handle")
            with pytest.raises(BrokerError, match="max delay"):
                await producer.send(Message("T", b"never", delay_ms=4 * 86_400_000))


def test_a_message_has_one_way_to_be_late() -> None:
    with pytest.raises(IllegalMessageError, match="give only one of"):
        Message("T", b"x", delay_level=1, delay_ms=5)

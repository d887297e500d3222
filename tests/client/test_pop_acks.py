"""Acks of popped messages that go to a broker together, with real brokers in one loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from pocketmq.broker.server import Broker
from pocketmq.client import ConsumeFromWhere, Message, MessageExt, SimpleConsumer
from pocketmq.client.consumer.popping.acks import MOST_ACKS, Popped, batch_body
from pocketmq.client.consumer.popping.receipts import PoppedQueue
from pocketmq.protocol.bodies.pop import BatchAckBody
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import BatchProcessor, Peer, Reply
from pocketmq.protocol.errors import BadRequestError, BrokerError, RemotingError
from pocketmq.protocol.messages.properties import POP_CK
from support.memory_cluster import MemoryCluster, memory_cluster

ACK, BATCH = RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE


class AcksSeen:
    """Counts a broker's acks; batches of them are refused if a test says so."""

    def __init__(self, broker: Broker) -> None:
        self.count: Counter[int] = Counter()
        self.bodies: list[BatchAckBody] = []
        self.refuse_batches: ResponseCode | None = None
        table = broker.dispatcher.batch
        for code in (ACK, BATCH):
            table[code] = self._watched(code, table[code])

    def _watched(self, code: int, inner: BatchProcessor) -> BatchProcessor:
        def process(peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
            self.count[code] += len(requests)
            if code == ACK:
                return inner(peers, requests)
            self.bodies += [
                decode_body(each.body_view, BatchAckBody, each.encoding) for each in requests
            ]
            if self.refuse_batches is None:
                return inner(peers, requests)
            return [each.reply(code=self.refuse_batches, remark="as told") for each in requests]

        return process

    @property
    def gathered(self) -> list[int]:
        """How many acks each batch held."""
        return [sum(len(each.offsets()) for each in body.acks or ()) for body in self.bodies]


def simple(cluster: MemoryCluster, topics: str = "T") -> SimpleConsumer:
    consumer = SimpleConsumer(
        "poppers", consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **cluster.client_options
    )
    for topic in topics:
        consumer.subscribe(topic)
    return consumer


async def send(cluster: MemoryCluster, count: int, topic: str = "T") -> None:
    async with cluster.producer() as producer:
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number))


async def received(consumer: SimpleConsumer) -> list[MessageExt]:
    found: list[MessageExt] = []
    while some := await consumer.receive(32, invisible_s=20, wait_s=0):
        found += some
    return found


async def test_acks_of_one_turn_are_one_request_to_each_broker(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path, "a", "b") as cluster:
        seen = [AcksSeen(broker) for broker in cluster.brokers.values()]
        for topic in "TU":
            await cluster.create_topic(topic, queues=2)
            await send(cluster, 40, topic)
        async with simple(cluster, "TU") as consumer:
            messages = await received(consumer)
            assert len(messages) == 80
            await asyncio.gather(*(consumer.ack(message) for message in messages))
            assert [each.count for each in seen] == [{BATCH: 1}, {BATCH: 1}]
            assert [each.gathered for each in seen] == [[40], [40]]
            await cluster.advance(60)
            assert await received(consumer) == []


async def test_one_ack_alone_is_a_request_of_its_own(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        seen = AcksSeen(cluster.brokers["a"])
        await cluster.create_topic("T")
        await send(cluster, 3)
        async with simple(cluster) as consumer:
            for message in await received(consumer):
                await consumer.ack(message)
            assert seen.count == {ACK: 3}


async def test_whoever_has_read_properties_acknowledges_as_the_others(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        seen = AcksSeen(cluster.brokers["a"])
        await cluster.create_topic("T", queues=1)
        await send(cluster, 32)
        async with simple(cluster) as consumer:
            messages = await received(consumer)
            assert [each.uniq_key is None for each in messages[5:9]] == [False] * 4
            await consumer.ack(*messages[:20], *messages[21:])
            assert seen.gathered == [31]
            await cluster.advance(60)
            assert [each.body for each in await received(consumer)] == [messages[20].body]


async def test_a_batch_is_bounded(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        seen = AcksSeen(cluster.brokers["a"])
        await cluster.create_topic("T")
        await send(cluster, MOST_ACKS + 10)
        async with simple(cluster) as consumer:
            await consumer.ack(*await received(consumer))
            assert seen.gathered == [MOST_ACKS, 10]


# K-12, K-13: what came again has a receipt of its own, from another topic
async def test_retried_messages_and_first_tries_go_together(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        seen = AcksSeen(cluster.brokers["a"])
        await cluster.create_topic("T")
        await send(cluster, 6)
        async with simple(cluster) as consumer:
            assert len(await received(consumer)) == 6
            await cluster.advance(40)
            await send(cluster, 6)
            messages = await received(consumer)
            assert Counter(each.reconsume_times for each in messages) == {0: 6, 1: 6}
            await consumer.ack(*messages)
            assert seen.gathered == [12]
            marks = {each.retry for body in seen.bodies for each in body.acks or ()}
            assert marks == {"0", "1"}
            await cluster.advance(60)
            assert await received(consumer) == []


async def test_retried_messages_may_come_under_their_retry_topic(tmp_path: Path) -> None:
    option = {"pop_response_return_actual_retry_topic": True}
    async with memory_cluster(tmp_path, **option) as cluster:
        await cluster.create_topic("T")
        await send(cluster, 3)
        async with simple(cluster) as consumer:
            assert len(await received(consumer)) == 3
            await cluster.advance(40)
            first, *others = await received(consumer)
            assert first.topic == "%RETRY%poppers_T"
            await consumer.change_invisible(first, 10)
            await consumer.ack(first)
            await consumer.ack(*others)
            await cluster.advance(60)
            assert await received(consumer) == []


async def test_each_caller_hears_of_its_own_message(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        seen = AcksSeen(cluster.brokers["a"])
        await cluster.create_topic("T", queues=1)
        await send(cluster, 4)
        async with simple(cluster) as consumer:
            messages = await received(consumer)
            altered = {1: (0, "999999"), 2: (6, "7"), 3: (3, "77")}
            for index, (word, text) in altered.items():
                changed = messages[index].properties[POP_CK].split(" ")
                changed[word] = text
                messages[index].properties[POP_CK] = " ".join(changed)
            told = await asyncio.gather(
                *(consumer.ack(each) for each in messages), return_exceptions=True
            )
            codes = [each.code if isinstance(each, BrokerError) else each for each in told]
            assert codes == [None, None, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.MESSAGE_ILLEGAL]
            assert seen.count[BATCH] == 1
            await cluster.advance(60)
            again = {bytes(each.body) for each in await received(consumer)}
            assert again == {b"1", b"2", b"3"}


async def test_a_broker_that_does_not_know_batches_is_asked_once(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        seen = AcksSeen(cluster.brokers["a"])
        seen.refuse_batches = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        await cluster.create_topic("T")
        await send(cluster, 20)
        async with simple(cluster) as consumer:
            messages = await received(consumer)
            await consumer.ack(*messages[:10])
            await consumer.ack(*messages[10:])
            assert seen.count == {BATCH: 1, ACK: 20}
            await cluster.advance(60)
            assert await received(consumer) == []


async def test_a_busy_broker_is_not_asked_once_more_for_each(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        seen = AcksSeen(cluster.brokers["a"])
        seen.refuse_batches = ResponseCode.SYSTEM_BUSY
        await cluster.create_topic("T")
        await send(cluster, 5)
        async with simple(cluster) as consumer:
            messages = await received(consumer)
            told = await asyncio.gather(
                *(consumer.ack(each) for each in messages), return_exceptions=True
            )
            assert [each.code for each in told if isinstance(each, BrokerError)] == [2] * 5
            assert seen.count == {BATCH: 1}


async def test_acks_fail_when_the_broker_or_the_client_is_gone(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        await send(cluster, 4)
        consumer = simple(cluster)
        async with consumer:
            messages = await received(consumer)
            del messages[0].properties[POP_CK]
            with pytest.raises(BadRequestError, match="no receipt handle"):
                await consumer.ack(*messages)
            await cluster.stop_broker("a")
            with pytest.raises(RemotingError):
                await consumer.ack(*messages[1:])


def test_an_entry_is_what_one_pop_took_of_one_queue() -> None:  # K-52
    def popped(start: int, *offsets: int, queue: int = 3, at: int = 7, mark: int = 0) -> Popped:
        return Popped("T", PoppedQueue(start, at, 60_000, 1, mark, "b", queue), list(offsets))

    acks = [
        popped(9, 9, 11), popped(9, 10, queue=4), popped(9, 12),
        popped(9, 13, at=8), popped(9, 14, mark=2),
    ]  # fmt: skip
    body = batch_body("G", "b", acks)
    assert body.broker_name == "b"
    got = [
        (each.queue_id, each.pop_time, each.retry, list(each.offsets())) for each in body.acks or ()
    ]
    assert got == [
        (3, 7, "0", [9, 11, 12]),
        (4, 7, "0", [10]),
        (3, 8, "0", [13]),
        (3, 7, "2", [14]),
    ]

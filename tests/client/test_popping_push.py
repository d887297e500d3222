"""A push consumer whose brokers share the queues out, with the real nameserver and brokers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Message,
    MessageExt,
    PushConsumer,
)
from pocketmq.client.consumer.popping.settling import delay_s, last_delay_s
from pocketmq.protocol.messages.message import MessageQueue
from support.inline_disk import InlineDisk
from support.memory_cluster import MemoryCluster, memory_cluster
from support.messages import pulled_message

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER
GROUP = "poppers"


def popping(cluster: MemoryCluster, name: str = "one", **options: object) -> PushConsumer:
    consumer = cluster.consumer(
        GROUP,
        client_rebalance=False,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        instance_name=name,
        **options,
    )
    consumer.subscribe("T")
    return consumer


def noting(bodies: list[bytes]) -> Callable[[MessageExt], None]:
    return lambda message: bodies.append(message.body)


async def set_mode(cluster: MemoryCluster, mode: str, share: int = 0) -> None:
    async with cluster.admin() as admin:
        await admin.set_request_mode(GROUP, "T", mode, share_queues=share)  # type: ignore[arg-type]


async def send(cluster: MemoryCluster, count: int, first: int = 0) -> None:
    async with cluster.producer() as producer:
        for number in range(first, first + count):
            await producer.send(Message("T", b"%04d" % number))


def all_of(count: int, first: int = 0) -> set[bytes]:
    return {b"%04d" % number for number in range(first, first + count)}


# K-24, K-165
async def test_members_pop_every_queue_and_each_message_comes_once(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("T", queues=1)
        await set_mode(cluster, "POP")
        got: dict[str, list[bytes]] = {"one": [], "two": [], "three": []}
        members = [popping(cluster, name) for name in got]
        for member, bodies in zip(members, got.values(), strict=True):
            member.listen(noting(bodies))
        for member in members:
            await member.start()
        try:
            everywhere = [MessageQueue("T", "a", -1), MessageQueue("T", "b", -1)]
            await cluster.until(
                lambda: all(set(everywhere) <= set(each.assignment) for each in members),
                "all of them pop both brokers",
            )
            await send(cluster, 300)
            await cluster.until(
                lambda: sum(map(len, got.values())) >= 300, "everything is consumed"
            )
            await cluster.advance(200)  # what was not acknowledged would come again
            seen = Counter(body for bodies in got.values() for body in bodies)
            assert seen == Counter(all_of(300))
        finally:
            for member in members:
                await member.stop()


# K-169, K-170
async def test_a_failed_message_comes_again_after_its_delay(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path, disk=InlineDisk()) as cluster:
        await cluster.create_topic("T")
        await set_mode(cluster, "POP")
        tries: list[tuple[bytes, int, str, int]] = []

        def listener(message: MessageExt) -> ConsumeConcurrentlyStatus | None:
            now = cluster.clock.time_ms()
            tries.append((message.body, message.reconsume_times, message.topic, now))
            return LATER if message.body == b"0003" and message.reconsume_times < 2 else None

        consumer = popping(cluster)
        consumer.listen(listener)
        async with consumer:
            await send(cluster, 8)
            await cluster.until(lambda: len(tries) >= 10, "the failed one came twice more")
            await cluster.advance(300)
            assert Counter(body for body, *_ in tries) == Counter(all_of(8)) + Counter({b"0003": 2})
            failed = [(times, topic, at) for body, times, topic, at in tries if body == b"0003"]
            assert [(times, topic) for times, topic, _ in failed] == [(0, "T"), (1, "T"), (2, "T")]
            first, second, third = (at for _, _, at in failed)
            assert 10_000 <= second - first <= 20_000
            assert 30_000 <= third - second <= 40_000


async def test_a_batch_listener_acknowledges_up_to_an_index(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await set_mode(cluster, "POP")
        await send(cluster, 6)
        calls: list[list[bytes]] = []

        async def listener(messages: list[MessageExt], context: ConsumeConcurrentlyContext) -> None:
            if not calls:
                context.ack_index = 3
                context.delay_level_when_next_consume = 1
            calls.append([message.body for message in messages])

        consumer = popping(cluster, consume_message_batch_max_size=6)
        consumer.listen_batch(listener)
        async with consumer:
            await cluster.until(lambda: len(calls) >= 2, "the rest came again")
            assert calls[0] == sorted(all_of(6))
            await cluster.advance(120)
            assert sorted(body for call in calls[1:] for body in call) == [b"0004", b"0005"]


# K-166, K-169
async def test_a_consumer_whose_messages_lapsed_goes_on_popping(tmp_path: Path) -> None:
    # More than 96 that are out at once put off every further pop; those that lapsed are not out.
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await set_mode(cluster, "POP")
        goes_on = asyncio.Event()
        seen: Counter[bytes] = Counter()

        async def listener(message: MessageExt) -> None:
            await goes_on.wait()
            seen[message.body] += 1

        consumer = popping(cluster, pop_invisible_time_ms=10_000)
        consumer.listen(listener)
        async with consumer:
            await send(cluster, 200)
            await cluster.until(
                lambda: waiting(consumer) > 96, "as many are out as may be", step_s=0.1
            )
            await cluster.advance(20)  # longer than they are ours
            goes_on.set()
            await cluster.until(lambda: set(seen) == all_of(200), "everything is consumed")
            await cluster.until(lambda: waiting(consumer) == 0, "nothing is out")


def waiting(consumer: PushConsumer) -> int:
    """Messages that are popped and not settled."""
    return sum(each.wait_ack_count for each in consumer.running_info().mq_pop_table.values())


# K-23, K-148
async def test_a_group_that_is_switched_from_pop_to_pull_loses_nothing(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        await set_mode(cluster, "POP")
        seen: Counter[bytes] = Counter()
        slow = asyncio.Event()

        async def listener(message: MessageExt) -> None:
            assert message.topic == "T"
            if message.body == b"0005" and not message.reconsume_times:
                await slow.wait()  # popped, and the invisible time ends before it is done
            seen[message.body] += 1

        consumer = popping(cluster)
        consumer.listen(listener)
        async with consumer:
            await send(cluster, 10)
            await cluster.until(lambda: len(seen) == 9, "all but one are consumed")
            await set_mode(cluster, "PULL")
            pulled = [MessageQueue("T", "a", number) for number in range(4)]
            await cluster.until(
                lambda: set(pulled) <= set(consumer.assignment), "its queues are pulled"
            )
            assert MessageQueue("T", "a", -1) not in consumer.assignment
            await send(cluster, 10, first=10)
            await cluster.until(lambda: len(seen) == 20, "also the one that was out")
            slow.set()
            await set_mode(cluster, "POP")
            await cluster.until(
                lambda: MessageQueue("T", "a", -1) in consumer.assignment, "it pops again"
            )
            await send(cluster, 10, first=20)
            await cluster.until(lambda: len(seen) == 30, "everything came")


async def test_brokers_may_have_queues_pulled_and_share_them_out(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("T")
        members = [popping(cluster, name) for name in ("one", "two")]
        seen: list[bytes] = []
        for member in members:
            member.listen(lambda message: seen.append(message.body))
            await member.start()
        try:
            await cluster.until(
                lambda: (
                    [len([q for q in m.assignment if q.topic == "T"]) for m in members] == [4, 4]
                ),
                "each has half of the queues",
            )
            assert "the broker says: 4 to pull" in members[0].story("T")
            await send(cluster, 40)
            await cluster.until(lambda: len(seen) >= 40, "everything is consumed")
            assert set(seen) == all_of(40)
        finally:
            for member in members:
                await member.stop()


async def test_with_brokers_of_4_9_the_members_share_queues_out(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path, profile="4.9") as cluster:
        await cluster.create_topic("T")
        consumer = popping(cluster)
        async with consumer:
            await send(cluster, 20)
            await cluster.until(
                lambda: len([q for q in consumer.assignment if q.topic == "T"]) == 4,
                "all queues are its own",
            )


async def test_an_iterator_acknowledges_what_it_passed(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        await set_mode(cluster, "POP")
        await send(cluster, 12)
        async with popping(cluster) as consumer:
            seen: list[bytes] = []

            async def read() -> None:
                seen.extend([message.body async for message in consumer.take(12)])

            task = asyncio.create_task(read())
            await cluster.until(task.done, "all were read")
            info = consumer.running_info()
            assert [each.wait_ack_count for each in info.mq_pop_table.values()] == [0]
            await cluster.advance(150)
        async with popping(cluster) as consumer:
            await cluster.advance(60)
            assert set(seen) == all_of(12)


async def test_an_orderly_consumer_shares_queues_out_itself(tmp_path: Path) -> None:  # K-165
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        await set_mode(cluster, "POP")
        consumer = popping(cluster)
        consumer.listen(lambda _message: None, orderly=True)
        async with consumer:
            await cluster.until(
                lambda: len([q for q in consumer.assignment if q.topic == "T"]) == 4,
                "it owns the queues",
            )


@pytest.mark.parametrize(
    ("times", "level", "seconds"),
    [(0, 0, 10), (1, 0, 30), (15, 0, 7_200), (99, 0, 7_200), (5, 2, 60), (5, -1, 240)],
)
def test_the_delay_grows_with_the_tries(times: int, level: int, seconds: int) -> None:  # K-170
    message = pulled_message(reconsume_times=times)
    assert delay_s(message, level) == seconds


def test_a_message_with_all_tries_is_given_up_by_age() -> None:  # K-170
    assert last_delay_s(0) == 10
    assert last_delay_s(10) == 30
    assert last_delay_s(7_200) == 7_200
    assert last_delay_s(14_400) == 7_200
    assert last_delay_s(14_401) is None

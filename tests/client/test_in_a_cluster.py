"""Producers and consumers with the real nameserver and broker, in one loop on a manual clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.client import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Message,
    MessageExt,
    MessageQueue,
)
from pocketmq.protocol.allocation.by_circle import AllocateMessageQueueAveragelyByCircle
from support.consuming import Collected
from support.eventually import eventually
from support.memory_cluster import memory_cluster

FIRST = ConsumeFromWhere.FIRST_OFFSET


@pytest.mark.parametrize("profile", ["4.9", "5.x"])
async def test_what_is_sent_is_consumed_once_by_somebody(tmp_path: Path, profile: str) -> None:
    async with memory_cluster(tmp_path, "a", "b", profile=profile) as cluster:
        await cluster.create_topic("T")
        one, two = Collected(), Collected()
        consumers = []
        for listener in (one, two):
            consumer = cluster.consumer(consume_from_where=FIRST)
            consumer.subscribe("T")
            consumer.listen(listener)
            consumers.append(consumer)
        async with consumers[0], consumers[1], cluster.producer() as producer:
            await cluster.until(
                lambda: (
                    [len(each.assignment) for each in consumers if each.assignment]
                    and all(
                        len([q for q in c.assignment if q.topic == "T"]) == 4 for c in consumers
                    )
                ),
                "both own four queues",
            )
            await cluster.advance(1)
            for number in range(200):
                await producer.send(Message("T", b"%03d" % number))
            await eventually(lambda: len(one) + len(two) == 200, "all are consumed")
            assert sorted(one.bodies + two.bodies) == [b"%03d" % i for i in range(200)]
            assert len(one) == len(two) == 100
            assert not set(consumers[0].assignment) & set(consumers[1].assignment)


async def test_after_a_restart_a_group_goes_on_where_it_stopped(tmp_path: Path) -> None:
    # C-71, B-34
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        async with cluster.producer() as producer:
            for body in (b"1", b"2"):
                await producer.send(Message("T", body))
            got = Collected()
            for expected in ([b"1", b"2"], [b"1", b"2", b"3"]):
                consumer = cluster.consumer(consume_from_where=FIRST)
                consumer.subscribe("T")
                consumer.listen(got)
                async with consumer:
                    await cluster.until(lambda: got.bodies == expected, "consumed")  # noqa: B023
                await producer.send(Message("T", b"3"))


async def test_a_failed_message_comes_again_after_10_s_and_then_30_s(tmp_path: Path) -> None:
    # B-83, C-55
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        tries: list[tuple[int, int, str]] = []

        async def listener(message: MessageExt) -> ConsumeConcurrentlyStatus | None:
            tries.append((cluster.clock.time_ms(), message.reconsume_times, message.topic))
            return ConsumeConcurrentlyStatus.RECONSUME_LATER if len(tries) < 3 else None

        consumer = cluster.consumer(consume_from_where=FIRST)
        consumer.subscribe("T")
        consumer.listen(listener)
        async with consumer, cluster.producer() as producer:
            # The retry topic exists after the heartbeat; its route comes with the next poll (T-3).
            await cluster.advance(60)
            await producer.send(Message("T", b"x"))
            await cluster.until(lambda: len(tries) == 3, "tried three times")
    assert [(times, topic) for _, times, topic in tries] == [(0, "T"), (1, "T"), (2, "T")]
    assert 10_000 <= tries[1][0] - tries[0][0] < 12_000
    assert 30_000 <= tries[2][0] - tries[1][0] < 32_000


async def test_after_too_many_tries_it_is_a_dead_letter(tmp_path: Path) -> None:  # B-83
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        tries = []

        async def listener(message: MessageExt) -> None:
            tries.append(message.reconsume_times)
            raise ValueError("never")

        consumer = cluster.consumer(consume_from_where=FIRST, max_reconsume_times=2)
        consumer.subscribe("T")
        consumer.listen(listener)
        async with consumer, cluster.producer() as producer:
            await cluster.advance(60)
            await producer.send(Message("T", b"x", keys="k"))
            await cluster.until(lambda: cluster.queues_of("%DLQ%consumers"), "a dead letter")
        assert tries == [0, 1, 2]
        async with cluster.admin() as admin:
            assert await admin.max_offset(MessageQueue("%DLQ%consumers", "a", 0)) == 1


async def test_a_notification_brings_the_newcomer_its_share_within_2_s(tmp_path: Path) -> None:
    # B-24, C-21
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=8)
        strategy = AllocateMessageQueueAveragelyByCircle()
        first = cluster.consumer(strategy=strategy)
        second = cluster.consumer(strategy=strategy)
        for each in (first, second):
            each.subscribe("T")
            each.listen(Collected())
        async with first:
            await cluster.advance(5)
            assert len([q for q in first.assignment if q.topic == "T"]) == 8
            async with second:
                await cluster.advance(2)
                owned = [
                    [q.queue_id for q in c.assignment if q.topic == "T"] for c in (first, second)
                ]
                assert sorted(owned) == [[0, 2, 4, 6], [1, 3, 5, 7]]
            await cluster.advance(2)
            assert len([q for q in first.assignment if q.topic == "T"]) == 8


async def test_a_broker_that_joins_later_is_consumed_too(tmp_path: Path) -> None:  # P-3, C-24
    async with memory_cluster(tmp_path, "a") as cluster:
        await cluster.create_topic("T")
        consumer = cluster.consumer(consume_from_where=FIRST)
        consumer.subscribe("T")
        consumer.listen(Collected())
        async with consumer:
            await cluster.advance(1)
            await cluster.start_broker("b")
            await cluster.create_topic("T")
            await cluster.advance(52)  # the route within 30 s, the rebalance 20 s later
            assert {q.broker_name for q in consumer.assignment if q.topic == "T"} == {"a", "b"}


async def test_queues_come_and_go_while_a_group_consumes(tmp_path: Path) -> None:  # P-3, P-13, C-24
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        got = Collected()
        consumer = cluster.consumer(consume_from_where=FIRST)
        consumer.subscribe("T")
        consumer.listen(got)

        def owned() -> list[int]:
            return [queue.queue_id for queue in consumer.assignment if queue.topic == "T"]

        async with consumer, cluster.producer() as producer:
            await cluster.until(lambda: owned() == [0, 1], "the topic's queues are ours")
            await cluster.create_topic("T", queues=4)
            await cluster.advance(51)  # the route is asked for every 30 s, then at most 20 s
            assert owned() == [0, 1, 2, 3]
            await producer.send(Message("T", b"in a new queue"), queue=MessageQueue("T", "a", 3))
            await cluster.until(lambda: got.bodies == [b"in a new queue"], "it is consumed")
            await cluster.create_topic("T", queues=1)
            await cluster.advance(51)
            assert owned() == [0]
        async with cluster.admin() as admin:
            assert await admin.consumer_offset("consumers", MessageQueue("T", "a", 3)) == 1


async def test_tags_select_on_the_broker(tmp_path: Path) -> None:  # B-57, C-15
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        got = Collected()
        consumer = cluster.consumer(consume_from_where=FIRST)
        consumer.subscribe("T", "A || C")
        consumer.listen(got)
        async with consumer, cluster.producer() as producer:
            for number in range(30):
                await producer.send(Message("T", b"%02d" % number, tags="ABC"[number % 3]))
            await cluster.until(lambda: len(got) == 20, "two thirds are consumed")
            await cluster.advance(5)
    assert {message.tags for message in got.messages} == {"A", "C"}
    assert len(got) == 20


@pytest.mark.parametrize("encoding", ["json", "rocketmq"])
async def test_the_classic_encodings_work_end_to_end(tmp_path: Path, encoding: str) -> None:
    async with memory_cluster(tmp_path) as cluster:
        got = Collected()
        consumer = cluster.consumer(consume_from_where=FIRST, encoding=encoding)
        consumer.subscribe("T")
        consumer.listen(got)
        async with cluster.producer(encoding=encoding) as producer:
            await producer.send(Message("T", b"x", tags="A"))
            await eventually(lambda: cluster.queues_of("T"), "the topic was created")
            async with consumer:
                await cluster.until(lambda: got.bodies == [b"x"], "consumed")


async def test_admin_sees_topics_groups_offsets_and_messages(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("T", queues=2)
        got = Collected()
        consumer = cluster.consumer("G", consume_from_where=FIRST)
        consumer.subscribe("T")
        consumer.listen(got)
        async with cluster.admin() as admin, cluster.producer() as producer, consumer:
            queue = MessageQueue("T", "b", 1)
            result = await producer.send(Message("T", b"x", tags="TagA", keys="k1"), queue=queue)
            await cluster.until(lambda: len(got) == 1, "consumed")
            await cluster.advance(6)

            assert sorted(await admin.brokers()) == ["a", "b"]
            assert "T" in await admin.topics()
            assert await admin.subscribe_queues("T") == sorted(cluster.queues_of("T"))
            assert await admin.max_offset(queue) == 1
            assert await admin.min_offset(queue) == 0
            assert await admin.consumer_offset("G", queue) == 1
            assert (await admin.topic_stats("T"))[queue].max_offset == 1
            assert (await admin.consume_stats("G", "T"))[queue].consumer_offset == 1
            assert await admin.consumer_ids("G", "a") == [consumer.client_id]
            connections = await admin.consumer_connections("G")
            assert set(connections["a"].subscription_table) == {"T", "%RETRY%G"}
            assert (await admin.view_message(result.offset_msg_id)).body == b"x"
            [found] = await admin.query_messages("T", "k1")
            assert found.msg_id == result.msg_id
            [found] = await admin.query_messages("T", "TagA", by_tag=True)
            assert found.msg_id == result.msg_id
            assert await admin.query_messages("T", "k1", by_tag=True) == []
            assert await admin.topic_consumers("T") == ["G"]
            assert "%RETRY%G" in await admin.topic_configs("a")
            assert "G" in await admin.groups("a")

            await admin.put_kv("NS", "k", "v")
            assert await admin.get_kv("NS", "k") == "v"
            assert await admin.kv_list("NS") == {"k": "v"}
            await admin.delete_kv("NS", "k")
            assert await admin.get_kv("NS", "k") is None

            assert await admin.wipe_write_perm("b") > 0
            assert {q.broker_name for q in await admin.publish_queues("T")} == {"a"}
            assert await admin.add_write_perm("b") > 0
            assert {q.broker_name for q in await admin.publish_queues("T")} == {"a", "b"}

            await admin.delete_topic("T")
            assert await admin.route("T") is None

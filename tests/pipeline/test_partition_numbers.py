"""Kafka's partition numbers: with topic and offset they are a key, whatever the cluster does."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from pocketmq.pipeline.errors import OptionError
from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.progress.checkpoint import Checkpoint
from pocketmq.pipeline.progress.stream_plan import StreamPlan
from pocketmq.pipeline.progress.topic_read import planned
from pocketmq.pipeline.topics.partition_numbers import QUEUES, partition_numbers
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.protocol.messages.message import MessageQueue
from support.fake_topics import FakeBroker, FakeClient, FakeTopics, fake_plan

Key = tuple[int, int]


def queues(**brokers: int) -> list[MessageQueue]:
    return [
        MessageQueue("T", broker, number)
        for broker, count in brokers.items()
        for number in range(count)
    ]


def all_of(_begin: Offsets, end: Offsets) -> Offsets:
    return end


async def batch(plan: StreamPlan, start: Checkpoint) -> tuple[Checkpoint, list[Key]]:
    """The next batch, and the keys of its rows."""
    end = Checkpoint.of_tree((await plan.latest(start, all_of)).tree())
    parts = [part for task in await plan.parts(start, end) for part in task]
    keys = [(each.partition, at) for each in parts for at in range(each.start, each.end)]
    return end, keys


def kafka_plan(cluster: FakeTopics) -> StreamPlan:
    return fake_plan(cluster, kafkaCompatible="true")


async def numbers_of_batch(cluster: FakeTopics) -> dict[MessageQueue, int]:
    """What a batch read numbers."""
    options = {"nameServer": "127.0.0.1:1", "topic": "T", "kafkaCompatible": "true"}
    settings = ReadSettings({**options, "retries": "0"})
    parts = await planned(FakeClient(settings, cluster), settings, RowFilter.of_tags([]))
    return {part.queue: part.partition for part in parts}


def two_brokers() -> FakeTopics:
    cluster = FakeTopics()
    cluster.brokers = [FakeBroker("b"), FakeBroker("d")]
    return cluster


def fill(cluster: FakeTopics, count: int, **brokers: int) -> None:
    for queue in queues(**brokers):
        cluster.send(count, "T", queue.broker_name, queue.queue_id)


async def test_a_topic_that_grows_while_it_is_read_has_each_key_once() -> None:
    """Two queues on two brokers become three, and a third broker comes, before and behind them."""
    cluster = two_brokers()
    fill(cluster, 100, b=2, d=2)
    plan = kafka_plan(cluster)
    stand, keys = await batch(plan, await plan.initial())
    fill(cluster, 100, b=3, d=3)
    for name in "ace":
        cluster.brokers.append(FakeBroker(name))
    fill(cluster, 50, a=2, c=1, e=4)
    restarted = kafka_plan(cluster)
    stand, more = await batch(restarted, stand)
    assert len(keys + more) == len({*keys, *more}) == 400 + 600 + 350
    assert stand.partitions == await numbers_of_batch(cluster)


async def test_while_a_broker_is_away_the_others_have_their_numbers_in_batches_too() -> None:
    cluster = two_brokers()
    fill(cluster, 1, b=2, d=2)
    before = await numbers_of_batch(cluster)
    away = cluster.brokers.pop(0)
    assert await numbers_of_batch(cluster) == {
        queue: number for queue, number in before.items() if queue.broker_name == "d"
    }
    cluster.brokers.append(away)
    assert await numbers_of_batch(cluster) == before


async def test_a_stream_that_an_earlier_version_began_keeps_its_numbers() -> None:
    cluster = two_brokers()
    fill(cluster, 10, b=2, d=2)
    plan = kafka_plan(cluster)
    stand, _ = await batch(plan, await plan.initial())
    of_earlier = replace(stand, early={}, partitions={})
    repeated = await kafka_plan(cluster).parts(Checkpoint({}), of_earlier)
    numbered = {part.queue: part.partition for task in repeated for part in task}
    assert [numbered[queue] for queue in queues(b=2, d=2)] == [0, 1, 2, 3]

    fill(cluster, 10, b=3, d=3)
    after, keys = await batch(kafka_plan(cluster), of_earlier)
    assert [after.partitions[queue] for queue in queues(b=2, d=2)] == [0, 1, 2, 3]
    new = [MessageQueue("T", "b", 2), MessageQueue("T", "d", 2)]
    assert {queue: after.partitions[queue] for queue in new} == partition_numbers(new)
    assert len(set(keys)) == len(keys) == 60
    fill(cluster, 10, b=3, d=3)
    assert (await batch(kafka_plan(cluster), after))[0].partitions == after.partitions


def test_numbers_fit_into_kafkas_type_and_are_those_of_the_page() -> None:
    found = partition_numbers(queues(a=QUEUES, b=1))
    assert all(0 < number < 2**31 for number in found.values())
    assert len(set(found.values())) == len(found)
    broker = zlib.crc32(b"b") % 1_048_575 + 1
    assert found[MessageQueue("T", "b", 0)] == broker * 2048


def test_brokers_that_would_have_the_same_numbers_are_an_error_and_not_one_key() -> None:
    seen: dict[int, str] = {}
    for each in range(100_000):
        number = partition_numbers(queues(**{f"n{each}": 1}))[MessageQueue("T", f"n{each}", 0)]
        if number in seen:
            break
        seen[number] = f"n{each}"
    says = "have the same partition number.*; use columns brokerName and queueId"
    with pytest.raises(OptionError, match=says):
        partition_numbers(queues(**{seen[number]: 1, f"n{each}": 1}))
    other = [MessageQueue("U", f"n{each}", 0)]
    assert len(partition_numbers(queues(**{seen[number]: 1}) + other)) == 2, "of another topic"


def test_a_queue_that_has_no_number_is_an_error() -> None:
    with pytest.raises(OptionError, match="only the first 2048 queues of a broker"):
        partition_numbers([MessageQueue("T", "a", QUEUES)])

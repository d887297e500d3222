"""What a cluster of real processes does when one of them is killed, frozen or restarted."""

from __future__ import annotations

import asyncio
import json
import zlib
from pathlib import Path

import pytest

from pocketmq.client import (
    ConsumeFromWhere,
    Message,
    Producer,
    PushConsumer,
    SendResult,
    SendStatus,
)
from pocketmq.cluster.demo.workers import CONSUMER_GROUP, TOPIC
from pocketmq.protocol.errors import NoNameServerError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import PocketMQError
from support.cluster import Cluster, Consumer, running
from support.eventually import PATIENCE_MS, eventually

pytestmark = pytest.mark.cluster


def flight(number: int) -> Message:
    """A message that consumer processes understand."""
    body = {"carrier": "UA", "flight": number, "dep_delay": number % 60}
    return Message(TOPIC, json.dumps(body).encode(), keys=f"N{number}", tags="UA")


async def publish(cluster: Cluster, numbers: range) -> list[SendResult]:
    producer = Producer(
        "producers",
        nameservers=cluster.nameservers,
        clock=cluster.local_clock,
        send_timeout_ms=PATIENCE_MS,
    )
    async with producer:
        return [await producer.send(flight(number)) for number in numbers]


async def shared(*consumers: Consumer, queues: int) -> None:
    """Return when each of these consumers has its queues, each queue once, and has pulled them."""

    def is_shared() -> bool:
        owned = [queue for each in consumers for queue in each.queues]
        has_pulled = all(set(each.queues) <= each.pulled for each in consumers)
        has_some = all(each.queues for each in consumers)  # a newcomer may not have joined yet
        return has_some and has_pulled and len(owned) == len(set(owned)) == queues

    await eventually(is_shared, f"{queues} queues have one owner each that has pulled")


def keys(*consumers: Consumer) -> set[str]:
    return {line.split(",")[3] for each in consumers for line in each.consumed()}


# -- consumers ----------------------------------------------------------------------------------


async def test_queues_of_a_killed_consumer_go_to_the_others_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, brokers=2) as cluster:  # B-26, C-21
        await cluster.create_topic(TOPIC)
        one = await cluster.consumer("one", tmp_path)
        two = await cluster.consumer("two", tmp_path)
        await shared(one, two, queues=8)
        await publish(cluster, range(100))
        await eventually(lambda: len(keys(one, two)) == 100, "all is consumed")

        await two.process.kill()
        await publish(cluster, range(100, 200))
        await shared(one, queues=8)
        await eventually(lambda: len(keys(one, two)) == 200, "what came meanwhile is consumed")


async def test_a_consumer_that_stops_in_order_hands_over_without_redelivery(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as cluster:  # B-25: it persists its offsets, then says goodbye
        await cluster.create_topic(TOPIC)
        one = await cluster.consumer("one", tmp_path)
        two = await cluster.consumer("two", tmp_path)
        await shared(one, two, queues=4)
        await publish(cluster, range(40))
        await eventually(lambda: len(keys(one, two)) == 40, "all is consumed")

        await two.process.stop()
        await shared(one, queues=4)
        await publish(cluster, range(40, 80))
        await eventually(lambda: len(keys(one, two)) == 80, "the rest is consumed")
        assert len(one.consumed()) + len(two.consumed()) == 80


async def test_a_frozen_consumer_loses_its_queues_at_the_others_own_rebalance(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, clock="manual") as cluster:  # B-27, C-20
        await cluster.create_topic(TOPIC)
        one = await cluster.consumer("one", tmp_path)
        two = await cluster.consumer("two", tmp_path)
        await cluster.advance(seconds=21)  # both have rebalanced by themselves
        await shared(one, two, queues=4)

        await two.process.freeze()
        await cluster.advance(seconds=100)
        assert len(one.queues) == 2, "100 s of silence are not enough"
        # 120 s of silence, a scan every 10 s, no notice to the others, their rebalance every 20 s.
        await cluster.advance(seconds=51)
        await eventually(lambda: len(one.queues) == 4, "the other one has taken all queues")
        async with cluster.admin() as admin:
            assert len(await admin.consumer_ids(CONSUMER_GROUP, "broker-a")) == 1


# -- brokers ------------------------------------------------------------------------------------


async def test_routes_of_a_frozen_broker_go_after_126_s_and_the_others_stay(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, nameservers=2, brokers=2, clock="manual") as cluster:  # N-21
        await cluster.create_topic("orders")
        await cluster.broker("a").freeze()
        await cluster.advance(seconds=90)
        assert await cluster.route("orders") == {"broker-a": 4, "broker-b": 4}
        await cluster.advance(seconds=36)
        for nameserver in cluster.supervisor.nameserver_addresses:
            assert await cluster.route("orders", nameserver) == {"broker-b": 4}


async def test_time_alone_expires_nobody_who_is_well(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2, clock="manual") as cluster:
        await cluster.create_topic(TOPIC)
        one = await cluster.consumer("one", tmp_path)
        await cluster.advance(minutes=10)
        assert await cluster.route(TOPIC) == {"broker-a": 4, "broker-b": 4}
        async with cluster.admin() as admin:
            assert len(await admin.consumer_ids(CONSUMER_GROUP, "broker-a")) == 1
        assert one.process.is_alive


async def test_a_killed_broker_leaves_the_routes_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2) as cluster:  # N-22: its connection closed
        await cluster.create_topic("orders")
        await cluster.broker("a").kill()
        await eventually(
            lambda: _only(cluster, "orders", "broker-b"), "the route names broker-b alone"
        )


async def _only(cluster: Cluster, topic: str, broker: str) -> bool:
    return set(await cluster.route(topic)) == {broker}


async def test_a_broker_killed_under_load_keeps_every_acknowledged_message(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.create_topic("orders")
        acknowledged: dict[tuple[int, int], int] = {}

        async def load(producer: Producer, sender: int) -> None:
            for number in range(100_000):
                body = f"{sender}-{number}".encode() * 20
                try:
                    result = await producer.send(Message("orders", body))
                except PocketMQError:
                    return
                assert result.status is SendStatus.SEND_OK
                place = (result.queue.queue_id, result.queue_offset)
                acknowledged[place] = zlib.crc32(body) & 0x7FFFFFFF

        producer = Producer(
            "producers", nameservers=cluster.nameservers, retry_times_when_send_failed=0
        )
        async with producer:
            senders = [asyncio.ensure_future(load(producer, number)) for number in range(32)]
            await eventually(lambda: len(acknowledged) > 3_000, "a few thousand are acknowledged")
            await cluster.broker("a").kill()
            await asyncio.gather(*senders)
        await cluster.restart(cluster.broker("a"))

        stored = await _stored(cluster, "orders", queues=4)
        missing = {place: crc for place, crc in acknowledged.items() if stored.get(place) != crc}
        assert missing == {}
        results = await _send_some(cluster, "orders")
        assert all(result.status is SendStatus.SEND_OK for result in results)


async def _stored(cluster: Cluster, topic: str, *, queues: int) -> dict[tuple[int, int], int]:
    """(queue, offset) -> CRC of the body, of everything the broker hands out."""
    found: dict[tuple[int, int], int] = {}
    async with cluster.admin() as admin:
        ends = [
            await admin.max_offset(MessageQueue(topic, "broker-a", queue))
            for queue in range(queues)
        ]
    consumer = PushConsumer(
        "readers",
        nameservers=cluster.nameservers,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    )
    consumer.subscribe(topic)
    async with consumer:
        async for message in consumer:
            crc = zlib.crc32(message.body) & 0x7FFFFFFF
            assert crc == message.body_crc
            found[message.queue_id, message.queue_offset] = crc
            if len(found) == sum(ends):
                return found
    return found


async def _send_some(cluster: Cluster, topic: str) -> list[SendResult]:
    async with Producer(
        "more-producers", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
    ) as producer:
        return [await producer.send(Message(topic, b"after the restart")) for _ in range(8)]


async def test_consumers_go_on_where_they_were_after_their_broker_was_restarted(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as cluster:
        await cluster.create_topic(TOPIC)
        one = await cluster.consumer("one", tmp_path)
        await shared(one, queues=4)
        await publish(cluster, range(50))
        await eventually(lambda: len(keys(one)) == 50, "all is consumed")
        await cluster.broker("a").stop()
        await cluster.restart(cluster.broker("a"))
        await cluster.supervisor.wait_for_brokers(["broker-a"])
        await publish(cluster, range(50, 100))
        await eventually(lambda: len(keys(one)) == 100, "the rest is consumed", limit_s=60)


async def test_a_broker_that_stood_still_loses_no_send_and_forgets_no_client(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as cluster:  # fault 38
        await cluster.create_topic(TOPIC)
        one = await cluster.consumer("one", tmp_path)
        two = await cluster.consumer("two", tmp_path)
        await eventually(lambda: len(one.queues) == len(two.queues) == 2, "both have their share")
        await shared(one, two, queues=4)
        before = [list(one.queues), list(two.queues)]
        producer = Producer(
            "producers", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
        )
        async with producer:
            await producer.send(flight(0))
            await cluster.broker("a").freeze()
            sends = [asyncio.ensure_future(producer.send(flight(n))) for n in range(1, 21)]
            # They stand in the broker's socket until it wakes.
            done, waiting = await asyncio.wait(sends, timeout=2)
            assert (len(done), len(waiting)) == (0, 20)
            cluster.broker("a").thaw()
            results = await asyncio.gather(*sends)
        assert all(result.status is SendStatus.SEND_OK for result in results)
        await eventually(lambda: len(keys(one, two)) == 21, "all is consumed")
        assert len(one.consumed()) + len(two.consumed()) == 21, "and nothing twice"
        assert [one.queues, two.queues] == before
        async with cluster.admin() as admin:
            assert len(await admin.consumer_ids(CONSUMER_GROUP, "broker-a")) == 2


# -- nameservers --------------------------------------------------------------------------------


async def test_established_clients_go_on_while_nameservers_die_one_after_the_other(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, nameservers=2) as cluster:  # fault 39
        await cluster.create_topic(TOPIC)
        one = await cluster.consumer("one", tmp_path)
        await shared(one, queues=4)
        async with Producer(
            "producers", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
        ) as producer:
            await producer.send(flight(0))
            await cluster.nameserver(1).kill()
            for number in range(1, 50):
                await producer.send(flight(number))
            # A client that starts now finds the other nameserver.
            assert await cluster.route(TOPIC) == {"broker-a": 4}
            late = await cluster.consumer("late", tmp_path)
            await shared(one, late, queues=4)

            await cluster.nameserver(2).kill()
            for number in range(50, 100):
                await producer.send(flight(number))
            await eventually(lambda: len(keys(one, late)) == 100, "all is consumed")

        async with Producer(
            "newcomers", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
        ) as newcomer:
            with pytest.raises(NoNameServerError, match=r"none of .* answers"):
                await newcomer.send(flight(1))


async def test_routes_are_back_within_one_register_period_of_an_empty_nameserver(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, brokers=2, clock="manual") as cluster:  # fault 40; B-2
        await cluster.create_topic("orders")
        await cluster.nameserver(1).kill()
        await cluster.restart(cluster.nameserver(1))
        assert await cluster.route("orders") == {}
        await cluster.advance(seconds=30)
        assert await cluster.route("orders") == {"broker-a": 4, "broker-b": 4}

"""What goes wrong with whole groups: faults 35, 36, 45, 46 and 54.

Production name server and brokers, one loop, a manual clock.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import ConsumeFromWhere, Message, MessageQueue, PushConsumer
from pocketmq.client.instance import DuplicateGroupError
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.memory import MemoryNetwork
from support.consuming import Collected
from support.eventually import eventually
from support.memory_cluster import MemoryCluster, memory_cluster
from support.own_logs import own_logs

FIRST = ConsumeFromWhere.FIRST_OFFSET


def member(
    cluster: MemoryCluster, listener: Collected, expression: str = "*", **options: object
) -> PushConsumer:
    consumer = cluster.consumer(consume_from_where=FIRST, **options)
    consumer.subscribe("T", expression)
    consumer.listen(listener)
    return consumer


def owned(consumer: PushConsumer) -> list[MessageQueue]:
    return [queue for queue in consumer.assignment if queue.topic == "T"]


def has_one_owner_each(cluster: MemoryCluster, members: list[PushConsumer]) -> bool:
    queues = [queue for each in members for queue in owned(each)]
    return sorted(queues) == sorted(cluster.queues_of("T"))


class Cuttable:
    """A client's way to the others, which can be cut from one address."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._open: list[tuple[str, Channel]] = []
        self.cut_off: set[str] = set()

    async def connect(self, address: str, dispatcher: Dispatcher, **options: Any) -> Channel:
        if address in self.cut_off:
            raise ConnectError(address, "cut off")
        channel = await self._network.connect(address, dispatcher, **options)
        self._open.append((address, channel))
        return channel

    def cut(self, address: str) -> None:
        self.cut_off.add(address)
        for where, channel in self._open:
            if where == address:
                channel.close()


async def test_a_member_cut_from_one_of_two_brokers_costs_no_message(tmp_path: Path) -> None:
    """The brokers do not agree on the members, so a queue may have two owners, or none that can
    pull it, for as long as the cut lasts (W); afterwards each has one, and nothing is lost (I4)."""
    # fault 45: B-26, B-28, C-24
    one, two = Collected(), Collected()
    async with memory_cluster(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("T", queues=4)
        way = Cuttable(cluster.network)
        whole = member(cluster, one, instance_name="whole")
        half = member(cluster, two, instance_name="half", network=way)
        both, sent = [whole, half], []
        async with whole, half, cluster.producer() as producer:

            async def send(count: int) -> None:
                for _ in range(count):
                    sent.append(b"%d" % len(sent))
                    await producer.send(Message("T", sent[-1]))

            await cluster.until(lambda: has_one_owner_each(cluster, both), "all is shared out")
            await send(40)
            way.cut(cluster.brokers["b"].address)
            for _ in range(60):
                await send(1)
                await cluster.advance(1)
            way.cut_off.clear()
            healed_at = cluster.clock.monotonic()
            await cluster.until(
                lambda: (
                    has_one_owner_each(cluster, both) and set(sent) <= {*one.bodies, *two.bodies}
                ),
                "each queue has one owner, and all is consumed",
            )
            assert cluster.clock.monotonic() - healed_at <= 60, "route, heartbeat and rebalance"
            await send(16)
            await cluster.until(
                lambda: set(sent) == {*one.bodies, *two.bodies}, "what comes now is consumed"
            )


@pytest.mark.slow
async def test_fifty_members_that_come_and_go_every_200_ms_settle_and_lose_nothing(
    tmp_path: Path,
) -> None:
    """I4, and one owner for each queue within two periods of 20 s."""
    # fault 46: C-20, C-21, B-24
    chance = random.Random(46)
    got = Collected()
    sent: list[bytes] = []
    async with memory_cluster(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("T", queues=30)
        members = [member(cluster, got) for _ in range(50)]
        for each in members[:40]:
            await each.start()
        running, waiting = members[:40], members[40:]
        async with cluster.producer() as producer:
            for number in range(40):
                if waiting and (chance.random() < 0.5 or len(running) < 30):
                    running.append(waiting.pop())
                    await running[-1].start()
                else:
                    leaver = running.pop(chance.randrange(len(running)))
                    await leaver.stop()
                    waiting.append(member(cluster, got))
                for part in range(3):
                    sent.append(b"%d-%d" % (number, part))
                    await producer.send(Message("T", sent[-1]))
                await cluster.advance(0.2)
            began = cluster.clock.monotonic()
            await cluster.until(lambda: has_one_owner_each(cluster, running), "all is shared out")
            assert cluster.clock.monotonic() - began <= 40
            await cluster.until(lambda: set(sent) <= set(got.bodies), "all is consumed")
        for each in running:
            await each.stop()
    copies = Counter(got.bodies)
    assert set(copies) == set(sent)


async def test_two_clients_of_one_id_are_refused_in_one_process(tmp_path: Path) -> None:
    # fault 35: B-28
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        async with member(cluster, Collected(), instance_name="same"):
            twin = member(cluster, Collected(), instance_name="same")
            with pytest.raises(DuplicateGroupError, match="same"):
                await twin.start()


async def test_members_that_disagree_are_named_and_the_latest_subscription_loses_nothing(
    tmp_path: Path,
) -> None:
    """I4 for the latest: what it subscribes to is delivered, whoever has the queue."""
    # fault 36: B-23
    one, two = Collected(), Collected()
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        first = member(cluster, one, "A", instance_name="first")
        async with first, cluster.producer() as producer:
            await cluster.advance(1)
            with own_logs() as logs:
                latest = member(cluster, two, "A || B", instance_name="latest")
                async with latest:
                    await cluster.until(
                        lambda: has_one_owner_each(cluster, [first, latest]), "all is shared out"
                    )
                    warnings = [line for line in logs if line["event"] == "subscription.disagrees"]
                    await first.stop()
                    for number in range(8):
                        await producer.send(Message("T", b"%d" % number, tags="B"))
                    await cluster.until(lambda: len(two) == 8, "all of B is consumed")
    assert any("latest" in line["client_id"] for line in warnings), "the warning says who"
    assert all(line["changed"] for line in warnings), "and what"


@pytest.mark.parametrize("profile", ["4.9", "5.x"])
async def test_a_reset_by_time_while_members_consume_moves_their_queues_to_the_message(
    tmp_path: Path, profile: str
) -> None:
    """Exact offsets, only the group that was named, and progress goes on from there."""
    # fault 54: C-70, B-33
    got, others = Collected(), Collected()
    async with memory_cluster(tmp_path, profile=profile) as cluster:
        await cluster.create_topic("T", queues=1)
        bystander = cluster.consumer("bystanders", consume_from_where=FIRST)
        bystander.subscribe("T")
        bystander.listen(others)
        async with (
            member(cluster, got),
            bystander,
            cluster.producer() as producer,
            cluster.admin() as admin,
        ):
            for number in range(20):
                if number == 12:
                    await cluster.advance(60)
                    moment_ms = cluster.clock.time_ms()
                await producer.send(Message("T", b"%d" % number))
            await cluster.until(lambda: len(got) == len(others) == 20, "all is consumed")
            moved = await admin.reset_offset("consumers", "T", moment_ms)
            queue = MessageQueue("T", "a", 0)
            assert moved == {queue: 12}
            await cluster.until(lambda: len(got) == 28, "what came since is consumed again")
            await producer.send(Message("T", b"20"))
            await cluster.until(lambda: len(got) == 29, "and what comes now")
            await cluster.advance(11)
            await eventually(lambda: len(others) == 21, "the others have it too")
            assert await admin.consumer_offset("consumers", queue) == 21
    assert [message.queue_offset for message in got.messages[20:]] == [*range(12, 21)]
    assert [message.queue_offset for message in others.messages] == [*range(21)]

"""`pocketmq group explain` finds each cause in a running cluster, and says what to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pocketmq.client import Admin, Message, MessageQueue, PushConsumer
from pocketmq.client.api import ClientApi
from pocketmq.client.name_servers import NameServers
from pocketmq.cluster.cli.common.run import addresses, remoting
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing import Cluster
from support.console import Console, until
from support.eventually import PATIENCE_MS, PATIENCE_S


@pytest.fixture
def orders(pocketmq: Cluster) -> tuple[str, str]:
    """A topic with one queue, and the name of a group."""
    return pocketmq.sync.create_topic("orders", queues=1), pocketmq.group_name("billing")


def problems(console: Console, group: str) -> list[str]:
    """What it finds; its exit status says whether it found something."""
    told = console("group", "explain", group, "-o", "json")
    assert (told.err, told.status) == ("", int(bool(told.json)))
    return [each["problem"] for each in told.json]


def admin_does(cluster: Cluster, deed: Any) -> Any:
    async def run() -> Any:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            return await deed(admin)

    return asyncio.run(run())


def test_more_members_than_queues(
    pocketmq: Cluster, console: Console, orders: tuple[str, str]
) -> None:
    topic, group = orders
    with (
        pocketmq.sync.consumer(group, topic, instance_name="one"),
        pocketmq.sync.consumer(group, topic, instance_name="two"),
    ):
        pocketmq.sync.group(group).assigned(members=2, limit_s=PATIENCE_S)
        [found] = problems(console, group)
    assert found.endswith("@two has no queue: 1 queue for 2 members")


def test_two_clients_of_one_id(
    pocketmq: Cluster, console: Console, orders: tuple[str, str]
) -> None:
    topic, group = orders

    async def twin() -> list[str]:
        consumer = PushConsumer(group, nameservers=pocketmq.nameservers, instance_name="twin")
        consumer.subscribe(topic)
        consumer.listen(lambda message: None)
        async with consumer:
            return await asyncio.to_thread(problems, console, group)

    with pocketmq.sync.consumer(group, topic, instance_name="twin"):
        pocketmq.sync.group(group).assigned(members=1, limit_s=PATIENCE_S)
        found = asyncio.run(twin())  # a loop of its own: another connection
    assert any(each.startswith("2 connections use the client id ") for each in found), found


def test_an_offset_past_the_end(
    pocketmq: Cluster, console: Console, orders: tuple[str, str]
) -> None:
    topic, group = orders
    queue = MessageQueue(topic, "broker-a", 0)
    with pocketmq.sync.consumer(group, topic):
        pass  # the group exists from now on
    admin_does(pocketmq, lambda admin: admin.update_consumer_offset(group, queue, 300))
    found = problems(console, group)
    assert any("ends at 0, and the group goes on at 300" in each for each in found), found


def test_a_lock_that_another_client_holds(
    pocketmq: Cluster, console: Console, orders: tuple[str, str]
) -> None:
    topic, group = orders
    queue = MessageQueue(topic, "broker-a", 0)

    async def lock() -> list[MessageQueue]:
        clock = SystemClock()
        async with (
            remoting() as client,
            Admin(nameservers=pocketmq.nameservers, api_timeout_ms=PATIENCE_MS) as admin,
        ):
            names = NameServers(addresses(pocketmq.nameservers))
            address = (await admin.brokers())["broker-a"][0]
            return await ClientApi(client, clock, names).lock_queues(
                address, "of-a-dead-client", group, [queue]
            )

    async def consume() -> list[str]:
        consumer = PushConsumer(group, nameservers=pocketmq.nameservers)
        consumer.subscribe(topic)
        consumer.listen(lambda message: None, orderly=True)
        async with consumer:
            return await asyncio.to_thread(problems, console, group)

    assert asyncio.run(lock()) == [queue]
    found = asyncio.run(consume())
    assert len(found) == 1
    assert found[0].startswith(f"0 of 1 member has queues; no member has {topic} broker-a/0: ")
    assert "another client holds the lock" in found[0]


def test_a_topic_that_may_not_be_read(
    pocketmq: Cluster, console: Console, orders: tuple[str, str]
) -> None:
    topic, group = orders
    with pocketmq.sync.producer() as producer, pocketmq.sync.consumer(group, topic) as billing:
        producer.send(Message(topic, b"x"))
        billing.receive(limit_s=PATIENCE_S)
        admin_does(pocketmq, lambda admin: admin.create_topic(topic, queues=1, perm=2))
        until(
            lambda: (
                f"topic {topic} has no read permission (4) on broker-a" in problems(console, group)
            ),
            "the missing permission is found",
        )


def test_everything_is_in_the_dead_letters(
    pocketmq: Cluster, console: Console, orders: tuple[str, str]
) -> None:
    topic, group = orders

    async def fails(_message: object) -> None:
        raise ValueError

    async def consume() -> None:
        consumer = PushConsumer(group, nameservers=pocketmq.nameservers, max_reconsume_times=0)
        consumer.subscribe(topic)
        consumer.listen(fails)
        async with consumer:
            await asyncio.to_thread(
                until,
                lambda: (
                    f"1 message failed too often and is in %DLQ%{group}" in problems(console, group)
                ),
                "the dead letter is found",
            )

    with pocketmq.sync.producer() as producer:
        producer.send(Message(topic, b"x"))
        asyncio.run(consume())
    told = console("group", "explain", group, "-o", "table").out
    assert f"`pocketmq message resend {group}`" in told, "sentences are whole"


def test_a_clock_that_nobody_moves(pocketmq_clock: Cluster, console: Console) -> None:
    topic = pocketmq_clock.sync.create_topic("orders", queues=1)
    with pocketmq_clock.sync.consumer("billing", topic):
        pocketmq_clock.sync.group("billing").assigned(members=1, limit_s=PATIENCE_S)
        [found] = problems(console, "billing")
    assert found.startswith("the cluster is on a manual clock")

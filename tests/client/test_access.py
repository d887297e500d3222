"""Clients of brokers that check who they are: keys, rules, and `Admin` (Y-42 to Y-48)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import Admin, ConsumeFromWhere, Message
from pocketmq.client.producer.send_tries import SendFailedError
from pocketmq.protocol.errors import BrokerError
from support.eventually import eventually
from support.memory_cluster import MemoryCluster, memory_cluster

ADMIN = ("admin", "rooted")
SHOP = ("shop", "s3cret")
SECURE: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": json.dumps({"username": "admin", "password": "rooted"}),
    "inner_client_authentication_credentials": json.dumps(
        {"accessKey": "inner", "secretKey": "hidden"}
    ),
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[MemoryCluster]:
    async with memory_cluster(tmp_path, "a", "b", **SECURE) as made:
        async with admin_of(made) as admin:
            await admin.create_user(*SHOP)
        yield made


def admin_of(cluster: MemoryCluster, who: tuple[str, str] = ADMIN) -> Admin:
    return Admin(**cluster.client_options, credentials=who)


async def test_a_producer_and_a_consumer_work_with_the_rules_that_they_need(
    cluster: MemoryCluster,
) -> None:
    async with admin_of(cluster) as admin:
        await admin.create_topic("orders", queues=2)
        await admin.grant("shop", ["Topic:orders"], ["Pub", "Sub"])
        await admin.grant("shop", ["Group:billing"], ["Sub"])
    await eventually(lambda: len(cluster.queues_of("orders")) == 4, "the topic is registered")
    got: list[bytes] = []
    consumer = cluster.consumer(
        "billing", credentials=SHOP, consume_from_where=ConsumeFromWhere.FIRST_OFFSET
    )
    consumer.subscribe("orders")
    consumer.listen(lambda message: got.append(message.body))
    async with cluster.producer(credentials=SHOP) as producer, consumer:
        await producer.send(Message("orders", b"hello"))
        await cluster.until(lambda: bool(got), "the message is consumed")

    assert got == [b"hello"]


@pytest.mark.parametrize(
    ("key", "remark"),
    [
        (("shop", "wrong"), "check signature failed"),
        (("nobody", "s3cret"), "User:nobody is not found"),
        (SHOP, "no matched policies"),
        (None, "username cannot be null"),
    ],
)
async def test_a_producer_without_right_key_or_rule_is_refused_and_nothing_is_stored(
    cluster: MemoryCluster, key: tuple[str, str] | None, remark: str
) -> None:
    async with admin_of(cluster) as admin:
        await admin.create_topic("orders")
    await eventually(lambda: len(cluster.queues_of("orders")) == 8, "the topic is registered")

    with pytest.raises((BrokerError, SendFailedError)) as refused:
        async with cluster.producer(credentials=key, retry_times_when_send_failed=0) as producer:
            await producer.send(Message("orders", b"hello"))

    assert remark in str(refused.value)
    assert all(broker.stats.put_messages == 0 for broker in cluster.brokers.values())


async def test_users_and_rules_are_made_on_every_master(cluster: MemoryCluster) -> None:
    async with admin_of(cluster) as admin:
        await admin.grant("shop", ["Topic:o*", "Group:*"], ["Sub"], source_ips=["10.0.0.0/8"])
        await admin.grant("shop", ["Topic:b"], ["All"], is_allowed=False, brokers=["a"])
        found = await admin.rules("shop")
        users = await admin.users()
        await admin.revoke("shop", "Group:*", brokers=["b"])
        left = await admin.rules("shop", brokers=["b"])
        await admin.update_user("shop", is_enabled=False)
        disabled = await admin.users("shop")
        await admin.delete_user("shop")

        assert await admin.users("shop") == {"a": [], "b": []}
        assert await admin.rules() == {"a": [], "b": []}

    def resources(acls: Any) -> list[str]:
        return [e.resource for acl in acls for p in acl.policies for e in p.entries]

    assert {name: resources(acls) for name, acls in found.items()} == {
        "a": ["Topic:o*", "Group:*", "Topic:b"],
        "b": ["Topic:o*", "Group:*"],
    }
    assert resources(left["b"]) == ["Topic:o*"]
    assert [each.username for each in users["a"]] == ["admin", "inner", "shop"]
    assert [each.user_status for each in disabled["b"]] == ["disable"]


async def test_a_normal_user_cannot_make_users(cluster: MemoryCluster) -> None:
    async with admin_of(cluster, SHOP) as admin:
        with pytest.raises(BrokerError) as refused:
            await admin.create_user("other", "x")

    assert "Cluster:DefaultCluster" in str(refused.value)

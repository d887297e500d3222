"""A running group is explained from what its brokers and members say."""

from __future__ import annotations

import pytest

from pocketmq.client import Admin, Message, Producer, PushConsumer
from pocketmq.cluster.explain.facts import gather_facts
from pocketmq.cluster.explain.findings import findings
from pocketmq.cluster.group_view import UnknownGroupError
from pocketmq.testing import Cluster
from support.eventually import PATIENCE_MS, PATIENCE_S


def consumer(cluster: Cluster, group: str, topic: str, tags: str) -> PushConsumer:
    made = PushConsumer(group, nameservers=cluster.nameservers)
    made.subscribe(topic, tags)
    made.listen(lambda message: None)
    return made


async def explained(cluster: Cluster, group: str) -> str:
    async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
        return "\n".join(each.problem for each in findings(await gather_facts(admin, group)))


async def test_members_that_subscribe_differently_are_found(pocketmq: Cluster) -> None:
    topic, group = await pocketmq.create_topic("orders"), pocketmq.group_name("billing")
    async with Producer("shop", nameservers=pocketmq.nameservers) as producer:
        await producer.send(Message(topic, b"x", tags="a"))
    one, two = consumer(pocketmq, group, topic, "a"), consumer(pocketmq, group, topic, "b")
    async with one:
        await pocketmq.group(group).assigned(members=1, limit_s=PATIENCE_S)
        assert await explained(pocketmq, group) == ""
        async with two:
            await pocketmq.group(group).assigned(members=2, limit_s=PATIENCE_S)
            said = await explained(pocketmq, group)
            assert f"members subscribe differently to {topic}" in said
            assert f"{one.client_id} to a" in said
    assert await explained(pocketmq, group) == "no member is connected, so nothing is consumed"


async def test_a_tag_that_nobody_sends_and_a_missing_topic_are_found(pocketmq: Cluster) -> None:
    topic, group = await pocketmq.create_topic("orders"), pocketmq.group_name("typo")
    async with Producer("shop", nameservers=pocketmq.nameservers) as producer:
        await producer.send(Message(topic, b"x", tags="new"))
    misled = consumer(pocketmq, group, topic, "New")
    misled.subscribe(pocketmq.topic_name("absent"))
    async with misled:
        await pocketmq.group(group).assigned(limit_s=PATIENCE_S)
        said = await explained(pocketmq, group)
    assert "has a tag that New matches; they have: new" in said
    assert f"topic {pocketmq.topic_name('absent')} has no route" in said


async def test_a_group_that_nobody_knows_is_an_error(pocketmq: Cluster) -> None:
    with pytest.raises(UnknownGroupError):
        await explained(pocketmq, pocketmq.group_name("nobody"))

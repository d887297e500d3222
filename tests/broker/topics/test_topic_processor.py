"""Topics created, changed, deleted and listed on a running broker (17, 21, 215, 300, 305, 351)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import StoredMessage
from pocketmq.protocol.bodies.clients import GroupList
from pocketmq.protocol.bodies.route import TopicList
from pocketmq.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.settings import UpdateBrokerConfigRequestHeader
from pocketmq.protocol.headers.topics import (
    DeleteTopicRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetSystemTopicsFromBrokerRequestHeader,
    GetTopicConfigRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    UpdateAndCreateTopicRequestHeader,
)
from pocketmq.runtime.profile import PROFILE_4_9, PROFILES, Profile
from support.broker_rig import BrokerRig, Voice, consumer, running_broker
from support.eventually import eventually
from support.model_disk import ModelDisk
from support.tiny_store import HOST


def make_message(topic: str) -> StoredMessage:
    return StoredMessage(
        topic=topic, queue_id=0, body=b"x", properties=b"", flag=0, sys_flag=0,
        born_timestamp_ms=1, born_host=HOST, store_host=HOST,
    )  # fmt: skip


def update(topic: str = "orders", **fields: Any) -> UpdateAndCreateTopicRequestHeader:
    values = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6} | fields
    return UpdateAndCreateTopicRequestHeader(topic=topic, **values)


async def test_a_topic_is_created_shown_and_changed(rig: BrokerRig, encoding: Encoding) -> None:
    # E-29 (17, 351)
    voice = await rig.voice(encoding)
    show = GetTopicConfigRequestHeader(topic="orders")
    assert (await voice.ask(show)).code == 17
    assert (await voice.ask(update(read_queue_nums=2, order=True))).code == 0
    config = decode_body((await voice.ask(show)).body_view, TopicConfig, encoding)
    assert (config.read_queue_nums, config.write_queue_nums, config.order) == (2, 4, True)
    version = rig.broker.topics.data_version
    assert (await voice.ask(update(read_queue_nums=2, order=True))).code == 0
    assert rig.broker.topics.data_version == version
    assert (await voice.ask(update(perm=4))).code == 0
    assert rig.broker.topics.data_version.counter == version.counter + 1


class SlowTableDisk(ModelDisk):
    """A disk that writes configuration files only while its gate is open."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = asyncio.Event()
        self.gate.set()

    async def write_text(self, path: str, text: str) -> None:
        await self.gate.wait()
        await super().write_text(path, text)


async def test_the_same_change_again_is_answered_when_the_first_is_stored(
    tmp_path: Path,
) -> None:
    disk = SlowTableDisk(tmp_path)
    async with running_broker(tmp_path, disk=disk) as rig:
        one, other = await rig.voice(), await rig.voice()
        disk.gate.clear()
        first = asyncio.ensure_future(one.ask(update()))
        await eventually(lambda: rig.broker.topics.get("orders"), "the topic is made")
        again = asyncio.ensure_future(other.ask(update()))
        show = GetTopicConfigRequestHeader(topic="orders")
        await asyncio.ensure_future(other.ask(show))  # is sent, and answered, after it
        was_answered = [each.done() for each in (first, again)]
        disk.gate.set()
        assert [(await each).code for each in (first, again)] == [0, 0]
        assert was_answered == [False, False]


async def test_a_created_topic_survives_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as rig:
        await (await rig.voice()).create_topic(queues=3, perm=4)
    async with running_broker(tmp_path) as rig:
        config = rig.broker.topics.get("orders")
        assert config is not None
        assert (config.read_queue_nums, config.perm) == (3, 4)
        assert rig.broker.topics.data_version.counter > 0


@pytest.mark.parametrize(
    "header",
    [
        update(""),
        update("a.b"),
        update("x" * 128),
        update("TBW102"),
        update("broker-a"),
        update("rmq_sys_x"),
        update(perm=8),
        update(read_queue_nums=-1),
        update(write_queue_nums=1_000_000),
        update(topic_filter_type="SOME_TAG"),
    ],
    ids=str,
)
async def test_what_makes_no_topic_is_refused_with_29(  # E-29, E-70
    rig: BrokerRig, voice: Voice, header: UpdateAndCreateTopicRequestHeader
) -> None:
    assert (await voice.ask(header)).code == 29


@pytest.mark.parametrize(
    "attributes", ["+no.such=1", "+message.type=LITE", "message.type=FIFO", "-message.type"]
)
async def test_attributes_that_cannot_be_are_refused_with_1(  # E-29
    rig: BrokerRig, voice: Voice, attributes: str
) -> None:
    assert (await voice.ask(update(attributes=attributes))).code == 1
    assert "orders" not in rig.broker.topics.table


async def test_4_9_refuses_with_1(tmp_path: Path) -> None:  # E-71
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        assert (await (await rig.voice()).ask(update("a.b"))).code == 1


async def test_attributes_are_set_and_removed(rig: BrokerRig, voice: Voice) -> None:  # E-29
    await voice.ask(update(attributes="+message.type=FIFO"))
    assert rig.broker.topics.table["orders"].attributes == {"message.type": "FIFO"}
    await voice.ask(update(attributes="-message.type"))
    assert rig.broker.topics.table["orders"].attributes == {}
    assert (await voice.ask(update(attributes="+cleanup.policy=DELETE"))).code == 1


async def test_4_9_does_not_read_that_a_topic_is_ordered(tmp_path: Path) -> None:  # E-62
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        assert (await (await rig.voice()).ask(update(order=True))).code == 0
        assert not rig.broker.topics.is_ordered("orders")


async def test_4_9_passes_over_attributes(tmp_path: Path) -> None:  # E-62
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        for attributes in ("+no.such=1", "+message.type=FIFO", "-message.type"):
            reply = await (await rig.voice()).ask(update(attributes=attributes))
            assert reply.code == 0
            assert rig.broker.topics.table["orders"].attributes == {}


async def test_a_deleted_topic_takes_its_queues_and_offsets_along(  # B-16
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send()
    await voice.heartbeat(consumers=[consumer()])
    await voice.commit(1)
    assert (await voice.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
    assert rig.broker.topics.get("orders") is None
    assert (await voice.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
    await voice.send(body=b"anew")
    assert await rig.queue("orders") != []
    pulled = await voice.pull()
    assert (pulled.bodies, pulled.header.next_begin_offset) == ([b"anew"], 1)
    assert rig.broker.offsets.query("readers", "orders", 0) is None


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_a_deleted_topic_leaves_its_offsets_in_4_9_only(
    tmp_path: Path, profile: Profile
) -> None:  # B-16, M-16
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        await voice.send()
        await voice.heartbeat(consumers=[consumer()])
        await voice.commit(1)
        assert (await voice.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
        assert await rig.queue("orders") == []
        left = rig.broker.offsets.query("readers", "orders", 0)
        assert left == (1 if profile is PROFILE_4_9 else None)


@pytest.mark.parametrize("retry", ["%RETRY%readers_orders", "%RETRY%readers+orders"])
async def test_a_deleted_topic_takes_its_pop_retry_topics_along(
    rig: BrokerRig, voice: Voice, retry: str
) -> None:  # M-16
    others = ["%RETRY%strangers_orders", "%RETRY%readers_bills", "%RETRY%readers"]
    await voice.heartbeat(consumers=[consumer()])
    for topic in (retry, *others):
        rig.broker.topics.put(TopicConfig(topic_name=topic), 0)
        rig.broker.store.put_messages([make_message(topic=topic)])
        rig.broker.offsets.commit("readers", topic, 0, 1, 0)
    await voice.send()
    await voice.commit(1)
    assert [len(await rig.queue(topic)) for topic in (retry, *others)] == [1, 1, 1, 1]
    assert (await voice.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
    kept = [topic for topic in (retry, *others) if rig.broker.topics.get(topic) is not None]
    assert kept == others
    assert rig.broker.offsets.query("readers", retry, 0) is None
    assert [topic for topic in (retry, *others) if await rig.queue(topic)] == others


async def test_a_deleted_topic_may_leave_its_pop_retry_topics(
    rig: BrokerRig, voice: Voice
) -> None:  # M-16
    retry = "%RETRY%readers+orders"
    await voice.heartbeat(consumers=[consumer()])
    rig.broker.topics.put(TopicConfig(topic_name=retry), 0)
    await voice.send()
    await voice.commit(1)
    setting = b"clearRetryTopicWhenDeleteTopic=false"
    assert (await voice.ask(UpdateBrokerConfigRequestHeader(), setting)).code == 0
    assert (await voice.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
    assert rig.broker.topics.get(retry) is not None
    assert rig.broker.offsets.query("readers", "orders", 0) is None, "its offsets go all the same"


@pytest.mark.parametrize(
    "topic", ["", "TBW102", "broker-a", "DefaultCluster", "OFFSET_MOVED_EVENT"]
)
async def test_a_system_topic_stays(rig: BrokerRig, voice: Voice, topic: str) -> None:  # B-16
    assert (await voice.ask(DeleteTopicRequestHeader(topic=topic))).code == 29


async def test_topics_are_listed(rig: BrokerRig, encoding: Encoding) -> None:  # E-29
    voice = await rig.voice(encoding)
    await voice.create_topic()
    reply = await voice.ask(GetAllTopicConfigRequestHeader())
    table = decode_body(reply.body_view, TopicConfigSerializeWrapper, encoding)
    assert "orders" in table.topic_config_table
    assert table.data_version == rig.broker.topics.data_version
    reply = await voice.ask(GetSystemTopicsFromBrokerRequestHeader())
    names = decode_body(reply.body_view, TopicList, encoding).topic_list
    assert {"TBW102", "CHECKPOINT_TOPIC", "RMQ_SYS_TRACE_TOPIC"} <= set(names)
    assert "orders" not in names


async def test_groups_of_a_topic_are_those_that_subscribe_or_have_committed(  # E-29 (300)
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    await voice.heartbeat(consumers=[consumer(), consumer("past", ["others"])])
    await voice.commit(1, group="past")
    reply = await voice.ask(QueryTopicConsumeByWhoRequestHeader(topic="orders"))
    groups = decode_body(reply.body_view, GroupList, reply.encoding).group_list
    assert groups == ["past", "readers"]

"""Figures of a running broker (28, 202, 208) and its state as a process."""

from __future__ import annotations

from pocketmq.protocol.bodies.offsets import ConsumeStats, TopicStatsTable
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.body import decode_body, parse_mq_key
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.control import RoleStatusRequestHeader
from pocketmq.protocol.headers.offsets import (
    GetConsumeStatsRequestHeader,
    GetTopicStatsRequestHeader,
)
from pocketmq.protocol.headers.topics import GetBrokerRuntimeInfoRequestHeader
from support.broker_rig import START_MS, BrokerRig, Voice, consumer


async def test_a_topics_bounds_are_told_queue_by_queue(rig: BrokerRig, encoding: Encoding) -> None:
    # E-29 (202)
    voice = await rig.voice(encoding)
    assert (await voice.ask(GetTopicStatsRequestHeader(topic="orders"))).code == 17
    await voice.send(queue_id=1)
    await voice.send(queue_id=1)
    reply = await voice.ask(GetTopicStatsRequestHeader(topic="orders"))
    table = decode_body(reply.body_view, TopicStatsTable, encoding).offset_table
    bounds = {
        parse_mq_key(key).queue_id: (t.min_offset, t.max_offset, t.last_update_timestamp)
        for key, t in table.items()
    }
    assert bounds == {0: (0, 0, 0), 1: (0, 2, START_MS), 2: (0, 0, 0), 3: (0, 0, 0)}
    assert {parse_mq_key(key).broker_name for key in table} == {"broker-a"}


async def test_a_groups_progress_is_told_beside_each_queues_end(
    rig: BrokerRig, encoding: Encoding
) -> None:  # E-29 (208)
    voice = await rig.voice(encoding)
    for _ in range(3):
        await voice.send()
    await voice.heartbeat(consumers=[consumer()])
    await voice.commit(2)
    await voice.pull(offset=1)
    for header in (
        GetConsumeStatsRequestHeader(consumer_group="readers"),
        GetConsumeStatsRequestHeader(consumer_group="readers", topic="orders"),
        GetConsumeStatsRequestHeader(consumer_group="readers", topic_list="orders;nobody"),
    ):
        reply = await voice.ask(header)
        table = decode_body(reply.body_view, ConsumeStats, encoding).offset_table
        progress = {parse_mq_key(key).queue_id: value for key, value in table.items()}
        assert len(progress) == 4
        first = progress[0]
        assert (first.broker_offset, first.consumer_offset, first.pull_offset) == (3, 2, 3)
        assert first.last_timestamp == START_MS
        assert (progress[1].broker_offset, progress[1].consumer_offset) == (0, 0)


async def test_the_runtime_figures_have_rocketmqs_names(rig: BrokerRig, encoding: Encoding) -> None:
    # E-29 (28)
    voice = await rig.voice(encoding)
    await voice.send(properties={"DELAY": "3"})
    await voice.pull()
    reply = await voice.ask(GetBrokerRuntimeInfoRequestHeader())
    table = decode_body(reply.body_view, KVTable, encoding).table
    assert table["msgPutTotalTodayNow"] == "1"
    assert len(table["putTps"].split()) == 3
    assert table["scheduleMessageOffset_3"] == "0,1"
    assert table["commitLogMaxOffset"] == str(rig.broker.store.commit_log.max_offset)
    assert 0 <= float(table["commitLogDiskRatio"]) <= 1
    assert table["bootTimestamp"] == str(START_MS)


async def test_the_process_tells_its_state(rig: BrokerRig, voice: Voice) -> None:
    await voice.send()
    reply = await voice.ask(RoleStatusRequestHeader())
    table = decode_body(reply.body_view, KVTable, reply.encoding).table
    assert (table["role"], table["name"], table["putMessages"]) == ("broker", "broker-a", "1")

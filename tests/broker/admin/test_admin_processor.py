"""Figures of a running broker (28, 202, 208) and its state as a process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pocketmq.broker.admin.day_totals import DayTotals
from pocketmq.broker.admin.runtime_processor import ratio_text, readable_bytes
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.store.disk.disk import DiskUsage
from pocketmq.operation.control.requests import RoleStatusRequestHeader
from pocketmq.protocol.bodies.offsets import ConsumeStats, TopicStatsTable
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
from pocketmq.protocol.body import decode_body, parse_mq_key
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.offsets import (
    GetConsumeStatsRequestHeader,
    GetTopicStatsRequestHeader,
)
from pocketmq.protocol.headers.settings import ViewBrokerStatsDataRequestHeader
from pocketmq.protocol.headers.topics import GetBrokerRuntimeInfoRequestHeader
from support.broker_rig import START_MS, BrokerRig, Voice, consumer, running_broker
from support.pop_voice import ack, pop

DAY_MS = 86_400_000


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


async def test_a_listed_topic_is_told_even_if_nobody_subscribes(
    rig: BrokerRig, voice: Voice
) -> None:  # O-20
    async def topics(header: GetConsumeStatsRequestHeader) -> set[str]:
        reply = await voice.ask(header)
        table = decode_body(reply.body_view, ConsumeStats, reply.encoding).offset_table
        return {parse_mq_key(key).topic for key in table}

    await voice.send("orders")
    await voice.send("payments")
    await voice.commit(1, topic="payments")
    ask = GetConsumeStatsRequestHeader
    assert await topics(ask(consumer_group="readers", topic="payments")) == {"payments"}
    await voice.heartbeat(consumers=[consumer()])  # of orders alone
    assert await topics(ask(consumer_group="readers", topic="payments")) == set()
    assert await topics(ask(consumer_group="readers", topic=" ")) == set()
    listed = ask(consumer_group="readers", topic="orders", topic_list="payments;")
    assert await topics(listed) == {"payments"}
    assert await topics(ask(consumer_group="nobody")) == set()


async def test_what_was_pulled_is_never_less_than_what_was_consumed(
    rig: BrokerRig, voice: Voice
) -> None:  # O-21
    for _ in range(3):
        await voice.send()
    await voice.heartbeat(consumers=[consumer()])
    await voice.pull(offset=0, max_msg_nums=1)
    await voice.commit(3)
    reply = await voice.ask(GetConsumeStatsRequestHeader(consumer_group="readers", topic="orders"))
    table = decode_body(reply.body_view, ConsumeStats, reply.encoding).offset_table
    first = next(value for key, value in table.items() if parse_mq_key(key).queue_id == 0)
    assert (first.consumer_offset, first.pull_offset) == (3, 3)


async def test_a_groups_speed_is_that_of_the_last_minute(rig: BrokerRig, voice: Voice) -> None:
    # O-22, O-31: one sample after 10 s, with a zero before it
    for _ in range(5):
        await voice.send()
    await voice.heartbeat(consumers=[consumer()])
    await voice.pull()
    await rig.advance(10)
    reply = await voice.ask(GetConsumeStatsRequestHeader(consumer_group="readers"))
    assert decode_body(reply.body_view, ConsumeStats, reply.encoding).consume_tps == 0.0
    await voice.commit(5)
    reply = await voice.ask(GetConsumeStatsRequestHeader(consumer_group="readers"))
    assert decode_body(reply.body_view, ConsumeStats, reply.encoding).consume_tps == 0.5


async def test_a_statistic_is_told_once_something_was_counted(
    rig: BrokerRig, encoding: Encoding
) -> None:  # O-30, O-31, O-32
    voice = await rig.voice(encoding)
    put = ViewBrokerStatsDataRequestHeader(stats_name="TOPIC_PUT_NUMS", stats_key="orders")
    reply = await voice.ask(put)
    assert (reply.code, reply.remark) == (1, "The stats <TOPIC_PUT_NUMS> <orders> not exist")
    for _ in range(5):
        await voice.send()
    await voice.heartbeat(consumers=[consumer()])
    await voice.pull()
    await rig.advance(10)
    reply = await voice.ask(put)
    data = decode_body(reply.body_view, BrokerStatsData, encoding)
    assert data.stats_minute == BrokerStatsItem(sum=5, tps=0.5, avgpt=1.0)
    assert data.stats_day.sum == 5
    for name, key in (
        ("GROUP_GET_NUMS", "orders@readers"),
        ("BROKER_PUT_NUMS", "DefaultCluster"),
        ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster"),
    ):
        reply = await voice.ask(ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key))
        assert decode_body(reply.body_view, BrokerStatsData, encoding).stats_minute.sum == 5
    sizes = ViewBrokerStatsDataRequestHeader(stats_name="TOPIC_PUT_SIZE", stats_key="orders")
    data = decode_body((await voice.ask(sizes)).body_view, BrokerStatsData, encoding)
    assert data.stats_minute.sum == rig.broker.store.commit_log.max_offset
    for unknown in (("NO_SUCH", "orders"), ("BROKER_PUT_NUMS", "orders")):
        header = ViewBrokerStatsDataRequestHeader(stats_name=unknown[0], stats_key=unknown[1])
        assert (await voice.ask(header)).code == 1


EXPORTER_KEYS = """
msgPutTotalTodayNow putMessageDistributeTime putTps getMissTps getTransferredTps getTotalTps
getFoundTps commitLogDirCapacity sendThreadPoolQueueHeadWaitTimeMills
queryThreadPoolQueueHeadWaitTimeMills remainHowManyDataToFlush msgGetTotalTodayNow
queryThreadPoolQueueSize bootTimestamp msgPutTotalYesterdayMorning msgGetTotalYesterdayMorning
pullThreadPoolQueueSize commitLogMinOffset pullThreadPoolQueueHeadWaitTimeMills dispatchMaxBuffer
brokerVersion consumeQueueDiskRatio pageCacheLockTimeMills commitLogDiskRatio commitLogMaxOffset
getMessageEntireTimeMax msgPutTotalTodayMorning msgGetTotalTodayMorning putMessageTimesTotal
sendThreadPoolQueueSize startAcceptSendRequestTimeStamp putMessageEntireTimeMax
earliestMessageTimeStamp remainTransientStoreBufferNumbs queryThreadPoolQueueCapacity
sendThreadPoolQueueCapacity pullThreadPoolQueueCapacity putMessageAverageSize dispatchBehindBytes
putMessageSizeTotal brokerVersionDesc brokerActive runtime ackThreadPoolQueueSize
ackThreadPoolQueueHeadWaitTimeMills litePullThreadPoolQueueSize EndTransactionQueueSize
EndTransactionThreadPoolQueueCapacity timerReadBehind timerOffsetBehind timerCongestNum
timerEnqueueTps timerDequeueTps putLatency99 putLatency999 putMessageFailedTimes
"""
"""Without one of these RocketMQ's exporter drops the broker, or `clusterList` shows null (O-25)."""

TEXTS = {
    "brokerVersionDesc": r"V5_5_1",
    "brokerActive": r"true",
    "runtime": r"\[ 0 days, 0 hours, 0 minutes, \d seconds \]",
    "commitLogDirCapacity": r"Total : [\d.]+ [KMGTP]?i?B, Free : [\d.]+ [KMGTP]?i?B\.",
    "remainHowManyDataToFlush": r"\d+ B|[\d.]+ KiB",
    "putMessageDistributeTime": r"(\[[^]]+\]:\d+ ){13}",
}
"""Those that are no numbers; rates are three, all others one (O-24)."""


@pytest.mark.parametrize("sends", [0, 2])
async def test_every_runtime_figure_can_be_parsed(rig: BrokerRig, voice: Voice, sends: int) -> None:
    # O-24 to O-26
    for _ in range(sends):
        await voice.send()
    reply = await voice.ask(GetBrokerRuntimeInfoRequestHeader())
    table = decode_body(reply.body_view, KVTable, reply.encoding).table
    assert [key for key in EXPORTER_KEYS.split() if key not in table] == []
    for key, text in table.items():
        if key in TEXTS:
            assert re.fullmatch(TEXTS[key], text), (key, text)
        else:
            numbers = [float(part) for part in text.replace(",", " ").split(" ")]
            assert len(numbers) == (3 if key.endswith("Tps") and "timer" not in key else 1), key
    assert table["putMessageTimesTotal"] == str(max(1, sends))
    assert table["earliestMessageTimeStamp"] == str(START_MS if sends else -1)
    assert table["commitLogMaxOffset"] == table["putMessageSizeTotal"]


async def test_the_runtime_figures_have_rocketmqs_names(rig: BrokerRig, encoding: Encoding) -> None:
    # E-29, O-24 (28)
    voice = await rig.voice(encoding)
    await voice.send(properties={"DELAY": "3"})
    await voice.send()
    await voice.pull()
    reply = await voice.ask(GetBrokerRuntimeInfoRequestHeader())
    table = decode_body(reply.body_view, KVTable, encoding).table
    assert (table["putMessageTimesTotal"], table["msgPutTotalTodayNow"]) == ("2", "1")
    assert table["msgGetTotalTodayNow"] == "1"
    assert table["putTps"] == f"0.2 {2 / 60} {2 / 600}"
    assert table["scheduleMessageOffset_3"] == "0,1"
    assert table["commitLogMaxOffset"] == str(rig.broker.store.commit_log.max_offset)
    assert 0 <= float(table["commitLogDiskRatio"]) <= 1
    assert len(table["commitLogDiskRatio"]) <= len("0.43")
    assert table["bootTimestamp"] == str(START_MS)
    assert table["brokerVersion"] == "515"


async def test_what_pops_and_send_backs_count(tmp_path: Path) -> None:  # O-32
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.heartbeat(consumers=[consumer(), consumer("poppers")])
        await voice.send()
        [message] = await rig.queue("orders")
        assert (await voice.send_back(message)).code == 0
        [popped] = (await pop(voice)).messages
        await ack(voice, popped)
        await rig.advance(10)
        for name, key in (
            ("SNDBCK_PUT_NUMS", "orders@readers"), ("GROUP_CK_NUMS", "orders@poppers"),
            ("GROUP_ACK_NUMS", "orders@poppers"), ("BROKER_CK_NUMS", "DefaultCluster"),
            ("BROKER_ACK_NUMS", "DefaultCluster"),
        ):  # fmt: skip
            header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
            reply = await voice.ask(header)
            assert reply.code == 0, reply.remark
            data = decode_body(reply.body_view, BrokerStatsData, reply.encoding)
            assert data.stats_minute.sum == 1


async def test_queues_are_counted_of_delayed_messages_only(tmp_path: Path) -> None:  # O-32
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.send()
        await voice.send(properties={"DELAY": "2"})
        await rig.advance(10)  # the first sample, and the delivery
        await rig.advance(10)
        for name, key, most in (
            ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@1", 1),
            ("QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@1", 1000),
            ("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@1@SCHEDULE_CONSUMER", 1),
            ("QUEUE_GET_SIZE", "SCHEDULE_TOPIC_XXXX@1@SCHEDULE_CONSUMER", 1000),
            ("GROUP_GET_NUMS", "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER", 1),
            ("TOPIC_PUT_NUMS", "orders", 2),
        ):
            header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
            reply = await voice.ask(header)
            assert reply.code == 0, reply.remark
            data = decode_body(reply.body_view, BrokerStatsData, reply.encoding)
            if name.endswith("_SIZE"):
                assert 100 < data.stats_minute.sum < most
            else:
                assert data.stats_minute.sum == most
        header = ViewBrokerStatsDataRequestHeader(stats_name="QUEUE_PUT_NUMS", stats_key="orders@0")
        assert (await voice.ask(header)).code == 1


def test_totals_of_the_last_midnights() -> None:  # O-24
    stats = BrokerStats()
    stats.note_put("orders", 1, 100, now=0.0)
    stats.note_put("SCHEDULE_TOPIC_XXXX", 1, 100, now=0.0)
    days = DayTotals(stats, START_MS)
    days.look(START_MS + 1000)
    assert (days.put_yesterday, days.put_today) == (0, 0)
    days.look(START_MS + DAY_MS)
    assert (days.put_yesterday, days.put_today) == (0, 1)
    days.look(START_MS + 2 * DAY_MS)
    assert (days.put_yesterday, days.put_today) == (1, 1)


def test_sizes_are_written_for_people() -> None:  # O-24
    sizes = {0: "0 B", 1023: "1023 B", 12_595: "12.3 KiB", 49 << 30: "49.0 GiB"}
    assert {count: readable_bytes(count) for count in sizes} == sizes


async def test_the_process_tells_its_state(rig: BrokerRig, voice: Voice) -> None:
    await voice.send()
    reply = await voice.ask(RoleStatusRequestHeader())
    table = decode_body(reply.body_view, KVTable, reply.encoding).table
    assert (table["role"], table["name"], table["putMessages"]) == ("broker", "broker-a", "1")


@pytest.mark.parametrize(
    ("total", "used", "text"),
    [(1000, 0, "0.0"), (1000, 1, "0.01"), (1000, 430, "0.43"), (1000, 431, "0.44"),
     (3 << 40, 1 << 40, "0.34"), (1000, 1000, "1.0"), (0, 0, "-1")],
)  # fmt: skip
def test_a_ratio_of_a_disk_is_told_in_whole_percents(total: int, used: int, text: str) -> None:
    # O-24
    assert ratio_text(DiskUsage(total, used)) == text

"""Timer messages and recalls, asked of a broker (T-105 to T-136, R-30 to R-33)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pocketmq.broker.store import FlushDiskType
from pocketmq.broker.timers.layout import Checkpoint, TimerMetrics
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.headers.timers import (
    GetTimerCheckPointRequestHeader,
    GetTimerMetricsRequestHeader,
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
)
from pocketmq.protocol.messages.receipts import RecallHandle
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_4_9
from support.broker_rig import START_MS, BrokerRig, Voice, running_broker
from support.eventually import eventually
from support.hanging_disk import HangingDisk

RECALLING: dict[str, Any] = {"recall_message_enable": True}


async def sent(voice: Voice, body: bytes, **times: str) -> SendMessageResponseHeader:
    return await voice.send(body=body, properties={**times, "UNIQ_KEY": f"U-{body.decode()}"})


async def recall(voice: Voice, handle: str | None, topic: str = "orders") -> Command:
    assert handle is not None
    return await voice.ask(RecallMessageRequestHeader(topic=topic, recall_handle=handle))


async def test_each_way_to_say_a_time_delays_until_then(rig: BrokerRig, voice: Voice) -> None:
    await sent(voice, b"sec", TIMER_DELAY_SEC="10")
    await sent(voice, b"ms", TIMER_DELAY_MS="20500")
    await sent(voice, b"at", TIMER_DELIVER_MS=str(START_MS + 30_000))
    for after_s, bodies in (
        (9.9, []),
        (1.1, [b"sec"]),
        (9.4, [b"sec"]),
        (1.1, [b"sec", b"ms"]),
        (8.4, [b"sec", b"ms"]),
        (1.1, [b"sec", b"ms", b"at"]),
    ):
        await rig.advance(after_s)
        assert [m.body for m in await rig.queue("orders")] == bodies


async def test_a_time_that_has_passed_delivers_at_once(rig: BrokerRig, voice: Voice) -> None:
    # T-105, T-106
    for times in ({"TIMER_DELIVER_MS": str(START_MS - 1)}, {"TIMER_DELAY_SEC": "-5"}):
        answer = await sent(voice, b"past", **times)
        assert answer.recall_handle is None
    assert len(await rig.queue("orders")) == 2
    assert await rig.queue(TIMER_TOPIC) == []


@pytest.mark.parametrize("text", ["259200001", "x", "", "9" * 30, "1e3"])
async def test_a_time_beyond_the_limit_or_that_is_none_is_refused(voice: Voice, text: str) -> None:
    # T-105; an empty value is no property at all
    reply = await voice.try_send(properties={"TIMER_DELAY_MS": text})
    if not text:
        assert reply.code == 0
        return
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert "should not be bigger than the max delay 259200000ms" in (reply.remark or "")


async def test_of_several_times_seconds_win_and_then_milliseconds(
    rig: BrokerRig, voice: Voice
) -> None:  # T-105
    times = {"TIMER_DELIVER_MS": str(START_MS + 60_000), "TIMER_DELAY_MS": "30000"}
    await sent(voice, b"seconds", **times, TIMER_DELAY_SEC="5")
    await sent(voice, b"milliseconds", **times)
    for seconds, bodies in ((4, []), (3, [b"seconds"]), (25, [b"seconds", b"milliseconds"])):
        await rig.advance(seconds)
        assert [m.body for m in await rig.queue("orders")] == bodies


async def test_a_delay_level_beside_a_time_wins(rig: BrokerRig, voice: Voice) -> None:  # T-105
    await sent(voice, b"level", DELAY="2", TIMER_DELAY_SEC="3600")
    await rig.advance(6)
    [message] = await rig.queue("orders")
    assert "TIMER_DELAY_SEC" not in message.properties


async def test_properties_that_leave_no_room_for_the_delivery_are_refused(voice: Voice) -> None:
    reply = await voice.try_send(properties={"TIMER_DELAY_SEC": "5", "a": "x" * 32_600})
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert "properties of a timer message" in (reply.remark or "")


async def test_a_recalled_message_does_not_come(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **RECALLING) as rig:
        voice = await rig.voice()
        wanted = await sent(voice, b"a", TIMER_DELAY_SEC="60")
        unwanted = await sent(voice, b"b", TIMER_DELAY_SEC="60")
        handle = RecallHandle.decode(unwanted.recall_handle or "")
        assert (handle.topic, handle.uniq_key) == ("orders", "U-b")
        assert wanted.recall_handle != unwanted.recall_handle
        reply = await recall(voice, unwanted.recall_handle)
        assert reply.code == 0
        recalled = reply.header(RecallMessageResponseHeader)
        assert (recalled.msg_id, recalled.region) == ("U-b", "DefaultRegion")
        assert (await recall(voice, unwanted.recall_handle)).code == 0  # twice changes nothing
        await rig.advance(62)
        assert [m.body for m in await rig.queue("orders")] == [b"a"]


async def test_recalls_that_cannot_be_are_refused_with_rocketmq_s_codes(tmp_path: Path) -> None:
    #
    illegal = ResponseCode.ILLEGAL_OPERATION
    async with running_broker(tmp_path, **RECALLING) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        name = rig.broker.config.name
        for topic, handle, code, words in (
            ("nowhere", RecallHandle("nowhere", name, START_MS + 9000, "U"), 17, "not exist"),
            ("orders", "not a handle", illegal, "handle is invalid"),
            ("orders", RecallHandle("other", name, START_MS + 9000, "U"), illegal, "not match"),
            ("orders", RecallHandle("orders", "b-z", START_MS + 9000, "U"), illegal, "service not"),
            ("orders", RecallHandle("orders", name, START_MS, "U"), illegal, "timestamp invalid"),
            ("orders", RecallHandle("orders", name, START_MS + 259_200_000, "U"), illegal,
             "timestamp invalid"),
        ):  # fmt: skip
            text = handle if isinstance(handle, str) else handle.encode()
            reply = await recall(voice, text, topic)
            assert reply.fields == {"MSG_REGION": "DefaultRegion"}, "also of one that is refused"
            assert (reply.code, words in (reply.remark or "")) == (code, True), reply.remark


async def test_a_broker_recalls_only_when_it_is_told_to(rig: BrokerRig, voice: Voice) -> None:
    answer = await sent(voice, b"a", TIMER_DELAY_SEC="60")
    reply = await recall(voice, answer.recall_handle)
    assert reply.code == ResponseCode.NO_PERMISSION
    assert "recallMessageEnable=true" in (reply.remark or "")
    assert reply.fields == {"MSG_REGION": "DefaultRegion"}


async def test_waiting_messages_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock=ManualClock(START_MS)) as rig:
        await sent(await rig.voice(), b"a", TIMER_DELAY_SEC="60")
        await rig.advance(5)
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 3_600_000)) as rig:
        await rig.advance(1)
        assert [m.body for m in await rig.queue("orders")] == [b"a"]


async def test_what_a_failed_sync_delays_is_noted_later_and_not_delivered_again(
    tmp_path: Path,
) -> None:  # T-116, T-145
    disk = HangingDisk(tmp_path / "store")
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        await sent(await rig.voice(), b"once", TIMER_DELAY_SEC="5")
        await rig.advance(2)
        disk.hangs = True
        move = asyncio.create_task(rig.advance(10))
        await eventually(lambda: bool(disk.waiting), "it is delivered")
        disk.go_on(OSError(5, "Input/output error"))
        await move
        await rig.advance(30)  # what was not written is made good
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 100_000)) as rig:
        await rig.advance(10)
        assert [m.body for m in await rig.queue("orders")] == [b"once"]


async def test_tools_are_told_what_waits(rig: BrokerRig, voice: Voice) -> None:  # T-114, T-115
    await sent(voice, b"a", TIMER_DELAY_SEC="60")
    await rig.advance(3)
    reply = await voice.ask(GetTimerMetricsRequestHeader())
    metrics = msgspec.json.decode(reply.body_view, type=TimerMetrics)
    assert metrics.timing_count["orders"].count == 1
    reply = await voice.ask(GetTimerCheckPointRequestHeader())
    check = Checkpoint.decode(reply.body_view)
    assert (check.queue_offset, check.flushed_position) == (1, 52)


async def test_a_4_9_broker_knows_no_times(tmp_path: Path) -> None:
    async with running_broker(tmp_path, profile=PROFILE_4_9) as rig:
        voice = await rig.voice()
        await sent(voice, b"a", TIMER_DELAY_SEC="60")
        assert [m.body for m in await rig.queue("orders")] == [b"a"]
        assert not (rig.broker.config.data / "timerwheel").exists()

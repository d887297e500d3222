"""Delayed messages arrive when they are due, over restarts and clock jumps."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pocketmq.broker.store import PutResult, PutStatus
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.broker_rig import START_MS, BrokerRig, Voice, running_broker

DELAYS_S = [1, 5, 10, 30, *(60 * n for n in range(1, 11)), 1200, 1800, 3600, 7200]


async def test_every_level_delivers_when_it_is_due(rig: BrokerRig, voice: Voice) -> None:
    # B-90 to B-92
    for level in range(1, 19):
        await voice.send(f"level-{level}", properties={"DELAY": str(level), "TAGS": "TagA"})
    now_s = 0.0
    for level, delay_s in enumerate(DELAYS_S, start=1):
        await rig.advance(delay_s - 0.05 - now_s)
        assert await rig.queue(f"level-{level}") == []
        await rig.advance(0.1 if delay_s > 1 else 1.1)
        now_s = delay_s + (0.05 if delay_s > 1 else 1.05)
        (message,) = await rig.queue(f"level-{level}")
        late_ms = message.store_timestamp_ms - START_MS - delay_s * 1000
        assert 0 <= late_ms <= 10
        pulled = await voice.pull(f"level-{level}", subscription="TagA")
        assert pulled.bodies == [b"hello"]


async def test_a_delayed_message_wakes_a_waiting_consumer(rig: BrokerRig, voice: Voice) -> None:
    from support.broker_rig import SUBSCRIPTION, SUSPEND, pull_header, read_pull

    other = await rig.voice()
    await other.create_topic()
    header = pull_header(sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=60_000)
    future = voice.channel.request(header, timeout_s=60.0)
    await other.send(properties={"DELAY": "2"})
    await rig.advance(5.5)
    pulled = read_pull(await future)
    assert pulled.bodies == [b"hello"]
    assert pulled.messages[0].store_timestamp_ms == START_MS + 5000


async def test_messages_of_one_level_keep_their_order(rig: BrokerRig, voice: Voice) -> None:
    for n in range(100):
        await voice.send(body=b"%d" % n, properties={"DELAY": "2"})
        await rig.advance(0.01)
    await rig.advance(10)
    assert [m.body for m in await rig.queue("orders")] == [b"%d" % n for n in range(100)]


async def test_a_restart_delivers_what_is_due_and_waits_for_the_rest(tmp_path: Path) -> None:
    # B-94, B-95
    clock = ManualClock(START_MS)
    async with running_broker(tmp_path, clock=clock) as rig:
        voice = await rig.voice()
        await voice.send(body=b"soon", properties={"DELAY": "4"})
        await rig.advance(20)
        await voice.send(body=b"later", properties={"DELAY": "4"})
    later = ManualClock(START_MS + 35_000)
    async with running_broker(tmp_path, clock=later) as rig:
        await rig.advance(2)
        assert [m.body for m in await rig.queue("orders")] == [b"soon"]
        await rig.advance(12.9)
        assert [m.body for m in await rig.queue("orders")] == [b"soon"]
        await rig.advance(0.2)
        assert [m.body for m in await rig.queue("orders")] == [b"soon", b"later"]
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 90_000)) as rig:
        await rig.advance(30)
        assert len(await rig.queue("orders")) == 2


async def test_the_progress_is_on_the_disk_every_10_s(rig: BrokerRig, voice: Voice) -> None:  # B-94
    await voice.send(properties={"DELAY": "1"})
    file = rig.broker.config.data / "config" / "delayOffset.json"
    await rig.advance(9)
    assert not file.exists()
    await rig.advance(2)
    assert msgspec.json.decode(file.read_bytes())["offsetTable"]["1"] == 1


async def test_a_clock_that_jumps_ahead_delivers_once(rig: BrokerRig, voice: Voice) -> None:
    # fault 37
    await voice.send(properties={"DELAY": "18"})
    await rig.advance(3 * 3600)
    assert len(await rig.queue("orders")) == 1
    await rig.advance(60)
    assert len(await rig.queue("orders")) == 1


async def test_a_message_stored_by_a_clock_that_ran_ahead_is_not_held_for_ever(
    tmp_path: Path,
) -> None:  # B-92, fault 37
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 86_400_000)) as rig:
        await (await rig.voice()).send(properties={"DELAY": "3"})
    async with running_broker(tmp_path, clock=ManualClock(START_MS)) as rig:
        await rig.advance(2)
        assert len(await rig.queue("orders")) == 1


async def test_a_put_that_fails_is_tried_again_after_100_ms(  # B-92
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send(properties={"DELAY": "1"})
    rig.broker.store.readiness.block("the disk is full")
    await rig.advance(1.5)
    assert await rig.queue("orders") == []
    rig.broker.store.readiness.unblock("the disk is full")
    await rig.advance(0.1)
    assert len(await rig.queue("orders")) == 1


@pytest.mark.parametrize("status", [PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED])
async def test_a_message_that_can_never_be_delivered_stops_nobody_behind_it(
    rig: BrokerRig, voice: Voice, status: PutStatus
) -> None:
    for body in (b"bad", b"good"):
        await voice.send(body=body, properties={"DELAY": "1"})
    put = rig.broker.store.put_messages

    def refusing(messages):  # type: ignore[no-untyped-def]
        results = iter(put([m for m in messages if bytes(m.body) != b"bad"]))
        return [PutResult(status) if bytes(m.body) == b"bad" else next(results) for m in messages]

    rig.broker.store.put_messages = refusing  # type: ignore[method-assign]
    await rig.advance(2)
    assert [m.body for m in await rig.queue("orders")] == [b"good"]


async def test_two_hours_of_waiting_cost_no_ticks(rig: BrokerRig, voice: Voice) -> None:
    await voice.send(properties={"DELAY": "18"})
    schedule = rig.broker.subjects.delays.schedule
    runs = schedule.runs
    await rig.advance(7200)
    assert schedule.runs - runs < 800
    assert len(await rig.queue("orders")) == 1


async def test_levels_are_configurable(tmp_path: Path) -> None:  # B-90
    async with running_broker(tmp_path, message_delay_level="2s 1d") as rig:
        voice = await rig.voice()
        config = rig.broker.topics.get("SCHEDULE_TOPIC_XXXX")
        assert config is not None
        assert config.read_queue_nums == 2
        await voice.send(body=b"short", properties={"DELAY": "1"})
        await voice.send(body=b"long", properties={"DELAY": "18"})
        await rig.advance(2.1)
        assert [m.body for m in await rig.queue("orders")] == [b"short"]
        assert len(await rig.queue("SCHEDULE_TOPIC_XXXX", 1)) == 1


async def test_progress_is_not_noted_when_the_flush_of_a_delivery_failed(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:  # B-94
    await voice.send(properties={"DELAY": "1"})

    async def fails() -> PutStatus:
        return PutStatus.FLUSH_DISK_TIMEOUT

    monkeypatch.setattr(rig.broker.store, "flush", fails)
    await rig.advance(12)
    assert len(await rig.queue("orders")) == 1
    file = rig.broker.config.data / "config" / "delayOffset.json"
    noted = msgspec.json.decode(file.read_bytes())["offsetTable"] if file.exists() else {}
    assert noted.get("1", 0) == 0

"""Timer messages come when they are due, over restarts, kills and clocks that jump (T-120 on)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from broker.timers.timer_rig import START_MS, WallClock, late_ms, timers_at
from pocketmq.broker.store import FlushDiskType
from pocketmq.broker.timers.layout import LogRecord
from pocketmq.broker.timers.rules import TimerRules
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from support.eventually import eventually
from support.hanging_disk import HangingDisk


async def test_a_message_comes_once_its_slot_is_over_and_never_early(tmp_path: Path) -> None:
    # T-105, T-125
    async with timers_at(tmp_path, now_ms=START_MS + 300) as rig:
        rig.send(b"a", TIMER_DELAY_MS="3500")  # due at .800 of a second
        rig.send(b"b", TIMER_DELAY_SEC="5")
        rig.send(b"c", TIMER_DELIVER_MS=str(START_MS + 2000))  # on a slot's edge
        await rig.advance(1.6)
        assert rig.bodies() == []
        await rig.advance(0.2)
        assert rig.bodies() == [b"c"]
        await rig.advance(10)
        first, second, third = rig.queue()
        assert [m.body for m in (first, second, third)] == [b"c", b"a", b"b"]
        assert late_ms(first, START_MS + 2000) == 0
        assert 0 <= late_ms(second, START_MS + 3800) <= 1000
        assert 0 <= late_ms(third, START_MS + 5300) <= 1000


async def test_a_delivered_message_keeps_its_properties_and_says_when_it_waited(
    tmp_path: Path,
) -> None:  # T-127
    async with timers_at(tmp_path) as rig:
        out_ms = rig.send(b"a", TIMER_DELAY_SEC="2", TAGS="TagA", UNIQ_KEY="U1")
        await rig.advance(5)
        [message] = rig.queue()
        properties = dict(message.properties)
        assert int(properties.pop(names.TIMER_DEQUEUE_MS)) == message.store_timestamp_ms
        assert int(properties.pop(names.TIMER_ENQUEUE_MS)) == START_MS
        assert properties == {
            "TIMER_DELAY_SEC": "2", "TAGS": "TagA", "UNIQ_KEY": "U1", "REAL_TOPIC": "T",
            "REAL_QID": "0", "TIMER_OUT_MS": str(out_ms),
        }  # fmt: skip


async def test_messages_of_one_slot_come_in_the_order_in_which_they_were_sent(
    tmp_path: Path,
) -> None:
    async with timers_at(tmp_path) as rig:
        sent = [b"%d" % n for n in range(500)]
        for body in sent:
            rig.send(body, TIMER_DELAY_SEC="30")
        await rig.advance(29)
        assert rig.bodies() == []
        assert (rig.wheel.waiting, rig.counts.of("T")) == (500, 500)
        await rig.advance(2)
        assert rig.bodies() == sent
        assert (rig.wheel.waiting, rig.counts.of("T")) == (0, 0)


async def test_a_clock_that_jumps_ahead_by_hours_delivers_everything_once_in_order(
    tmp_path: Path,
) -> None:
    async with timers_at(tmp_path) as rig:
        for hours in (5, 1, 3, 30):
            rig.send(b"%d" % hours, TIMER_DELAY_SEC=str(hours * 3600))
        await rig.advance(6 * 3600)
        assert rig.bodies() == [b"1", b"3", b"5"]
        await rig.advance(48 * 3600)
        assert rig.bodies() == [b"1", b"3", b"5", b"30"]


async def test_a_restart_delivers_what_became_due_and_waits_for_the_rest(tmp_path: Path) -> None:
    # T-145
    async with timers_at(tmp_path) as rig:
        rig.send(b"done", TIMER_DELAY_SEC="1")
        rig.send(b"soon", TIMER_DELAY_SEC="60")
        rig.send(b"later", TIMER_DELAY_SEC="7200")
        await rig.advance(10)
    async with timers_at(tmp_path, now_ms=START_MS + 3_600_000) as rig:
        await rig.advance(1)
        assert rig.bodies() == [b"done", b"soon"]
        await rig.advance(3601)
        assert rig.bodies() == [b"done", b"soon", b"later"]
    async with timers_at(tmp_path, now_ms=START_MS + 36_000_000) as rig:
        await rig.advance(30)
        assert rig.bodies() == [b"done", b"soon", b"later"]


async def test_a_broker_that_was_away_for_a_month_still_delivers(tmp_path: Path) -> None:
    async with timers_at(tmp_path) as rig:
        rig.send(b"late", TIMER_DELAY_SEC="60")
        await rig.advance(2)
    async with timers_at(tmp_path, now_ms=START_MS + 30 * 86_400_000) as rig:
        rig.send(b"new", TIMER_DELAY_SEC="60")
        await rig.advance(62)
        assert rig.bodies() == [b"late", b"new"]


async def test_a_clock_that_is_set_back_makes_nothing_early_and_loses_nothing(
    tmp_path: Path,
) -> None:
    async with timers_at(tmp_path, now_ms=START_MS + 7_200_000) as rig:
        rig.send(b"first", TIMER_DELAY_SEC="5")
        await rig.advance(10)
        assert rig.bodies() == [b"first"]
    async with timers_at(tmp_path) as rig:  # two hours earlier
        rig.send(b"second", TIMER_DELAY_SEC="60")
        await rig.advance(30)
        assert rig.bodies() == [b"first"]
    async with timers_at(tmp_path, now_ms=START_MS + 40_000) as rig:
        await rig.advance(10)
        assert rig.bodies() == [b"first"]
        await rig.advance(20)
        assert rig.bodies() == [b"first", b"second"]


async def test_a_clock_that_is_set_back_while_a_flush_is_pending_loses_nothing(
    tmp_path: Path,
) -> None:
    disk = HangingDisk(tmp_path / "store")
    clock = WallClock(START_MS)
    root = tmp_path / "store"
    async with timers_at(root, clock=clock, disk=disk, flush=FlushDiskType.SYNC_FLUSH) as rig:
        rig.send(b"first", TIMER_DELAY_SEC="60")
        await rig.advance(30)
        disk.hangs = True
        move = asyncio.create_task(rig.advance(40))
        await eventually(lambda: bool(disk.waiting), "it is delivered")
        clock.set_back(60_000)
        rig.send(b"second", TIMER_DELAY_SEC="30")
        disk.go_on(OSError(5, "Input/output error"))  # so it is noted after a later flush
        await move
    async with timers_at(root, now_ms=clock.time_ms()) as rig:
        await rig.advance(60)
        assert rig.bodies()[:2] == [b"first", b"second"]  # the first's time comes again, too


async def test_a_message_further_ahead_than_the_window_rolls_and_comes_in_time(
    tmp_path: Path,
) -> None:  # T-122
    rules = TimerRules(roll_window_slots=60, max_delay=lambda: 3_600_000)
    async with timers_at(tmp_path, rules=rules) as rig:
        rig.send(b"far", TIMER_DELAY_SEC="300")
        rig.send(b"near", TIMER_DELAY_SEC="61")
        await rig.advance(299)
        assert rig.bodies() == [b"near"]
        await rig.advance(2)
        near, far = rig.queue()
        assert int(far.properties[names.TIMER_ROLL_TIMES]) >= 4
        assert int(near.properties[names.TIMER_ROLL_TIMES]) == 1
        assert 0 <= late_ms(far, START_MS + 300_000) <= 1000


@pytest.mark.parametrize("key", ["T+U1", "U1"])  # of 5.3, of 5.4
async def test_a_cancelled_message_is_not_delivered(tmp_path: Path, key: str) -> None:
    # T-135, T-136
    async with timers_at(tmp_path) as rig:
        rig.send(b"a", TIMER_DELAY_MS="3500", UNIQ_KEY="U1")
        rig.send(b"b", TIMER_DELAY_MS="3500", UNIQ_KEY="U2")
        rig.send(b"0", TIMER_DELIVER_MS=str(START_MS + 3500), TIMER_DEL_UNIQKEY=key)
        await rig.advance(10)
        assert rig.bodies() == [b"b"]


async def test_cancelling_twice_or_what_is_not_there_changes_nothing_else(tmp_path: Path) -> None:
    async with timers_at(tmp_path) as rig:
        rig.send(b"a", TIMER_DELAY_MS="3500", UNIQ_KEY="U1")
        rig.send(b"b", TIMER_DELAY_MS="3500", UNIQ_KEY="U2")
        for key in ("T+U1", "T+U1", "T+U9"):
            rig.send(b"0", TIMER_DELIVER_MS=str(START_MS + 3500), TIMER_DEL_UNIQKEY=key)
        await rig.advance(10)
        assert rig.bodies() == [b"b"]


async def test_a_record_that_is_no_timer_message_holds_nothing_up(tmp_path: Path) -> None:
    # T-101: RocketMQ stands still behind it
    async with timers_at(tmp_path) as rig:
        rig.send(b"stray", topic=TIMER_TOPIC)
        rig.send(b"a", TIMER_DELAY_SEC="1")
        await rig.advance(3)
        assert rig.bodies() == [b"a"]


async def test_old_files_of_the_log_go_with_the_messages_they_lead_to(tmp_path: Path) -> None:
    # T-148
    async with timers_at(tmp_path, log_file=52 * 10 + 16) as rig:
        for n in range(100):
            rig.send(b"%d" % n, TIMER_DELAY_SEC="1")
        await rig.advance(3)
        assert len(list((tmp_path / "timerlog").iterdir())) == 10
        assert rig.log.clean(rig.store.commit_log.max_offset) == 9
        rig.send(b"x", TIMER_DELAY_SEC="1")
        await rig.advance(3)
        assert rig.bodies()[-1] == b"x"


async def test_a_killed_broker_loses_nothing_and_repeats_at_most_the_last_second(
    tmp_path: Path,
) -> None:
    # What lies in the page cache survives a kill: a copy of the files is what a killed one leaves.
    sent = {b"%d" % n for n in range(200)}
    async with timers_at(tmp_path / "running") as rig:
        for body in sorted(sent):
            rig.send(body, TIMER_DELAY_SEC=str(int(body) % 20 + 1))
        for step in range(5):
            await rig.advance(4.3)
            before = rig.bodies()
            left = tmp_path / f"killed-{step}"
            shutil.copytree(tmp_path / "running", left)
            (left / "lock").unlink()
            now_ms = rig.clock.time_ms() + 60_000
            async with timers_at(left, now_ms=now_ms) as again:
                await again.advance(1)
                assert set(again.bodies()) == sent
                assert len(again.bodies()) - len(sent) <= 10
                assert again.bodies()[: len(before)] == before
            shutil.rmtree(left)


async def test_a_damaged_record_that_leads_to_newer_ones_holds_nothing_up(tmp_path: Path) -> None:
    async with timers_at(tmp_path) as rig:
        for body in (b"0", b"1", b"2"):
            rig.send(body, TIMER_DELAY_SEC="30")
        await rig.advance(5)
    [path] = (tmp_path / "timerlog").iterdir()
    content = bytearray(path.read_bytes())
    known = LogRecord.decode(content, 52)
    assert known is not None
    content[52:104] = known._replace(previous=104).encode()
    path.write_bytes(content)
    async with timers_at(tmp_path, now_ms=START_MS + 10_000) as rig:
        rig.send(b"later", TIMER_DELAY_SEC="30")
        await rig.advance(40)
        assert rig.bodies() == [b"1", b"2", b"later"]


async def test_what_is_taken_in_together_is_logged_as_what_comes_one_by_one(tmp_path: Path) -> None:
    delays = ["3", "5", "3", "9", "5", "3", "3", "7", "9", "3", "5", "9"]
    found = []
    for together in (True, False):
        root = tmp_path / str(together)
        # Of the two halves the first fits into the file behind the first record, which reserves
        # blocks; the second goes on in the next file.
        async with timers_at(root, log_file=52 * 9 + 20) as rig:
            rig.send(b"first", TIMER_DELAY_SEC="3")
            await rig.advance(0)
            for count, delay in enumerate(delays, start=1):
                rig.send(delay.encode(), TIMER_DELAY_SEC=delay)
                if count == len(delays) // 2 and together:
                    assert rig.log.place_of(count) == 52
                if count % (len(delays) // 2) == 0 or not together:
                    await rig.advance(0)
            slots = [rig.wheel.get(START_MS + 1000 * second) for second in range(12)]
            logs = [path.read_bytes() for path in sorted((root / "timerlog").iterdir())]
            found.append((slots, logs, rig.counts.table()))
            await rig.advance(12)
            assert sorted(rig.bodies()) == sorted([b"first", *(d.encode() for d in delays)])
    assert found[0] == found[1]
    assert len(found[0][1]) == 2

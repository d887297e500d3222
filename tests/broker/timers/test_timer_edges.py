"""What timers do around a failure, a restart or a clock that is set back, step by step."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.timers.timer_rig import START_MS, WallClock, timers_at
from pocketmq.broker.store import PutStatus
from pocketmq.broker.timers.layout import LogRecord, TimerMetrics
from pocketmq.runtime.errors import DiskFullError

Told = Callable[[PutStatus], None]


async def test_a_disk_that_is_full_within_a_batch_takes_each_message_in_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # T-120
    async with timers_at(tmp_path) as rig:
        append = rig.log.append
        counted: list[int] = []
        """At each record."""

        def fail_once(record: LogRecord) -> int:
            counted.append(rig.counts.of("T"))
            if len(counted) == 2:
                raise DiskFullError("timerlog", "No space left on device")
            return append(record)

        monkeypatch.setattr(rig.log, "place_of", lambda _count: None)
        monkeypatch.setattr(rig.log, "append", fail_once)
        for body in (b"a", b"b", b"c"):
            rig.send(body, TIMER_DELAY_SEC="30")
        await rig.advance(3)
        assert counted == [0, 0, 1, 1]
        assert rig.counts.of("T") == 3
        await rig.advance(30)
        assert rig.bodies() == [b"a", b"b", b"c"]
        assert rig.counts.of("T") == 0


async def test_a_count_that_changes_while_counts_are_saved_is_saved_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # T-115
    async with timers_at(tmp_path) as rig:
        save = rig.files._metrics.save
        saved: list[int] = []

        async def save_slowly(counts: TimerMetrics) -> None:
            saved.append(counts.timing_count["T"].count)
            if len(saved) == 1:
                rig.counts.change("T", 1, START_MS)
            await save(counts)

        monkeypatch.setattr(rig.files._metrics, "save", save_slowly)
        rig.send(b"waits", TIMER_DELAY_SEC="300")
        await rig.advance(5)
        assert saved == [1, 2]


async def test_a_late_message_ends_the_rest_of_the_flush_that_it_needs(tmp_path: Path) -> None:
    told: list[Told] = []
    clock = WallClock(START_MS)
    async with timers_at(
        tmp_path, clock=clock, when_kept=lambda _end, tell: told.append(tell)
    ) as rig:
        await rig.advance(5)  # the flush rests by now
        rig.send(b"over", TIMER_DELAY_SEC="1")
        clock.set_back(-10_000)  # its time has passed before it is taken in
        await rig.advance(0)
        assert rig.bodies() == [b"over"]
        told.pop()(PutStatus.FLUSH_DISK_TIMEOUT)
        await rig.advance(3)
        assert told, "a flush is asked for again"
        told.pop()(PutStatus.PUT_OK)
        await rig.advance(1)
        assert rig.files.checkpoint.queue_offset == 1


async def test_what_is_not_in_its_queue_yet_is_not_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with timers_at(tmp_path) as rig:
        rig.send(b"x", TIMER_DELAY_SEC="5")
        await rig.advance(10)
        assert rig.timers.is_caught_up
        monkeypatch.setattr(rig.store, "queue_dispatcher", SimpleNamespace(offset=0))
        assert not rig.timers.is_caught_up
        monkeypatch.undo()


async def test_slots_whose_time_comes_again_do_not_deliver_what_they_held(tmp_path: Path) -> None:
    running, left = tmp_path / "running", tmp_path / "left"
    clock = WallClock(START_MS)
    two_records = 2 * 52 + 16
    async with timers_at(running, clock=clock, log_file=two_records) as rig:
        rig.send(b"first", TIMER_DELAY_SEC="30")
        rig.send(b"waits", TIMER_DELAY_SEC="300")
        await rig.advance(40)
        clock.set_back(40_000)
        rig.send(b"earlier", TIMER_DELAY_SEC="20")
        await rig.advance(5)
        shutil.copytree(running, left)  # killed
        now_ms = clock.time_ms()
    (left / "lock").unlink()
    async with timers_at(left, now_ms=now_ms, log_file=two_records) as again:
        await again.advance(60)
        assert again.bodies() == [b"first", b"earlier"]
        await again.advance(300)
        assert again.bodies() == [b"first", b"earlier", b"waits"]


async def test_without_its_log_a_broker_takes_in_what_waits_and_delivers_nothing_again(
    tmp_path: Path,
) -> None:  # T-145
    async with timers_at(tmp_path) as rig:
        rig.send(b"done", TIMER_DELAY_SEC="5")
        rig.send(b"waits", TIMER_DELAY_SEC="300")
        await rig.advance(10)
    shutil.rmtree(tmp_path / "timerlog")
    async with timers_at(tmp_path, now_ms=START_MS + 20_000) as rig:
        await rig.advance(5)
        assert (rig.bodies(), rig.wheel.waiting) == ([b"done"], 1)
        await rig.advance(300)
        assert rig.bodies() == [b"done", b"waits"]


async def test_who_leads_again_knows_nothing_of_slots_that_it_delivered_in_part(
    tmp_path: Path,
) -> None:
    async with timers_at(tmp_path) as rig:
        rig.send(b"x", TIMER_DELAY_SEC="30")
        await rig.advance(5)
        await rig.timers.stop()
        slot_ms = rig.wheel.next_ms()
        assert slot_ms is not None
        # As if more had come for this slot after a part of it was delivered, at its present place.
        delivering = rig.timers._delivering
        work = delivering._came_on[slot_ms] = SimpleNamespace(deleted=set(), newest=0)  # type: ignore[assignment]
        assert work.newest == rig.wheel.get(slot_ms).last
        rig.timers.recovered()
        await rig.timers.start()
        await rig.advance(30)
        assert rig.bodies() == [b"x"]

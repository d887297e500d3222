"""Thousands of messages that wait for the same second."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.timers.timer_rig import START_MS, TimerRig, WallClock, timers_at
from pocketmq.broker.store import OsDisk
from pocketmq.broker.timers.delivering import DELIVERY_BATCH, READ_AT_ONCE
from pocketmq.broker.timers.layout import LogRecord
from pocketmq.broker.timers.log import TimerLog

COUNT = 2 * READ_AT_ONCE + 1_000
DELAY_S = 30


class Turns:
    """Calls back in every turn of the loop, and counts what was read of the timer log in it."""

    def __init__(self, rig: TimerRig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = [0]
        self.each: Callable[[], None] | None = None
        read = rig.log.read

        def counted(position: int) -> LogRecord | None:
            self.reads[-1] += 1
            return read(position)

        monkeypatch.setattr(rig.log, "read", counted)
        self._turn()

    def _turn(self) -> None:
        if self.each is not None:
            self.each()
        self.reads.append(0)
        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        self._handle.cancel()


def fill(rig: TimerRig, count: int = COUNT) -> list[bytes]:
    bodies = [b"%d" % n for n in range(count)]
    for body in bodies:
        rig.send(body, TIMER_DELAY_SEC=str(DELAY_S))
    return bodies


async def test_other_work_goes_on_while_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_ms = START_MS + DELAY_S * 1000
    async with timers_at(tmp_path) as rig:
        rig.send(b"unwanted", TIMER_DELAY_SEC=str(DELAY_S), UNIQ_KEY="U1")
        sent = fill(rig)
        for _ in range(READ_AT_ONCE):
            rig.send(b"0", TIMER_DELIVER_MS=str(due_ms), TIMER_DEL_UNIQKEY="T+U1")
        await rig.advance(DELAY_S - 5)
        turns = Turns(rig, monkeypatch)
        await rig.advance(7)
        turns.stop()
        assert rig.bodies() == sent
        assert sum(turns.reads) > COUNT + READ_AT_ONCE
        assert max(turns.reads) <= READ_AT_ONCE + DELIVERY_BATCH
        cancels_are_read = turns.reads[: turns.reads.index(max(turns.reads))]
        assert max(cancels_are_read) < READ_AT_ONCE / 4, "their messages are read, too"


async def test_a_broker_killed_while_it_looks_for_them_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, left = tmp_path / "running", tmp_path / "left"
    async with timers_at(running) as rig:
        sent = fill(rig)
        await rig.advance(DELAY_S - 5)
        turns = Turns(rig, monkeypatch)

        def kill() -> None:
            if sum(turns.reads) >= READ_AT_ONCE and not left.exists():
                assert rig.store.reads.max_offset("T", 0) == 0
                shutil.copytree(running, left)

        turns.each = kill
        await rig.advance(7)
        turns.stop()
    (left / "lock").unlink()
    async with timers_at(left, now_ms=START_MS + (DELAY_S + 60) * 1000) as again:
        for _ in range(60):  # a busy machine takes more rounds to look at all
            await again.advance(1)
            if len(again.bodies()) >= len(sent):
                break
        assert again.bodies() == sent


async def test_a_clock_that_is_set_back_while_they_are_delivered_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = WallClock(START_MS)
    running, left = tmp_path / "running", tmp_path / "left"
    async with timers_at(running, clock=clock) as rig:
        sent = fill(rig)
        await rig.advance(DELAY_S - 5)
        turns = Turns(rig, monkeypatch)

        def set_back() -> None:
            if rig.store.reads.max_offset("T", 0):
                turns.each = None
                clock.set_back(20_000)
                rig.send(b"for the same second", TIMER_DELIVER_MS=str(START_MS + DELAY_S * 1000))
                rig.send(b"for an earlier one", TIMER_DELIVER_MS=str(START_MS + 25_000))

        turns.each = set_back
        await rig.advance(7)
        turns.stop()
        assert rig.bodies() == sent, "nothing comes early"
        await rig.advance(2)
        shutil.copytree(running, left)
        now_ms = clock.time_ms()
        await rig.advance(30)
        late = [b"for an earlier one", b"for the same second"]
        assert rig.bodies() == sent + late, "each once"
        assert rig.counts.of("T") == 0
        assert rig.wheel.waiting == 0
    (left / "lock").unlink()
    async with timers_at(left, now_ms=now_ms) as again:
        await again.advance(30)
        repeated = [*sent, b"for the same second"]  # not noted before the kill
        assert again.bodies() == [*sent, b"for an earlier one", *repeated]


def test_an_old_file_of_the_log_is_looked_at_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = 1_000
    log = TimerLog(OsDisk(), str(tmp_path), 52 * records + 16)
    log.load()
    for n in range(records + 1):
        log.append(LogRecord(-1, 1, START_MS, 1000, n, 100, 0))
    decoded: list[int] = []
    decode = LogRecord.decode

    def counted(data: bytes | memoryview, at: int = 0) -> LogRecord | None:
        decoded.append(at)
        return decode(data, at)

    monkeypatch.setattr(LogRecord, "decode", counted)
    assert log.clean(records - 1) == 0, "its last message is there"
    assert log.clean(records) == 1
    newest = log.last_record()
    assert newest is not None
    assert newest.physical_offset == records
    assert len(decoded) < 10

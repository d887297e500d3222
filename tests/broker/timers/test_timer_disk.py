"""Timers on a disk whose syncs fail, and which loses what was not synced in a power cut (T-116)."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.timers.timer_rig import START_MS, TimerRig, timers_at
from pocketmq.broker.store import FlushDiskType
from pocketmq.broker.store.disk.disk_worker import DiskWorker, Done, InlineWorker, Job
from pocketmq.runtime.errors import DiskError
from pocketmq.simulation.disk import MemoryDisk

SYNC = FlushDiskType.SYNC_FLUSH
ROOT = Path("/store")
WHEEL, LOG = str(ROOT / "timerwheel"), str(ROOT / "timerlog")
CHECKPOINT = str(ROOT / "config" / "timercheck")


class NothingUnsynced(random.Random):
    """A power cut that leaves nothing but what was synced."""

    def choice(self, seq: object) -> float:  # type: ignore[override]
        return 0.0


class FailingDisk(MemoryDisk):
    """A disk in memory; syncs of paths that begin with `failing` fail."""

    def __init__(self) -> None:
        super().__init__(lambda: START_MS, power_cuts=True)
        self.failing = "nothing"
        self.failures = 0

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()

    def sync_now(self, path: str) -> None:
        if path.startswith(self.failing):
            self.failures += 1
            file = self._files[path]
            file.could_not_be_written(file.image())
            raise DiskError(path, "a sync has failed")
        super().sync_now(path)

    def sync_directory(self, path: str) -> None:
        if path == self.failing:
            self.failures += 1
            raise DiskError(path, "a sync has failed")
        super().sync_directory(path)

    def killed(self) -> FailingDisk:
        """The files as the next process finds them after a SIGKILL."""
        left = copy.deepcopy(self)
        left.release_locks()
        left.failing = "nothing"
        return left

    def without_power(self) -> FailingDisk:
        """The files as the next boot finds them after a power cut."""
        left = self.killed()
        left.cut_power(NothingUnsynced())
        return left


class WatchedDisk(FailingDisk):
    """Tells of each sync, and lets the loop turn a few times before it is said to be done."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: Callable[[str], object] = lambda path: None

    def start_worker(self, name: str) -> DiskWorker:
        return SlowWorker()

    def sync_now(self, path: str) -> None:
        super().sync_now(path)
        self.synced(path)


class SlowWorker(InlineWorker):
    """Its jobs are done some turns of the loop after they were."""

    def submit(self, job: Job, done: Done) -> None:
        super().submit(job, lambda failure: self._later(8, lambda: done(failure)))

    def _later(self, turns: int, call: Callable[[], None]) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._later, turns - 1, call)
        else:
            call()


async def with_three_timers(
    disk: FailingDisk, then: Callable[[TimerRig], Awaitable[FailingDisk]]
) -> FailingDisk:
    async with timers_at(ROOT, disk=disk, flush=SYNC) as rig:
        for body, delay_s in ((b"a", "60"), (b"b", "70"), (b"c", "80")):
            rig.send(body, TIMER_DELAY_SEC=delay_s)
        left = await then(rig)
        disk.failing = "nothing"
    return left


async def until_flushed(rig: TimerRig, waiting: int) -> None:
    """That many wait, and the files have them."""
    for _ in range(20):
        await rig.advance(1)
        flushed = rig.files.checkpoint.flushed_position
        if rig.wheel.waiting == waiting and flushed == rig.log.end:
            return
    raise AssertionError("the timers were not flushed within 20 s")


async def delivered(disk: FailingDisk, log_file: int = 52 * 100) -> list[bytes]:
    """What is delivered once everything is due."""
    async with timers_at(ROOT, disk=disk, now_ms=START_MS + 100_000, log_file=log_file) as rig:
        await rig.advance(5)
        return rig.bodies()


@pytest.mark.parametrize("failing", [WHEEL, LOG])
async def test_what_a_sync_could_not_write_is_written_before_the_checkpoint_promises_it(
    failing: str,
) -> None:
    async def fail_then_succeed(rig: TimerRig) -> FailingDisk:
        disk.failing = failing
        await rig.advance(3)
        assert disk.failures
        disk.failing = "nothing"
        await rig.advance(5)
        assert rig.files.checkpoint.flushed_position == rig.log.end
        return disk.without_power()

    disk = FailingDisk()
    assert await delivered(await with_three_timers(disk, fail_then_succeed)) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("failing", [WHEEL, LOG])
async def test_what_a_killed_process_did_not_sync_is_synced_by_the_next(failing: str) -> None:
    async def never_sync(rig: TimerRig) -> FailingDisk:
        disk.failing = failing
        await rig.advance(3)
        assert disk.failures
        return disk.killed()

    disk = FailingDisk()
    after = await with_three_timers(disk, never_sync)
    async with timers_at(ROOT, disk=after, now_ms=START_MS + 5000, flush=SYNC) as rig:
        await rig.advance(3)
        assert rig.files.checkpoint.flushed_position == rig.log.end
        left = after.without_power()
    assert await delivered(left) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("failing", ["nothing", str(ROOT), LOG, str(ROOT / "config")])
async def test_names_of_the_files_survive_a_power_cut(failing: str) -> None:
    async def look(rig: TimerRig) -> FailingDisk:
        disk.failing = failing
        await rig.advance(3)
        assert bool(disk.failures) == (failing != "nothing")
        disk.failing = "nothing"
        await rig.advance(3)
        return disk.without_power()

    disk = FailingDisk()
    left = await with_three_timers(disk, look)
    names = left.surviving()
    assert {WHEEL, str(ROOT / "config" / "timercheck")} <= set(names)
    assert any(name.startswith(LOG + "/") for name in names)
    assert await delivered(left) == [b"a", b"b", b"c"]


async def test_a_wheel_without_content_is_made_anew() -> None:
    async def nothing_synced(rig: TimerRig) -> FailingDisk:
        disk.failing = WHEEL
        await rig.advance(3)
        left = disk.killed()
        left.remove_file(WHEEL)
        left.write_file(WHEEL, b"")  # a power cut kept its name, and not its length
        return left

    disk = FailingDisk()
    assert await delivered(await with_three_timers(disk, nothing_synced)) == [b"a", b"b", b"c"]


async def test_the_wheel_never_leads_to_a_record_that_a_power_cut_takes() -> None:
    disk, lefts, due_ms = WatchedDisk(), list[FailingDisk](), START_MS + 60_000

    def came_during_the_sync(path: str) -> None:
        if path.startswith(LOG):
            disk.synced = cut_the_power
            rig.send(b"during the sync", TIMER_DELIVER_MS=str(due_ms))

    def cut_the_power(path: str) -> None:
        if path == CHECKPOINT:
            disk.synced = lambda path: None
            lefts.append(disk.without_power())

    async with timers_at(ROOT, disk=disk, flush=SYNC, log_file=52 * 4) as rig:
        rig.send(b"first", TIMER_DELIVER_MS=str(due_ms))
        for _ in range(4):  # the first one's file of the log is full, and no restart reads it again
            rig.send(b"other", TIMER_DELAY_SEC="70")
        await until_flushed(rig, 5)
        assert rig.log.end > 52 * 4
        rig.send(b"other", TIMER_DELAY_SEC="70")
        disk.synced = came_during_the_sync
        await until_flushed(rig, 7)
    [left] = lefts
    found = await delivered(left, 52 * 4)
    assert sorted(found) == [b"during the sync", b"first", *[b"other"] * 5]


async def test_a_power_cut_behind_the_sync_of_the_wheel_costs_no_timer() -> None:
    # What a slot leads to is on the disk before the slot: a slot that leads nowhere is dropped with
    # all that it holds, also what was safe long ago.
    disk, lefts, due_ms = WatchedDisk(), list[FailingDisk](), START_MS + 60_000

    def cut_the_power(path: str) -> None:
        if path == WHEEL:
            disk.synced = lambda path: None
            lefts.append(disk.without_power())

    async with timers_at(ROOT, disk=disk, flush=SYNC, log_file=52 * 4) as rig:
        rig.send(b"first", TIMER_DELIVER_MS=str(due_ms))
        for _ in range(4):  # the first one's file of the log is full, and no restart reads it again
            rig.send(b"other", TIMER_DELAY_SEC="70")
        await until_flushed(rig, 5)
        disk.synced = cut_the_power
        rig.send(b"second", TIMER_DELIVER_MS=str(due_ms))
        await until_flushed(rig, 6)
    [left] = lefts
    found = await delivered(left, 52 * 4)
    assert sorted(found) == [b"first", *[b"other"] * 4, b"second"]

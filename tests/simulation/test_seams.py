"""The simulation's own seams: power cuts, timers in order, killed processes, lost send-backs."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from pocketmq.protocol.command import Command
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.simulation.disk import PAGE, MemoryDisk
from pocketmq.simulation.disk_files import SPARSE
from pocketmq.simulation.disk_work import DiskTrouble
from pocketmq.simulation.loop import SimProcess, SimulationStuckError, VirtualLoop
from pocketmq.simulation.send_backs import SendBackWatch

LOG = "/a/commitlog/0"
SIZES = pytest.mark.parametrize("size", [2 * PAGE, SPARSE], ids=["small", "large"])


class Chance(random.Random):
    """Decides every time alike."""

    def __init__(self, survives: float) -> None:
        super().__init__(1)
        self.survives = survives

    def choice(self, seq: object) -> float:  # type: ignore[override]
        return self.survives


def after_cut(survives: float, size: int = 2 * PAGE) -> MemoryDisk:
    """A log with a synced first page, and a second page and a file that were not synced."""
    disk = MemoryDisk(lambda: 0, power_cuts=True)
    disk.create_file(LOG, size)
    view = disk.map_file(LOG, size)
    disk.open_file(LOG).reserve(0, 2 * PAGE)
    view[0] = 1
    disk.open_file(LOG).sync()
    disk.sync_directory("/a/commitlog")
    view[PAGE] = 2
    disk.create_file("/a/commitlog/1", PAGE)
    disk.cut_power(Chance(survives))
    return disk


@SIZES
def test_a_power_cut_takes_pages_and_names_that_were_not_synced(size: int) -> None:
    disk = after_cut(0.0, size)
    view = disk.map_file(LOG, 2 * PAGE)
    assert (view[0], view[PAGE]) == (1, 0)
    assert disk.list_directory("/a/commitlog") == ["0"]


@SIZES
def test_they_may_survive_as_well(size: int) -> None:
    disk = after_cut(1.0, size)
    view = disk.map_file(LOG, 2 * PAGE)
    assert (view[0], view[PAGE]) == (1, 2)
    assert disk.list_directory("/a/commitlog") == ["0", "1"]


def test_a_large_file_has_data_where_pages_were_reserved() -> None:
    disk = after_cut(1.0, SPARSE)
    assert disk.next_data(LOG, 0) == 0
    assert disk.next_data(LOG, PAGE + 1) == PAGE + 1
    assert disk.next_data(LOG, 2 * PAGE) is None
    disk.map_file(LOG, SPARSE)[5 * PAGE] = 1
    disk.open_file(LOG).reserve(5 * PAGE, 1)
    disk.open_file(LOG).sync()
    disk.cut_power(Chance(0.0))
    assert disk.next_data(LOG, 2 * PAGE) == 5 * PAGE
    assert disk.map_file(LOG, SPARSE)[5 * PAGE] == 1
    with pytest.raises(NotImplementedError):
        disk.resize_file(LOG, 2 * SPARSE)


def test_a_removed_file_may_come_back_until_its_directory_is_synced() -> None:
    for synced, left in ((False, ["0"]), (True, [])):
        disk = MemoryDisk(lambda: 0, power_cuts=True)
        disk.create_file(LOG, PAGE)
        disk.sync_directory("/a/commitlog")
        disk.remove_file(LOG)
        if synced:
            disk.sync_directory("/a/commitlog")
        disk.cut_power(Chance(0.0))
        assert disk.list_directory("/a/commitlog") == left


def test_a_cut_is_another_boot_of_the_machine() -> None:
    disk = MemoryDisk(lambda: 0, power_cuts=True)
    before = disk.boot_id()
    disk.cut_power(Chance(0.0))
    assert disk.boot_id() != before
    assert len(before) == len(disk.boot_id()) == 16


# -- disks that take their time -------------------------------------------------------------------


class Machine:
    """A disk with trouble, and a job that syncs its log."""

    def __init__(self, loop: VirtualLoop, size: int = 2 * PAGE) -> None:
        self.loop = loop
        self.trouble = DiskTrouble(loop, random.Random(1))
        self.disk = MemoryDisk(lambda: 0, power_cuts=True, trouble=self.trouble)
        self.disk.create_file(LOG, size)
        self.disk.open_file(LOG).reserve(0, 2 * PAGE)
        self.disk.sync_directory("/a/commitlog")
        self.view = self.disk.map_file(LOG, size)
        self.worker = self.disk.start_worker("log-flush")
        self.ended: list[tuple[float, Exception | None]] = []

    def submit(self, *, rewrite: bool = False) -> None:
        def job() -> None:
            self.disk.open_file(LOG).sync()
            if rewrite:
                self.disk.open_file(LOG).verify(0, self.view[: 2 * PAGE])

        self.worker.submit(job, lambda failure: self.ended.append((self.loop.time(), failure)))

    def durable(self) -> bytes:
        return bytes(self.disk.medium(LOG) or b"").ljust(2 * PAGE, b"\0")

    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))  # noqa: TID251 - virtual


@SIZES
def test_a_sync_takes_what_was_there_when_it_began_and_is_done_when_it_ends(
    loop: VirtualLoop, size: int
) -> None:
    machine = Machine(loop, size)
    machine.trouble.slow_s = 2.0
    machine.view[0] = 1
    machine.submit()
    machine.view[1] = 2
    assert machine.durable()[:2] == b"\0\0"
    machine.pass_time(2.0)
    assert machine.durable()[:2] == b"\1\0"
    [(ended_at, failure)] = machine.ended
    assert 0.5 <= ended_at <= 2.0
    assert failure is None
    loop.finish()


@pytest.mark.parametrize("log_only", [False, True])
def test_a_hung_disk_ends_nothing_and_then_everything_in_order(
    loop: VirtualLoop, log_only: bool
) -> None:
    machine = Machine(loop)
    machine.trouble.hung_until, machine.trouble.log_only = 30.0, log_only
    machine.submit()
    machine.submit()
    saved = loop.create_task(machine.disk.write_text("/a/config/topics.json", "{}"))
    machine.pass_time(29.0)
    assert machine.ended == []
    assert saved.done() is log_only
    machine.pass_time(2.0)
    assert len(machine.ended) == 2
    assert saved.done()
    loop.finish()


@SIZES
def test_after_a_failed_sync_pages_count_as_clean_until_they_are_written_anew(
    loop: VirtualLoop, size: int
) -> None:
    machine = Machine(loop, size)
    machine.trouble.failing_share = 1.0
    machine.view[0] = machine.view[PAGE] = 1
    machine.submit()
    machine.pass_time(1.0)
    machine.trouble.clear()
    machine.view[PAGE + 1] = 2
    machine.submit()
    machine.pass_time(1.0)
    [(_, failed), (_, second)] = machine.ended
    assert failed is not None
    assert second is None, "it reports success"
    assert machine.durable()[0] == 0, "and has passed the page over"
    assert machine.durable()[PAGE] == 1, "but not one that was written since"
    machine.submit(rewrite=True)
    machine.pass_time(1.0)
    assert machine.durable()[0] == 1
    loop.finish()


def test_a_closed_worker_has_ended_all_its_jobs(loop: VirtualLoop) -> None:
    machine = Machine(loop)
    machine.trouble.hung_until = 30.0
    machine.view[0] = 1
    machine.submit()
    machine.submit()
    machine.worker.close()
    assert machine.durable()[0] == 1
    machine.pass_time(0.1)
    assert len(machine.ended) == 2
    loop.finish()


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()


def test_timers_of_one_moment_fire_in_the_order_of_their_setting(loop: VirtualLoop) -> None:
    fired: list[int] = []

    async def main() -> None:
        for number in range(5):
            loop.call_at(10.0, fired.append, number)
        loop.call_at(5.0, fired.append, -1)
        await asyncio.wait_for(asyncio.Event().wait(), 11.0)

    with contextlib.suppress(TimeoutError):
        loop.run_until_complete(main())
    assert fired == [-1, 0, 1, 2, 3, 4]
    assert loop.time() == 11.0
    loop.finish()


def test_a_killed_process_runs_no_more_not_even_its_finally(loop: VirtualLoop) -> None:
    process = SimProcess(loop, "p")
    ran: list[str] = []

    async def work() -> None:
        try:
            await process.clock.sleep(5.0)
            ran.append("slept")
        finally:
            ran.append("finally")

    async def main() -> None:
        process.start(work(), "work")
        await process.clock.sleep(1.0)
        process.kill()
        await process.clock.sleep(10.0)
        assert ran == []

    loop.run_until_complete(main())
    loop.finish()


def test_a_run_in_which_everybody_waits_ends(loop: VirtualLoop) -> None:
    with pytest.raises(SimulationStuckError):
        loop.run_until_complete(asyncio.Event().wait())
    loop.finish()


def send_back(opaque: int) -> Command:
    header = ConsumerSendMsgBackRequestHeader(
        offset=1, group="G", delay_level=0, origin_msg_id="id", origin_topic="T"
    )
    return Command(header.CODE, header, opaque=opaque)


@pytest.mark.parametrize(("answered_at", "lost"), [(1.0, 0), (3.5, 1), (None, 1)])
def test_a_send_back_is_lost_unless_it_is_answered_in_time(
    answered_at: float | None, lost: int
) -> None:
    watch = SendBackWatch()
    request = send_back(7)
    watch.sent("link", b"".join(encode_frame(request)), 0.0)
    if answered_at is not None:
        watch.answered("link", b"".join(encode_frame(request.reply())), answered_at)
    assert (watch.asked, watch.lost) == (1, lost)

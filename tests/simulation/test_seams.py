"""The simulation's own seams: power cuts, timers in order, killed processes, lost send-backs."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from pocketmq.cluster.simulation.disk import PAGE, MemoryDisk
from pocketmq.cluster.simulation.loop import SimProcess, SimulationStuckError, VirtualLoop
from pocketmq.cluster.simulation.send_backs import SendBackWatch
from pocketmq.protocol.command import Command
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader

LOG = "/a/commitlog/0"


class Chance(random.Random):
    """Decides every time alike."""

    def __init__(self, survives: float) -> None:
        super().__init__(1)
        self.survives = survives

    def choice(self, seq: object) -> float:  # type: ignore[override]
        return self.survives


def after_cut(survives: float) -> MemoryDisk:
    """A log with a synced first page, and a second page and a file that were not synced."""
    disk = MemoryDisk(lambda: 0, power_cuts=True)
    disk.create_file(LOG, 2 * PAGE)
    view = disk.map_file(LOG, 2 * PAGE)
    view[0] = 1
    disk.open_file(LOG).sync()
    disk.sync_directory("/a/commitlog")
    view[PAGE] = 2
    disk.create_file("/a/commitlog/1", PAGE)
    disk.cut_power(Chance(survives))
    return disk


def test_a_power_cut_takes_pages_and_names_that_were_not_synced() -> None:
    disk = after_cut(0.0)
    view = disk.map_file(LOG, 2 * PAGE)
    assert (view[0], view[PAGE]) == (1, 0)
    assert disk.list_directory("/a/commitlog") == ["0"]


def test_they_may_survive_as_well() -> None:
    disk = after_cut(1.0)
    view = disk.map_file(LOG, 2 * PAGE)
    assert (view[0], view[PAGE]) == (1, 2)
    assert disk.list_directory("/a/commitlog") == ["0", "1"]


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

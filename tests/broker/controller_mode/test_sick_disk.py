"""When a master whose disk fails asks for another one (W-13).

That another one leads then, and the former one follows, is the history "failing disk" of
tests/simulation/replica_faults.toml.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.broker.controller_mode.sick_disk import AGAIN_S, PATIENCE_S, SickDisk, successors
from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.disk.disk_worker import DiskWorker, Done, InlineWorker, Job
from pocketmq.controller import Controller, ControllerConfig, ControllerSeams
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.errors import DiskError
from support.controller_rig import MemoryFiles
from support.replicas import ReplicaRig


class FailingDisk(OsDisk):
    """A disk on which syncs of the log fail for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False

    def start_worker(self, name: str) -> DiskWorker:
        return FailingWorker(self) if name == "log-flush" else InlineWorker()


class FailingWorker(InlineWorker):
    """Carries jobs out unless its disk fails."""

    def __init__(self, disk: FailingDisk) -> None:
        self._disk = disk

    def submit(self, job: Job, done: Done) -> None:
        if self._disk.fails:
            done(DiskError("log", "a sync has failed"))
        else:
            super().submit(job, done)


def test_a_failure_that_is_made_good_soon_asks_for_nobody() -> None:
    disk = SickDisk()
    assert not disk.look(10.0, has_failed=True)
    assert not disk.look(10.0 + PATIENCE_S - 0.1, has_failed=True)
    assert not disk.look(10.0 + PATIENCE_S, has_failed=False)
    assert not disk.look(11.0 + PATIENCE_S, has_failed=True), "it counts from the new failure"


def test_a_failure_that_stays_asks_again_and_again() -> None:
    disk = SickDisk()
    asked = [at for at in range(30) if disk.look(float(at), has_failed=True)]
    assert asked == list(range(int(PATIENCE_S), 30, int(AGAIN_S)))


def test_who_is_in_sync_and_connected_and_has_most_comes_first() -> None:
    acked = {2: 100, 3: 200, 4: 200, 5: 900}
    assert successors(frozenset({1, 2, 3, 4, 6}), 1, acked) == [3, 4, 2]
    assert successors(frozenset({1}), 1, {}) == []


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ReplicaRig]:
    async with ReplicaRig(tmp_path) as rig:
        yield rig


async def test_a_master_without_anybody_in_sync_stays_and_goes_on_when_its_disk_is_well(
    rig: ReplicaRig,
) -> None:
    config = ControllerConfig(port=9881, store_path=Path("/controller"))
    controller = Controller(config, ControllerSeams(rig.clock, rig.network, MemoryFiles()))
    await controller.start()
    await rig.advance(6)
    disk = FailingDisk()
    a = await rig.start(
        "a", disk=disk, enable_controller_mode=True, controllers=[controller.address]
    )
    voice = await rig.voice(a)
    disk.fails = True
    await voice.try_send("orders", b"the sync of it fails")
    await rig.advance(20)
    assert a.core.role.leads
    assert a.core.role.epoch == 1
    disk.fails = False
    await rig.advance(2)
    assert (await voice.try_send("orders", b"taken")).code == ResponseCode.SUCCESS
    await rig.stop("a")
    await controller.stop()

"""A master whose disk fails has another one elected, and follows it later (W-13)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.controller_mode.sick_disk import AGAIN_S, PATIENCE_S, SickDisk, successors
from pocketmq.broker.store import FlushDiskType
from pocketmq.broker.store.disk import OsDisk
from pocketmq.broker.store.disk_worker import DiskWorker, Done, InlineWorker, Job
from pocketmq.controller import Controller, ControllerConfig, ControllerSeams
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.errors import DiskError
from support.controller_rig import MemoryFiles
from support.eventually import eventually
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


async def test_a_master_whose_disk_fails_is_replaced_and_follows_when_it_is_well(
    rig: ReplicaRig,
) -> None:  # F-23, I-16
    config = ControllerConfig(port=9881, store_path=Path("/controller"))
    controller = Controller(config, ControllerSeams(rig.clock, rig.network, MemoryFiles()))
    await controller.start()
    await rig.advance(6)
    options: dict[str, Any] = {
        "enable_controller_mode": True,
        "controllers": [controller.address],
        "flush_disk_type": FlushDiskType.SYNC_FLUSH,
    }
    disk = FailingDisk()
    a = await rig.start("a", port=11000, disk=disk, **options)
    b = await rig.start("b", port=11100, **options)
    voice = await rig.voice(a)
    await voice.send("orders", b"both")
    group = controller.consensus.replicas.groups["broker-a"]
    for _ in range(40):
        await rig.advance(0.5)
        if group.in_sync == {1, 2}:
            break
    assert group.in_sync == {1, 2}

    disk.fails = True
    await voice.try_send("orders", b"the sync of it fails")
    await rig.advance(PATIENCE_S - 1)
    refused = await voice.try_send("orders", b"refused")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert a.core.role.leads, "it may be made good"
    await rig.advance(4)
    await eventually(lambda: b.core.role.leads, "the other one leads")
    await eventually(lambda: not a.core.role.leads, "the one with the sick disk does not")
    await (await rig.voice(b)).send("orders", b"taken by b")

    disk.fails = False
    await rig.same_logs()
    for name in ("a", "b"):
        await rig.stop(name)
    await controller.stop()


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

"""A master with a lease stops when the controllers do not answer (W-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.lease import MasterLease
from pocketmq.broker.server import Broker
from pocketmq.broker.store import FlushDiskType
from pocketmq.controller import Controller, ControllerConfig, ControllerSeams
from pocketmq.protocol.codes import ResponseCode
from support.controller_rig import MemoryFiles
from support.eventually import eventually
from support.replicas import ReplicaRig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ReplicaRig]:
    async with ReplicaRig(tmp_path) as rig:
        yield rig


async def controller(rig: ReplicaRig, files: MemoryFiles) -> Controller:
    config = ControllerConfig(port=9881, store_path=Path("/controller"))
    made = Controller(config, ControllerSeams(rig.clock, rig.network, files))
    await made.start()
    await rig.advance(6)
    return made


async def master(rig: ReplicaRig, **options: Any) -> Broker:
    broker = await rig.start(
        "a", enable_controller_mode=True, controllers=["127.0.0.1:9881"], **options
    )
    await eventually(lambda: broker.core.role.leads, "it is master")
    return broker


async def test_a_master_without_controllers_stops_and_goes_on_when_they_answer(
    rig: ReplicaRig,
) -> None:
    files = MemoryFiles()
    first = await controller(rig, files)
    broker = await master(rig, master_lease_enable=True)
    voice = await rig.voice(broker)
    assert (await voice.try_send("orders", b"1")).code == ResponseCode.SUCCESS
    await rig.advance(20)  # renewed each second
    assert (await voice.try_send("orders", b"2")).code == ResponseCode.SUCCESS
    await first.stop()
    await rig.advance(3)
    assert (await voice.try_send("orders", b"3")).code == ResponseCode.SUCCESS
    await rig.advance(3)
    refused = await voice.try_send("orders", b"4")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    second = await controller(rig, files)

    async def takes() -> bool:
        await rig.advance(1)
        return (await voice.try_send("orders", b"5")).code == ResponseCode.SUCCESS

    await eventually(takes, "it has heard that it is master still")
    await rig.stop("a")
    await second.stop()


def stop_process(rig: ReplicaRig, seconds: float) -> None:
    """As between SIGSTOP and SIGCONT: time has passed, and no timer has run."""
    rig.clock._now_us += round(seconds * 1_000_000)


async def test_a_master_that_was_stopped_takes_nothing_before_its_timers_run(
    rig: ReplicaRig,
) -> None:
    await controller(rig, MemoryFiles())
    broker = await master(rig, master_lease_enable=True)
    voice = await rig.voice(broker)
    assert (await voice.try_send("orders", b"1")).code == ResponseCode.SUCCESS
    end = broker.store.commit_log.max_offset
    stop_process(rig, 6)  # what comes now lay in its sockets
    assert (await voice.try_send("orders", b"2")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert broker.store.commit_log.max_offset == end
    await rig.advance(2)
    assert (await voice.try_send("orders", b"3")).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("flush", list(FlushDiskType))
async def test_what_was_stored_before_the_stop_is_not_acknowledged_after_it(
    rig: ReplicaRig, flush: FlushDiskType
) -> None:
    await controller(rig, MemoryFiles())
    broker = await master(rig, master_lease_enable=True, flush_disk_type=flush)
    voice = await rig.voice(broker)
    assert (await voice.try_send("orders", b"1")).code == ResponseCode.SUCCESS
    stops = iter([6.0])
    broker.store.grew.connect(lambda: stop_process(rig, next(stops, 0)))  # right after the append
    assert (await voice.try_send("orders", b"2")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await rig.advance(2)
    assert (await voice.try_send("orders", b"3")).code == ResponseCode.SUCCESS


async def test_without_the_option_a_master_goes_on_for_ever(rig: ReplicaRig) -> None:  # D-16
    first = await controller(rig, MemoryFiles())
    broker = await master(rig)
    voice = await rig.voice(broker)
    await first.stop()
    await rig.advance(60)
    assert (await voice.try_send("orders", b"1")).code == ResponseCode.SUCCESS


def test_a_lease_counts_from_the_question_and_never_gets_shorter() -> None:
    lease = MasterLease(5)
    assert lease.has_ended(0)
    lease.answered(10)
    lease.answered(9)
    assert not lease.has_ended(14.9)
    assert lease.has_ended(15)
    assert not MasterLease(0).has_ended(1000)

"""What a power cut leaves of delayed messages: all that were acknowledged (B-94)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import msgspec
import pytest

from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.broker_rig import START_MS, BrokerRig, Voice, running_broker
from support.eventually import eventually
from support.hanging_disk import HangingDisk
from support.model_disk import Moment
from support.power_cut import NextBoot

BATCH = 32
"""Messages that one look at a level delivers."""


async def send_delayed(rig: BrokerRig, count: int, first: int = 0) -> Voice:
    voice = await rig.voice()
    for number in range(first, first + count):
        await voice.send(body=b"%d" % number, properties={"DELAY": "3"})  # 10 s
    return voice


async def bodies_after(moment: Moment, path: Path, seed: int) -> list[set[bytes]]:
    """What consumers get in the end, for some of the choices that the cut has."""
    found = []
    for number, chosen in enumerate(moment.choices(4, Random(seed))):
        root = path / str(number)
        moment.write(root / "store", chosen)
        clock = ManualClock(START_MS + 100_000)
        async with running_broker(root, clock=clock, disk=NextBoot()) as rig:
            await rig.advance(30)
            found.append({message.body for message in await rig.queue("orders")})
    return found


async def hang_at_the_save(rig: BrokerRig, disk: HangingDisk) -> asyncio.Task[None]:
    """Hang now, and let the clock reach the save at 20 s; it goes on when the disk does."""
    disk.hangs = True
    move = asyncio.create_task(rig.advance(15))
    await eventually(lambda: rig.clock.time_ms() >= START_MS + 20_000, "20 s passed")
    for _ in range(20):  # whatever begins at that moment
        await SystemClock().sleep(0)
    return move


@pytest.mark.parametrize("mode", list(FlushDiskType))
async def test_a_delivery_is_noted_after_its_copies_are_on_the_disk_and_not_before(
    tmp_path: Path, mode: FlushDiskType
) -> None:
    # With exactly 32 due and the next not due, all 32 were gone: the look after them found nothing
    # to deliver, and took what was before it for safe.
    disk = HangingDisk(tmp_path / "store")
    moments: list[Moment] = []
    async with running_broker(tmp_path, disk=disk, flush_disk_type=mode) as rig:
        await send_delayed(rig, BATCH)
        await rig.advance(9)
        await send_delayed(rig, 1, BATCH)
        await rig.advance(0.9)
        await rig.broker.store.flush()
        disk.on_call = lambda operation, path: moments.append(disk.moment())
        move = await hang_at_the_save(rig, disk)
        moments.append(disk.moment())
        disk.on_call = None
        disk.go_on()
        await move
    sent = {b"%d" % number for number in range(BATCH + 1)}
    for number, moment in enumerate(moments):
        for found in await bodies_after(moment, tmp_path / f"cut-{number}", number):
            assert sorted(sent - found) == []


@pytest.mark.parametrize("due", [BATCH - 1, BATCH, BATCH + 1])
async def test_nothing_is_noted_while_the_flush_of_the_copies_hangs(
    tmp_path: Path, due: int
) -> None:
    disk = HangingDisk(tmp_path / "store")
    noted = tmp_path / "store" / "config" / "delayOffset.json"
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        await send_delayed(rig, due)
        await rig.advance(1)
        await send_delayed(rig, 1, due)
        await rig.advance(8.5)
        move = await hang_at_the_save(rig, disk)
        assert rig.broker.planner.offset(3) == due + 1, "delivered, and not flushed"
        assert not noted.exists()
        disk.go_on()
        await move
        await rig.advance(10)
        assert msgspec.json.decode(noted.read_bytes())["offsetTable"]["3"] == due + 1


async def test_nothing_is_noted_after_a_flush_of_the_copies_that_failed(tmp_path: Path) -> None:
    disk = HangingDisk(tmp_path / "store")
    noted = tmp_path / "store" / "config" / "delayOffset.json"
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await send_delayed(rig, 3)
        await rig.advance(9.5)
        disk.hangs = True
        await rig.advance(1)
        disk.go_on(OSError(5, "Input/output error"))
        disk.hangs = True  # nor does what mends it come to an end
        await rig.advance(30)
        refused = await voice.try_send()
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert not noted.exists()
        disk.go_on()
        await rig.advance(20)
        assert msgspec.json.decode(noted.read_bytes())["offsetTable"]["3"] == 3


async def test_a_stop_notes_all_that_it_delivered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as rig:
        await send_delayed(rig, 2)
        await rig.advance(10.1)
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 20_000)) as rig:
        await rig.advance(30)
        assert len(await rig.queue("orders")) == 2

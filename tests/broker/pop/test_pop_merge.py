"""Check points and acks that are kept in memory first (K-100 to K-104)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from pocketmq.broker.pop.merge import Held, MergeLimits, PopMerge
from pocketmq.broker.pop.records import CheckPoint
from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.headers.topics import DeleteTopicRequestHeader
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.broker_rig import START_MS, BrokerRig, Voice, running_broker
from support.hanging_disk import HangingDisk
from support.pop_voice import GROUP, PopAnswer, ack, ack_all, change, pop

REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_DefaultCluster"
WHEEL_TOPIC = "rmq_sys_wheel_timer"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[BrokerRig]:
    options = {"enable_pop_buffer_merge": True, "revive_queue_num": 1}
    async with running_broker(tmp_path, **options) as running:
        yield running


async def fill(voice: Voice, count: int) -> None:
    for n in range(count):
        await voice.send("orders", b"%03d" % n, queue_id=0)


async def take(voice: Voice, count: int = 32, invisible_ms: int = 60_000) -> PopAnswer:
    return await pop(voice, max_msg_nums=count, invisible_time=invisible_ms)


async def committed(voice: Voice) -> int | None:
    return await voice.committed(group=GROUP, queue_id=0)


async def test_what_is_acknowledged_soon_is_never_written(rig: BrokerRig, voice: Voice) -> None:
    await fill(voice, 8)
    answer = await take(voice)
    assert await committed(voice) == 0
    await ack_all(voice, answer)
    assert await committed(voice) == 8
    await rig.advance(100)
    assert (await take(voice)).bodies == []
    assert await rig.queue(WHEEL_TOPIC) == []


async def test_what_is_not_acknowledged_is_written_and_comes_again(
    rig: BrokerRig, voice: Voice
) -> None:
    await fill(voice, 4)
    answer = await take(voice, invisible_ms=30_000)
    await ack(voice, answer.messages[1])
    await rig.advance(9)
    assert await rig.queue(WHEEL_TOPIC) == []
    await rig.advance(2)  # 10 s in memory
    tags = [record.tags for record in await rig.queue(WHEEL_TOPIC)]
    assert tags == ["ck", "ack"]
    assert await committed(voice) == 4
    await ack(voice, answer.messages[2])  # written by now
    await rig.advance(30)
    assert (await take(voice)).bodies == [b"000", b"003"]


async def test_a_short_time_is_written_at_once(rig: BrokerRig, voice: Voice) -> None:
    await fill(voice, 1)
    await take(voice, invisible_ms=4_000)
    assert [record.tags for record in await rig.queue(WHEEL_TOPIC)] == ["ck"]
    assert await committed(voice) == 1


async def test_the_offset_passes_pops_in_their_order(rig: BrokerRig, voice: Voice) -> None:
    await fill(voice, 4)
    first, second = await take(voice, 2), await take(voice, 2)
    await ack_all(voice, second)
    assert await committed(voice) == 0  # a kill must not lose what the first pop has
    assert (await take(voice)).bodies == []
    await ack_all(voice, first)
    assert await committed(voice) == 4


async def test_a_changed_time_has_its_check_point_written(rig: BrokerRig, voice: Voice) -> None:
    await fill(voice, 2)
    answer = await take(voice)
    await ack(voice, answer.messages[0])
    await rig.advance(1)
    await change(voice, answer.messages[1], 3_000)
    tags = [record.tags for record in await rig.queue(WHEEL_TOPIC)]
    assert tags == ["ck", "ack", "ck", "ack"]
    assert await committed(voice) == 2
    await rig.advance(8)
    assert (await take(voice)).bodies == [b"001"]
    await rig.advance(80)
    assert [m.body for m in await rig.queue(f"%RETRY%{GROUP}_orders")] == [b"001", b"001"]


async def test_a_broker_that_stops_writes_what_is_in_memory(tmp_path: Path) -> None:
    async with running_broker(tmp_path, enable_pop_buffer_merge=True) as rig:
        voice = await rig.voice()
        await fill(voice, 4)
        answer = await take(voice)
        await ack(voice, answer.messages[0])
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 5_000)) as rig:
        voice = await rig.voice()
        assert (await take(voice)).bodies == []  # all of it is out
        await rig.advance(70)
        assert (await take(voice)).bodies == [b"001", b"002", b"003"]


async def test_a_broker_that_stops_saves_how_far_pops_had_come(tmp_path: Path) -> None:
    """Its last check points reach the disk, and then the offsets that have passed them."""
    options = {"enable_pop_buffer_merge": True, "flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with running_broker(tmp_path, **options) as rig:
        voice = await rig.voice()
        await fill(voice, 4)
        await take(voice)
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 5_000)) as rig:
        voice = await rig.voice()
        assert await committed(voice) == 4
        assert (await take(voice)).bodies == []


async def test_offsets_go_on_after_a_disk_that_hung_for_longer_than_a_flush_is_waited_for(
    tmp_path: Path,
) -> None:  # K-103
    disk = HangingDisk(tmp_path / "store")
    options = {"enable_pop_buffer_merge": True, "flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with running_broker(tmp_path, disk=disk, **options) as rig:
        voice = await rig.voice()
        await fill(voice, 4)
        await take(voice)
        disk.hangs = True
        await rig.advance(30)  # its check point is written after 10 s
        before = await committed(voice)
        disk.go_on()
        await rig.advance(2)
        assert (before, await committed(voice)) == (0, 4)


async def test_what_is_in_memory_moves_no_topic_that_was_made_again(
    rig: BrokerRig, voice: Voice
) -> None:
    await fill(voice, 4)
    await take(voice)
    assert (await voice.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
    await fill(voice, 2)
    await rig.advance(11)  # the check point is written after 10 s
    assert (await take(voice)).bodies == [b"000", b"001"]


async def test_other_work_goes_on_while_many_are_written(rig: BrokerRig, voice: Voice) -> None:
    await fill(voice, 512)
    records = 0
    for _ in range(16):
        answer = await take(voice)
        for popped in answer.messages[::2]:
            await ack(voice, popped)
        records += bool(answer.messages) + len(answer.messages[::2])
    written = [0]
    """In each turn of the loop."""

    def arrived(_topic: str, _queue_id: int, _end: int, codes: Sequence[int]) -> None:
        if not written[-1]:
            asyncio.get_running_loop().call_soon(lambda: written.append(0))
        written[-1] += len(codes)

    rig.broker.core.signals.message_arrived.connect(arrived, WHEEL_TOPIC)
    await rig.advance(11)
    assert sum(written) == records > 200
    assert max(written) < 100


def point(start: int = 0, count: int = 3) -> CheckPoint:
    return CheckPoint.of_pop(
        ("G", "T", 0, "a"), range(start, start + count), START_MS + start, 60_000
    )


def test_limits_leave_check_points_to_the_disk() -> None:
    limits = MergeLimits(
        enabled=True, stay_ms=10_000, before_due_ms=3_000, max_points=2, max_points_of_queue=9
    )
    merge = PopMerge(lambda: limits)
    for start in (0, 3):
        assert merge.takes(point(start), START_MS)
        merge.add(Held(point(start), 0, start + 3, START_MS), in_memory=True)
    assert not merge.takes(point(6), START_MS)  # two are in memory
    assert not merge.takes(point(0), START_MS)  # it is there
    assert merge.acknowledge(point(0).key, [0, 77], START_MS + 8_000) is not None
    assert merge.acknowledge(point(0).key, [1], START_MS + 8_600) is None  # too old
    assert merge.next_due(START_MS + 10_000) is None
    due = []
    while (each := merge.next_due(START_MS + 10_001)) is not None:
        due.append(each)
        merge.written(each)
    assert len(due) == 2
    assert merge.settled(("G", "T", 0)) is None

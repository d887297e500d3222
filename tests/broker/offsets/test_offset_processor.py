"""Committed offsets and the bounds of queues, asked of a running broker (14, 15, 29 to 32, 43)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from pocketmq.broker.store import OsDisk
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.offsets import (
    EarliestStoreTimeResponseHeader,
    GetAllConsumerOffsetRequestHeader,
    GetAllDelayOffsetRequestHeader,
    GetEarliestStoreTimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    SearchOffsetRequestHeader,
)
from pocketmq.runtime.profile import PROFILE_4_9
from support.broker_rig import START_MS, BrokerRig, Voice, consumer, running_broker
from support.own_logs import own_logs


async def offset_of(voice: Voice, header: Header) -> int:
    reply = await voice.ask(header)
    assert reply.code == 0, reply.remark
    return reply.header(OffsetResponseHeader).offset


async def test_a_committed_offset_is_asked_back(  # B-31, B-33, B-34
    rig: BrokerRig, encoding: Encoding
) -> None:
    voice = await rig.voice(encoding)
    await voice.create_topic()
    await voice.heartbeat(consumers=[consumer()])
    assert (await voice.commit(7)).code == 0
    assert await voice.committed() == 7
    assert (await voice.commit(3)).code == 0  # B-32
    assert await voice.committed() == 3


async def test_only_a_commit_that_falls_is_told_in_the_log(rig: BrokerRig, voice: Voice) -> None:
    await voice.create_topic()
    await voice.heartbeat(consumers=[consumer()])
    with own_logs() as logs:
        for offset in (7, 7, 8):
            await voice.commit(offset)
        assert [line for line in logs if line["event"] == "offset.fell"] == []
        await voice.commit(6)
    [fell] = [line for line in logs if line["event"] == "offset.fell"]
    assert (fell["before"], fell["offset"]) == (8, 6)  # B-32


async def test_a_group_without_an_offset_is_counted_and_one_that_has_one_is_not(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, PROFILE_4_9, budget=Budget(offsets=1)) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        codes = [(await voice.commit(n, queue_id=n // 2)).code for n in range(3)]
        assert codes == [0, 0, ResponseCode.INVALID_PARAMETER]


async def test_a_new_group_on_a_young_queue_starts_at_0(rig: BrokerRig, voice: Voice) -> None:
    # B-34.3
    await voice.send()
    assert await voice.committed() == 0


async def test_a_group_that_asks_not_for_zero_hears_22(rig: BrokerRig, voice: Voice) -> None:
    # B-34.2
    await voice.send()
    assert await voice.committed(set_zero_if_not_found=False) is None


async def test_4_9_does_not_read_who_asks_not_for_zero(tmp_path: Path) -> None:  # B-34.2
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await rig.voice()
        await voice.send()
        assert await voice.committed(set_zero_if_not_found=False) == 0


async def test_an_empty_queue_is_22_in_5_x_and_0_in_4_9(tmp_path: Path) -> None:  # B-34.3
    async with running_broker(tmp_path / "5") as rig:
        voice = await rig.voice()
        await voice.create_topic()
        assert await voice.committed() is None
    async with running_broker(tmp_path / "4", PROFILE_4_9) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        assert await voice.committed() == 0


class SmallMachine(OsDisk):
    """A machine with so little memory that only the last 400 bytes of the log are in it."""

    def memory_bytes(self) -> int:
        return 1000


async def test_a_young_queue_whose_first_message_left_memory_is_22(tmp_path: Path) -> None:
    # B-34.3
    async with running_broker(tmp_path, disk=SmallMachine()) as rig:
        voice = await rig.voice()
        await voice.send()
        assert await voice.committed() == 0
        await voice.send(body=b"x" * 1000, queue_id=1)
        assert await voice.committed() is None


async def test_a_queue_that_has_lost_its_beginning_is_22(  # B-34.3, B-34.4
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send()
    rig.broker.store.reads.min_offset = lambda _topic, _queue_id: 1  # type: ignore[method-assign]
    assert await voice.committed() is None


async def test_a_pending_reset_comes_before_the_committed_offset(  # B-34.1
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send()
    await voice.heartbeat(consumers=[consumer()])
    await voice.commit(1)
    rig.broker.offsets.assign_reset("readers", "orders", 0, 0)
    rig.broker.offsets._committed[("orders", "readers")][0] = 1
    assert await voice.committed() == 0


async def test_5_x_refuses_commits_of_unknown_groups_and_topics(  # B-33
    rig: BrokerRig, voice: Voice
) -> None:
    assert (await voice.commit(1)).code == 26
    await voice.heartbeat(consumers=[consumer()])
    assert (await voice.commit(1)).code == 17


async def test_a_queue_that_the_topic_has_or_had_takes_commits_and_no_other(
    rig: BrokerRig, voice: Voice
) -> None:  # B-33
    await voice.create_topic(queues=4)
    await voice.heartbeat(consumers=[consumer()])
    await voice.send(queue_id=3)
    codes = [(await voice.commit(1, queue_id=queue_id)).code for queue_id in (-1, 0, 3, 4)]
    assert codes == [29, 0, 0, 29]
    await voice.create_topic(queues=2)
    codes = [(await voice.commit(1, queue_id=queue_id)).code for queue_id in (1, 2, 3)]
    assert codes == [0, 29, 0], "queue 3 has a message"


async def test_4_9_takes_commits_of_groups_that_it_does_not_know(tmp_path: Path) -> None:  # B-33
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        assert (await voice.commit(1, group="nobody")).code == 0
        assert await voice.committed(group="nobody") == 1


async def test_the_bounds_of_a_queue(rig: BrokerRig, voice: Voice) -> None:  # S-36, E-23
    for bounds in (GetMaxOffsetRequestHeader, GetMinOffsetRequestHeader):
        assert await offset_of(voice, bounds(topic="nobody", queue_id=0)) == 0
    await voice.send()
    await voice.send()
    assert await offset_of(voice, GetMaxOffsetRequestHeader(topic="orders", queue_id=0)) == 2
    assert await offset_of(voice, GetMinOffsetRequestHeader(topic="orders", queue_id=0)) == 0


@pytest.mark.parametrize(
    ("at_ms", "lower", "upper"),
    [(-1, 0, 0), (0, 0, 0), (5, 1, 0), (10, 1, 1), (15, 2, 1), (99, 3, 2)],
)
async def test_a_store_time_means_an_offset(  # S-41, E-23
    rig: BrokerRig, voice: Voice, at_ms: int, lower: int, upper: int
) -> None:
    for _ in range(3):
        await voice.send()
        await rig.advance(0.010)

    async def search(boundary: str | None) -> int:
        header = SearchOffsetRequestHeader(
            topic="orders", queue_id=0, timestamp=START_MS + at_ms, boundary_type=boundary
        )
        return await offset_of(voice, header)

    assert await search(None) == lower
    assert await search("lower") == lower
    assert await search("UPPER") == upper


async def test_the_earliest_store_time(rig: BrokerRig, voice: Voice) -> None:  # E-23
    async def earliest() -> int:
        reply = await voice.ask(GetEarliestStoreTimeRequestHeader(topic="orders", queue_id=0))
        return reply.header(EarliestStoreTimeResponseHeader).timestamp

    assert await earliest() == -1
    await voice.send()
    assert await earliest() == START_MS


async def test_the_whole_table_is_told(rig: BrokerRig, encoding: Encoding) -> None:  # E-67
    voice = await rig.voice(encoding)
    await voice.create_topic()
    await voice.heartbeat(consumers=[consumer()])
    await voice.commit(7, queue_id=2)
    reply = await voice.ask(GetAllConsumerOffsetRequestHeader())
    table = decode_body(reply.body_view, ConsumerOffsetTable, encoding)
    assert table.offset_table == {"orders@readers": {2: 7}}
    if encoding is not Encoding.MSGPACK:
        assert msgspec.json.decode(reply.body_view)["offsetTable"] == {"orders@readers": {"2": 7}}
    reply = await voice.ask(GetAllDelayOffsetRequestHeader())
    delays = decode_body(reply.body_view, DelayOffsetTable, encoding)
    assert set(delays.offset_table.values()) == {0}


async def test_offsets_are_on_the_disk_every_5_s_and_at_stop(tmp_path: Path) -> None:  # B-31
    async with running_broker(tmp_path) as rig:
        file = rig.broker.config.data / "config" / "consumerOffset.json"
        voice = await rig.voice()
        await voice.create_topic()
        await voice.heartbeat(consumers=[consumer()])
        await voice.commit(7)
        await rig.advance(9.9)
        assert not file.exists()
        await rig.advance(0.2)
        assert msgspec.json.decode(file.read_bytes())["offsetTable"] == {"orders@readers": {"0": 7}}
        await voice.commit(8)
        await rig.advance(5)
        assert msgspec.json.decode(file.read_bytes())["offsetTable"] == {"orders@readers": {"0": 8}}
        await voice.commit(9)
    async with running_broker(tmp_path) as rig:
        # Queue 0 holds nothing, so an offset beyond its end is pulled back to it.
        assert await (await rig.voice()).committed() == 0


async def test_a_committed_offset_survives_a_restart(tmp_path: Path) -> None:  # B-31
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        for _ in range(3):
            await voice.send()
        await voice.heartbeat(consumers=[consumer()])
        await voice.commit(2)
    async with running_broker(tmp_path) as rig:
        assert await (await rig.voice()).committed() == 2


async def test_offsets_that_could_not_be_written_are_written_later(tmp_path: Path) -> None:
    # fault 16
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        await voice.heartbeat(consumers=[consumer()])
        config = rig.broker.config.data / "config"
        aside = config.with_name("aside")
        config.rename(aside)
        config.write_text("in the way")
        await voice.commit(7)
        await rig.advance(10)
        assert (await voice.commit(8)).code == 0
        config.unlink()
        aside.rename(config)
        await rig.advance(5)
        written = msgspec.json.decode((config / "consumerOffset.json").read_bytes())
        assert written["offsetTable"] == {"orders@readers": {"0": 8}}


class SlowDisk(OsDisk):
    """Takes its time over the next file of offsets that is written."""

    def __init__(self) -> None:
        self.writing = asyncio.Event()
        self.go_on = asyncio.Event()

    async def write_text(self, path: str, text: str) -> None:
        await super().write_text(path, text)
        if "consumerOffset" in path:
            self.writing.set()
            await self.go_on.wait()


async def test_a_commit_during_a_write_is_in_the_next_one(tmp_path: Path) -> None:  # B-31
    disk = SlowDisk()
    async with running_broker(tmp_path, disk=disk) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        await voice.heartbeat(consumers=[consumer()])
        await voice.commit(7)
        moving = asyncio.ensure_future(rig.advance(10))
        await disk.writing.wait()
        await voice.commit(8)  # and none after it
        disk.go_on.set()
        await moving
        await rig.advance(5)
        path = rig.broker.config.data / "config" / "consumerOffset.json"
        written = msgspec.json.decode(path.read_bytes())
        assert written["offsetTable"] == {"orders@readers": {"0": 8}}

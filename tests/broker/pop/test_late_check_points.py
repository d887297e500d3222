"""Check points that are safe on the disk only after their queue's group was moved elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.headers.groups import DeleteSubscriptionGroupRequestHeader
from pocketmq.protocol.headers.offsets import ResetOffsetRequestHeader
from pocketmq.protocol.headers.topics import DeleteTopicRequestHeader
from support.broker_rig import BrokerRig, Voice, running_broker
from support.hanging_disk import HangingDisk
from support.pop_voice import GROUP, fill, pop


@pytest.fixture
async def hung(tmp_path: Path) -> AsyncIterator[tuple[BrokerRig, Voice, HangingDisk]]:
    """A broker whose disk hangs; ten messages of its one queue were popped since."""
    disk = HangingDisk(tmp_path / "store")
    options: dict[str, Any] = {
        "flush_disk_type": FlushDiskType.SYNC_FLUSH,
        "use_server_side_reset_offset": True,
    }
    async with running_broker(tmp_path, disk=disk, **options) as rig:
        voice = await rig.voice()
        await voice.create_topic(queues=1)
        await fill(voice, 10, queues=1)
        disk.hangs = True
        assert len((await pop(voice)).bodies) == 10
        yield rig, voice, disk
        disk.go_on()


async def test_a_topic_that_is_made_again_is_popped_from_its_beginning(
    hung: tuple[BrokerRig, Voice, HangingDisk],
) -> None:  # B-16
    rig, voice, disk = hung
    assert (await voice.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
    await voice.create_topic(queues=1)
    disk.go_on()
    await rig.settle()
    sent = await fill(voice, 2, queues=1)
    assert (await pop(voice)).bodies == sent


async def test_a_group_that_was_deleted_with_its_offsets_gets_none_back(
    hung: tuple[BrokerRig, Voice, HangingDisk],
) -> None:
    rig, voice, disk = hung
    header = DeleteSubscriptionGroupRequestHeader(group_name=GROUP, clean_offset=True)
    assert (await voice.ask(header)).code == 0
    assert rig.broker.offsets.query(GROUP, "orders", 0) is None
    disk.go_on()
    await rig.settle()
    assert rig.broker.offsets.query(GROUP, "orders", 0) is None
    assert len((await pop(voice)).bodies) == 10


async def test_a_reset_that_was_carried_out_stays(
    hung: tuple[BrokerRig, Voice, HangingDisk],
) -> None:  # K-147
    rig, voice, disk = hung
    header = ResetOffsetRequestHeader(
        topic="orders", group=GROUP, timestamp=-1, is_force=True, queue_id=0, offset=0
    )
    assert (await voice.ask(header)).code == 0
    again = (await pop(voice, max_msg_nums=2)).bodies
    # Of the two check points the first is safe now, and the disk hangs on.
    first, disk.waiting = disk.waiting, []
    for job, done in first:
        job()
        done(None)
    await rig.settle()
    again += (await pop(voice)).bodies
    assert again == [b"%03d" % n for n in range(10)]

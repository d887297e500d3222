"""Where a reply is stored, as its sender is told (R-12, R-13)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.replies import SendReplyMessageRequestHeaderV2
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from support.broker_rig import START_MS, Voice, running_broker
from support.eventually import eventually
from support.hanging_disk import HangingDisk


async def reply_to_nobody(voice: Voice) -> Command:
    """A reply whose requester is not connected; it is stored all the same."""
    return await voice.ask(
        SendReplyMessageRequestHeaderV2(
            producer_group="repliers",
            topic="DefaultCluster_REPLY_TOPIC",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=START_MS,
            flag=0,
            properties="REPLY_TO_CLIENT\x01gone\x02",
        ),
        b"42",
    )


async def test_a_reply_that_is_not_on_the_disk_has_no_place(tmp_path: Path) -> None:
    # Seed 1249: after a flush that failed the place was told as if the record were safe.
    disk = HangingDisk(tmp_path / "store")
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await rig.voice()
        first = await reply_to_nobody(voice)
        place = first.header(SendMessageResponseHeader)
        assert first.code == ResponseCode.SYSTEM_ERROR
        assert (place.queue_offset, len(place.msg_id)) == (0, 32)
        disk.hangs = True
        asked = asyncio.ensure_future(reply_to_nobody(voice))
        await eventually(lambda: bool(disk.waiting), "the reply waits for the disk")
        disk.go_on(OSError(5, "Input/output error"))
        second = await asked
        place = second.header(SendMessageResponseHeader)
        assert second.remark == first.remark, "what became of the push"
        assert (place.msg_id, place.queue_offset) == ("0", 0)

"""What a reply may do, and where it is stored, as its sender is told (R-10, R-12, R-13)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.replies import SendReplyMessageRequestHeaderV2
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from support.broker_rig import START_MS, Voice, running_broker
from support.eventually import eventually
from support.hanging_disk import HangingDisk


async def reply_to_nobody(
    voice: Voice,
    topic: str = "DefaultCluster_REPLY_TOPIC",
    *,
    template: str = "TBW102",
    queue: int = 0,
) -> Command:
    """A reply whose requester is not connected; it is stored all the same."""
    return await voice.ask(
        SendReplyMessageRequestHeaderV2(
            producer_group="repliers",
            topic=topic,
            default_topic=template,
            default_topic_queue_nums=4,
            queue_id=queue,
            sys_flag=0,
            born_timestamp=START_MS,
            flag=0,
            properties="REPLY_TO_CLIENT\x01gone\x02",
        ),
        b"42",
    )


async def test_a_reply_is_checked_as_a_send_is(voice: Voice) -> None:  # R-10, B-110
    assert (await reply_to_nobody(voice, "a.b")).code == ResponseCode.INVALID_PARAMETER
    assert (await reply_to_nobody(voice, "SCHEDULE_TOPIC_XXXX")).code == ResponseCode.NO_PERMISSION
    unknown = await reply_to_nobody(voice, "unknown", template="none")
    assert unknown.code == ResponseCode.TOPIC_NOT_EXIST
    # Made from the template, and stored in; the code is that of the push.
    assert (await reply_to_nobody(voice, "made")).code == ResponseCode.SYSTEM_ERROR
    assert (await voice.pull("made")).bodies == [b"42"]
    assert (await reply_to_nobody(voice, "made", queue=4)).code == ResponseCode.INVALID_PARAMETER
    await voice.create_topic("unwritable", perm=4)
    await reply_to_nobody(voice, "unwritable")
    assert (await voice.pull("unwritable")).bodies == [b"42"]


async def test_a_reply_makes_no_topic_at_a_slave(tmp_path: Path) -> None:
    async with running_broker(tmp_path, broker_role=BrokerRole.SLAVE, broker_id=1) as rig:
        voice = await rig.voice()
        refused = await reply_to_nobody(voice, "made")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "send to its master" in (refused.remark or "")
        retried = await reply_to_nobody(voice, "%RETRY%made")
        assert retried.code == ResponseCode.SERVICE_NOT_AVAILABLE
        # To a topic that is here it is pushed, and what the push says is told.
        known = await reply_to_nobody(voice)
        assert known.code == ResponseCode.SYSTEM_ERROR
        assert "not found" in (known.remark or "")


async def test_a_stopping_broker_takes_no_replies(tmp_path: Path) -> None:  # R-10, B-110
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        for service in rig.broker.subjects.replies.services:
            await service.leave()
        refused = await reply_to_nobody(voice, "made")
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert refused.remark == "the broker is starting or stopping; try again"
        assert rig.broker.subjects.topics.configs.get("made") is None


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

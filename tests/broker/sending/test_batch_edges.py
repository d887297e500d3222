"""Batches at the edges: places that are not there, a store that is full, a disk that waits."""

from __future__ import annotations

from pathlib import Path

from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.validation import MAX_TOPIC_CHARS
from support.broker_rig import BrokerRig, Voice, running_broker, send_header
from support.eventually import PATIENCE_S
from support.hanging_disk import HangingDisk

TWO = encode_batch([Message("orders", b"one"), Message("orders", b"two")])


async def test_a_batch_goes_to_a_queue_and_a_topic_that_there_may_be(
    rig: BrokerRig, voice: Voice
) -> None:  # B-19, B-110
    await voice.create_topic(queues=4)
    codes = [
        (await voice.ask(send_header(batch=True, queue_id=queue_id), TWO)).code
        for queue_id in (3, 4)
    ]
    assert codes == [0, ResponseCode.INVALID_PARAMETER]
    longest = "x" * MAX_TOPIC_CHARS
    assert (await voice.ask(send_header(longest, batch=True), TWO)).code == 0
    assert [m.body for m in await rig.queue("orders", 3)] == [b"one", b"two"]


async def test_a_batch_that_is_not_stored_is_told_and_counted_message_by_message(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    rig.broker.store.readiness.block("the disk is full")
    reply = await voice.ask(send_header(batch=True), TWO)
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "the disk is full" in (reply.remark or "")
    stats = rig.broker.core.stats
    assert (stats.puts_failed, stats.put.messages) == (2, 0)
    rig.broker.store.readiness.unblock("the disk is full")
    assert (await voice.ask(send_header(batch=True), TWO)).code == 0
    assert (stats.puts_failed, stats.put.messages) == (2, 2)


async def test_a_batch_is_answered_when_it_is_on_the_disk(tmp_path: Path) -> None:  # B-144
    disk = HangingDisk(tmp_path / "store")
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        disk.hangs = True
        sent = voice.channel.request(send_header(batch=True), TWO, timeout_s=PATIENCE_S)
        await rig.advance(0.1)
        assert disk.waiting
        assert not sent.done()
        disk.go_on()
        assert (await sent).code == ResponseCode.SUCCESS

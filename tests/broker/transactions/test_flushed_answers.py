"""Commits are answered when what they stored is flushed, and not before (B-144, X-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.transactions.test_transactions import COMMIT, ROLLBACK, end_of, producer, send_half
from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.transactions import ResumeCheckHalfMessageRequestHeader
from pocketmq.runtime.clock import SystemClock
from support.broker_rig import running_broker
from support.eventually import eventually
from support.hanging_disk import HangingDisk


@pytest.mark.parametrize("count", [1, 3])
async def test_a_commit_is_answered_once_it_is_flushed(tmp_path: Path, count: int) -> None:
    disk = HangingDisk(tmp_path / "store")
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await producer(rig)
        halves = [await send_half(rig, voice, f"k{number}") for number in range(count)]
        with hanging(disk):
            answers = [voice.channel.request(end_of(half, COMMIT)) for half in halves]
            await flush_hangs(disk, *answers)
            assert [answer.done() for answer in answers] == [False] * count
        assert [(await answer).code for answer in answers] == [ResponseCode.SUCCESS] * count


async def test_a_commit_whose_flush_fails_is_no_success(tmp_path: Path) -> None:
    disk = HangingDisk(tmp_path / "store")
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await producer(rig)
        half = await send_half(rig, voice, "k")
        with hanging(disk):
            answer = voice.channel.request(end_of(half, COMMIT))
            await flush_hangs(disk, answer)
            disk.go_on(OSError(5, "Input/output error"))
        reply = await answer
        assert (reply.code, reply.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "stored, but not flushed in time",
        )


async def test_a_half_message_stored_again_is_acknowledged_once_it_is_flushed(
    tmp_path: Path,
) -> None:
    disk = HangingDisk(tmp_path / "store")
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await producer(rig)
        half = await send_half(rig, voice, "k")
        with hanging(disk):
            answer = voice.channel.request(ResumeCheckHalfMessageRequestHeader(msg_id=half.msg_id))
            await flush_hangs(disk, answer)
            assert not answer.done()
        assert (await answer).code == ResponseCode.SUCCESS


async def test_a_rollback_stores_nothing_that_its_answer_would_wait_for(tmp_path: Path) -> None:
    disk = HangingDisk(tmp_path / "store")
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await producer(rig)
        half = await send_half(rig, voice, "k")
        with hanging(disk):
            reply = await voice.ask(end_of(half, ROLLBACK))
            assert reply.code == ResponseCode.SUCCESS


@contextmanager
def hanging(disk: HangingDisk) -> Iterator[None]:
    """No flush comes to an end; it goes on whatever the test finds, as the broker has to stop."""
    disk.hangs = True
    try:
        yield
    finally:
        disk.go_on()


async def flush_hangs(disk: HangingDisk, *answers: asyncio.Future[Command]) -> None:
    """Wait until a flush hangs, or an answer has not waited for it; then for what comes at once."""
    await eventually(
        lambda: disk.waiting or any(answer.done() for answer in answers), "a flush hangs"
    )
    for _ in range(20):
        await SystemClock().sleep(0)

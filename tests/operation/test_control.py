"""A process's clock and state over its own port."""

from __future__ import annotations

import asyncio

import pytest

from pocketmq.operation.control.processor import ControlProcessor
from pocketmq.operation.control.requests import (
    ClockResponseHeader,
    GetClockRequestHeader,
    MoveClockRequestHeader,
    RoleStatusRequestHeader,
)
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.manual_time.manual_clock import ManualClock

START_MS = 1_700_000_000_000


async def connected(clock: Clock, encoding: Encoding = Encoding.MSGPACK) -> Channel:
    """A channel to a process that has this clock and nothing else."""
    dispatcher, network = Dispatcher(), MemoryNetwork()
    dispatcher.add(ControlProcessor(clock, lambda: {"role": "sample"}))
    await network.serve("127.0.0.1", 1, dispatcher)
    return await network.connect("127.0.0.1:1", Dispatcher(), encoding=encoding)


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_a_manual_clock_tells_its_time_and_the_next_deadline(encoding: Encoding) -> None:
    clock = ManualClock(START_MS)
    channel = await connected(clock, encoding)
    reply = (await channel.request(GetClockRequestHeader())).header(ClockResponseHeader)
    assert reply == ClockResponseHeader(now_ms=START_MS, manual=True)
    clock.call_at(2.5, lambda: None)
    reply = (await channel.request(GetClockRequestHeader())).header(ClockResponseHeader)
    assert reply.next_deadline_ms == START_MS + 2_500
    channel.close()


async def test_a_move_is_answered_when_everything_that_was_due_has_settled() -> None:
    clock, done = ManualClock(START_MS), []

    async def work() -> None:
        """Turns of the loop after the clock woke the service."""

    async def service() -> None:
        for _ in range(3):
            await clock.sleep(10)
            await asyncio.create_task(work())
            done.append(clock.monotonic())

    task = asyncio.create_task(service(), name="service")
    channel = await connected(clock)
    moved = await channel.request(MoveClockRequestHeader(time_ms=START_MS + 25_000))
    assert done == [10, 20]
    assert moved.header(ClockResponseHeader) == ClockResponseHeader(
        now_ms=START_MS + 25_000,
        next_deadline_ms=START_MS + 30_000,
        next_what="service",
        manual=True,
    )
    await channel.request(MoveClockRequestHeader(time_ms=START_MS + 30_000))
    await task
    channel.close()


async def test_other_requests_are_answered_while_the_clock_moves() -> None:
    clock, gate = ManualClock(START_MS), asyncio.Event()

    async def service() -> None:
        await clock.sleep(1)
        await gate.wait()

    task = asyncio.create_task(service())
    channel = await connected(clock)
    moving = channel.request(MoveClockRequestHeader(time_ms=START_MS + 2_000))
    await channel.request(GetClockRequestHeader())
    assert not moving.done()
    gate.set()
    assert (await moving).header(ClockResponseHeader).now_ms == START_MS + 2_000
    await task
    channel.close()


async def test_a_task_that_never_rests_is_named_in_the_answer() -> None:
    clock, gate = ManualClock(START_MS, guard_s=0.05), asyncio.Event()

    async def service() -> None:
        await clock.sleep(1)
        await gate.wait()

    task = asyncio.create_task(service(), name="stubborn")
    channel = await connected(clock)
    reply = await channel.request(MoveClockRequestHeader(time_ms=START_MS + 2_000))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark is not None
    assert "stubborn" in reply.remark
    gate.set()
    await task
    channel.close()


async def test_a_real_clock_refuses_to_be_moved_and_says_how_to_get_one_that_does_not() -> None:
    channel = await connected(SystemClock())
    reply = await channel.request(MoveClockRequestHeader(time_ms=START_MS))
    assert reply.code == ResponseCode.ILLEGAL_OPERATION
    assert reply.remark is not None
    assert "--clock manual" in reply.remark
    reply = await channel.request(GetClockRequestHeader())
    assert reply.header(ClockResponseHeader).manual is False
    channel.close()


async def test_a_role_tells_its_state_as_text() -> None:
    channel = await connected(SystemClock())
    reply = await channel.request(RoleStatusRequestHeader())
    assert decode_body(reply.body_view, KVTable, reply.encoding).table == {"role": "sample"}
    channel.close()

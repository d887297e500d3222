"""The latch and the system clock."""

from __future__ import annotations

import asyncio

import pytest

from pocketmq.runtime.clock import Clock, Latch, SystemClock
from pocketmq.runtime.manual_time.manual_clock import ManualClock

START_MS = 1_700_000_000_000


@pytest.fixture(params=["system", "manual"])
def clock(request: pytest.FixtureRequest) -> Clock:
    return SystemClock() if request.param == "system" else ManualClock(START_MS)


async def test_a_wakeup_before_the_wait_is_not_lost_and_counts_once(clock: Clock) -> None:
    latch = Latch()
    for _ in range(3):
        latch.wakeup()
    assert await clock.wait(latch, None) is True
    assert not latch.notified


async def test_a_waiting_task_is_woken_and_the_latch_is_clear_again(clock: Clock) -> None:
    latch = Latch()
    waiting = asyncio.create_task(clock.wait(latch, 60))
    await turns(2)
    latch.wakeup()
    latch.wakeup()
    assert await waiting is True
    assert not latch.notified


async def test_a_wakeup_between_the_timeout_and_the_waiters_turn_is_cleared_too() -> None:
    clock, latch = ManualClock(START_MS), Latch()
    waiting = asyncio.create_task(clock.wait(latch, 1))
    await turns(2)
    moving = asyncio.create_task(clock.move_to(START_MS + 1000))
    await waiting
    await moving
    assert not latch.notified


async def test_a_service_that_wakes_itself_leaves_others_their_turn(clock: Clock) -> None:
    latch = Latch()
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await turns(1)

    task = asyncio.create_task(other())
    for _ in range(20):
        latch.wakeup()
        await clock.wait(latch, None)
    task.cancel()
    assert others >= 10


async def test_two_tasks_on_one_latch_are_an_error(clock: Clock) -> None:
    latch = Latch()
    first = asyncio.create_task(clock.wait(latch, None))
    await turns(2)
    with pytest.raises(RuntimeError, match="give each task a latch of its own"):
        await clock.wait(latch, None)
    latch.wakeup()
    assert await first


async def test_a_cancelled_wait_frees_the_latch(clock: Clock) -> None:
    latch = Latch()
    waiting = asyncio.create_task(clock.wait(latch, None))
    await turns(2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    latch.wakeup()
    assert await clock.wait(latch, None)


async def test_system_time_passes_for_sleep_wait_and_call_at() -> None:
    clock = SystemClock()
    began_at = clock.monotonic()
    fired_at: list[float] = []
    done = asyncio.Event()

    def fire() -> None:
        fired_at.append(clock.monotonic())
        done.set()

    clock.call_at(began_at + 0.012, fire)
    clock.call_at(began_at + 0.001, fire).cancel()
    await clock.sleep(0.005)
    assert clock.monotonic() - began_at >= 0.004
    assert await clock.wait(Latch(), 0.002) is False
    await done.wait()
    assert len(fired_at) == 1
    assert fired_at[0] >= began_at + 0.012
    assert clock.time_ms() > START_MS


async def test_a_timeout_ends_a_block_and_leaves_a_quick_one_alone(clock: Clock) -> None:
    async with clock.timeout(60):
        await turns(1)

    async def slow() -> None:
        with pytest.raises(TimeoutError):
            async with clock.timeout(0.005):
                await asyncio.Event().wait()

    task = asyncio.create_task(slow())
    await turns(2)
    if isinstance(clock, ManualClock):
        await clock.move_to(START_MS + 5)
    await task


async def test_a_cancel_from_elsewhere_wins_over_a_timeout() -> None:
    clock = ManualClock(START_MS)

    async def slow() -> None:
        async with clock.timeout(1):
            await asyncio.Event().wait()

    task = asyncio.create_task(slow())
    await turns(2)
    moving = asyncio.create_task(clock.move_to(START_MS + 1000))
    await turns(1)
    task.cancel()
    await moving
    with pytest.raises((asyncio.CancelledError, TimeoutError)):
        await task


async def turns(count: int) -> None:
    """Let the loop go round `count` times."""
    for _ in range(count):
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, None)
        await future

"""Clocks in loops of other threads are moved by a callback where nothing has to be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.runtime.manual_time.clock_members import NearMember
from pocketmq.runtime.manual_time.lock_step import advance_to
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.manual_time.other_loops import Later, run_in
from pocketmq.runtime.periodic import PeriodicService
from support.eventually import PATIENCE_S

START_MS = 1_700_000_000_000


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("a loop whose clock is moved")
    yield thread
    thread.stop()


class Post:
    """What a loop's connections bring: it reads one byte in each turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.came = 0
        self.waiting = 0

    def send(self, size_bytes: int) -> None:
        """From another thread."""
        self.waiting += size_bytes
        self._loop.call_soon_threadsafe(self._take_one)

    def read(self) -> int:
        return self.came

    def unread(self) -> int:
        return self.waiting

    def _take_one(self) -> None:
        self.came += 1
        self.waiting -= 1
        if self.waiting:
            self._loop.call_soon(self._take_one)


class Talk:
    """What members say to each other."""

    writes = 0


async def test_timers_fire_without_a_task_and_with_one_at_the_same_moments(
    thread: LoopThread,
) -> None:
    clock = ManualClock(START_MS)
    fired: list[tuple[str, int]] = []
    tasks: set[str] = set()

    def quick() -> None:
        fired.append(("quick", clock.time_ms() - START_MS))

    async def slow() -> None:
        fired.append(("slow begins", clock.time_ms() - START_MS))
        await asyncio.sleep(0)  # noqa: TID251 - its work takes a turn
        fired.append(("slow ends", clock.time_ms() - START_MS))
        tasks.update(task.get_name() for task in asyncio.all_tasks())

    async def begin() -> None:
        PeriodicService("quick", clock, 2, quick).start()
        PeriodicService("slow", clock, 5, slow).start()

    await thread.run(begin())
    member = NearMember("a", clock, Post(thread.loop), thread.loop)
    moments: list[int] = []
    reached_ms = await member.run(
        START_MS + 8000, lambda at_ms, _what: moments.append(at_ms - START_MS) is None
    )
    assert reached_ms == clock.time_ms() == START_MS + 8000
    assert moments == [2000, 4000, 5000, 6000, 8000]
    assert fired == [
        ("quick", 2000), ("quick", 4000), ("slow begins", 5000), ("slow ends", 5000),
        ("quick", 6000), ("quick", 8000),
    ]  # fmt: skip
    assert {"quick", "slow"} <= tasks


async def test_what_was_sent_is_read_before_the_receivers_next_timer(thread: LoopThread) -> None:
    here, there = ManualClock(START_MS), ManualClock(START_MS)
    talk, post = Talk(), Post(thread.loop)
    late: list[int] = []

    def say() -> None:
        talk.writes += 1
        post.send(5)

    async def begin() -> None:
        listener = PeriodicService(
            "listen", there, 1, lambda: late.append(post.waiting), initial_delay_s=1.5
        )
        listener.start()

    await thread.run(begin())
    speaker = PeriodicService("speak", here, 1, say)
    speaker.start()
    await asyncio.sleep(0)  # noqa: TID251 - one turn, so that it has armed its timer
    members = [
        NearMember("speaker", here, Post(asyncio.get_running_loop())),
        NearMember("listener", there, post, thread.loop),
    ]
    await advance_to(members, START_MS + 100_000, traffic=talk)
    assert {here.time_ms(), there.time_ms()} == {START_MS + 100_000}
    assert (late, post.came) == ([0] * 99, 500)
    await speaker.stop()


async def test_an_errand_is_tried_before_a_task_is_made(thread: LoopThread) -> None:
    tries: list[asyncio.Task[object] | None] = []

    async def slowly() -> str:
        return "in a task"

    def at_once() -> str | Later:
        tries.append(asyncio.current_task())
        return Later.NEXT_TURN if len(tries) < 3 else "at once"

    assert await run_in(thread.loop, slowly(), at_once) == "at once"
    assert tries == [None] * 3
    assert await run_in(thread.loop, slowly(), lambda: Later.IN_A_TASK) == "in a task"
    assert await run_in(thread.loop, slowly(), lambda: Later.NEXT_TURN) == "in a task"

    def broken() -> str:
        raise LookupError("no such moment")

    with pytest.raises(LookupError, match="no such moment"):
        await run_in(thread.loop, slowly(), broken)


async def test_who_no_longer_waits_ends_the_errand(thread: LoopThread) -> None:
    ended = asyncio.Event()
    here = asyncio.get_running_loop()
    begun = asyncio.Event()

    async def for_ever() -> None:
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            here.call_soon_threadsafe(ended.set)

    waiting = asyncio.create_task(run_in(thread.loop, for_ever()))
    async with asyncio.timeout(PATIENCE_S):
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await ended.wait()


async def test_an_error_in_another_loop_reaches_the_caller(thread: LoopThread) -> None:
    async def fail() -> None:
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        await run_in(thread.loop, fail())

"""Other threads see whether a loop waits, so that a moved clock need not ask a loop at rest."""

from __future__ import annotations

import asyncio
import threading

from pocketmq.runtime.loop_thread import LoopThread
from support.eventually import eventually


def waiting_turn(thread: LoopThread) -> int:
    found: int = getattr(thread.loop, "waiting_turn")  # noqa: B009 - asyncio's loops have none
    return found


async def test_a_loop_waits_while_it_has_nothing_to_do_and_not_while_it_works() -> None:
    thread = LoopThread("a loop that is looked at")
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait()

    try:
        first = await eventually(lambda: waiting_turn(thread), "the loop waits")
        thread.loop.call_soon_threadsafe(work)
        await asyncio.to_thread(begun.wait)
        assert waiting_turn(thread) == 0
        go_on.set()
        later = await eventually(lambda: waiting_turn(thread), "the loop waits again")
        assert later > first, "it was busy in between: who saw the first turn looks again"
    finally:
        go_on.set()
        thread.stop()


async def test_a_loop_is_woken_by_each_of_many_calls() -> None:
    thread = LoopThread("a loop that is called often")
    called: list[int] = []
    try:
        for number in range(10_000):  # more wake-ups than one read takes
            thread.loop.call_soon_threadsafe(called.append, number)
        await eventually(lambda: len(called) == 10_000, "all were called")
        assert called == list(range(10_000))
    finally:
        thread.stop()

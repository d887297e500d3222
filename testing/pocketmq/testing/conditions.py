"""Conditions that a test waits for while another thread moves the clocks.

The loop that moves them asks at each deadline. The test answers in its own thread or task, where
the condition may use whatever the test uses, and nothing moves meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from queue import SimpleQueue
from typing import Any, TypeVar

from pocketmq.runtime.loop_thread import LoopThread

T = TypeVar("T")

Condition = Callable[[], bool | Awaitable[bool]]
Ask = Callable[[], Awaitable[bool]]
"""Answers whether the condition holds."""
Move = Callable[[Ask], Coroutine[Any, Any, T]]
"""Moves clocks until the answer is True."""


class _Question:
    """One question of the loop that moves clocks, made in that loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[bool] = self._loop.create_future()

    def answer(self, *, holds: bool) -> None:
        """From any thread."""
        # A future must be set in the thread of its loop; a plain call would not even wake that
        # loop.
        self._loop.call_soon_threadsafe(self._take, holds)

    def _take(self, holds: bool) -> None:
        # The move may have been cancelled while the test was answering.
        if not self.answered.done():
            self.answered.set_result(holds)


def move_until(thread: LoopThread, move: Move[T], condition: Callable[[], bool]) -> T:
    """Run `move` in the loop of `thread`; the calling thread answers. An error ends the move."""
    questions: SimpleQueue[_Question | None] = SimpleQueue()
    moved = thread.submit(move(lambda: _ask(questions.put)))
    # Also when the move fails: without this the loop below would wait for ever.
    moved.add_done_callback(lambda _: questions.put(None))
    try:
        while (question := questions.get()) is not None:
            question.answer(holds=condition())
    except BaseException:
        moved.cancel()  # Ctrl-C too ends the work, not only the wait for it
        raise
    return moved.result()


async def move_until_here(thread: LoopThread, move: Move[T], condition: Condition) -> T:
    """`move_until` for a coroutine: the task that awaits this answers."""
    here = asyncio.get_running_loop()
    questions: asyncio.Queue[_Question | None] = asyncio.Queue()

    def put(question: _Question | None) -> None:
        with contextlib.suppress(RuntimeError):  # the test's loop has ended: nobody waits
            here.call_soon_threadsafe(questions.put_nowait, question)

    moved = thread.submit(move(lambda: _ask(put)))
    moved.add_done_callback(lambda _: put(None))
    try:
        while (question := await questions.get()) is not None:
            found = condition()
            question.answer(holds=await found if inspect.isawaitable(found) else found)
    except BaseException:
        # Otherwise the clocks would go on moving while the test's failure is handled.
        moved.cancel()
        raise
    return moved.result()


async def _ask(put: Callable[[_Question], None]) -> bool:
    question = _Question()
    put(question)
    return await question.answered

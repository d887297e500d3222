"""Runs something in the event loop of another thread, at the price of two wake-ups."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MOST_TRIES = 8
"""Turns of the loop in which something is tried before a task is made for it."""


class Later(enum.Enum):
    """Why something could not be done at once."""

    NEXT_TURN = enum.auto()
    """Something else is about to be called; try again after it."""
    IN_A_TASK = enum.auto()
    """It has to wait."""


async def run_in(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, T],
    at_once: Callable[[], T | Later] | None = None,
) -> T:
    """Run a coroutine in another running loop without blocking the caller's.

    As `asyncio.run_coroutine_threadsafe` does, without a future for other threads between: clocks
    are moved by thousands of these. Cancelling the caller cancels the coroutine.

    Args:
        loop: The other loop.
        coroutine: What to run.
        at_once: Does the same without waiting, as far as it can; the coroutine does the rest.

    Raises:
        RuntimeError: The loop is closed.
    """
    errand = _Errand(loop, coroutine, at_once)
    try:
        loop.call_soon_threadsafe(errand.begin)
    except RuntimeError:
        coroutine.close()
        raise
    try:
        return await errand.done
    except asyncio.CancelledError:
        loop.call_soon_threadsafe(errand.cancel)
        raise


class _Errand(Generic[T]):
    """One call of `run_in`: made in the caller's loop, carried out in the other one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, T],
        at_once: Callable[[], T | Later] | None,
    ) -> None:
        self._here = asyncio.get_running_loop()
        self.done: asyncio.Future[T] = self._here.create_future()
        self._loop = loop
        self._coroutine = coroutine
        self._at_once = at_once
        self._tries = 0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Try it at once; make a task where that is not enough."""
        # The caller was cancelled before this loop came to it.
        if self.done.cancelled():
            self._coroutine.close()
            return
        if self._at_once is not None:
            self._tries += 1
            try:
                result = self._at_once()
            except Exception as exc:  # noqa: BLE001 - it is the caller's to judge
                self._coroutine.close()
                self._tell(_fail, exc)
                return
            if not isinstance(result, Later):
                # Python warns about a coroutine that is never started or closed.
                self._coroutine.close()
                self._tell(_resolve, result)
                return
            # The callbacks of the next turn may be all that has to run first.
            if result is Later.NEXT_TURN and self._tries < _MOST_TRIES:
                self._loop.call_soon(self.begin)
                return
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """End the task, if there is one."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        task = self._task
        assert task is not None
        task.remove_done_callback(self._ended)  # it would cost a turn more
        try:
            result = await self._coroutine
        except asyncio.CancelledError:
            self._tell(_cancel)
            raise
        except Exception as exc:  # noqa: BLE001 - likewise
            self._tell(_fail, exc)
        else:
            self._tell(_resolve, result)

    def _ended(self, _task: asyncio.Task[None]) -> None:
        """It was cancelled before it began."""
        self._coroutine.close()
        self._tell(_cancel)

    def _tell(self, answer: Callable[..., None], *args: object) -> None:
        self._here.call_soon_threadsafe(answer, self.done, *args)


def _resolve(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _cancel(done: asyncio.Future[T]) -> None:
    done.cancel()

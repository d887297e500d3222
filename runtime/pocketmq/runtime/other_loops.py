"""Runs a coroutine in the event loop of another thread, at the price of two wake-ups."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_in(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another running loop without blocking the caller's.

    As `asyncio.run_coroutine_threadsafe` does, without a future for other threads between: clocks
    are moved by thousands of these. Cancelling the caller cancels the coroutine.

    Raises:
        RuntimeError: The loop is closed.
    """
    here = asyncio.get_running_loop()
    done: asyncio.Future[T] = here.create_future()
    started: list[asyncio.Task[T]] = []

    def begin() -> None:
        task = loop.create_task(coroutine)
        started.append(task)
        task.add_done_callback(lambda ended: here.call_soon_threadsafe(_copy, ended, done))

    try:
        loop.call_soon_threadsafe(begin)
    except RuntimeError:
        coroutine.close()
        raise
    try:
        return await done
    except asyncio.CancelledError:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in started])
        raise


def _copy(ended: asyncio.Task[T], done: asyncio.Future[T]) -> None:
    """Let one loop's future have what another loop's task came to."""
    if done.done():
        return
    if ended.cancelled():
        done.cancel()
    elif (error := ended.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(ended.result())

"""Where plain functions of listeners run: they may block, and the loop must not (C-54)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class ListenerThreads(Protocol):
    """The seam behind which plain listeners run."""

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        """Call a function that may block."""
        ...

    def close(self) -> None:
        """Take no more; what runs goes on."""
        ...


class PooledThreads:
    """Threads of an executor, made when first needed.

    Args:
        name: Prefix of the threads' names.
        max_threads: C-54's `consumeThreadMax`.
    """

    def __init__(self, name: str, max_threads: int) -> None:
        self._name = name
        self._max_threads = max_threads
        self._executor: ThreadPoolExecutor | None = None

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._max_threads, thread_name_prefix=self._name)
        ended = asyncio.get_running_loop().run_in_executor(self._executor, _outcome, function)
        return _value_or_error(ended)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


class _Raised:
    def __init__(self, error: Exception) -> None:
        self.error = error


def _outcome(function: Callable[[], T]) -> T | _Raised:
    try:
        return function()
    except Exception as exc:  # noqa: BLE001 - handed to whoever awaits
        return _Raised(exc)


async def _value_or_error(ended: Awaitable[T | _Raised]) -> T:
    """What a function in a thread came to.

    Its error is handed over as a value: Python 3.11 makes a new `TimeoutError` of one that a
    thread raised, without the traceback.
    """
    outcome = await ended
    if not isinstance(outcome, _Raised):
        return outcome
    try:
        raise outcome.error
    finally:
        del outcome  # the traceback would keep it, and it the error, until the next collection


class InlineThreads:
    """No threads: plain listeners run where they are called. For simulations."""

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(function())
        except Exception as exc:  # noqa: BLE001 - handed to whoever awaits
            done.set_exception(exc)
        return done

    def close(self) -> None:
        """Nothing to close."""

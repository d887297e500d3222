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
        return asyncio.get_running_loop().run_in_executor(self._executor, function)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


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

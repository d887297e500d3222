"""One event loop in its own thread, for code that Spark calls outside of any loop.

A Python worker runs many tasks one after the other. The loop and its connections are kept between
tasks; a forked process starts its own loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop that runs until its process ends."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="pocketmq-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and block until its result is there."""
        return self.start(coroutine).result()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop, and return at once; the future gets its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)


_shared: tuple[int, LoopThread] | None = None
_lock = threading.Lock()


def shared_loop() -> LoopThread:
    """The loop of this process, started on first use."""
    global _shared
    with _lock:
        if _shared is None or _shared[0] != os.getpid():
            _shared = (os.getpid(), LoopThread())
        return _shared[1]


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()

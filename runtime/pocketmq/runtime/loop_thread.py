"""An event loop in its own thread, in which code of any thread and any loop can run coroutines.

A program of threads has no loop for its clients (`pocketmq.client.sync`). A test may be synchronous
too, or run in a loop that ends with the test, while the roles and the control of its cluster go on.
They therefore have their own loops:

    thread = LoopThread("pocketmq control")
    thread.result(coroutine())          # from synchronous code: blocks until it is done
    thread.call(function)               # the same for a function that may only run in the loop
    await thread.run(coroutine())       # from a coroutine of any loop: does not block that loop
    thread.stop()

Callers that come and go, such as the synchronous clients of a process, share one:

    shared = SharedLoopThread("pocketmq clients")
    shared().result(coroutine())
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.manual_time.other_loops import run_in

T = TypeVar("T")

_WAKE_UPS = 4096
"""Of other threads, one byte each, that one read takes."""


class LoopThread:
    """Runs a loop in a daemon thread from construction until `stop`.

    By default it is asyncio's loop and not uvloop's, which may not end after sockets were reset,
    and cannot start child processes outside of the main thread.

    Args:
        name: Name of the thread, by which log lines are assigned to roles.
        loop: Another loop, which then belongs to this thread.
    """

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop: asyncio.AbstractEventLoop = _Loop() if loop is None else loop
        self._thread = LoopRunner(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """Name of the thread."""
        return self._thread.name

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in this loop; cancelling the future cancels it.

        Raises:
            CallerError: The thread has been stopped.
        """
        if self._is_gone():
            coroutine.close()
            raise CallerError(f"thread {self.name} has been stopped; make a new client or cluster")
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this loop, and block the calling thread until it is done."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise CallerError(
                f"a blocking call in thread {self.name} would wait for itself; await the "
                "coroutine instead"
            )
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C ends the work, not only the wait for it
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in this loop, and block the calling thread until it has returned."""
        if threading.current_thread() is self._thread:
            return function()

        async def called() -> T:
            return function()

        return self.result(called())

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this loop without blocking the caller's loop."""
        here = asyncio.get_running_loop()
        if here is self.loop:
            return await coroutine
        if self._is_gone():
            return await asyncio.wrap_future(self.submit(coroutine))  # which says so
        return await run_in(self.loop, coroutine)

    def stop(self) -> None:
        """Cancel all tasks and end the thread; may be called twice."""
        if self._is_gone():
            return
        # Wait until all tasks have ended: they must close what they hold before the loop closes.
        asyncio.run_coroutine_threadsafe(_cancel_all(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _is_gone(self) -> bool:
        # A forked child has the loop but not its thread: a call would wait for ever.
        return self.loop.is_closed() or not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            # End the loop as `asyncio.run` does.
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()


class SharedLoopThread:
    """One `LoopThread` for all callers in a process, started by the first. Thread-safe.

    A forked child has the loop of its parent and not the thread, so it gets its own.

    Args:
        name: Of the thread.
        make_loop: Makes another loop than `LoopThread`'s own.
    """

    def __init__(
        self, name: str, make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    ) -> None:
        self._name = name
        self._make_loop = make_loop
        self._lock = threading.Lock()
        self._made: tuple[int, LoopThread] | None = None

    def __call__(self) -> LoopThread:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                loop = None if self._make_loop is None else self._make_loop()
                self._made = os.getpid(), LoopThread(self._name, loop)
            return self._made[1]


class LoopRunner(threading.Thread):
    """The thread of a `LoopThread`, so that it can be told from others."""


class _Selector(selectors.DefaultSelector):
    """Tells when it waits."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0
        self.waiting_turn = 0
        """Number of the turn in which it waits; 0 while it does not."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turn += 1
        # The loop only polls here, as it has callbacks to run.
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        self.waiting_turn = self._turn
        try:
            return super().select(timeout)
        finally:
            self.waiting_turn = 0


class _Loop(asyncio.SelectorEventLoop):
    """A loop of which other threads can see that it waits, and which is cheap to wake.

    Moving clocks looks at these loops, and wakes them, some thousand times an hour.
    """

    def __init__(self) -> None:
        self._seen = _Selector()
        super().__init__(self._seen)

    @property
    def waiting_turn(self) -> int:
        """Number of the turn in which it waits with nothing left to call; 0 while it does not."""
        return 0 if getattr(self, "_ready", True) else self._seen.waiting_turn

    # asyncio reads until nothing is left, which costs an exception each time. What one read leaves
    # wakes the loop once more.
    def _read_from_self(self) -> None:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            self._ssock.recv(_WAKE_UPS)  # type: ignore[attr-defined]


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)

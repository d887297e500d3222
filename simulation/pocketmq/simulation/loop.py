"""Virtual time, and simulated processes that can be killed, inside one Python process.

`VirtualLoop` runs all ready callbacks and then jumps to the next timer, so that 300 s take only as
long as their callbacks. Every callback belongs to the `SimProcess` in whose context it was created
(a context variable, which asyncio passes on to tasks, timers and futures). The callbacks of a
killed process are dropped: no `finally`, no flush, no unregistering, as after kill -9.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pocketmq.simulation.loop_clock import LoopClock

T = TypeVar("T")

START_MS = 1_700_000_000_000

PROCESS: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar("process", default=None)
"""The process whose code runs now; None for the simulation itself."""


class SimulationStuckError(RuntimeError):
    """The simulation waits, but nothing is ready and no timer is set."""


class SimProcess:
    """One simulated process.

    Args:
        loop: The loop of all processes.
        name: Its name in traces and faults.
    """

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.alive = True
        self._held: list[asyncio.Handle] | None = None
        """Callbacks that became due while it was stopped."""
        self.touched = False
        """Whether it ran in this step."""
        self.clock = LoopClock(loop, START_MS)
        self._context = contextvars.Context()
        self._context.run(PROCESS.set, self)

    def context(self) -> contextvars.Context:
        """A new context whose callbacks belong to this process."""
        return self._context.copy()

    def start(self, coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run a coroutine as this process."""
        task = self.loop.create_task(coroutine, name=name, context=self.context())
        return task

    def run(self, function: Callable[[], T]) -> T:
        """Call a function as this process."""
        return self.context().run(function)

    def kill(self) -> None:
        """Kill it: its callbacks are dropped from now on."""
        self.alive = False
        self._held = None

    @property
    def is_there(self) -> bool:
        """Whether it runs, or is stopped: then its machine still accepts connections."""
        return self.alive or self._held is not None

    def freeze(self) -> None:
        """Stop it, as SIGSTOP does: what becomes due waits."""
        if self.alive:
            self.alive, self._held = False, []

    def thaw(self) -> None:
        """Let it go on, as SIGCONT does."""
        if self._held is not None:
            self.alive, held, self._held = True, self._held, None
            self.loop.run_again(held)

    def hold(self, handle: asyncio.Handle) -> None:
        """Keep a callback until it goes on; of a dead process drop it."""
        if self._held is not None:
            self._held.append(handle)


Check = Callable[[list[SimProcess]], None]
"""Called with the processes that ran."""


class _Handle(asyncio.Handle):
    """asyncio's handle, made without asking the loop for its debug mode."""

    __slots__ = ()

    def __init__(  # asyncio's own sets the same attributes
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _TimerHandle(asyncio.TimerHandle):
    """asyncio's timer, made likewise."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order in which they became due, without selector and threads."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        self._scheduled: list[tuple[float, int, asyncio.TimerHandle]] = []
        """A heap of (time, sequence number, timer)."""
        self._timers = 0
        self._check: Check | None = None
        self.steps = 0
        self.callbacks = 0
        self.failures: list[dict[str, Any]] = []
        """Unhandled errors, as asyncio reports them."""
        self.finishing = False
        """Whether the run is over, and what still happens only ends its tasks."""
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def time(self) -> float:
        return self._now

    def run_checked(self, main: Coroutine[Any, Any, None], check: Check) -> None:
        """Run until `main` has ended, and call `check` after each batch of callbacks."""
        self._check = check
        try:
            self.run_until_complete(main)
        finally:
            self._check = None

    def _run_once(self) -> None:
        """Run one batch of callbacks at one time; `run_forever` calls it repeatedly."""
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)
        if not ready:
            if not scheduled:
                raise SimulationStuckError(
                    "the simulation is stuck: no callback is ready, and no timer is set"
                )
            self._now = max(self._now, scheduled[0][0])
        now = self._now + 1e-9
        while scheduled and scheduled[0][0] <= now:
            ready.append(heapq.heappop(scheduled)[2])
        ran: list[SimProcess] = []
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            context = handle._context  # type: ignore[attr-defined]
            process = context.get(PROCESS)
            if process is not None:
                if not process.alive:
                    process.hold(handle)
                    continue
                if not process.touched:
                    process.touched = True
                    ran.append(process)
            self.callbacks += 1
            try:
                context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:  # noqa: BLE001 - reported as asyncio's handles do
                what = f"Exception in callback {handle._callback!r}"  # type: ignore[attr-defined]
                self.call_exception_handler({"message": what, "exception": exc, "handle": handle})
        self.steps += 1
        for process in ran:
            process.touched = False
        if self._check is not None:
            self._check(ran)

    def call_soon(  # type: ignore[override]  # typeshed's is generic in the arguments
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """As in asyncio, without its checks for debug mode: half of all callbacks come this way."""
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def run_again(self, handles: list[asyncio.Handle]) -> None:
        """Run callbacks that were held back, in their order."""
        self._ready.extend(handles)

    def get_debug(self) -> bool:
        """Overridden because each handle calls it."""
        return False

    def run_at(
        self,
        when_s: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context,
    ) -> None:
        """Run a callback in another process's context: bytes arrive in the receiver's."""
        self.call_at(when_s, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # typeshed's is generic in the arguments
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio; timers of the same time fire in the order in which they were set."""
        timer = _TimerHandle(when, callback, args, self, context)
        self._timers += 1
        heapq.heappush(self._scheduled, (when, self._timers, timer))
        return timer

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        raise RuntimeError(
            "the simulation allows no threads, because a seed cannot decide when a thread "
            "runs; use the event loop (`call_soon`)"
        )

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, function: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function at once, without a thread."""
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(function(*args))
        except Exception as exc:  # noqa: BLE001 - raised where the future is awaited
            future.set_exception(exc)
        return future

    def _process_events(self, _events: Any) -> None:
        """There is no selector."""

    def finish(self) -> None:
        """Cancel every task, also those of killed processes, and close the loop."""
        self.finishing = True
        for _ in range(5):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                break
            for task in tasks:
                process = task.get_context().get(PROCESS) if hasattr(task, "get_context") else None
                if process is not None:
                    process.alive = True
                task.cancel()
            # Callbacks that were still queued when a violation ended the run may stop the loop.
            with contextlib.suppress(RuntimeError):
                self.run_until_complete(asyncio.wait(tasks, timeout=60))
        self._ready.clear()
        self._scheduled.clear()
        self.close()

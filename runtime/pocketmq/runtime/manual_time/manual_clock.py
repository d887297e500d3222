"""A clock that stands still until it is moved, and waits for the tasks that it woke.

`move_to` fires the timers that fall due, in order of their moments. Between two moments it waits
until every task that the clock woke *rests*: it sleeps on the clock again, has ended, is inside
`peer_wait()`, or waits for tasks that rest. Work on real sockets in between is waited for, without
polling. A service that scans every 5 s, and a clock moved from 0 by 12 s:

    clock    0 s ....... 5 s .................. 10 s ................. 12 s
    timers   armed 5 s   fires; wakes "scan"    fires; wakes "scan"    none due: `move_to` returns
    scan     sleeps      runs, sleeps to 10 s   runs, sleeps to 15 s   sleeps

At 5 s the clock does not move on before "scan" sleeps again; if it never does, `move_to` raises
`ClockStuckError` with its name after 30 s of real time.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import heapq
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import NamedTuple, TypeAlias, TypeVar

from pocketmq.runtime.clock import AtExpiry, ClockTimeout, Latch, SystemClock, Timer, resolve
from pocketmq.runtime.errors import ClockStuckError
from pocketmq.runtime.manual_time.loop_calls import calls_ahead, is_idle
from pocketmq.runtime.manual_time.woken_tasks import WokenTasks

T = TypeVar("T")

DEFAULT_GUARD_S = 30.0
"""Real seconds; longer than every request timeout on real time (the longest is 24 s, B-4)."""

PEER_PATIENCE_S = 2.0
"""Real seconds that a healthy peer needs at most for an answer; see `peer_answer`."""

AtMoment = Callable[[int, str], bool]
"""Epoch ms, rounded up, of the timers that are about to fire, and what the first of them is."""


class Due(NamedTuple):
    """The earliest timer of a clock."""

    at_ms: int
    """Epoch ms, rounded up."""
    what: str
    """Name of the task that waits for it, or of the callback."""


class Passed(enum.Enum):
    """How far `pass_moments` came."""

    ALL = enum.auto()
    """As far as it may."""
    NEXT_TURN = enum.auto()
    """Something else is about to be called; go on after it."""
    MUST_WAIT = enum.auto()
    """A task is at work, or the loop cannot be looked into: `move_to` has to go on."""


class _ManualTimer:
    __slots__ = ("_timers", "callback", "what", "when_us")

    def __init__(
        self, when_us: int, callback: Callable[[], None], what: str | None, timers: Timers
    ) -> None:
        self.when_us = when_us
        self.callback: Callable[[], None] | None = callback
        self.what = what
        """Name of the task that it only wakes; None: it may start tasks."""
        self._timers = timers

    def cancel(self) -> None:
        self.callback = None
        # Remove cancelled timers at the front: other threads read the first one (`due_ms`).
        _earliest(self._timers)


Timers: TypeAlias = list[tuple[int, int, _ManualTimer]]
"""A heap, whose first is never cancelled: when each is due, in us, and which was armed first."""


def whole_second_ms() -> int:
    """Where a manual clock begins when nobody says where: the next whole second, in epoch ms.

    Timer messages are due at whole seconds. A clock that begins in the middle of one would deliver
    a message with `delay_ms=90_000` up to 1 s later than 90 s, by luck.
    """
    return -(-SystemClock().time_ms() // 1000) * 1000


def _earliest(timers: Timers) -> _ManualTimer | None:
    """The first timer that is not cancelled; those before it are removed."""
    while timers:
        timer = timers[0][2]
        if timer.callback is not None:
            return timer
        heapq.heappop(timers)
    return None


class ManualClock:
    """A `Clock` for tests and for processes started with `--clock manual`.

    Args:
        start_ms: Where it begins, in ms since the epoch; `monotonic()` is 0 there.
        guard_s: Real seconds that woken tasks may take until they rest.
    """

    def __init__(self, start_ms: int, *, guard_s: float = DEFAULT_GUARD_S) -> None:
        self._start_ms = start_ms
        self._guard_s = guard_s
        self._now_us = 0
        self._timers: Timers = []
        self._armed = 0
        self._moving = asyncio.Lock()
        self._frozen: frozenset[str] = frozenset()
        self._tasks = WokenTasks()

    # -- reading ----------------------------------------------------------------------------

    def time_ms(self) -> int:
        return self._start_ms + self._now_us // 1000

    def monotonic(self) -> float:
        return self._now_us / 1_000_000

    def next_deadline_ms(self) -> int | None:
        """When the earliest timer is due, in ms since the epoch, rounded up; None without one."""
        timer = _earliest(self._timers)
        # Rounded up, so that the timer fires if the clock is moved to this moment.
        return None if timer is None else self._start_ms - (-timer.when_us // 1000)

    def due_ms(self) -> int | None:
        """`next_deadline_ms`, for any thread: it changes nothing."""
        # One read: the clock's loop may change the list meanwhile.
        first = next(iter(self._timers), None)
        return None if first is None else self._start_ms - (-first[0] // 1000)

    def next_due(self) -> Due | None:
        """The earliest timer with what it is; changes nothing, so any thread may ask."""
        first = next(iter(self._timers), None)
        if first is None:
            return None
        timer = first[2]
        what = timer.what or getattr(timer.callback, "__qualname__", None) or "timer"
        return Due(self._start_ms - (-timer.when_us // 1000), what)

    def skip_to(self, time_ms: int) -> bool:
        """Move on when nothing is due before that moment and no task is busy.

        Any thread may call it while nobody moves the clock. What is due at that very moment has
        not fired yet; `move_to` does that.

        Returns:
            Whether the clock is there; False: `move_to` has work to do.
        """
        due_ms = self.due_ms()
        if self.is_busy or (due_ms is not None and due_ms < time_ms):
            return False
        # A clock never goes back.
        self._now_us = max(self._now_us, (time_ms - self._start_ms) * 1000)
        return True

    @property
    def is_busy(self) -> bool:
        """Whether a task that it woke does not rest, or somebody moves it. Any thread may ask."""
        return bool(self._tasks) or self._moving.locked()

    def stands_still(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether nothing is going on at all in its loop, which must be the caller's.

        False also means that it cannot be seen; `move_to` with the present time waits for it.
        """
        return not self.is_busy and is_idle(loop)

    # -- waiting ----------------------------------------------------------------------------

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        return self.arm(when_s, callback, None)

    def arm(self, when_s: float, callback: Callable[[], None], what: str | None) -> Timer:
        """`call_at` for a callback that only wakes the task of this name; None: it may do more."""
        when_us = round(when_s * 1_000_000)
        if when_us > self._now_us:
            return self._push(when_us, callback, what)
        # The timer is due already: it fires in the next turn, without a move of the clock.
        timer = _ManualTimer(when_us, callback, what, self._timers)
        asyncio.get_running_loop().call_soon(self._fire, timer)
        return timer

    def _push(self, when_us: int, callback: Callable[[], None], what: str | None) -> Timer:
        self._armed += 1
        timer = _ManualTimer(when_us, callback, what, self._timers)
        heapq.heappush(self._timers, (when_us, self._armed, timer))
        return timer

    async def sleep(self, delay_s: float) -> None:
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        await self._rest_until(asyncio.get_running_loop().create_future(), delay_s)

    async def wait(
        self, latch: Latch, timeout_s: float | None, at_expiry: AtExpiry | None = None
    ) -> bool:
        if latch.take():
            await asyncio.sleep(0)
            return True
        if timeout_s is not None and timeout_s <= 0:
            await asyncio.sleep(0)
            return latch.take()
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        task = _current_task()
        # The clock must not move on before the woken task has run.
        latch.arm(waiter, lambda: self._tasks.wake(task))
        try:
            return await self._rest_until(waiter, timeout_s, at_expiry)
        finally:
            latch.disarm()

    def timeout(self, delay_s: float) -> AbstractAsyncContextManager[None]:
        return ClockTimeout(self, delay_s, self._tasks.wake)

    def peer_wait(self) -> AbstractContextManager[None]:
        return self._peer_wait()

    def note_frozen(self, peers: Collection[str]) -> None:
        """Addresses of the processes that somebody froze: `peer_answer` does not stand still.

        Any thread may call it.
        """
        self._frozen = frozenset(peers)

    async def peer_answer(
        self, answer: Awaitable[T], peer: str = "", limit_s: float | None = None
    ) -> T:
        if peer in self._frozen:
            limit = contextlib.nullcontext() if limit_s is None else self.timeout(limit_s)
            with self._peer_wait():
                async with limit:
                    return await answer
        task = _current_task()
        late: list[AbstractContextManager[None]] = []

        def lose_patience() -> None:
            # Let the clock move again: a frozen peer would otherwise stop it for ever.
            late.append(self._peer_wait(task))
            late[0].__enter__()

        patience = asyncio.get_running_loop().call_later(PEER_PATIENCE_S, lose_patience)
        try:
            return await answer
        finally:
            patience.cancel()
            if late:
                late[0].__exit__(None, None, None)

    @contextlib.contextmanager
    def _peer_wait(self, task: asyncio.Task[object] | None = None) -> Iterator[None]:
        task = task or _current_task()
        tasks = self._tasks
        # Note the task's state, which is restored afterwards: it may have rested already.
        was_busy, was_waiting = tasks.is_busy(task), tasks.is_waiting(task)
        tasks.rest(task)
        try:
            yield
        finally:
            if not was_waiting:
                tasks.goes_on(task)
            if was_busy:
                # What the peer's answer causes belongs to the moment at which it was asked.
                tasks.wake(task)

    # -- moving -----------------------------------------------------------------------------

    async def move_to(self, time_ms: int, at_moment: AtMoment | None = None) -> int:
        """Move the clock to `time_ms`, firing the timers that fall due, in order.

        Returns when each task that it woke rests. A `time_ms` in the past is no error: the clock
        stays where it is and waits until all tasks rest.

        Args:
            time_ms: Where to, in ms since the epoch.
            at_moment: Asked before the timers of each moment fire; the clock stops before a moment
                that it refuses.

        Returns:
            Where the clock stands.

        Raises:
            ClockStuckError: Woken tasks did not rest within the guard's real seconds.
        """
        target_us = (time_ms - self._start_ms) * 1000
        # A task that waits for another mover counts as resting, or that mover would wait for it.
        if self._moving.locked():
            with self._peer_wait():
                await self._moving.acquire()
        else:
            await self._moving.acquire()
        self._tasks.mover = _current_task()
        waiting = calls_ahead(asyncio.get_running_loop())
        try:
            # With `at_moment`, a lock step has just checked that all tasks rest: settle only if
            # some do not.
            if at_moment is None or self._tasks or waiting:
                await self._settle()
            while self._fire_next(target_us, at_moment):
                # If nothing is busy and no callback is due, settling would only cost turns of the
                # loop.
                if self._tasks or waiting is None or waiting:
                    await self._settle()
            return self.time_ms()
        finally:
            self._tasks.mover = None
            self._moving.release()

    def pass_moments(self, time_ms: int, at_moment: AtMoment | None = None) -> Passed:
        """Begin a `move_to` without a task: fire timers until something has to be waited for.

        To be called by its loop.
        """
        loop = asyncio.get_running_loop()
        target_us = (time_ms - self._start_ms) * 1000
        while True:
            if self.is_busy or calls_ahead(loop) is None:
                return Passed.MUST_WAIT
            if not is_idle(loop):
                return Passed.NEXT_TURN
            if not self._fire_next(target_us, at_moment):
                return Passed.ALL

    def _fire_next(self, target_us: int, at_moment: AtMoment | None) -> bool:
        """Move on to the next moment, and fire its timers; False: there is none before a moment."""
        timer = _earliest(self._timers)
        if timer is None or timer.when_us > target_us:
            self._now_us = max(self._now_us, target_us)
            return False
        at_ms = self._start_ms - (-timer.when_us // 1000)
        # `at_moment` may refuse: the clock then stops before this moment, with its timers armed.
        if at_moment is not None and not at_moment(at_ms, timer.what or "timer"):
            return False
        self._now_us = now_us = max(self._now_us, timer.when_us)
        # Timers armed meanwhile for this moment go through the event loop, so this loop ends.
        while timer is not None and timer.when_us <= now_us:
            heapq.heappop(self._timers)
            self._fire(timer)
            timer = _earliest(self._timers)
        return True

    def busy(self) -> list[str]:
        """Names of the tasks that the clock woke and that do not rest now."""
        return self._tasks.names()

    async def _settle(self) -> None:
        if not await self._tasks.settle(self._guard_s):
            raise ClockStuckError(self.busy(), self._guard_s, self.time_ms())

    # -- book-keeping -----------------------------------------------------------------------

    async def _rest_until(
        self,
        waiter: asyncio.Future[bool],
        delay_s: float | None,
        at_expiry: AtExpiry | None = None,
    ) -> bool:
        task = _current_task()
        timer: Timer | None = None
        if delay_s is not None:
            name = task.get_name()

            def expire() -> None:
                nonlocal timer
                # The waiter was woken or cancelled in this turn, before its timer could be
                # cancelled.
                if waiter.done():
                    return
                again_s = None if at_expiry is None else at_expiry()
                if waiter.done():  # what it called has woken the task
                    return
                if again_s is None:
                    self._tasks.wake(task)
                    resolve(waiter, woken=False)
                else:
                    timer = self._push(self._due_us(again_s), expire, name)

            timer = self.arm(self._due_us(delay_s) / 1_000_000, expire, name)
        self._tasks.rest(task)
        try:
            return await waiter
        finally:
            self._tasks.goes_on(task)
            if timer is not None:
                timer.cancel()

    def _due_us(self, after_s: float) -> int:
        """When so many seconds are over."""
        # A wait shorter than the clock's resolution must still wait, or a loop never ends.
        return self._now_us + max(1, round(after_s * 1_000_000))

    def _fire(self, timer: _ManualTimer) -> None:
        # Cleared first, so that a `cancel` from within does no harm.
        callback, timer.callback = timer.callback, None
        if callback is None:
            return
        if timer.what is not None:
            callback()
            return
        # Tasks that a callback starts are the clock's doing, so it waits for them.
        before = asyncio.all_tasks()
        try:
            callback()
        except Exception as exc:  # noqa: BLE001 - as a loop does: one bad timer stops no other
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"timer callback {callback!r} failed", "exception": exc}
            )
        # Sort by name: the order of a set differs between runs, and simulations must be repeatable.
        for task in sorted(asyncio.all_tasks() - before, key=lambda task: task.get_name()):
            self._tasks.wake(task)


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("only an asyncio task can wait for a clock")
    return task

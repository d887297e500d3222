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

from pocketmq.runtime.clock import AtExpiry, ClockTimeout, Latch, Timer, resolve
from pocketmq.runtime.errors import ClockStuckError

T = TypeVar("T")

DEFAULT_GUARD_S = 30.0
"""Real seconds; longer than every request timeout on real time (the longest is 24 s, B-4)."""

PEER_PATIENCE_S = 2.0
"""Real seconds that a healthy peer needs at most for an answer; see `peer_answer`."""

_QUIET_TURNS = 4
"""Turns of a loop without a busy task after which a moment counts as settled, so that callbacks
which a woken task scheduled (delivery by a memory transport, a latch) have run."""


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
        _earliest(self._timers)


Timers: TypeAlias = list[tuple[int, int, _ManualTimer]]
"""A heap, whose first is never cancelled: when each is due, in us, and which was armed first."""


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
        self._busy: dict[asyncio.Task[object], None] = {}
        """Tasks that the clock woke and has not seen resting since, in order of waking."""
        self._resting: set[asyncio.Task[object]] = set()
        """Tasks inside `sleep`, `wait` or `peer_wait`."""
        self._watched: set[asyncio.Task[object]] = set()
        """Tasks that a busy one waits for; when one ends, `_all_rest` is checked again."""
        self._settled: asyncio.Future[None] | None = None
        self._mover: asyncio.Task[object] | None = None
        """The task inside `move_to`: it cannot rest before it returns."""

    # -- reading ----------------------------------------------------------------------------

    def time_ms(self) -> int:
        return self._start_ms + self._now_us // 1000

    def monotonic(self) -> float:
        return self._now_us / 1_000_000

    def next_deadline_ms(self) -> int | None:
        """When the earliest timer is due, in ms since the epoch, rounded up; None without one."""
        timer = _earliest(self._timers)
        return None if timer is None else self._start_ms - (-timer.when_us // 1000)

    def due_ms(self) -> int | None:
        """`next_deadline_ms`, for any thread: it changes nothing."""
        timers = self._timers
        first = timers[0][2] if timers else None
        return None if first is None else self._start_ms - (-first.when_us // 1000)

    def next_due(self) -> Due | None:
        """The earliest timer with what it is; changes nothing, so any thread may ask."""
        timers = self._timers
        timer = timers[0][2] if timers else None
        if timer is None:
            return None
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
        if self._busy or self._moving.locked() or (due_ms is not None and due_ms < time_ms):
            return False
        self._now_us = max(self._now_us, (time_ms - self._start_ms) * 1000)
        return True

    @property
    def is_busy(self) -> bool:
        """Whether a task that it woke does not rest, or somebody moves it. Any thread may ask."""
        return bool(self._busy) or self._moving.locked()

    def stands_still(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether nothing is going on at all in its loop, which must be the caller's.

        False also means that it cannot be seen; `move_to` with the present time waits for it.
        """
        return not self.is_busy and _is_idle(loop)

    # -- waiting ----------------------------------------------------------------------------

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        return self.arm(when_s, callback, None)

    def arm(self, when_s: float, callback: Callable[[], None], what: str | None) -> Timer:
        """`call_at` for a callback that only wakes the task of this name; None: it may do more."""
        when_us = round(when_s * 1_000_000)
        if when_us > self._now_us:
            return self._push(when_us, callback, what)
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
        latch.arm(waiter, lambda: self._wake(task))
        try:
            return await self._rest_until(waiter, timeout_s, at_expiry)
        finally:
            latch.disarm()

    def timeout(self, delay_s: float) -> AbstractAsyncContextManager[None]:
        return ClockTimeout(self, delay_s, self._wake)

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
        was_busy = task in self._busy
        was_resting = task in self._resting
        self._rest(task)
        try:
            yield
        finally:
            if not was_resting:
                self._resting.discard(task)
            if was_busy:
                # What the peer's answer causes belongs to the moment at which it was asked.
                self._wake(task)

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
        if self._moving.locked():
            with self._peer_wait():
                await self._moving.acquire()
        else:
            await self._moving.acquire()
        self._mover = _current_task()
        waiting = _calls_ahead(asyncio.get_running_loop())
        try:
            if at_moment is None or self._busy or waiting:  # who asks at each moment saw it at rest
                await self._settle()
            while self._fire_next(target_us, at_moment):
                if self._busy or waiting is None or waiting:
                    await self._settle()
            return self.time_ms()
        finally:
            self._mover = None
            self._moving.release()

    def pass_moments(self, time_ms: int, at_moment: AtMoment | None = None) -> Passed:
        """Begin a `move_to` without a task: fire timers until something has to be waited for.

        To be called by its loop.
        """
        loop = asyncio.get_running_loop()
        target_us = (time_ms - self._start_ms) * 1000
        while True:
            if self.is_busy or _calls_ahead(loop) is None:
                return Passed.MUST_WAIT
            if not _is_idle(loop):
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
        if at_moment is not None and not at_moment(at_ms, timer.what or "timer"):
            return False
        self._now_us = now_us = max(self._now_us, timer.when_us)
        while timer is not None and timer.when_us <= now_us:
            heapq.heappop(self._timers)
            self._fire(timer)
            timer = _earliest(self._timers)
        return True

    def busy(self) -> list[str]:
        """Names of the tasks that the clock woke and that do not rest now."""
        return [task.get_name() for task in self._busy if not self._rests(task)]

    async def _settle(self) -> None:
        loop = asyncio.get_running_loop()
        guard_ends_at = loop.time() + self._guard_s
        # When nothing is about to be called, and no socket had anything in this turn, there is
        # nothing to wait for. Where that cannot be seen, turns count.
        waiting = _calls_ahead(loop)
        quiet = 0
        if self._all_rest():
            await asyncio.sleep(0)
        while True:
            if self._all_rest():
                quiet += _QUIET_TURNS if waiting is not None and not waiting else 1
                if quiet >= _QUIET_TURNS:
                    break
                await asyncio.sleep(0)
                continue
            quiet = 0
            self._settled = settled = loop.create_future()
            try:
                async with asyncio.timeout_at(guard_ends_at):
                    await settled
            except TimeoutError:
                if not self._all_rest():
                    raise ClockStuckError(self.busy(), self._guard_s, self.time_ms()) from None
            finally:
                self._settled = None
        for task in [task for task in self._busy if task in self._resting]:
            self._forget(task)

    def _all_rest(self) -> bool:
        return all(self._rests(task) for task in self._busy)

    def _rests(self, task: asyncio.Task[object]) -> bool:
        """Whether only the clock or a peer can make this task continue."""
        if task.done() or task in self._resting or task is self._mover:
            return True
        # A parent in `await child` or `await gather(...)` continues when its children do. Neither
        # asyncio nor uvloop has a public way to ask what a task awaits; without this attribute
        # the parent counts as busy until its children end.
        awaited = getattr(task, "_fut_waiter", None)
        children = getattr(awaited, "_children", None) or [awaited]
        pending = [child for child in children if child is not None and not child.done()]
        if not pending or not all(isinstance(child, asyncio.Task) for child in pending):
            return False
        rests = True
        for child in pending:
            if not self._rests(child):
                rests = False
                self._watch(child)
        return rests

    def _watch(self, child: asyncio.Task[object]) -> None:
        if child not in self._watched:
            self._watched.add(child)
            child.add_done_callback(self._watched_ended)

    def _watched_ended(self, child: asyncio.Task[object]) -> None:
        self._watched.discard(child)
        self._look_again()

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
                if waiter.done():
                    return
                again_s = None if at_expiry is None else at_expiry()
                if waiter.done():  # what it called has woken the task
                    return
                if again_s is None:
                    self._wake(task)
                    resolve(waiter, woken=False)
                else:
                    timer = self._push(self._due_us(again_s), expire, name)

            timer = self.arm(self._due_us(delay_s) / 1_000_000, expire, name)
        self._rest(task)
        try:
            return await waiter
        finally:
            self._resting.discard(task)
            if timer is not None:
                timer.cancel()

    def _due_us(self, after_s: float) -> int:
        """When so many seconds are over."""
        # A wait shorter than the clock's resolution must still wait, or a loop never ends.
        return self._now_us + max(1, round(after_s * 1_000_000))

    def _rest(self, task: asyncio.Task[object]) -> None:
        self._resting.add(task)
        self._forget(task)
        self._look_again()

    def _wake(self, task: asyncio.Task[object]) -> None:
        self._resting.discard(task)
        if task not in self._busy and not task.done():
            self._busy[task] = None
            task.add_done_callback(self._ended)

    def _forget(self, task: asyncio.Task[object]) -> None:
        if task in self._busy:
            del self._busy[task]
            task.remove_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._busy.pop(task, None)
        self._look_again()

    def _look_again(self) -> None:
        settled = self._settled
        if settled is None:
            return
        if not self._busy:
            self._look()
        else:  # only in the next turn is it visible that a parent awaits a resting child
            settled.get_loop().call_soon(self._look)

    def _look(self) -> None:
        settled = self._settled
        if settled is not None and not settled.done() and self._all_rest():
            settled.set_result(None)

    def _fire(self, timer: _ManualTimer) -> None:
        callback, timer.callback = timer.callback, None
        if callback is None:
            return
        if timer.what is not None:
            callback()
            return
        before = asyncio.all_tasks()
        try:
            callback()
        except Exception as exc:  # noqa: BLE001 - as a loop does: one bad timer stops no other
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"timer callback {callback!r} failed", "exception": exc}
            )
        for task in sorted(asyncio.all_tasks() - before, key=lambda task: task.get_name()):
            self._wake(task)


def _calls_ahead(loop: asyncio.AbstractEventLoop) -> Collection[object] | None:
    """What a loop is about to call. Asyncio's loops show it; for uvloop's, None."""
    return getattr(loop, "_ready", None)


def _is_idle(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether it can be seen that a loop, the caller's, has nothing left to call."""
    waiting = _calls_ahead(loop)
    if waiting is None:
        return False
    return not waiting or all(_only_wakes(each) for each in waiting)


def _only_wakes(call: object) -> bool:
    """Whether a call ahead does nothing but read what woke asyncio's loop from another thread."""
    callback = getattr(call, "_callback", None)
    return getattr(callback, "__name__", "") == "_read_from_self"


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a clock is waited on inside a task only")
    return task

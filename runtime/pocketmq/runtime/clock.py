"""Time as a seam: `Clock`, the system's clock, and `Latch`, a wake-up that can be waited for.

RocketMQ is driven by timers: a broker is forgotten after 120 s, a rebalance runs every 20 s, a
message is delayed by up to 2 h. All of these ask a `Clock` and never the system, so that a test can
move a running cluster by hours in milliseconds (`manual_clock.py`). Limits on real input and output
(a request's 3 s) stay on real time.

A service typically waits for a period or for a wake-up, whichever comes first. `Latch` is that
wake-up; as in RocketMQ's service threads (`ServiceThread.waitForRunning`), one that comes while
nobody waits is remembered, and several collapse into one:

    service     waits 20 s ..... runs for 2 s ..........  waits: returns at once, runs, waits 20 s
    wake-ups                          first    second
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

AtExpiry = Callable[[], float | None]
"""Called when a wait is over without a wake-up: seconds to wait on, or None to end the wait."""


class Timer(Protocol):
    """A callback that is due at some moment."""

    def cancel(self) -> None:
        """Forget the callback; harmless when it has run."""


class Latch:
    """A wake-up that is remembered until a task waits for it.

    Several wake-ups before a wait collapse into one. One task at a time waits on a latch, by
    `Clock.wait`.
    """

    __slots__ = ("_notified", "_on_wake", "_waiter")

    def __init__(self) -> None:
        self._notified = False
        self._waiter: asyncio.Future[bool] | None = None
        self._on_wake: Callable[[], None] | None = None

    @property
    def notified(self) -> bool:
        """Whether the next wait returns at once."""
        return self._notified

    def wakeup(self) -> None:
        """Wake the waiting task, or let the next wait return at once."""
        if self._notified:
            return
        self._notified = True
        if self._waiter is not None and not self._waiter.done():
            # From here on a manual clock counts the task as busy, even before it runs.
            if self._on_wake is not None:
                self._on_wake()
            self._waiter.set_result(True)

    def take(self) -> bool:
        """Clear a pending wake-up; whether there was one."""
        notified, self._notified = self._notified, False
        return notified

    def arm(self, waiter: asyncio.Future[bool], on_wake: Callable[[], None] | None = None) -> None:
        """Let `wakeup` resolve `waiter`. Only clocks call this, and then `disarm`."""
        if self._waiter is not None:
            raise RuntimeError(
                "two tasks wait on the same latch; give each task a latch of its own"
            )
        self._waiter = waiter
        self._on_wake = on_wake

    def disarm(self) -> None:
        """End a wait, woken or not; the flag is clear afterwards."""
        self._waiter = None
        self._on_wake = None
        # Whatever follows the wait also serves a wake-up that came as the wait expired.
        self._notified = False


class Clock(Protocol):
    """Tells the time, and waits for a later one."""

    def time_ms(self) -> int:
        """Wall clock in ms since the epoch; an operator may set it back."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never decreases."""

    async def sleep(self, delay_s: float) -> None:
        """Return `delay_s` later; a delay of zero or less gives other tasks one turn."""

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` once `monotonic()` has reached `when_s`; soon, if it already has."""

    def timeout(self, delay_s: float) -> AbstractAsyncContextManager[None]:
        """Raise `TimeoutError` in a block that takes longer than `delay_s` on this clock."""

    async def wait(
        self, latch: Latch, timeout_s: float | None, at_expiry: AtExpiry | None = None
    ) -> bool:
        """Wait for a wake-up, for at most `timeout_s`; returns whether it came.

        A wake-up from before the call counts. The latch is clear afterwards in both cases.
        A manual clock asks `at_expiry`, if given, before it ends the wait: a task whose work needs
        no waiting then costs no turn of the loop. Other clocks never ask.
        """

    def peer_wait(self) -> AbstractContextManager[None]:
        """Declare that in this block the current task waits for another process.

        A manual clock does not count such a task as busy; other clocks ignore this.
        """

    async def peer_answer(
        self, answer: Awaitable[T], peer: str = "", limit_s: float | None = None
    ) -> T:
        """Wait for what another process answers, and return it.

        A manual clock stands still for up to `PEER_PATIENCE_S` of real time, so that what the
        answer sets off belongs to the moment of the question; then the peer counts as frozen, as
        in `peer_wait`. It does not stand still at all for a peer that it was told is frozen.
        Other clocks just wait.

        Args:
            answer: What to wait for; it has a limit of its own, in real time.
            peer: Address of the process that is asked.
            limit_s: Seconds on this clock that a frozen peer is waited for; None: no limit.

        Raises:
            TimeoutError: The peer is frozen, and `limit_s` is over.
        """
        ...


class ClockTimeout:
    """`asyncio.timeout`, on any clock."""

    def __init__(
        self, clock: Clock, delay_s: float, on_expiry: Callable[[asyncio.Task[object]], None]
    ) -> None:
        self._clock = clock
        self._delay_s = delay_s
        self._on_expiry = on_expiry
        self._expired = False
        self._cancelling = 0
        self._timer: Timer | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("clock.timeout() can be used only inside an asyncio task")
        # `__aexit__` leaves out cancellations that were requested before the block.
        self._cancelling = task.cancelling()

        def expire() -> None:
            self._expired = True
            # Call this first, so that a manual clock waits for the cancelled task.
            self._on_expiry(task)
            task.cancel()

        self._timer = self._clock.call_at(self._clock.monotonic() + self._delay_s, expire)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._expired:
            return
        task = asyncio.current_task()
        # The same count as asyncio.timeout keeps: a cancel from elsewhere must win over ours.
        if (
            task is not None
            and task.uncancel() <= self._cancelling
            and kind is not None
            and issubclass(kind, asyncio.CancelledError)
        ):
            raise TimeoutError(f"nothing within {self._delay_s:g} s") from exc


NO_WAIT: Final = contextlib.nullcontext()
"""The `peer_wait` of clocks that ignore it: it need not be entered."""


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(_loop_delay_s(delay_s) if delay_s > 0 else 0)

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        delay_s = _loop_delay_s(max(0.0, when_s - time.monotonic()))
        return asyncio.get_running_loop().call_later(delay_s, callback)

    def timeout(self, delay_s: float) -> AbstractAsyncContextManager[None]:
        return ClockTimeout(self, delay_s, lambda task: None)

    async def wait(
        self, latch: Latch, timeout_s: float | None, _at_expiry: AtExpiry | None = None
    ) -> bool:
        if latch.take():
            await asyncio.sleep(0)  # a service that wakes itself must not starve the loop
            return True
        if timeout_s is not None and timeout_s <= 0:
            # A wake-up in this turn still counts.
            await asyncio.sleep(0)
            return latch.take()
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        latch.arm(waiter)
        timer = (
            self.call_at(self.monotonic() + timeout_s, lambda: resolve(waiter, woken=False))
            if timeout_s is not None
            else None
        )
        try:
            return await waiter
        finally:
            # Also when cancelled: the next wait must not find this one's waiter.
            latch.disarm()
            if timer is not None:
                timer.cancel()

    def peer_wait(self) -> AbstractContextManager[None]:
        return NO_WAIT

    async def peer_answer(
        self, answer: Awaitable[T], _peer: str = "", _limit_s: float | None = None
    ) -> T:
        return await answer


def _loop_delay_s(delay_s: float) -> float:
    """What to ask of the running loop so that it does not call before `delay_s` is over."""
    if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        return delay_s
    # uvloop counts in whole milliseconds from a truncated present: it called 0.7 ms early.
    return math.ceil(delay_s * 1000 + 1) / 1000


def resolve(waiter: asyncio.Future[bool], *, woken: bool) -> None:
    """Answer a wait, unless it was answered or cancelled in the same turn of the loop."""
    if not waiter.done():
        waiter.set_result(woken)

"""RebalanceService: when a client's consumers rebalance (C-20, C-21).

One per client instance, for all of its consumers. Every 20 s, and whenever somebody wakes it: a
broker's notification, a start, a resume, a refused lock. The timer is the safety net: a lost
notification costs 20 s, nothing more. From 5.2 on two runs are at least 1 s apart, and a run that
ends unbalanced (a lock refused, a broker that did not answer) is followed by another after 1 s.

The first run ends unbalanced, the second balanced; somebody wakes the service at 0.4 s and 0.7 s:

    seconds    0.0    0.4    0.7    1.0    20.7   21.0
    4.9        run    run    run           run
    5.x        run    wait   wait   run           run
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import PeriodicService

EPSILON_S = 1e-6


class RebalanceService:
    """The timer around `rebalance_all`.

    Args:
        clock: What the 20 s are measured on.
        interval_ms: C-20.
        min_interval_ms: The profile's; None before 5.2.
        rebalance_all: Lets every consumer rebalance; whether all are balanced.
        name: Names the task.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        interval_ms: int,
        min_interval_ms: int | None,
        rebalance_all: Callable[[], Awaitable[bool]],
        name: str = "rebalance",
    ) -> None:
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._min_interval_s = None if min_interval_ms is None else min_interval_ms / 1000
        self._rebalance_all = rebalance_all
        self._last_run_at = float("-inf")
        self._service = PeriodicService(name, clock, self._interval_s, self._run)

    def start(self) -> None:
        """Begin to wait; the first run comes after a period or a wake-up."""
        self._service.start()

    def wakeup(self) -> None:
        """Rebalance as soon as possible; several calls before that make one run."""
        self._service.wakeup()

    def wakeup_later(self, delay_ms: int) -> None:
        """Rebalance that much later (a refused lock, C-25.3)."""
        self._clock.call_at(self._clock.monotonic() + delay_ms / 1000, self._service.wakeup)

    async def stop(self) -> None:
        """Return when no run is under way and none will come."""
        await self._service.stop()

    # behaviours 2 and 60
    async def _run(self) -> float:
        now = self._clock.monotonic()
        if self._min_interval_s is not None:
            since_s = now - self._last_run_at
            if since_s < self._min_interval_s - EPSILON_S:
                return self._min_interval_s - since_s
        balanced = await self._rebalance_all()
        self._last_run_at = self._clock.monotonic()
        if balanced or self._min_interval_s is None:
            return self._interval_s
        return self._min_interval_s

"""Says what held the event loop: one log line for each turn that took too long.

A role does everything in one loop. While one turn runs, nobody else is served: a turn of 228 ms is
228 ms of waiting for every client. A timer is due every few milliseconds; when it comes late, a
turn was long, and what happened in between tells the likely cause:

    loop.slow_turn late_ms=228 cpu_ms=221 gc_ms=215 ...     a garbage collection
    loop.slow_turn late_ms=228 cpu_ms=225 gc_ms=0 ...       work: a large request, a recovery
    loop.slow_turn late_ms=228 cpu_ms=3 major_faults=41     the disk: pages were read back
    loop.slow_turn late_ms=228 cpu_ms=3 preempted=19        other processes had the processor

It is off unless asked for (`--slow-turn-ms 50`), and then costs a timer.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from typing import NamedTuple

import structlog

log = structlog.get_logger()

_TICKS_PER_LIMIT = 4


class TurnSample(NamedTuple):
    """Running sums of this process at one moment."""

    wall_ms: float
    cpu_ms: float
    gc_ms: float
    major_faults: int
    """Pages that had to come from the disk."""
    waited: int
    """How often the process slept for something: a disk, a lock, no work."""
    preempted: int
    """How often another process took the processor."""


class SlowTurn(NamedTuple):
    """A turn that was too long; differences between two samples."""

    late_ms: int
    cpu_ms: int
    gc_ms: int
    major_faults: int
    waited: int
    preempted: int


def slow_turn(
    before: TurnSample, now: TurnSample, *, tick_ms: float, limit_ms: float
) -> SlowTurn | None:
    """What to say of the time between two ticks; None when no turn in it was too long.

    Args:
        before: at the last tick.
        now: at this one.
        tick_ms: how long after `before` this tick was due.
        limit_ms: so much later is too late.
    """
    late_ms = now.wall_ms - before.wall_ms - tick_ms
    if late_ms < limit_ms:
        return None
    return SlowTurn(
        round(late_ms),
        round(now.cpu_ms - before.cpu_ms),
        round(now.gc_ms - before.gc_ms),
        now.major_faults - before.major_faults,
        now.waited - before.waited,
        now.preempted - before.preempted,
    )


class SlowTurns:
    """Watches the running loop; real time, also in a process whose protocol clock is manual.

    Args:
        limit_ms: turns that take longer are logged.
    """

    def __init__(self, limit_ms: float) -> None:
        self._limit_ms = limit_ms
        self._tick_ms = limit_ms / _TICKS_PER_LIMIT
        self._gc_ms = 0.0
        self._gc_began = 0.0
        self._last: TurnSample | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; `stop` ends it."""
        gc.callbacks.append(self._collected)
        self._last = self._sample()
        self._arm()

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.callbacks.remove(self._collected)

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._tick_ms / 1000, self._tick)

    def _tick(self) -> None:
        now = self._sample()
        if self._last is not None:
            slow = slow_turn(self._last, now, tick_ms=self._tick_ms, limit_ms=self._limit_ms)
            if slow is not None:
                log.warning("loop.slow_turn", **slow._asdict())
                now = self._sample()  # the line itself is no turn of the role's
        self._last = now
        self._arm()

    def _collected(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_began = time.perf_counter()
        else:
            self._gc_ms += (time.perf_counter() - self._gc_began) * 1000

    def _sample(self) -> TurnSample:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return TurnSample(
            time.perf_counter() * 1000,
            (used.ru_utime + used.ru_stime) * 1000,
            self._gc_ms,
            used.ru_majflt,
            used.ru_nvcsw,
            used.ru_nivcsw,
        )

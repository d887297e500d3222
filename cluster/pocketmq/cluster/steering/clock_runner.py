"""A manual clock that runs by itself, at a multiple of real time, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

STEP_S = 0.1
"""Real seconds between two moves."""

MOST_FAILURES = 20
"""Moves that fail one after the other before it gives up: a role that has just been killed makes
one fail, and the next move goes without it."""


class ClockRunner:
    """Moves a clock as real time passes.

    Args:
        advance: Moves it by protocol seconds.
    """

    def __init__(self, advance: Callable[[float], Awaitable[None]]) -> None:
        self._advance = advance
        self._clock = SystemClock()
        self._task: asyncio.Task[None] | None = None
        self.speed = 0.0
        """Protocol seconds for one real second; 0 while it stands still."""

    async def run(self, speed: float) -> None:
        """Run from now on, at this speed."""
        # The former run ends first: two would move the time twice.
        await self.stop()
        self.speed = speed
        running = self._move(speed)
        self._task = asyncio.get_running_loop().create_task(running, name="clock runner")

    async def stop(self) -> None:
        """Stand still; harmless when it does."""
        task, self._task = self._task, None
        self.speed = 0.0  # a move under way comes to its end first
        if task is not None:
            # The move under way completes first: roles that stop during a move make it fail.
            await asyncio.wait([task])

    async def _move(self, speed: float) -> None:
        last_at = self._clock.monotonic()
        failures = 0
        while self.speed == speed:
            await self._clock.sleep(STEP_S)
            now = self._clock.monotonic()
            # The time of a slow move counts too, so that the clock keeps its speed.
            passed_s, last_at = now - last_at, now
            try:
                await self._advance(passed_s * speed)
                failures = 0
            except PocketMQError as exc:
                failures += 1
                log.debug("clock.not_moved", reason=str(exc))
                # The roles are gone or broken: it would log the same for ever.
                if failures == MOST_FAILURES:
                    log.warning("clock.stopped", reason=str(exc))
                    self.speed = 0.0

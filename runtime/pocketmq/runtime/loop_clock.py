"""`LoopClock`: a process whose time is its event loop's, as in the deterministic simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pocketmq.runtime.clock import SystemClock, Timer


class LoopClock(SystemClock):
    """Reads a loop's own time; on a loop with virtual time nothing ever waits.

    Args:
        loop: Whose `time()` counts.
        start_ms: Wall clock in epoch ms when the loop's time is 0.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int) -> None:
        self.wall_offset_ms = start_ms
        """Add to it, and the wall clock jumps; `monotonic` takes no notice."""
        self._loop = loop

    def time_ms(self) -> int:
        return self.wall_offset_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(max(0.0, delay_s))

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_at(when_s, callback)

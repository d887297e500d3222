"""`LoopClock`: a process whose time is its event loop's, as in the deterministic simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pocketmq.runtime.clock import SystemClock, Timer

_LATE_S = 1e-6


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
        await asyncio.sleep(max(0.0, delay_s))  # noqa: TID251 - the seam itself

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_at(when_s, callback)


class DriftingClock(LoopClock):
    """One machine's clock that runs too fast or too slow.

    Args:
        loop: Runs on true time.
        start_ms: Wall clock in epoch ms when the loop's time is 0.
        rate: Seconds of this clock in one true second.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int, rate: float) -> None:
        super().__init__(loop, start_ms)
        self._rate = rate

    def time_ms(self) -> int:
        return self.wall_offset_ms + int(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return self._loop.time() * self._rate

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(max(0.0, delay_s / self._rate))  # noqa: TID251 - as above

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        # Not a rounding error too early: the caller would find its time not come, and wait anew.
        return self._loop.call_at(when_s / self._rate + _LATE_S, callback)

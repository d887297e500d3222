"""What the channels of this process have written and read.

Whoever moves a manual clock asks it whether bytes are still under way between the roles of this
process; a moved clock would otherwise overtake a request that was sent before.
"""

from __future__ import annotations

import asyncio


class Flow:
    """Bytes that the channels of one event loop have written and read; only its thread counts."""

    __slots__ = ("read", "written")

    def __init__(self) -> None:
        self.read = 0
        self.written = 0


class Traffic:
    """What the channels of this process have written and read, by event loop."""

    __slots__ = ("_flows", "writes")

    def __init__(self) -> None:
        self.writes = 0
        """How often anything was written. Threads may lose a count to each other, never the
        change."""
        self._flows: dict[int, Flow] = {}

    def of(self, loop: asyncio.AbstractEventLoop) -> Flow:
        """The counts of one loop, and of those that had its place in memory before."""
        return self._flows.setdefault(id(loop), Flow())

    def in_flight(self) -> int:
        """Bytes written and not read in this process; peers in other processes make it drift."""
        return sum(each.written - each.read for each in list(self._flows.values()))


TRAFFIC = Traffic()
"""Of all channels of this process."""

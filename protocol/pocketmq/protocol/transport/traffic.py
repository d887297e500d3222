"""What the channels of this process have written and read.

Whoever moves a manual clock asks it whether bytes are still under way between the roles of this
process; a moved clock would otherwise overtake a request that was sent before.
"""

from __future__ import annotations

import asyncio


class Flow:
    """Bytes that the channels of one event loop have read and written; only its thread counts."""

    __slots__ = ("near_read", "read", "sent")

    def __init__(self) -> None:
        self.read = 0
        self.near_read = 0
        """Of `read`, what came from channels of this process."""
        self.sent: dict[Flow, int] = {}
        """What was written to channels of this process, by the loop that has to read it."""


class Traffic:
    """What the channels of this process have written and read, by event loop."""

    __slots__ = ("_ends", "_flows", "writes")

    def __init__(self) -> None:
        self.writes = 0
        """How often anything was written. Threads may lose a count to each other, never the
        change."""
        self._flows: dict[int, Flow] = {}
        self._ends: dict[tuple[str, str], Flow] = {}
        """Both ends of each connection: its own address and the peer's -> its loop."""

    def of(self, loop: asyncio.AbstractEventLoop) -> Flow:
        """The counts of one loop, and of those that had its place in memory before."""
        return self._flows.setdefault(id(loop), Flow())

    def unread(self, flow: Flow) -> int:
        """Bytes that a loop has not read yet; those of connections that ended stay in the count."""
        # Bytes under way: what others have sent here, less what was read here.
        found = -flow.near_read
        for each in list(self._flows.values()):
            found += each.sent.get(flow, 0)
        return found

    def opened(self, ends: tuple[str, str], flow: Flow) -> None:
        """A connection's end with these addresses, its own and the peer's, belongs to a loop."""
        self._ends[ends] = flow

    def closed(self, ends: tuple[str, str]) -> None:
        """The end is no more."""
        self._ends.pop(ends, None)

    def far_end(self, ends: tuple[str, str]) -> Flow | None:
        """The loop of the peer; None: it is in another process."""
        # Reversed: one end's local address is the other end's peer address.
        return self._ends.get(ends[::-1])


TRAFFIC = Traffic()
"""Of all channels of this process."""


class LoopInbox:
    """What the channels of one event loop bring: an `Inbox` for moving clocks."""

    __slots__ = ("_flow",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._flow = TRAFFIC.of(loop)

    def read(self) -> int:
        """Bytes read so far."""
        return self._flow.read

    def unread(self) -> int:
        """Bytes that channels of this process have sent there, and that are not read yet."""
        return TRAFFIC.unread(self._flow)

"""Manual clocks of clients in the test's process, moved together with the cluster's roles.

A `ManualClock` belongs to one loop. A client may be created outside of any loop (`Producer(...)` in
a plain function, started in a loop later), so each client gets its own clock, which notes the loop
in which a timer is first set on it.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Collection
from typing import ClassVar

from pocketmq.protocol.transport.traffic import LoopInbox
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.runtime.manual_time.clock_members import ClockMember, NearMember
from pocketmq.runtime.manual_time.manual_clock import ManualClock


class ClientClock(ManualClock):
    """A manual clock that notes the loop in which it is used."""

    def __init__(self, start_ms: int) -> None:
        super().__init__(start_ms)
        self.loop: asyncio.AbstractEventLoop | None = None

    def arm(self, when_s: float, callback: Callable[[], None], what: str | None) -> Timer:
        # Timers are set in the client's loop, which the clock's maker does not know.
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        return super().arm(when_s, callback, what)


class ClientClocks:
    """The clocks of one cluster's clients in this process. Thread-safe.

    Args:
        time_ms: Returns the cluster's time in epoch ms.
    """

    MEMBER_NAME: ClassVar[str] = "a client in the test"

    def __init__(self, time_ms: Callable[[], int]) -> None:
        self._time_ms = time_ms
        # Weak references: a client that is no longer used must not be waited for.
        self._clocks: weakref.WeakSet[ClientClock] = weakref.WeakSet()
        self._lock = threading.Lock()  # clients may be created in any thread

    def make(self) -> Clock:
        """Create the clock of a new client."""
        clock = ClientClock(self._time_ms())
        with self._lock:
            self._clocks.add(clock)
        return clock

    def made(self, clock: Clock) -> bool:
        """Whether `make` created this clock."""
        with self._lock:
            return clock in self._clocks

    def known(self) -> Collection[object]:
        """Differs when clients were made, began to use their clocks, or are gone."""
        with self._lock:
            # The loop is included, as it changes the way in which a clock is moved.
            return {(id(each), id(each.loop)) for each in self._clocks}

    def members(self, frozen: Collection[str]) -> list[ClockMember]:
        """The clocks that can be moved now; those of closed loops are forgotten.

        Args:
            frozen: Addresses of frozen roles, for whose answers they shall not wait.
        """
        with self._lock:
            clocks = list(self._clocks)
        for each in clocks:
            each.note_frozen(frozen)
        # A loop that does not run cannot answer, and would block every move.
        return [_member(each) for each in clocks if each.loop is None or _runs(each.loop)]


def _member(clock: ClientClock) -> NearMember:
    inbox = None if clock.loop is None else LoopInbox(clock.loop)
    return NearMember(ClientClocks.MEMBER_NAME, clock, inbox, clock.loop)


def _runs(loop: asyncio.AbstractEventLoop) -> bool:
    return loop.is_running()

"""Requests under way to one peer: opaque -> who waits, and until when (E-5).

Pure: the caller brings the time. `transport/timed_calls.py` keeps one timer at `next_deadline`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

WaiterT = TypeVar("WaiterT")


class PendingCalls(Generic[WaiterT]):
    """Requests that were sent and not answered yet; a waiter is whatever the caller answers by."""

    __slots__ = ("_calls", "_next_opaque", "next_deadline")

    def __init__(self) -> None:
        self._calls: dict[int, tuple[float, WaiterT]] = {}
        self._next_opaque = 0
        self.next_deadline: float | None = None
        """No call ends before this moment; it may be too early, never too late."""

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, deadline: float, waiter: WaiterT) -> int:
        """Note a call and return the opaque to send it with."""
        calls = self._calls
        opaque = self._next_opaque
        while opaque in calls:  # after 2^31 calls one may still be open
            opaque = (opaque + 1) & 0x7FFFFFFF
        self._next_opaque = (opaque + 1) & 0x7FFFFFFF
        calls[opaque] = (deadline, waiter)
        if self.next_deadline is None or deadline < self.next_deadline:
            self.next_deadline = deadline
        return opaque

    def take(self, opaque: int) -> WaiterT | None:
        """Who waits for the response with this number; None when nobody does any more."""
        call = self._calls.pop(opaque, None)
        return None if call is None else call[1]

    def forget(self, opaque: int) -> None:
        """The caller gave up; a late answer will be dropped."""
        self._calls.pop(opaque, None)

    def expire(self, now: float) -> list[WaiterT]:
        """Remove the calls whose deadline has come and return who waited for them."""
        late = [opaque for opaque, (deadline, _) in self._calls.items() if deadline <= now]
        waiting = [self._calls.pop(opaque)[1] for opaque in late]
        self.next_deadline = min((call[0] for call in self._calls.values()), default=None)
        return waiting

    def take_all(self) -> list[WaiterT]:
        """Remove all calls, because the connection is closed, and return who waited for them."""
        calls, self._calls = self._calls, {}
        self.next_deadline = None
        return [waiter for _, waiter in calls.values()]

"""Requests under way to one peer: opaque -> callback and deadline (E-5).

Pure: the caller brings the time. `transport/timed_calls.py` keeps one timer at `next_deadline`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pocketmq.protocol.command import Command

OnAnswer: TypeAlias = Callable[[Command | Exception], None]


class PendingCalls:
    """Requests that were sent and not answered yet."""

    __slots__ = ("_calls", "_next_opaque", "next_deadline")

    def __init__(self) -> None:
        self._calls: dict[int, tuple[float, OnAnswer]] = {}
        self._next_opaque = 0
        self.next_deadline: float | None = None
        """No call ends before this moment; it may be too early, never too late."""

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, deadline: float, on_answer: OnAnswer) -> int:
        """Note a call and return the opaque to send it with."""
        calls = self._calls
        opaque = self._next_opaque
        while opaque in calls:  # after 2^31 calls one may still be open
            opaque = (opaque + 1) & 0x7FFFFFFF
        self._next_opaque = (opaque + 1) & 0x7FFFFFFF
        calls[opaque] = (deadline, on_answer)
        if self.next_deadline is None or deadline < self.next_deadline:
            self.next_deadline = deadline
        return opaque

    def complete(self, response: Command) -> bool:
        """Hand a response to its caller; False when no caller waits for it any more."""
        call = self._calls.pop(response.opaque, None)
        if call is None:
            return False
        call[1](response)
        return True

    def forget(self, opaque: int) -> None:
        """The caller gave up; a late answer will be dropped."""
        self._calls.pop(opaque, None)

    def expire(self, now: float) -> list[OnAnswer]:
        """Remove the calls whose deadline has come and return who waited for them."""
        late = [opaque for opaque, (deadline, _) in self._calls.items() if deadline <= now]
        waiting = [self._calls.pop(opaque)[1] for opaque in late]
        self.next_deadline = min((call[0] for call in self._calls.values()), default=None)
        return waiting

    def fail_all(self, error: Exception) -> None:
        """Hand `error` to every caller, because the connection is closed."""
        calls, self._calls = self._calls, {}
        self.next_deadline = None
        for _, on_answer in calls.values():
            on_answer(error)

"""The requests of one connection that wait for a response, and when they give up (E-5)."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeAlias, TypeVar

from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import RequestTimeoutError
from pocketmq.protocol.header import Header

WaiterT = TypeVar("WaiterT")

Waiter: TypeAlias = tuple[asyncio.Future[Command], type[Header], float, str]
"""The future of a response; of the request its kind and time-out in seconds, and its peer."""


class PendingCalls(Generic[WaiterT]):
    """Opaque -> who waits, and until when; times are the caller's.

    A call that is answered in time is never put in order. When one is late, all that are open then
    are: they end one after the other, and none of them is looked at for the sake of another.
    """

    __slots__ = ("_calls", "_first_unordered", "_next_opaque", "_ordered")

    def __init__(self) -> None:
        self._calls: dict[int, tuple[float, WaiterT]] = {}
        self._next_opaque = 0
        self._ordered: list[tuple[float, int]] = []
        """Deadline and opaque of those that were open when they were put in order, the next one
        last; some are answered by now."""
        self._first_unordered: float | None = None
        """No call that came since ends before this moment."""

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def next_deadline(self) -> float | None:
        """No call ends before this moment; it may be too early, never too late."""
        first = self._first_unordered
        if self._ordered and (first is None or self._ordered[-1][0] < first):
            return self._ordered[-1][0]
        return first

    def add(self, deadline: float, waiter: WaiterT) -> int:
        """Note a call and return the opaque to send it with."""
        calls = self._calls
        opaque = self._next_opaque
        while opaque in calls:  # after 2^31 calls one may still be open
            opaque = (opaque + 1) & 0x7FFFFFFF
        self._next_opaque = (opaque + 1) & 0x7FFFFFFF
        calls[opaque] = (deadline, waiter)
        if self._first_unordered is None or deadline < self._first_unordered:
            self._first_unordered = deadline
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
        if self._first_unordered is not None and self._first_unordered <= now:
            self._put_in_order()
        calls, ordered = self._calls, self._ordered
        waiting: list[WaiterT] = []
        while ordered:
            deadline, opaque = ordered[-1]
            call = calls.get(opaque)
            if call is not None and call[0] == deadline:  # else it was answered
                if deadline > now:
                    break
                waiting.append(call[1])
                del calls[opaque]
            ordered.pop()
        return waiting

    def take_all(self) -> list[WaiterT]:
        """Remove all calls, because the connection is closed, and return who waited for them."""
        calls, self._calls = self._calls, {}
        self._ordered, self._first_unordered = [], None
        return [waiter for _, waiter in calls.values()]

    def _put_in_order(self) -> None:
        open_calls = ((deadline, opaque) for opaque, (deadline, _) in self._calls.items())
        # The earliest deadline comes last, where a list gives it up at no cost.
        self._ordered = sorted(open_calls, reverse=True)
        self._first_unordered = None


class TimedCalls(PendingCalls[Waiter]):
    """Pending calls with one timer, which ends those that nobody answers in time.

    The deadlines run on the loop's real time, not on the protocol's `Clock`.
    """

    __slots__ = ("_loop", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        """When the timer fires. Kept here, because uvloop's handle forgets it once it is due."""

    def begin(
        self, peer: str, kind: type[Header], timeout_s: float
    ) -> tuple[int, asyncio.Future[Command]]:
        """The opaque to send a request with, and the future of its response.

        Args:
            peer: Address of the other side, for the error.
            kind: Of the request; its name is for the error.
            timeout_s: Real seconds; then the future fails with `RequestTimeoutError`.
        """
        loop = self._loop
        future: asyncio.Future[Command] = loop.create_future()
        deadline = loop.time() + timeout_s
        opaque = self.add(deadline, (future, kind, timeout_s, peer))
        # The timer would fire too late for this call.
        if self._timer is None or deadline < self._timer_at:
            self._arm()
        return opaque, future

    def complete(self, response: Command) -> bool:
        """Hand a response to its caller; False when no caller waits for it any more."""
        waiter = self.take(response.opaque)
        if waiter is None:
            return False
        future = waiter[0]
        # The caller may have been cancelled meanwhile.
        if not future.done():
            future.set_result(response)
        return True

    def fail_all(self, error: Exception) -> None:
        """The connection has ended: hand `error` to every caller, and stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Take all calls first: the callback of a future may begin a new one.
        for future, _, _, _ in self.take_all():
            if not future.done():
                future.set_exception(error)

    def _arm(self) -> None:
        deadline = self.next_deadline
        if deadline is None:
            return
        if self._timer is not None:
            # The earlier timer sets the next one when it fires.
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        for future, kind, timeout_s, peer in self.expire(self._loop.time()):
            if not future.done():
                name = kind.__name__.replace("RequestHeader", "")
                future.set_exception(RequestTimeoutError(peer, name, round(timeout_s * 1000)))
        self._arm()

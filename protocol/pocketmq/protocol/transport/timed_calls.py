"""`TimedCalls`: the requests of one connection that wait for a response, and when they give up."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from pocketmq.protocol.command import Command
from pocketmq.protocol.connection import PendingCalls
from pocketmq.protocol.errors import RequestTimeoutError
from pocketmq.protocol.header import Header

Waiter: TypeAlias = tuple[asyncio.Future[Command], type[Header], float, str]
"""The future of a response; of the request its kind and time-out in seconds, and its peer."""


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
        if self._timer is None or deadline < self._timer_at:
            self._arm()
        return opaque, future

    def complete(self, response: Command) -> bool:
        """Hand a response to its caller; False when no caller waits for it any more."""
        waiter = self.take(response.opaque)
        if waiter is None:
            return False
        future = waiter[0]
        if not future.done():
            future.set_result(response)
        return True

    def fail_all(self, error: Exception) -> None:
        """The connection has ended: hand `error` to every caller, and stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for future, _, _, _ in self.take_all():
            if not future.done():
                future.set_exception(error)

    def _arm(self) -> None:
        deadline = self.next_deadline
        if deadline is None:
            return
        if self._timer is not None:
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

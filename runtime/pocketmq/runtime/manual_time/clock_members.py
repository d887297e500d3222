"""The members of a lock step: clocks that are asked for their next timer, and moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from pocketmq.runtime.errors import ClockMemberError
from pocketmq.runtime.manual_time.manual_clock import AtMoment, Due, ManualClock, Passed
from pocketmq.runtime.manual_time.other_loops import Later, run_in

T = TypeVar("T")


_MOST_LOOKS = 8
"""Turns of a member's loop in which it may come to rest before its clock is asked to wait."""


class Deadline(NamedTuple):
    """The earliest timer of a member."""

    at_ms: int
    name: str
    """Of the member."""
    what: str
    """Of the timer."""


class Inbox(Protocol):
    """What the connections of one loop bring; any thread may ask."""

    def read(self) -> int:
        """Bytes that it has read so far."""

    def unread(self) -> int:
        """Bytes that were sent in this process and that it has not read yet."""


class ClockMember(Protocol):
    """One clock, usually another process's, reached over its own port."""

    @property
    def name(self) -> str:
        """For errors, and for choosing which members to leave out."""

    async def time_ms(self) -> int:
        """Where the member's clock stands, in epoch ms."""

    async def next_due(self) -> Due | None:
        """The member's earliest timer; None without one."""

    async def move_to(self, time_ms: int) -> None:
        """Returns when the member has settled at `time_ms`."""


class NearMember:
    """A `ManualClock` of this process as a member.

    Args:
        name: See `ClockMember`.
        clock: Any thread may read it; only its own loop fires its timers.
        inbox: What its loop reads; None: nobody counts.
        loop: In which the clock lives; None: the caller's.
    """

    def __init__(
        self,
        name: str,
        clock: ManualClock,
        inbox: Inbox | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.name = name
        self.clock = clock
        self._inbox = inbox
        self._loop = loop
        self._read_at_rest = -1
        self._unread_at_rest = 0

    @property
    def reads_first(self) -> bool:
        """Whether `run` waits until it has read what was sent to it."""
        return self._inbox is not None

    @property
    def has_news(self) -> bool:
        """Whether there is something that it has read, or will, since it was seen at rest."""
        inbox = self._inbox
        return inbox is None or inbox.read() != self._read_at_rest or self._has_unread(inbox)

    async def time_ms(self) -> int:
        return self.clock.time_ms()

    async def next_due(self) -> Due | None:
        return self.clock.next_due()

    async def move_to(self, time_ms: int) -> None:
        await self.run(time_ms)

    async def run(self, time_ms: int, at_moment: AtMoment | None = None) -> int:
        """`ManualClock.move_to`, in the clock's own loop; what was sent there is read before."""
        return await self._in_loop(
            self._run(time_ms, at_moment), partial(self._run_at_once, time_ms, at_moment)
        )

    async def rest(self, time_ms: int) -> None:
        """Return when what it has read has had its effects; its clock stands there already."""
        loop, inbox = self._loop, self._inbox
        here = asyncio.get_running_loop()
        # For another thread's loop, a look from here or from there is cheaper than a task.
        if loop is not None and loop is not here and inbox:
            if self._seen_at_rest(inbox, loop):
                return
            seen: asyncio.Future[bool] = here.create_future()
            look = partial(self._look, inbox, loop, here, seen, _MOST_LOOKS)
            try:
                loop.call_soon_threadsafe(look)
            except RuntimeError as exc:
                self._explain(exc)
                raise
            # The loop was still busy at each look: wait for it over there.
            if not await seen:
                await self._in_loop(self._run(time_ms, None))
            return
        await self.run(time_ms)

    def _seen_at_rest(self, inbox: Inbox, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it can be seen from here that it rests: it need not be asked then.

        True only of a loop that tells when it waits, and that waited before and after everything
        else was looked at.
        """
        turn = _waiting_turn(loop)
        if not turn or self.clock.is_busy or self._has_unread(inbox):
            return False
        read = inbox.read()
        if _waiting_turn(loop) != turn:
            return False
        self._read_at_rest = read
        return True

    def _look(
        self,
        inbox: Inbox,
        loop: asyncio.AbstractEventLoop,
        here: asyncio.AbstractEventLoop,
        seen: asyncio.Future[bool],
        looks: int,
    ) -> None:
        """Say whether it rests, at once or some turns later; in its own loop."""
        rests = self.clock.stands_still(loop) and not self._has_unread(inbox)
        if rests:
            self._read_at_rest = inbox.read()
        elif looks:
            loop.call_soon(self._look, inbox, loop, here, seen, looks - 1)
            return
        here.call_soon_threadsafe(_resolve, seen, rests)

    def _run_at_once(self, time_ms: int, at_moment: AtMoment | None) -> int | Later:
        # Bytes that were sent so far belong to the present moment, so they are read first.
        if self._inbox is not None and self._has_unread(self._inbox):
            return Later.NEXT_TURN
        passed = self.clock.pass_moments(time_ms, at_moment)
        if passed is not Passed.ALL:
            return Later.NEXT_TURN if passed is Passed.NEXT_TURN else Later.IN_A_TASK
        if self._inbox is not None:
            self._read_at_rest = self._inbox.read()
        return self.clock.time_ms()

    async def _run(self, time_ms: int, at_moment: AtMoment | None) -> int:
        # In a lock step, bytes that were sent so far take effect at the present moment.
        if at_moment is not None and self._inbox is not None and self._has_unread(self._inbox):
            await self.clock.move_to(self.clock.time_ms())
        reached_ms = await self.clock.move_to(time_ms, at_moment)
        inbox = self._inbox
        # Effects of what was read may send more, which may be answered.
        while inbox is not None and inbox.read() != self._read_at_rest:
            self._read_at_rest = inbox.read()
            if not self.clock.stands_still(asyncio.get_running_loop()):
                await self.clock.move_to(reached_ms)  # until what was read has had its effects
        if inbox is not None:
            self._unread_at_rest = inbox.unread()  # what ended connections left never arrives
        return reached_ms

    async def _in_loop(
        self,
        coroutine: Coroutine[object, object, T],
        at_once: Callable[[], T | Later] | None = None,
    ) -> T:
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return await coroutine
        try:
            return await run_in(self._loop, coroutine, at_once)
        except RuntimeError as exc:
            self._explain(exc)
            raise

    def _explain(self, exc: RuntimeError) -> None:
        """Tell a loop that was closed meanwhile from other errors."""
        if self._loop is not None and self._loop.is_closed():
            raise ClockMemberError(self.name, "move its clock", "its loop has ended") from exc

    def _has_unread(self, inbox: Inbox) -> bool:
        return inbox.unread() != self._unread_at_rest


def _resolve(seen: asyncio.Future[bool], rests: bool) -> None:
    if not seen.done():
        seen.set_result(rests)


def _waiting_turn(loop: asyncio.AbstractEventLoop) -> int:
    """Number of the turn in which a loop waits, if it is one that tells; else 0."""
    turn: int = getattr(loop, "waiting_turn", 0)
    return turn

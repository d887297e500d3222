"""Moves several clocks together, deadline by deadline.

One clock moved alone would expire healthy peers whose clock stood still. So each step asks every
member for its next deadline and moves all of them to the smallest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from pocketmq.runtime.errors import ClockMemberError
from pocketmq.runtime.manual_clock import DEFAULT_GUARD_S, ManualClock

T = TypeVar("T")

OnLost = Callable[["ClockMember", ClockMemberError], None]
OnDeadline = Callable[[int, str], None]
"""Told of each deadline that is reached: epoch ms, and whose it is."""

MEMBER_GUARD_S = 2 * DEFAULT_GUARD_S
"""Real seconds for one answer; above the member's own guard, whose error names the busy task."""


class ClockMember(Protocol):
    """One clock, usually another process's, reached over its own port."""

    @property
    def name(self) -> str:
        """For errors, and for choosing which members to leave out."""

    async def time_ms(self) -> int:
        """Where the member's clock stands, in epoch ms."""

    async def next_deadline_ms(self) -> int | None:
        """Epoch ms of the member's earliest timer; None without one."""

    async def move_to(self, time_ms: int) -> None:
        """Returns when the member has settled at `time_ms`."""


class LocalMember:
    """A `ManualClock` of this process as a member."""

    def __init__(self, name: str, clock: ManualClock) -> None:
        self.name = name
        self._clock = clock

    async def time_ms(self) -> int:
        return self._clock.time_ms()

    async def next_deadline_ms(self) -> int | None:
        return self._clock.next_deadline_ms()

    async def move_to(self, time_ms: int) -> None:
        await self._clock.move_to(time_ms)


async def advance(
    members: Sequence[ClockMember],
    by_ms: int,
    *,
    on_lost: OnLost | None = None,
    guard_s: float = MEMBER_GUARD_S,
) -> int:
    """Move all members by `by_ms` from where the furthest of them stands; the epoch ms reached.

    Leave frozen members out of `members`: they would be waited for. See `advance_to`.
    """
    step = _Step(members, on_lost, guard_s)
    times = await step.ask("tell its time", lambda member: member.time_ms())
    if not times:
        raise ValueError("no clock is left to advance")
    target_ms = max(times) + by_ms
    await _advance(step, target_ms)
    return target_ms


async def advance_to(
    members: Sequence[ClockMember],
    time_ms: int,
    *,
    on_lost: OnLost | None = None,
    on_deadline: OnDeadline | None = None,
    guard_s: float = MEMBER_GUARD_S,
) -> int:
    """Move all members to `time_ms`, deadline by deadline; the number of steps taken.

    Args:
        members: Asked and moved concurrently.
        time_ms: Epoch ms; members that are further stay where they are.
        on_lost: Told of a member that does not answer, which is then left out of the rest. Without
            it the first such member ends the advance.
        on_deadline: Told of each deadline that is reached, in order.
        guard_s: Real seconds to wait for one answer.

    Raises:
        ClockMemberError: A member did not answer and there is no `on_lost`.
        ClockStuckError: A member's tasks did not rest.
    """
    return await _advance(_Step(members, on_lost, guard_s), time_ms, on_deadline)


async def deadlines(members: Sequence[ClockMember]) -> list[tuple[int, str]]:
    """Epoch ms of each member's earliest timer, and whose it is; earliest first.

    Raises:
        ClockMemberError: A member did not answer.
    """
    return await _Step(members, None, MEMBER_GUARD_S).deadlines()


async def _advance(step: _Step, time_ms: int, on_deadline: OnDeadline | None = None) -> int:
    steps = 0
    while True:
        due = await step.deadlines()
        next_ms = min(time_ms, due[0][0]) if due else time_ms
        if on_deadline is not None:
            for at_ms, name in due:
                if at_ms <= next_ms:
                    on_deadline(at_ms, name)
        await step.move_to(next_ms)
        steps += 1
        if next_ms >= time_ms:
            return steps


class _Step:
    """The members still in the step, and what happens to one that does not answer."""

    def __init__(
        self, members: Sequence[ClockMember], on_lost: OnLost | None, guard_s: float
    ) -> None:
        self._members = list(members)
        self._on_lost = on_lost
        self._guard_s = guard_s

    async def move_to(self, time_ms: int) -> None:
        await self.ask("move its clock", lambda member: member.move_to(time_ms))

    async def deadlines(self) -> list[tuple[int, str]]:
        async def deadline(member: ClockMember) -> tuple[int | None, str]:
            return await member.next_deadline_ms(), member.name

        answers = await self.ask("tell its deadline", deadline)
        return sorted((at_ms, name) for at_ms, name in answers if at_ms is not None)

    async def ask(self, doing: str, question: Callable[[ClockMember], Awaitable[T]]) -> list[T]:
        members = list(self._members)
        results = await asyncio.gather(
            *(self._guarded(member, question) for member in members), return_exceptions=True
        )
        answers: list[T] = []
        for member, result in zip(members, results, strict=True):
            if isinstance(result, (OSError, EOFError)):  # TimeoutError is an OSError
                reason = str(result) or type(result).__name__
                self._lose(member, ClockMemberError(member.name, doing, reason), result)
            elif isinstance(result, ClockMemberError):
                self._lose(member, result, None)
            elif isinstance(result, BaseException):
                raise result
            else:
                answers.append(result)
        return answers

    async def _guarded(
        self, member: ClockMember, question: Callable[[ClockMember], Awaitable[T]]
    ) -> T:
        async with asyncio.timeout(self._guard_s):
            return await question(member)

    def _lose(
        self, member: ClockMember, error: ClockMemberError, cause: BaseException | None
    ) -> None:
        if self._on_lost is None:
            raise error from cause
        self._members.remove(member)
        self._on_lost(member, error)

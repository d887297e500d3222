"""Moves several clocks together, deadline by deadline.

One clock moved alone would expire healthy peers whose clock stood still. So each step asks every
member for its next deadline and moves all of them to the smallest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Protocol, TypeVar

from pocketmq.runtime.errors import ClockMemberError
from pocketmq.runtime.manual_time.clock_members import ClockMember, Deadline, NearMember
from pocketmq.runtime.manual_time.manual_clock import DEFAULT_GUARD_S, AtMoment
from pocketmq.runtime.shared_timeout import SharedTimeout

T = TypeVar("T")

OnLost = Callable[[ClockMember, ClockMemberError], None]
OnDeadline = Callable[[Deadline], None]
"""Told of each deadline that is reached."""
Until = Callable[[int], Awaitable[bool]]
"""Asked at each moment, in epoch ms, when all have come to rest there; True: go no further."""


class Traffic(Protocol):
    """What members of this process say to each other."""

    @property
    def writes(self) -> int:
        """Changes whenever something is sent."""


_MOST_ROUNDS = 10
"""Of visits to members that have read something, until nobody sends anything more."""

MOST_MOMENTS = 200
"""That one member passes before the others are looked at again, whatever their clocks say."""

MEMBER_GUARD_S = 2 * DEFAULT_GUARD_S
"""Real seconds for one answer; above the member's own guard, whose error names the busy task."""


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
    with contextlib.closing(_Step(members, on_lost, guard_s)) as step:
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
    traffic: Traffic | None = None,
    until: Until | None = None,
    guard_s: float = MEMBER_GUARD_S,
) -> int:
    """Move all members to `time_ms`, deadline by deadline; the number of steps taken.

    Args:
        members: Asked and moved concurrently.
        time_ms: Epoch ms; members that are further stay where they are.
        on_lost: Told of a member that does not answer, which is then left out of the rest. Without
            it the first such member ends the advance.
        on_deadline: Told of each deadline that is reached, in order; from any thread.
        traffic: Makes long advances of members in this process cheap: only a member that has
            something due, or has read something, is visited in its loop.
        until: Asked at each moment, also at the last one; nobody moves while it has not answered.
        guard_s: Real seconds to wait for one answer.

    Raises:
        ClockMemberError: A member did not answer and there is no `on_lost`.
        ClockStuckError: A member's tasks did not rest.
    """
    with contextlib.closing(_Step(members, on_lost, guard_s)) as step:
        near = [each for each in members if isinstance(each, NearMember)]
        # Only clocks of this process can be read without asking.
        if traffic is not None and len(near) == len(members):
            return await _NearStep(step, near, on_deadline, traffic, until).advance(time_ms)
        return await _advance(step, time_ms, on_deadline, until)


async def deadlines(members: Sequence[ClockMember]) -> list[Deadline]:
    """Each member's earliest timer; earliest first.

    Raises:
        ClockMemberError: A member did not answer.
    """
    with contextlib.closing(_Step(members, None, MEMBER_GUARD_S)) as step:
        return await step.deadlines()


async def _advance(
    step: _Step,
    time_ms: int,
    on_deadline: OnDeadline | None = None,
    until: Until | None = None,
) -> int:
    steps = 0
    while True:
        steps += 1
        now_ms = await _one_step(step, time_ms, on_deadline)
        if (until is not None and await until(now_ms)) or now_ms >= time_ms:
            return steps


async def _one_step(step: _Step, time_ms: int, on_deadline: OnDeadline | None) -> int:
    """Move all to the smallest deadline, at most to a moment; where they are now."""
    due = await step.deadlines()
    next_ms = min(time_ms, due[0].at_ms) if due else time_ms
    if on_deadline is not None:
        for each in due:
            if each.at_ms <= next_ms:
                on_deadline(each)
    await step.move_all(next_ms, {each.name for each in due if each.at_ms <= next_ms})
    return next_ms


class _NearStep:
    """Members of this process: whoever has nothing due is moved on without a visit in its loop.

    What a member sends reaches others in their own loops. So whenever something was sent, those who
    have read it or will are visited, and rest, before the next moment.
    """

    def __init__(
        self,
        step: _Step,
        members: Sequence[NearMember],
        on_deadline: OnDeadline | None,
        traffic: Traffic,
        until: Until | None,
    ) -> None:
        self._step = step
        self._members = members
        self._on_deadline = on_deadline
        self._traffic = traffic
        self._until = until

    async def advance(self, time_ms: int) -> int:
        """Move all to a moment; the number of steps taken."""
        steps = 1
        seen = self._traffic.writes
        now_ms = await _one_step(self._step, time_ms, self._on_deadline)
        is_late = False
        while now_ms < time_ms or self._is_due(time_ms):
            steps += 1
            if self._traffic.writes != seen:
                # what was sent has effects at this moment
                seen = await self._settle(now_ms, time_ms)
            if self._until is not None and not self._is_due(now_ms):
                if await self._until(now_ms):
                    return steps
                if self._traffic.writes != seen:  # by who was asked
                    seen = await self._settle(now_ms, time_ms)
            moments, now_ms = await self._run_one(now_ms, time_ms, seen)
            if moments:
                is_late = False
            elif self._traffic.writes != seen and not is_late:
                is_late = True  # whoever was to go on had something to say first
            else:  # somebody is busy
                now_ms = await _one_step(self._step, time_ms, self._on_deadline)
        # Bytes that the last moment has sent belong to that moment, too.
        if self._traffic.writes != seen:
            await self._settle(now_ms, now_ms)
        if self._until is not None:
            await self._until(now_ms)
        return steps

    async def _settle(self, now_ms: int, time_ms: int) -> int:
        """Let everybody rest who may have read something, until nobody sends anything more.

        Whoever is to go on next need not be visited twice: it reads what was sent before it does.

        Returns:
            The traffic's writes that were seen.
        """
        writes = self._traffic.writes
        for _ in range(_MOST_ROUNDS):
            with_news = [each for each in self._members if each.has_news]
            is_next = len(with_news) == 1 and with_news[0] is self._next_owner(time_ms)
            if is_next and self._until is None:
                return writes
            for each in self._members:
                if each.has_news:
                    await self._step.rest(each, now_ms)
            if self._traffic.writes == writes:
                return writes
            writes = self._traffic.writes
        return writes

    def _due(self) -> list[tuple[int, int]]:
        """When each member has something due, and which one it is; earliest first."""
        due = [
            (at_ms, at)
            for at, each in enumerate(self._members)
            if (at_ms := each.clock.due_ms()) is not None
        ]
        due.sort()
        return due

    def _is_due(self, time_ms: int) -> bool:
        """Whether a member that still answers has something to do up to a moment."""
        return any(
            at_ms <= time_ms and self._step.has(each)
            for each in self._members
            if (at_ms := each.clock.due_ms()) is not None
        )

    def _next_owner(self, time_ms: int) -> NearMember | None:
        """Whose timer is due next, until a moment, if it can be told to read its news before."""
        due = self._due()
        if not due or due[0][0] > time_ms:
            return None
        owner = self._members[due[0][1]]
        return owner if owner.reads_first else None

    async def _run_one(self, now_ms: int, time_ms: int, seen: int) -> tuple[int, int]:
        """Let the member whose turn it is go on until it is another's; moments, and where it is."""
        due = self._due()
        # Nothing is due: all skip to the end, unless something was sent that may yet arm a timer.
        if not due or due[0][0] > time_ms:
            quiet = self._traffic.writes == seen
            # If one clock cannot skip, those before it stay at the end.
            if quiet and all(each.clock.skip_to(time_ms) for each in self._members):
                return 1, time_ms
            return 0, now_ms
        owner = self._members[due[0][1]]
        others = [each for each in self._members if each is not owner]
        if self._until is not None:
            limit_ms = due[0][0]  # it is asked before the next moment
        else:  # until a millisecond before the second's turn, so that moments keep their order
            limit_ms = min(time_ms, max(due[0][0], due[1][0] - 1)) if len(due) > 1 else time_ms
        moments = 0
        reached_ms = now_ms

        def at_moment(at_ms: int, what: str) -> bool:
            nonlocal moments, reached_ms
            # Stop as soon as the member has sent something: others must read it at this moment.
            if at_ms > limit_ms or moments >= MOST_MOMENTS or self._traffic.writes != seen:
                return False
            # Move all others first: what this member's timers send must not arrive in the past.
            if not all(each.clock.skip_to(at_ms) for each in others):
                return False
            moments += 1
            reached_ms = at_ms
            if self._on_deadline is not None:
                self._on_deadline(Deadline(at_ms, owner.name, what))
            return True

        await self._step.run(owner, limit_ms, at_moment)
        return moments, reached_ms


class _Step:
    """The members still in the step, and what happens to one that does not answer."""

    def __init__(
        self, members: Sequence[ClockMember], on_lost: OnLost | None, guard_s: float
    ) -> None:
        self._members = list(members)
        self._on_lost = on_lost
        self._guard_s = guard_s
        self._timeout = SharedTimeout(guard_s)

    def close(self) -> None:
        """Forget its timer."""
        self._timeout.close()

    async def move_to(self, time_ms: int, asked: Sequence[ClockMember] | None = None) -> None:
        await self.ask("move its clock", lambda member: member.move_to(time_ms), asked)

    async def move_all(self, time_ms: int, firing: Collection[str]) -> None:
        """Move everybody; whoever has a timer at that moment comes last.

        What a timer sends must not reach a clock that has not been moved yet: a name server would
        take the registration of now for one of the step before, some seconds ago.
        """
        late = [member for member in self._members if member.name in firing]
        if others := [member for member in self._members if member.name not in firing]:
            await self.move_to(time_ms, others)
        if len(late) > 1:
            await self.move_to(time_ms - 1, late)  # and what they send each other: 1 ms at most
        if late:
            await self.move_to(time_ms, late)

    def has(self, member: ClockMember) -> bool:
        """Whether a member is still in the step."""
        return member in self._members

    async def rest(self, member: NearMember, time_ms: int) -> None:
        if member in self._members:
            await self._ask_one(member, "come to rest", member.rest(time_ms))

    async def run(self, member: NearMember, time_ms: int, at_moment: AtMoment) -> None:
        if member in self._members:
            await self._ask_one(member, "move its clock", member.run(time_ms, at_moment))

    async def deadlines(self) -> list[Deadline]:
        async def deadline(member: ClockMember) -> Deadline | None:
            due = await member.next_due()
            return None if due is None else Deadline(due.at_ms, member.name, due.what)

        answers = await self.ask("tell its deadline", deadline)
        return sorted(each for each in answers if each is not None)

    async def ask(
        self,
        doing: str,
        question: Callable[[ClockMember], Awaitable[T]],
        asked: Sequence[ClockMember] | None = None,
    ) -> list[T]:
        members = [each for each in self._members if asked is None or each in asked]
        results: list[T | BaseException]
        if len(members) == 1:  # most often; a task of its own would cost as much as the rest
            try:
                with self._timeout:
                    results = [await question(members[0])]
            except (OSError, EOFError, ClockMemberError) as exc:
                results = [exc]
        else:
            results = await asyncio.gather(
                *(self._guarded(member, question) for member in members), return_exceptions=True
            )
        answers: list[T] = []
        for member, result in zip(members, results, strict=True):
            # A member that does not answer may be left out; any other error is a fault of ours.
            if isinstance(result, (OSError, EOFError, ClockMemberError)):
                self._not_answered(member, doing, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                answers.append(result)
        return answers

    async def _ask_one(
        self, member: ClockMember, doing: str, answer: Coroutine[object, object, object]
    ) -> None:
        """`ask` for one member, thousands of times: without a task, a list or a closure."""
        try:
            with self._timeout:
                await answer
        except (OSError, EOFError, ClockMemberError) as exc:
            self._not_answered(member, doing, exc)

    def _not_answered(self, member: ClockMember, doing: str, error: BaseException) -> None:
        if isinstance(error, ClockMemberError):
            self._lose(member, error, None)
        else:  # TimeoutError is an OSError
            reason = str(error) or type(error).__name__
            self._lose(member, ClockMemberError(member.name, doing, reason), error)

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

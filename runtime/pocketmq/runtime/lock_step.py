"""Moves several clocks together, deadline by deadline.

One clock moved alone would expire healthy peers whose clock stood still. So each step asks every
member for its next deadline and moves all of them to the smallest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import NamedTuple, Protocol, TypeVar

from pocketmq.runtime.errors import ClockMemberError
from pocketmq.runtime.manual_clock import DEFAULT_GUARD_S, AtMoment, Due, ManualClock
from pocketmq.runtime.other_loops import run_in

T = TypeVar("T")

OnLost = Callable[["ClockMember", ClockMemberError], None]
OnDeadline = Callable[["Deadline"], None]
"""Told of each deadline that is reached."""


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
        """`ManualClock.move_to`, in the clock's own loop."""
        return await self._in_loop(self._run(time_ms, at_moment))

    async def rest(self, time_ms: int) -> None:
        """Return when what it has read has had its effects; its clock stands there already."""
        loop, inbox = self._loop, self._inbox
        here = asyncio.get_running_loop()
        if loop is not None and loop is not here and inbox and not self._has_unread(inbox):
            seen: asyncio.Future[bool] = here.create_future()
            look = partial(self._look, inbox, loop, here, seen)
            with self._explained():
                loop.call_soon_threadsafe(look)
            if await seen:
                return
        await self.run(time_ms)

    def _look(
        self,
        inbox: Inbox,
        loop: asyncio.AbstractEventLoop,
        here: asyncio.AbstractEventLoop,
        seen: asyncio.Future[bool],
    ) -> None:
        """Say whether it rests; in its own loop."""
        rests = self.clock.stands_still(loop)
        if rests:
            self._read_at_rest = inbox.read()
        here.call_soon_threadsafe(_resolve, seen, rests)

    async def _run(self, time_ms: int, at_moment: AtMoment | None) -> int:
        reached_ms = await self.clock.move_to(time_ms, at_moment)
        inbox = self._inbox
        while inbox is not None and inbox.read() != self._read_at_rest:
            self._read_at_rest = inbox.read()
            if not self.clock.stands_still(asyncio.get_running_loop()):
                await self.clock.move_to(reached_ms)  # until what was read has had its effects
        if inbox is not None:
            self._unread_at_rest = inbox.unread()  # what ended connections left never arrives
        return reached_ms

    async def _in_loop(self, coroutine: Coroutine[object, object, T]) -> T:
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return await coroutine
        with self._explained():
            return await run_in(self._loop, coroutine)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Tell a loop that was closed meanwhile from other errors."""
        try:
            yield
        except RuntimeError as exc:
            if self._loop is None or not self._loop.is_closed():
                raise
            raise ClockMemberError(self.name, "move its clock", "its loop has ended") from exc

    def _has_unread(self, inbox: Inbox) -> bool:
        return inbox.unread() != self._unread_at_rest


LocalMember = NearMember
"""One whose clock lives in the loop of the caller."""


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
        guard_s: Real seconds to wait for one answer.

    Raises:
        ClockMemberError: A member did not answer and there is no `on_lost`.
        ClockStuckError: A member's tasks did not rest.
    """
    with contextlib.closing(_Step(members, on_lost, guard_s)) as step:
        return await _advance_to(step, members, time_ms, on_deadline, traffic)


async def _advance_to(
    step: _Step,
    members: Sequence[ClockMember],
    time_ms: int,
    on_deadline: OnDeadline | None,
    traffic: Traffic | None,
) -> int:
    near = [each for each in members if isinstance(each, NearMember)]
    if traffic is not None and len(near) == len(members):
        return await _NearStep(step, near, on_deadline, traffic).advance(time_ms)
    return await _advance(step, time_ms, on_deadline)


async def deadlines(members: Sequence[ClockMember]) -> list[Deadline]:
    """Each member's earliest timer; earliest first.

    Raises:
        ClockMemberError: A member did not answer.
    """
    with contextlib.closing(_Step(members, None, MEMBER_GUARD_S)) as step:
        return await step.deadlines()


async def _advance(step: _Step, time_ms: int, on_deadline: OnDeadline | None = None) -> int:
    steps = 0
    while True:
        steps += 1
        if await _one_step(step, time_ms, on_deadline) >= time_ms:
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
    ) -> None:
        self._step = step
        self._members = members
        self._on_deadline = on_deadline
        self._traffic = traffic

    async def advance(self, time_ms: int) -> int:
        """Move all to a moment; the number of steps taken."""
        steps = 1
        seen = self._traffic.writes
        now_ms = await _one_step(self._step, time_ms, self._on_deadline)
        while now_ms < time_ms:
            steps += 1
            if self._traffic.writes != seen:
                await self._settle(now_ms)  # what was sent has effects at this moment
            seen = self._traffic.writes
            moments, now_ms = await self._run_one(now_ms, time_ms, seen)
            if not moments and now_ms < time_ms:  # somebody is busy
                now_ms = await _one_step(self._step, time_ms, self._on_deadline)
        return steps

    async def _settle(self, now_ms: int) -> None:
        """Let everybody rest who may have read something, until nobody sends anything more."""
        for _ in range(_MOST_ROUNDS):
            writes = self._traffic.writes
            for each in self._members:
                if each.has_news:
                    await self._step.rest(each, now_ms)
            if self._traffic.writes == writes:
                return

    async def _run_one(self, now_ms: int, time_ms: int, seen: int) -> tuple[int, int]:
        """Let the member whose turn it is go on until it is another's; moments, and where it is."""
        due = sorted(
            ((found.at_ms, at) for at, each in enumerate(self._members)
             if (found := each.clock.next_due()) is not None)
        )  # fmt: skip
        if not due or due[0][0] > time_ms:
            quiet = self._traffic.writes == seen
            if quiet and all(each.clock.skip_to(time_ms) for each in self._members):
                return 1, time_ms
            return 0, now_ms
        owner = self._members[due[0][1]]
        others = [each for each in self._members if each is not owner]
        limit_ms = min(time_ms, max(due[0][0], due[1][0] - 1)) if len(due) > 1 else time_ms
        moments = 0
        reached_ms = now_ms

        def at_moment(at_ms: int, what: str) -> bool:
            nonlocal moments, reached_ms
            if at_ms > limit_ms or moments >= MOST_MOMENTS or self._traffic.writes != seen:
                return False
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
        self._patience = _Patience(guard_s)

    def close(self) -> None:
        """Forget the timer of its patience."""
        self._patience.close()

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

    async def rest(self, member: NearMember, time_ms: int) -> None:
        await self.ask("come to rest", lambda _: member.rest(time_ms), [member])

    async def run(self, member: NearMember, time_ms: int, at_moment: AtMoment) -> None:
        await self.ask("move its clock", lambda _: member.run(time_ms, at_moment), [member])

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
                with self._patience:
                    results = [await question(members[0])]
            except (OSError, EOFError, ClockMemberError) as exc:
                results = [exc]
        else:
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


class _Patience:
    """`asyncio.timeout`, entered thousands of times in a row by one task: one timer for all.

    Args:
        limit_s: Real seconds that a block may take.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._ends_at = 0.0
        self._task: asyncio.Task[object] | None = None
        """Inside a block."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._is_over = False
        self._task = asyncio.current_task()
        self._ends_at = loop.time() + self._limit_s
        if self._timer is None:
            self._timer = loop.call_at(self._ends_at, self._look, loop)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if self._is_over and task is not None and task.uncancel() == 0:
            raise TimeoutError(f"nothing within {self._limit_s:g} s") from exc

    def close(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._task is None:
            return
        if loop.time() < self._ends_at:
            self._timer = loop.call_at(self._ends_at, self._look, loop)
            return
        self._is_over = True
        self._task.cancel()


def _resolve(seen: asyncio.Future[bool], rests: bool) -> None:
    if not seen.done():
        seen.set_result(rests)

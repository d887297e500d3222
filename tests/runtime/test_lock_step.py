"""Several clocks moved together (style (c), "Time in three layers")."""

from __future__ import annotations

import asyncio

import pytest

from pocketmq.runtime.errors import ClockMemberError, ClockStuckError
from pocketmq.runtime.manual_time.clock_members import ClockMember, Deadline, NearMember
from pocketmq.runtime.manual_time.lock_step import advance, advance_to
from pocketmq.runtime.manual_time.manual_clock import AtMoment, Due, ManualClock
from pocketmq.runtime.periodic import PeriodicService

START_MS = 1_700_000_000_000


class Silent:
    """A frozen process: it never answers."""

    name = "broker-b"

    async def time_ms(self) -> int:
        return await self._never()

    async def next_due(self) -> Due | None:
        await self._never()
        return None

    async def move_to(self, time_ms: int) -> None:
        await self._never()

    async def _never(self) -> int:
        await asyncio.Event().wait()
        raise AssertionError


class Dead(Silent):
    """A killed process: its connection is gone."""

    async def _never(self) -> int:
        raise ConnectionResetError("connection lost")


async def test_no_clock_runs_ahead_of_a_deadline_of_another() -> None:
    first, second = ManualClock(START_MS), ManualClock(START_MS)
    seen: list[tuple[str, int, int]] = []

    def record(name: str) -> None:
        seen.append((name, first.time_ms() - START_MS, second.time_ms() - START_MS))

    services = [
        PeriodicService("scan", first, 5, lambda: record("first")),
        PeriodicService("register", second, 3, lambda: record("second")),
    ]
    for service in services:
        service.start()
    await asyncio.sleep(0)  # noqa: TID251 - one turn, so that both have armed their timers
    await advance([NearMember("a", first), NearMember("b", second)], 10_000)
    # Whoever fires, the other is at the same moment already, and never past it.
    assert seen == [
        ("second", 3_000, 3_000),
        ("first", 5_000, 5_000),
        ("second", 6_000, 6_000),
        ("second", 9_000, 9_000),
        ("first", 10_000, 10_000),
    ]
    assert first.time_ms() == second.time_ms() == START_MS + 10_000
    for service in services:
        await service.stop()


async def test_clocks_with_timers_at_one_moment_are_a_millisecond_apart_at_most() -> None:
    clocks = [ManualClock(START_MS) for _ in range(3)]
    seen: list[list[int]] = []

    def record() -> None:
        seen.append([clock.time_ms() - START_MS for clock in clocks])

    services = [PeriodicService("scan", clock, 30, record) for clock in clocks]
    for service in services:
        service.start()
    await asyncio.sleep(0)  # noqa: TID251 - one turn, so that all have armed their timers
    await advance([NearMember(f"m{at}", clock) for at, clock in enumerate(clocks)], 60_000)
    assert len(seen) == 6
    assert all(max(times) - min(times) <= 1 for times in seen)
    for service in services:
        await service.stop()


async def test_a_peer_is_heard_in_time_when_all_move_and_expires_when_one_moves_alone() -> None:
    async def expired_after(together: bool) -> bool:  # N-2, N-3, B-3
        nameserver, broker = ManualClock(START_MS), ManualClock(START_MS)
        heard_at = nameserver.monotonic()
        expired = False

        async def serve(_r: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal heard_at
            heard_at = nameserver.monotonic()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        def scan() -> None:
            nonlocal expired
            expired = expired or nameserver.monotonic() - heard_at > 120

        async def register() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await reader.read()
            writer.close()

        services = [
            PeriodicService("scan", nameserver, 5, scan),
            PeriodicService("register", broker, 30, register),
        ]
        for service in services:
            service.start()
        await asyncio.sleep(0)  # noqa: TID251 - as above
        members = [NearMember("nameserver", nameserver), NearMember("broker", broker)]
        await advance(members if together else members[:1], 7_200_000)
        for service in services:
            await service.stop()
        server.close()
        await server.wait_closed()
        return expired

    assert not await expired_after(together=True)
    assert await expired_after(together=False)


async def test_it_reports_the_time_reached_and_the_steps_taken() -> None:
    clock = ManualClock(START_MS)
    for at_s in (1.0, 2.0):
        clock.call_at(at_s, lambda: None)
    member = NearMember("a", clock)
    assert await advance_to([member], START_MS + 5_000) == 3
    assert await advance([member], 2_500) == START_MS + 7_500


async def test_members_that_differ_meet_at_the_target() -> None:
    early, late = ManualClock(START_MS), ManualClock(START_MS + 4_000)
    await advance([NearMember("early", early), NearMember("late", late)], 1_000)
    assert early.time_ms() == late.time_ms() == START_MS + 5_000


@pytest.mark.parametrize("member", [Silent(), Dead()], ids=["frozen", "dead"])
async def test_a_member_that_does_not_answer_ends_the_advance_and_is_named(
    member: ClockMember,
) -> None:
    alive = NearMember("broker-a", ManualClock(START_MS))
    with pytest.raises(ClockMemberError, match=r"broker-b .*leave it out"):
        await advance_to([alive, member], START_MS + 1_000, guard_s=0.05)


@pytest.mark.parametrize("member", [Silent(), Dead()], ids=["frozen", "dead"])
async def test_a_member_that_does_not_answer_can_be_left_out(member: ClockMember) -> None:
    clock = ManualClock(START_MS)
    clock.call_at(0.5, lambda: None)
    lost: list[str] = []
    await advance_to(
        [NearMember("broker-a", clock), member],
        START_MS + 1_000,
        on_lost=lambda member, error: lost.append(f"{member.name}: {error.doing}"),
        guard_s=0.05,
    )
    assert clock.time_ms() == START_MS + 1_000
    assert lost == ["broker-b: tell its deadline"]


async def test_a_stuck_member_is_an_error_even_when_losses_are_allowed() -> None:
    clock = ManualClock(START_MS, guard_s=0.05)
    release = asyncio.Event()

    async def stuck() -> None:
        await clock.sleep(0.1)
        await release.wait()

    task = asyncio.create_task(stuck())
    with pytest.raises(ClockStuckError):
        await advance_to(
            [NearMember("a", clock)], START_MS + 1_000, on_lost=lambda member, error: None
        )
    release.set()
    await task


async def test_nobody_left_is_an_error() -> None:
    with pytest.raises(ValueError, match="no clock is left"):
        await advance([Dead()], 1_000, on_lost=lambda member, error: None)


class Talk:
    """What members say to each other."""

    def __init__(self) -> None:
        self.writes = 0


class Visited(NearMember):
    """One that counts how often its loop is entered."""

    visits = 0

    async def run(self, time_ms: int, at_moment: AtMoment | None = None) -> int:
        self.visits += 1
        return await super().run(time_ms, at_moment)


class Post:
    """Bytes that one member's connections bring."""

    def __init__(self) -> None:
        self.came = 0
        self.waiting = 0

    def read(self) -> int:
        return self.came

    def unread(self) -> int:
        return self.waiting


async def test_only_who_has_read_something_or_will_is_visited() -> None:
    clocks = [ManualClock(START_MS) for _ in range(3)]
    talk, post = Talk(), [Post() for _ in range(3)]
    members = [
        Visited(name, clock, inbox) for name, clock, inbox in zip("abc", clocks, post, strict=True)
    ]

    def say() -> None:
        talk.writes += 1
        post[1].came += 10  # b reads it, c hears nothing

    service = PeriodicService("talk", clocks[0], 1, say)
    service.start()
    await asyncio.sleep(0)  # noqa: TID251 - one turn, so that it has armed its timer
    await advance_to(members, START_MS + 100_000, traffic=talk)
    assert {clock.time_ms() for clock in clocks} == {START_MS + 100_000}
    assert min(members[0].visits, members[1].visits) >= 99
    assert members[2].visits < 5
    visits = members[2].visits
    for post[2].waiting in range(1, 6):  # c has not read it yet
        await advance_to(members, START_MS + 100_000 + 2000 * post[2].waiting, traffic=talk)
    assert members[2].visits >= visits + 5
    await service.stop()


async def test_quiet_members_are_moved_on_without_a_visit_and_nothing_changes() -> None:
    async def run(traffic: bool) -> tuple[list[tuple[str, int]], list[Deadline], int]:
        one, two = ManualClock(START_MS), ManualClock(START_MS)
        fired: list[tuple[str, int]] = []
        talk = Talk()

        def act(name: str, clock: ManualClock, other: ManualClock, period_s: int) -> None:
            fired.append((name, clock.time_ms() - START_MS))
            assert other.time_ms() == clock.time_ms() or not traffic
            talk.writes += period_s == 7  # the slower one talks to the other

        services = [
            PeriodicService("fast", one, 2, lambda: act("fast", one, two, 2)),
            PeriodicService("slow", two, 7, lambda: act("slow", two, one, 7)),
        ]
        for service in services:
            service.start()
        await asyncio.sleep(0)  # noqa: TID251 - one turn, so that both have armed their timers
        told: list[Deadline] = []
        members = [NearMember("a", one), NearMember("b", two)]
        steps = await advance_to(
            members,
            START_MS + 60_000,
            on_deadline=told.append,
            traffic=talk if traffic else None,
        )
        assert one.time_ms() == two.time_ms() == START_MS + 60_000
        for service in services:
            await service.stop()
        return sorted(fired, key=lambda each: each[1]), told, steps

    plain, near = await run(traffic=False), await run(traffic=True)
    assert near[0] == plain[0]
    assert [(each.at_ms, each.what) for each in near[1]] == sorted(
        (each.at_ms, each.what) for each in plain[1]
    )
    assert near[2] < plain[2]

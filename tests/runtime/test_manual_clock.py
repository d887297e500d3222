"""A clock that stands still: order, settling, and the stuck task's name (style (c), "Time")."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.runtime.clock import Latch
from pocketmq.runtime.errors import ClockStuckError
from pocketmq.runtime.manual_time import manual_clock
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.cost import unit_s

START_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS, guard_s=5)


async def test_it_stands_still_until_it_is_moved(clock: ManualClock) -> None:
    assert (clock.time_ms(), clock.monotonic()) == (START_MS, 0.0)
    assert clock.next_deadline_ms() is None
    await clock.move_to(START_MS + 1500)
    assert (clock.time_ms(), clock.monotonic()) == (START_MS + 1500, 1.5)


async def test_it_never_goes_back(clock: ManualClock) -> None:
    await clock.move_to(START_MS + 1500)
    await clock.move_to(START_MS)
    assert clock.time_ms() == START_MS + 1500


async def test_the_next_deadline_is_the_earliest_timer_that_was_not_cancelled(
    clock: ManualClock,
) -> None:
    first = clock.call_at(0.010, lambda: None)
    clock.call_at(0.0251, lambda: None)
    assert clock.next_deadline_ms() == START_MS + 10
    first.cancel()
    assert clock.next_deadline_ms() == START_MS + 26  # rounded up: at 25 it is not due


async def test_timers_fire_by_moment_and_then_in_the_order_of_arming(clock: ManualClock) -> None:
    fired: list[tuple[str, int]] = []
    for name, at_s in (("c", 0.3), ("a", 0.1), ("b", 0.2), ("a2", 0.1)):
        clock.call_at(at_s, lambda name=name: fired.append((name, clock.time_ms() - START_MS)))  # type: ignore[misc]
    await clock.move_to(START_MS + 250)
    assert fired == [("a", 100), ("a2", 100), ("b", 200)]


@given(st.lists(st.integers(1, 2000), max_size=30), st.lists(st.integers(1, 2500), max_size=5))
def test_any_moves_fire_each_due_timer_once_and_in_order(
    moments_ms: list[int], stops_ms: list[int]
) -> None:
    async def run() -> None:
        clock = ManualClock(START_MS)
        fired: list[int] = []
        for at_ms in moments_ms:
            clock.call_at(at_ms / 1000, lambda: fired.append(clock.time_ms() - START_MS))
        reached = 0
        for stop_ms in stops_ms:
            await clock.move_to(START_MS + stop_ms)
            reached = max(reached, stop_ms)
            assert fired == sorted(at_ms for at_ms in moments_ms if at_ms <= reached)

    asyncio.run(run())


async def test_timers_armed_on_the_way_fire_in_the_same_move(clock: ManualClock) -> None:
    seen: list[int] = []

    async def tick() -> None:
        while True:
            await clock.sleep(5)
            seen.append(clock.time_ms() - START_MS)

    task = asyncio.create_task(tick())
    await clock.move_to(START_MS + 16_000)
    assert seen == [5_000, 10_000, 15_000]
    assert clock.next_deadline_ms() == START_MS + 20_000
    task.cancel()


async def test_a_move_waits_for_socket_work_of_the_tasks_it_woke(clock: ManualClock) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(4))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    answered: list[int] = []

    async def ask_periodically() -> None:
        while True:
            await clock.sleep(30)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"ping")
            assert await reader.read() == b"ping"
            writer.close()
            answered.append(clock.time_ms() - START_MS)

    task = asyncio.create_task(ask_periodically())
    await clock.move_to(START_MS + 120_000)
    assert answered == [30_000, 60_000, 90_000, 120_000]
    task.cancel()
    server.close()
    await server.wait_closed()


async def test_a_task_that_never_rests_is_named(clock: ManualClock) -> None:
    clock = ManualClock(START_MS, guard_s=0.05)
    release = asyncio.Event()

    async def never_rests() -> None:
        await clock.sleep(1)
        await release.wait()

    task = asyncio.create_task(never_rests(), name="broker.registration")
    with pytest.raises(ClockStuckError, match=r"broker\.registration.*peer_wait") as caught:
        await clock.move_to(START_MS + 2_000)
    assert caught.value.busy == ("broker.registration",)
    assert clock.busy() == ["broker.registration"]
    release.set()
    await clock.move_to(START_MS + 3_000)  # and once it has ended, the clock moves again
    assert task.done()


async def test_a_peers_answer_is_waited_for_and_a_frozen_peer_is_not(clock: ManualClock) -> None:
    answers: list[asyncio.Future[str]] = []
    got: list[str] = []

    async def ask() -> None:
        await clock.sleep(1)
        answers.append(asyncio.get_running_loop().create_future())
        got.append(await clock.peer_answer(answers[-1]))

    asked = asyncio.create_task(ask())
    moving = asyncio.create_task(clock.move_to(START_MS + 10_000))
    await moving  # nobody answers: after a while of real time the clock goes on
    assert not asked.done()
    answers[0].set_result("late")
    await asked
    assert got == ["late"]


async def test_who_no_longer_waits_for_an_answer_cancels_it(clock: ManualClock) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(clock.peer_answer(answer))
    await clock.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert answer.cancelled()


async def test_a_task_in_peer_wait_is_not_waited_for(clock: ManualClock) -> None:
    release = asyncio.Event()

    async def long_poll() -> None:
        await clock.sleep(1)
        with clock.peer_wait():
            await release.wait()
        await clock.sleep(1)

    task = asyncio.create_task(long_poll())
    await clock.move_to(START_MS + 10_000)
    assert not task.done()
    release.set()
    await clock.move_to(START_MS + 10_000)  # settles what the answer set off
    assert clock.next_deadline_ms() == START_MS + 11_000
    await clock.move_to(START_MS + 11_000)
    assert task.done()


async def test_a_parent_rests_while_its_children_do(clock: ManualClock) -> None:
    ended_at: list[int] = []
    io = asyncio.Event()

    async def io_child() -> None:
        await io.wait()

    async def parent() -> None:
        await clock.sleep(1)
        asyncio.get_running_loop().call_later(0.02, io.set)  # real input and output
        await asyncio.gather(clock.sleep(3), io_child())
        await asyncio.create_task(clock.sleep(2))
        ended_at.append(clock.time_ms() - START_MS)

    task = asyncio.create_task(parent())
    await clock.move_to(START_MS + 1_000)
    assert io.is_set()  # the child without a timer was waited for
    await clock.move_to(START_MS + 60_000)
    assert ended_at == [6_000]
    await task


async def test_what_a_woken_latch_sets_off_belongs_to_the_moment(clock: ManualClock) -> None:
    latch = Latch()
    seen: list[int] = []

    async def service() -> None:
        while True:
            await clock.wait(latch, None)
            await asyncio.to_thread(lambda: None)  # anything that takes real time
            seen.append(clock.time_ms() - START_MS)

    task = asyncio.create_task(service())
    clock.call_at(2.0, latch.wakeup)
    await clock.move_to(START_MS + 5_000)
    assert seen == [2_000]
    task.cancel()


async def test_tasks_that_a_timer_starts_are_waited_for(clock: ManualClock) -> None:
    done: list[str] = []
    keep: list[asyncio.Task[None]] = []

    async def work() -> None:
        await asyncio.to_thread(lambda: None)
        done.append("worked")

    clock.call_at(1.0, lambda: keep.append(asyncio.create_task(work())))
    await clock.move_to(START_MS + 1_000)
    assert done == ["worked"]


async def test_a_failing_timer_stops_no_other(clock: ManualClock) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, facts: reported.append(facts["exception"])
    )
    fired: list[int] = []
    clock.call_at(1.0, lambda: 1 // 0)  # type: ignore[arg-type]
    clock.call_at(1.0, lambda: fired.append(1))
    await clock.move_to(START_MS + 1_000)
    assert fired == [1]
    assert isinstance(reported[0], ZeroDivisionError)


async def test_a_task_may_move_the_clock_that_woke_it(clock: ManualClock) -> None:
    async def mover() -> None:
        await clock.sleep(1)
        await clock.move_to(START_MS + 9_000)

    clock.call_at(0.0, lambda: None)
    task = asyncio.create_task(mover())
    await clock.move_to(START_MS + 500)
    waking = asyncio.create_task(clock.move_to(START_MS + 1_000))
    await waking
    await task
    assert clock.time_ms() == START_MS + 9_000


async def test_two_hours_of_scans_cost_next_to_nothing(clock: ManualClock) -> None:
    scans = 0

    async def scan() -> None:
        nonlocal scans
        while True:
            await clock.sleep(5)
            scans += 1

    task = asyncio.create_task(scan())
    began_at = time.thread_time()
    await clock.move_to(START_MS + 7_200_000)
    assert scans == 1440
    assert time.thread_time() - began_at < scans * unit_s(), "a scan costs a fraction of a unit"
    task.cancel()


async def test_a_timer_for_a_moment_that_has_passed_fires_without_a_move(
    clock: ManualClock,
) -> None:
    fired = asyncio.Event()
    clock.call_at(clock.monotonic(), fired.set)
    await fired.wait()


async def test_a_peer_that_is_known_to_be_frozen_is_not_waited_for(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manual_clock, "PEER_PATIENCE_S", 1000.0)  # longer than the clock's guard
    ended: list[int] = []
    answers: list[asyncio.Future[None]] = []

    async def ask(peer: str, limit_s: float | None) -> None:
        answers.append(asyncio.get_running_loop().create_future())
        await clock.sleep(10)
        try:
            await clock.peer_answer(answers[-1], peer, limit_s)
        except TimeoutError:
            ended.append(clock.time_ms() - START_MS)

    clock.note_frozen(["127.0.0.1:1"])
    tasks = [asyncio.create_task(ask("127.0.0.1:1", limit)) for limit in (24, None)]
    await asyncio.sleep(0)  # noqa: TID251 - one turn, so that both have armed their timers
    await clock.move_to(START_MS + 60_000)
    assert ended == [34_000]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

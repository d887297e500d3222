"""Services that run periodically and on demand."""

from __future__ import annotations

import asyncio

import pytest

from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.periodic import AT_REST, PeriodicService
from support.own_logs import own_logs

START_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS, guard_s=5)


async def test_it_runs_after_each_period_and_not_at_the_start(clock: ManualClock) -> None:
    seen: list[int] = []
    service = PeriodicService("scan", clock, 5, lambda: seen.append(_second(clock)))
    service.start()
    await clock.move_to(START_MS + 16_000)
    assert seen == [5, 10, 15]
    await service.stop()


@pytest.mark.parametrize(("initial_delay_s", "expected"), [(0, [0, 5, 10]), (3, [3, 8])])
async def test_an_initial_delay_replaces_the_first_period(
    clock: ManualClock, initial_delay_s: float, expected: list[int]
) -> None:
    seen: list[int] = []
    service = PeriodicService(
        "scan", clock, 5, lambda: seen.append(_second(clock)), initial_delay_s=initial_delay_s
    )
    service.start()
    await clock.move_to(START_MS + 11_000)
    assert seen == expected
    await service.stop()


async def test_a_wakeup_runs_it_at_once_and_begins_a_new_period(clock: ManualClock) -> None:
    seen: list[int] = []
    service = PeriodicService("scan", clock, 5, lambda: seen.append(_second(clock)))
    service.start()
    await clock.move_to(START_MS + 3_000)
    service.wakeup()
    service.wakeup()
    await clock.move_to(START_MS + 9_000)
    assert seen == [3, 8]
    await service.stop()


async def test_a_wakeup_during_a_run_causes_exactly_one_more(clock: ManualClock) -> None:
    seen: list[int] = []

    async def action() -> None:
        seen.append(_second(clock))
        if len(seen) == 1:
            service.wakeup()
            service.wakeup()
        await asyncio.to_thread(lambda: None)

    service = PeriodicService("scan", clock, 5, action)
    service.start()
    await clock.move_to(START_MS + 11_000)
    assert seen == [5, 5, 10]
    await service.stop()


async def test_a_wakeup_before_the_start_is_kept(clock: ManualClock) -> None:
    seen: list[int] = []
    service = PeriodicService("scan", clock, 5, lambda: seen.append(_second(clock)))
    service.wakeup()
    service.start()
    await clock.move_to(START_MS + 1_000)
    assert seen == [0]
    await service.stop()


async def test_a_number_that_the_action_returns_is_the_next_wait(clock: ManualClock) -> None:
    seen: list[int] = []

    def action() -> float | None:
        seen.append(_second(clock))
        return 1 if len(seen) < 3 else None

    service = PeriodicService("rebalance", clock, 20, action)
    service.start()
    await clock.move_to(START_MS + 50_000)
    assert seen == [20, 21, 22, 42]
    await service.stop()


async def test_a_service_at_rest_sets_no_timer_and_runs_a_period_after_it_is_resumed(
    clock: ManualClock,
) -> None:
    seen: list[int] = []

    def action() -> float | None:
        seen.append(_second(clock))
        return AT_REST

    service = PeriodicService("save", clock, 5, action)
    service.start()
    service.resume()  # it does not rest: nothing changes
    await clock.move_to(START_MS + 60_000)
    assert (seen, clock.next_deadline_ms()) == ([5], None)
    service.resume()
    service.resume()
    await clock.move_to(START_MS + 64_999)
    assert seen == [5]
    await clock.move_to(START_MS + 120_000)
    assert (seen, clock.next_deadline_ms()) == ([5, 65], None)
    await service.stop()


async def test_a_wakeup_ends_a_rest_at_once_also_after_a_resume(clock: ManualClock) -> None:
    seen: list[int] = []

    def action() -> float | None:
        seen.append(_second(clock))
        return AT_REST

    service = PeriodicService("save", clock, 5, action)
    service.start()
    await clock.move_to(START_MS + 7_000)
    service.wakeup()
    await clock.move_to(START_MS + 8_000)
    assert seen == [5, 7]
    service.resume()
    service.wakeup()
    await clock.move_to(START_MS + 9_000)
    assert seen == [5, 7, 8]
    await service.stop()


async def test_a_wakeup_during_the_run_that_ends_in_rest_is_kept(clock: ManualClock) -> None:
    seen: list[int] = []

    async def action() -> float | None:
        seen.append(_second(clock))
        if len(seen) == 1:
            service.wakeup()
        await clock.sleep(1)
        return AT_REST

    service = PeriodicService("save", clock, 5, action)
    service.start()
    await clock.move_to(START_MS + 60_000)
    assert seen == [5, 6]
    await service.stop()


async def test_a_service_at_rest_can_be_stopped(clock: ManualClock) -> None:
    service = PeriodicService("save", clock, 5, lambda: AT_REST)
    service.start()
    await clock.move_to(START_MS + 6_000)
    await service.stop()
    assert (service.runs, service.running) == (1, False)


async def test_a_service_resumed_and_stopped_in_one_breath_ends_at_once(clock: ManualClock) -> None:
    service = PeriodicService("save", clock, 5, lambda: AT_REST)
    service.start()
    await clock.move_to(START_MS + 6_000)

    async def resume_and_stop() -> None:
        service.resume()
        await service.stop()

    stopping = asyncio.create_task(resume_and_stop())
    await clock.move_to(START_MS + 6_000)
    assert stopping.done()
    assert (service.runs, service.running) == (1, False)


async def test_an_error_is_logged_and_the_next_period_comes(clock: ManualClock) -> None:
    calls = 0

    async def action() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError("nobody there")

    service = PeriodicService("registration", clock, 30, action)
    with own_logs() as logs:
        service.start()
        await clock.move_to(START_MS + 60_000)
    assert calls == 2
    assert [(line["event"], line["service"]) for line in logs] == [
        ("service.failed", "registration")
    ] * 2
    await service.stop()


async def test_no_run_starts_after_stop_but_the_final_one(clock: ManualClock) -> None:
    seen: list[int] = []
    service = PeriodicService("persist", clock, 5, lambda: seen.append(_second(clock)))
    service.start()
    await clock.move_to(START_MS + 5_000)
    service.wakeup()
    await service.stop()
    await clock.move_to(START_MS + 60_000)
    assert seen == [5]
    await service.stop(final_run=True)
    assert seen == [5, 60]
    assert not service.running


async def test_stop_waits_for_a_run_in_progress(clock: ManualClock) -> None:
    release = asyncio.Event()
    done: list[str] = []

    async def action() -> None:
        with clock.peer_wait():
            await release.wait()
        done.append("run")

    service = PeriodicService("persist", clock, 5, action)
    service.start()
    await clock.move_to(START_MS + 5_000)
    stopping = asyncio.create_task(service.stop())
    asyncio.get_running_loop().call_soon(release.set)
    await stopping
    assert done == ["run"]
    assert service.runs == 1


async def test_an_action_may_stop_its_own_service(clock: ManualClock) -> None:
    async def action() -> None:
        await service.stop()

    service = PeriodicService("once", clock, 5, action)
    service.start()
    await clock.move_to(START_MS + 60_000)
    assert service.runs == 1
    assert not service.running


async def test_a_stopped_service_may_start_again_and_a_running_one_may_not(
    clock: ManualClock,
) -> None:
    service = PeriodicService("scan", clock, 5, lambda: None)
    service.start()
    with pytest.raises(RuntimeError, match="runs already"):
        service.start()
    await service.stop()
    service.start()
    await clock.move_to(START_MS + 5_000)
    assert service.runs == 1
    await service.stop()


async def test_it_runs_on_the_system_clock_too() -> None:
    thrice = asyncio.Event()

    def action() -> None:
        if service.runs == 3:
            thrice.set()

    service = PeriodicService("scan", SystemClock(), 0.001, action)
    service.start()
    await thrice.wait()
    await service.stop()


def _second(clock: ManualClock) -> int:
    return (clock.time_ms() - START_MS) // 1000

"""What held the loop is said, with its likely cause."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest
from structlog.typing import EventDict

from pocketmq.runtime.slow_turns import SlowTurn, SlowTurns, TurnSample, slow_turn
from support.eventually import eventually
from support.own_logs import own_logs

BEFORE = TurnSample(1000.0, 100.0, 5.0, 1, 10, 2)


def later(ms: float, **sums: float) -> TurnSample:
    return BEFORE._replace(wall_ms=BEFORE.wall_ms + ms, **sums)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (later(10), None),
        (later(59.4), None),
        (later(60), SlowTurn(50, 0, 0, 0, 0, 0)),
        (later(238, cpu_ms=321.0, gc_ms=220.0), SlowTurn(228, 221, 215, 0, 0, 0)),
        (later(238, major_faults=42, waited=43, preempted=21), SlowTurn(228, 0, 0, 41, 33, 19)),
    ],
)
def test_a_turn_over_the_limit_is_told_with_what_happened(
    now: TurnSample, found: SlowTurn | None
) -> None:
    assert slow_turn(BEFORE, now, tick_ms=10, limit_ms=50) == found


async def is_told(what: str, least_ms: int, hold_the_loop: Callable[[], None]) -> None:
    def is_long(line: EventDict) -> bool:
        return line["event"] == "loop.slow_turn" and line[what] >= least_ms

    with own_logs() as lines:
        turns = SlowTurns(20)
        turns.start()
        try:
            hold_the_loop()
            await eventually(lambda: any(is_long(line) for line in lines), f"{what} is told")
        finally:
            turns.stop()


async def test_work_shows_as_processor_time() -> None:
    def work() -> None:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass

    await is_told("cpu_ms", 45, work)


async def test_a_collection_shows_as_one() -> None:
    def collect() -> None:
        until = time.perf_counter() + 0.05
        while time.perf_counter() < until:
            gc.collect()

    await is_told("gc_ms", 20, collect)


async def test_nothing_is_left_behind() -> None:
    before = list(gc.callbacks)
    turns = SlowTurns(20)
    turns.start()
    turns.stop()
    assert gc.callbacks == before

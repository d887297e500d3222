"""PocketMQ's broker and RocketMQ's own are asked the same, thousands of times.

`scripts/parity.py` draws other seeds, each day its own, and runs more by hand.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parity import controller, found, nameserver
from parity.brokers import Sides, both_brokers, both_controllers, both_nameservers
from parity.campaign import Report, compare_many, shortest
from parity.catalogue import catalogue, dump
from parity.drawing import drawn, state
from parity.ledger import Ledger, read
from parity.logs import log_differences, records_of
from parity.pairs import Runner
from parity.rules import Pair
from parity.steps import Step
from pocketmq.runtime.clock import SystemClock

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

DRAWN_FOR_S = 40.0
"""With the start of both brokers and the kept sequences this stays below 90 s."""
LEAST_PAIRS, MOST_PAIRS, NAMESERVER_PAIRS, CONTROLLER_PAIRS = 10, 60, 60, 24
LOGGED_PAIRS = 40
SHORT_DELAYS_S = 4.0
"""In which the shortest level and timers of a second come."""
KEPT_SEED = "kept"
"""Until thousands of pairs run without a difference that nothing explains, other seeds are drawn by
hand (`scripts/parity.py`, or PARITY_SEED=2026-12-01 here), not by who mends something else."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with both_brokers(tmp_path_factory.mktemp("parity")) as running:
        yield running


def test_the_catalogue_is_what_rocketmqs_classes_say_today() -> None:
    assert dump() == (Path(__file__).parent / "catalogue.json").read_text()
    assert catalogue().codes["SEND_MESSAGE"] == 10


@pytest.fixture(scope="module")
def nameservers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with both_nameservers(tmp_path_factory.mktemp("nameservers")) as running:
        yield running


async def test_what_once_differed_does_not_and_the_ledger_has_no_stale_entry(sides: Sides) -> None:
    await _none_differs(sides, read(), found.MENDED | found.STAYS)


async def test_the_same_of_nameservers(nameservers: Sides) -> None:
    sequences = found.NAMESERVER_MENDED | found.NAMESERVER_STAYS
    await _none_differs(nameservers, read(of="nameserver"), sequences)


@pytest.fixture(scope="module")
def controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with both_controllers(tmp_path_factory.mktemp("controllers")) as running:
        yield running


async def test_the_same_of_controllers(controllers: Sides) -> None:
    sequences = found.CONTROLLER_MENDED | found.CONTROLLER_STAYS
    await _none_differs(controllers, read(of="controller"), sequences)


async def _none_differs(sides: Sides, ledger: Ledger, sequences: dict[str, list[Step]]) -> None:
    runner = Runner(sides, first_suffix=1 << 32)
    differ: list[str] = []

    async def compare(name: str, steps: list[Step]) -> None:
        outcome = await runner.run(steps)
        differ.extend(f"{name}: {each}" for each in ledger.unexplained(outcome.found, name))

    async with asyncio.TaskGroup() as tasks:
        for name, steps in sequences.items():
            tasks.create_task(compare(name, steps))
    assert differ == []
    stale = [f"{entry.code} {entry.field}" for entry in ledger.stale()]
    assert stale == [], "these do not differ any more: take them out of ledger.toml"


async def test_drawn_registrations_and_routes_are_answered_alike(nameservers: Sides) -> None:
    await _all_alike(
        nameservers, read(of="nameserver"), NAMESERVER_PAIRS, nameserver.drawn, nameserver.state()
    )


async def test_drawn_replicas_and_masters_are_answered_alike(controllers: Sides) -> None:
    await _all_alike(
        controllers, read(of="controller"), CONTROLLER_PAIRS, controller.drawn, controller.state()
    )


async def _all_alike(
    sides: Sides, ledger: Ledger, pairs: int, draw: Callable[..., list[Step]], state: list[Step]
) -> None:
    day = os.environ.get("PARITY_SEED", KEPT_SEED)
    runner = Runner(sides, first_suffix=1 << 33)
    drawn = {f"{day}:{number}": draw(f"{day}:{number}", bends=False) for number in range(pairs)}
    report = await compare_many(runner, ledger, iter(drawn.items()), state)
    assert report.pairs == pairs
    if report.failed:
        whole = {name: [*drawn[name], *state] for name in report.failed}
        pytest.fail(await _story(runner, ledger, report, whole), pytrace=False)


@pytest.mark.nightly  # beside other tests RocketMQ may answer before its queues are filled
async def test_drawn_sequences_are_answered_alike(sides: Sides) -> None:
    day = os.environ.get("PARITY_SEED", KEPT_SEED)
    runner, ledger = Runner(sides, first_suffix=1 << 33), read()
    # Bent fields differ in one pair of a hundred still: `scripts/parity.py` looks for them.
    report = await compare_many(runner, ledger, _sequences(day), state())
    print(f"seeds {day}:0 to {day}:{report.pairs - 1}: {report.pairs} pairs")
    assert report.pairs >= LEAST_PAIRS
    if report.failed:
        whole = {name: [*drawn(name, bends=False), *state()] for name in report.failed}
        pytest.fail(await _story(runner, ledger, report, whole), pytrace=False)


@pytest.mark.nightly
async def test_both_logs_hold_the_same_records(tmp_path: Path) -> None:
    with both_brokers(tmp_path) as sides:
        runner, day = Runner(sides), os.environ.get("PARITY_SEED", KEPT_SEED)
        began = runner.clock.time_ms()
        sequences = ((f"{day}:{n}", drawn(f"{day}:{n}", bends=False)) for n in range(LOGGED_PAIRS))
        report = await compare_many(runner, read(), sequences, [])
        await runner.clock.sleep(SHORT_DELAYS_S)
        ours, theirs = records_of(sides.ours.store), records_of(sides.theirs.store)
        assert sum(map(len, ours.values())) > LOGGED_PAIRS
        found = {}
        for seed, suffix in report.suffixes.items():
            pair = Pair(suffix, began, runner.clock.time_ms())
            if differ := log_differences(ours.get(suffix, []), theirs.get(suffix, []), pair):
                found[seed] = [str(each) for each in differ]
        assert found == {}


def _sequences(day: str) -> Iterator[tuple[str, list[Step]]]:
    """Until the time is over."""
    clock = SystemClock()
    end, number = clock.monotonic() + DRAWN_FOR_S, 0
    while clock.monotonic() < end and number < MOST_PAIRS:
        yield f"{day}:{number}", drawn(f"{day}:{number}", bends=False)
        number += 1


async def _story(
    runner: Runner, ledger: Ledger, report: Report, whole: dict[str, list[Step]]
) -> str:
    lines = []
    for kind, seeds in list(report.kinds().items())[:3]:
        lines.append(f"seed {seeds[0]}: {report.failed[seeds[0]][0]}")
        lines.append(await shortest(runner, ledger, whole[seeds[0]], kind, most_runs=60))
    return "\n".join(lines)

"""Each fault of replicas and controllers is caught by its seed, for the right reason."""

from __future__ import annotations

from functools import partial

import pytest

from pocketmq.simulation.replicas.run import run_replicas
from pocketmq.simulation.replicas.schedules import SCHEDULES, schedule
from simulation.faults import REPLICA_DATA, ROOT, Fault, read_faults, table
from simulation.planted import violation_with
from simulation.seeds import REPLICA_SEEDS

FAULTS = read_faults(REPLICA_DATA)
SEEDS = {fault.seed for fault in FAULTS if not fault.schedule}

IN_CI = {
    "a master acknowledges a message that no slave has (F-1)",
    "a replica truncates its log without a sync (F-10)",
    "controllers decide by other data than the replicated command (F-27)",
    "a master answers a send with success although no slave has the message",
}
"""A fault of the log, one of the disk, one of controllers and one of acknowledgements."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(each, id=each.name, marks=() if each.name in IN_CI else pytest.mark.nightly)
        for each in FAULTS
    ],
)
def test_a_seed_catches_the_fault(fault: Fault) -> None:
    run = run_replicas
    if fault.schedule:
        run = partial(run_replicas, plan=schedule(fault.schedule))
    violation = violation_with(fault, run, "--replicas")
    assert fault.is_caught_by(violation), violation


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("seed", sorted(SEEDS - set(REPLICA_SEEDS)))
def test_the_seed_is_green_without_a_fault(seed: int) -> None:
    assert run_replicas(seed).violation is None


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_the_schedule_is_green_without_a_fault(name: str) -> None:
    chances = {fault.seed for fault in FAULTS if fault.schedule == name}
    assert chances, "no fault is found by it"
    for chance in chances:
        assert run_replicas(chance, plan=schedule(name)).violation is None


def test_the_faults_are_one_line_each_and_break_different_promises() -> None:
    assert len({fault.violation for fault in FAULTS}) >= 12
    assert {fault.name for fault in FAULTS} >= IN_CI
    for broken_line in [each for fault in FAULTS for each in fault.breaks]:
        text = (ROOT / broken_line.file).read_text(encoding="utf-8")
        broken = broken_line.applied_to(text)
        assert [a != b for a, b in zip(text.splitlines(), broken.splitlines(), strict=True)].count(
            True
        ) == 1


def test_the_page_shows_these_faults() -> None:
    page = (ROOT / "docs" / "simulated-faults.md").read_text(encoding="utf-8")
    assert f"has {len(FAULTS)} faults of replicas" in page
    assert table(REPLICA_DATA) in page, "copy it from `faults.py --replicas --table`"

"""Each deliberate fault is caught by its seed, for the right reason, and only with the fault."""

from __future__ import annotations

import functools

import pytest

from pocketmq.simulation.runner import run
from simulation.faults import ROOT, Fault, read_faults, table
from simulation.planted import violation_with
from simulation.seeds import CI_SEEDS

FAULTS = read_faults()


@functools.cache
def violation_without_fault(seed: int) -> str | None:
    """Several faults share a seed; without them it runs once, those of CI in test_simulation.py."""
    if seed in CI_SEEDS:
        return None
    return run(seed).violation


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_seed_catches_the_fault_and_is_green_without_it(fault: Fault) -> None:
    violation = violation_with(fault, run)
    assert fault.is_caught_by(violation), violation
    assert violation_without_fault(fault.seed) is None


def test_ten_faults_and_more_are_one_line_each_of_brokers_and_clients() -> None:
    assert len(FAULTS) >= 10
    assert {fault.file.split("/")[0] for fault in FAULTS} == {"broker", "client"}
    for fault in FAULTS:
        text = (ROOT / fault.file).read_text(encoding="utf-8")
        broken = fault.applied_to(text)
        assert [a != b for a, b in zip(text.splitlines(), broken.splitlines(), strict=True)].count(
            True
        ) == 1


def test_the_faults_break_different_promises() -> None:
    assert len({fault.violation for fault in FAULTS}) >= 10


def test_the_page_shows_these_faults() -> None:
    page = (ROOT / "docs" / "simulated-faults.md").read_text(encoding="utf-8")
    assert f"has {len(FAULTS)} deliberate faults" in page
    assert table() in page, "copy it from `python tests/simulation/faults.py --table`"

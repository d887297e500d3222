"""A slave that acts for its master, in the simulation: seeds, and faults that they catch."""

from __future__ import annotations

from collections import Counter

import pytest

from pocketmq.simulation.acting.plan import Trouble, acting_plan
from pocketmq.simulation.acting.run import run_acting
from simulation.faults import ACTING_DATA, ROOT, Fault, read_faults, table
from simulation.planted import violation_with

FAULTS = read_faults(ACTING_DATA)
SEEDS = range(5)


def test_every_kind_of_trouble_is_drawn() -> None:
    drawn = {each.trouble for seed in range(100) for each in acting_plan(seed).happenings}
    assert drawn == set(Trouble)


def test_no_seed_violates_an_invariant_and_each_slave_serves_all_it_has() -> None:
    found: Counter[str] = Counter()
    for seed in SEEDS:
        result = run_acting(seed)
        assert result.violation is None, f"{result.replay}  # {result.violation}"
        found.update(result.stats)
    assert found["slaves that served all"] == len(SEEDS)
    assert found["slaves that began to act"] > len(SEEDS), "some act amid trouble"
    for what in ("acknowledged", "bytes compared", "masters that took offsets back"):
        assert found[what] > 0, what


def test_what_a_sync_master_acknowledges_its_slave_has() -> None:
    result = run_acting(47)
    assert result.violation is None, f"{result.replay}  # {result.violation}"
    assert result.stats["acknowledged by both"] > 0


def test_equal_seeds_make_equal_runs() -> None:
    assert run_acting(1).digest == run_acting(1).digest


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_seed_catches_the_fault(fault: Fault) -> None:
    violation = violation_with(fault, run_acting, "--acting")
    assert fault.is_caught_by(violation), violation


def test_the_page_shows_these_faults() -> None:
    for fault in FAULTS:
        fault.applied_to((ROOT / fault.file).read_text(encoding="utf-8"))  # the line is there
    page = (ROOT / "docs" / "simulated-faults.md").read_text(encoding="utf-8")
    assert f"has {len(FAULTS)} faults of acting masters" in page
    assert table(ACTING_DATA) in page, "copy it from `faults.py --acting --table`"

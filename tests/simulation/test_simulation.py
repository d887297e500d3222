"""The deterministic simulation: equal runs for equal seeds, and the seeds of CI are green."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.cluster.simulation.runner import run
from pocketmq.cluster.simulation.scenario import Kind, scenario

ROOT = Path(__file__).resolve().parents[2]
CI_SEEDS = range(100)
CHUNK = 10


def test_the_same_seed_runs_the_same_way_twice() -> None:
    first, second = run(1), run(1)
    assert first.digest == second.digest
    assert first.stats == second.stats


def test_the_order_of_hash_tables_is_not_in_a_run() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "scripts/simulate.py", "--seed", "3"],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        digests.add(ran.stdout.split("trace ")[1].split(",")[0])
    assert len(digests) == 1


def test_another_seed_is_another_run() -> None:
    assert run(2).digest != run(4).digest


def test_every_kind_of_event_comes_up_in_the_seeds_of_ci() -> None:
    kinds = {event.kind for seed in CI_SEEDS for event in scenario(seed).events}
    assert kinds == set(Kind)
    assert {scenario(seed).orderly for seed in CI_SEEDS} == {True, False}
    assert {scenario(seed).profile for seed in CI_SEEDS} == {"4.9", "5.x"}


@pytest.mark.parametrize("first", range(CI_SEEDS.start, CI_SEEDS.stop, CHUNK))
def test_no_seed_violates_an_invariant(first: int) -> None:
    settled = notified = 0
    for seed in range(first, first + CHUNK):
        result = run(seed)
        assert result.violation is None, (
            f"{result.violation}\nreplay: {result.replay}\n" + "\n".join(result.story)
        )
        settled += result.stats["settled"]
        notified += result.stats["notified"]
    # The ownership invariants look at settled clusters only: they must have had something to see.
    assert settled >= CHUNK
    assert notified >= CHUNK // 2

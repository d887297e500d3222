"""The deterministic simulation: equal runs for equal seeds, and the seeds of CI are green."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from pocketmq.simulation.invariants.durability import RULES
from pocketmq.simulation.runner import run
from pocketmq.simulation.scenario import Kind, Mode
from pocketmq.simulation.seed_ledger import parse
from pocketmq.simulation.swarm import scenario
from simulation.faults import overlay, read_faults
from simulation.seeds import CI_SEEDS

ROOT = Path(__file__).resolve().parents[2]
LEDGER = Path(__file__).with_name("ledger.txt")


def simulate(*args: str, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    roots = [*([packages] if packages else []), *(f.parent for f in ROOT.glob("*/pocketmq"))]
    return subprocess.run(
        [sys.executable, "scripts/simulate.py", *args],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, roots))},
        capture_output=True,
        text=True,
    )


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


def test_every_kind_of_event_and_group_comes_up_in_the_seeds_of_ci() -> None:
    scenarios = [scenario(seed) for seed in CI_SEEDS]
    assert {event.kind for each in scenarios for event in each.events} == set(Kind)
    assert {(each.mode, each.profile) for each in scenarios} == {
        (mode, profile) for mode in Mode for profile in ("4.9", "5.x")
    }


# What an invariant is about must have come up, or it has proved nothing.
ABOUT = {
    "commits", "offsets fallen", "late commits of former owners", "offsets fallen with a broker",
    "resets", "resets over messages", "queues cut by retention", "unconsumed messages expired",
    "settled", "settled but for locks", "notified", "orderly deliveries", "broker starts",
    "deliveries", "redelivered", "failed deliveries", "retries", "last retries",
    "dead letters", "dead letters that must be one",
    "send-backs", "send-backs without an answer", "syncs failed",
    "bursts sent", "batches sent", "delayed messages sent", "long deliveries",
    "unwanted messages passed over", "runs with several groups",
}.union(*(rule.ABOUT for rule in RULES))  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_seeds_of_ci_violate_no_invariant_and_give_each_something_to_see() -> None:
    seen: Counter[str] = Counter()
    failed = []
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for result in pool.map(run, CI_SEEDS, chunksize=2):
            seen.update(result.stats)
            if result.violation is not None:
                failed.append(f"{result.replay}  # {result.violation}")
    assert not failed, "\n".join(failed)
    wanted = ABOUT | {kind.value for kind in Kind} | {mode.value for mode in Mode}
    assert {name for name in wanted if not seen[name]} == set()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_seeds_that_failed_once_are_green_now() -> None:
    ledger = parse(LEDGER.read_text(encoding="utf-8"))
    assert ledger == sorted(ledger), "the fastest first"
    failed = {entry.seed: found for entry in ledger if (found := run(entry.seed).violation)}
    assert not failed


def test_a_failing_seed_is_one_line_that_replays_it() -> None:
    fault = next(fault for fault in read_faults() if "retry too many" in fault.name)
    with overlay(fault) as packages:
        first = f"--first {fault.seed} --seeds 1 --jobs 1".split()
        ran = simulate(*first, packages=packages)
        line = next(line for line in ran.stdout.splitlines() if line.startswith("python "))
        command, violation = line.split("  # ")
        again = simulate(*command.split()[2:], packages=packages)
    assert (ran.returncode, again.returncode) == (1, 1)
    assert f"VIOLATED {violation}" in again.stdout
    assert "consume" in again.stdout


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_run_tells_what_it_has_done(sent: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "scripts/simulate.py", "--seeds", "100000", "--jobs", "1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"FORCE_COLOR": "1", "COLUMNS": "80"},
    ) as running:
        assert running.stderr is not None
        seen = ""
        while not re.search(r"[1-9]\d*/100000", seen):
            seen += running.stderr.read(1)
            assert running.poll() is None, seen
        if sent is signal.SIGINT:
            os.killpg(running.pid, sent)  # as a terminal does
        else:
            running.terminate()
        out, _ = running.communicate()
    assert running.returncode == 130, out
    assert "seeds, 0 failed" in out

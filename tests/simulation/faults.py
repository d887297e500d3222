"""The deliberate faults of faults.toml: runs seeds on brokers and clients that have one.

    python tests/simulation/faults.py                  each fault with its own seed
    python tests/simulation/faults.py --seeds 40       how many of 40 seeds catch each fault
    python tests/simulation/faults.py --table          the table of docs/simulated-faults.md
    python tests/simulation/faults.py --replicas       those of replicas and controllers
    python tests/simulation/faults.py --acting         those of slaves that act as master
    python tests/simulation/faults.py 'orderly consumer begins' --export lesson.html
                                                       a page: the seed with and without the fault

A fault is applied to a copy of the folder it is in; the copy comes first on PYTHONPATH of a process
that runs one seed. The work tree is never touched.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from mutants.run import Mutant  # noqa: E402 - tests/ first
from pocketmq.cluster.watch_page.page import Beside, exported_page  # noqa: E402

DATA = Path(__file__).with_name("faults.toml")
REPLICA_DATA = Path(__file__).with_name("replica_faults.toml")
ACTING_DATA = Path(__file__).with_name("acting_faults.toml")
SEED_LIMIT_S = 100
VIOLATED = re.compile(r"VIOLATED (.*)")


@dataclass(frozen=True)
class Break:
    """One broken line."""

    file: str
    old: str
    new: str
    nth: int | None = None

    def applied_to(self, text: str) -> str:
        """The file's text with the line broken.

        Raises:
            ValueError: the line is not there, or not to be told from others.
        """
        return Mutant(0, self.file, self.old, self.new, nth=self.nth).applied_to(text)


@dataclass(frozen=True)
class Fault:
    """One broken line, and how it shows."""

    name: str
    file: str
    old: str
    """The line, without its indentation."""
    new: str
    violation: str
    """Pattern that the invariant's words contain."""
    seed: int = 0
    """Catches it; of a schedule it is the chance."""
    schedule: str = ""
    """Name of the scripted history that catches it (replicas/schedules.py)."""
    nth: int | None = None
    """Which of several equal lines."""
    also: tuple[Break, ...] = ()
    """Other lines of the same role: where one defence alone is enough, all of them are broken."""

    def applied_to(self, text: str) -> str:
        """The file's text with the line broken; of `also` nothing.

        Raises:
            ValueError: the line is not there, or not to be told from others.
        """
        return Break(self.file, self.old, self.new, self.nth).applied_to(text)

    @property
    def breaks(self) -> tuple[Break, ...]:
        """All broken lines."""
        return (Break(self.file, self.old, self.new, self.nth), *self.also)

    @property
    def caught_by(self) -> str:
        """Seed or schedule, as the page shows it."""
        return f"*{self.schedule}*" if self.schedule else str(self.seed)

    def is_caught_by(self, violation: str | None) -> bool:
        """Whether an invariant saw it, for the right reason."""
        return violation is not None and re.search(self.violation, violation) is not None


def read_faults(data: Path = DATA) -> list[Fault]:
    """All of them."""
    with data.open("rb") as file:
        entries = tomllib.load(file)["fault"]
    return [
        Fault(**{**entry, "also": tuple(Break(**each) for each in entry.get("also", ()))})
        for entry in entries
    ]


@contextmanager
def overlay(fault: Fault) -> Iterator[Path]:
    """A folder with a copy of the faulty package, and the fault in it."""
    role = fault.file.split("/", 1)[0]
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        left_out = shutil.ignore_patterns("*.pyc.*")  # a compiler that works here now renames them
        shutil.copytree(ROOT / role / "pocketmq", Path(folder, role, "pocketmq"), ignore=left_out)
        for each in fault.breaks:
            path = Path(folder, each.file)
            path.write_text(each.applied_to(path.read_text(encoding="utf-8")), encoding="utf-8")
        yield Path(folder, role)


def run_fault(fault: Fault, packages: Path, *switches: str) -> str | None:
    """Run a fault's schedule, or its seed; the violation, if any."""
    if fault.schedule:
        return _run(packages, "--schedule", fault.schedule, "--seed", str(fault.seed))
    return run_seed(packages, fault.seed, *switches)


def run_seed(packages: Path, seed: int, *switches: str) -> str | None:
    """Run a seed with the packages of a folder in place of the repository's; the violation, if any.

    Raises:
        RuntimeError: the simulation itself failed.
    """
    return _run(packages, *switches, "--seed", str(seed))


def _run(packages: Path, *switches: str) -> str | None:
    roots = [packages, *(folder.parent for folder in sorted(ROOT.glob("*/pocketmq")))]
    ran = subprocess.run(
        [sys.executable, "scripts/simulate.py", *switches],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, roots))},
        capture_output=True,
        text=True,
        timeout=SEED_LIMIT_S,
    )
    found = VIOLATED.search(ran.stdout)
    if ran.returncode not in (0, 1) or (ran.returncode == 1) != (found is not None):
        raise RuntimeError(
            f"{' '.join(switches)} did not run: {ran.stdout[-1000:]}{ran.stderr[-3000:]}"
        )
    return None if found is None else found[1]


def lesson(fault: Fault, target: Path, *switches: str) -> str:
    """Write a page that plays a fault's seed with and without it; returns the violation.

    Raises:
        RuntimeError: the seed did not catch the fault.
    """
    with tempfile.TemporaryDirectory(prefix="lesson-") as folder, overlay(fault) as packages:
        broken, whole = Path(folder, "broken.jsonl"), Path(folder, "whole.jsonl")
        violation = run_seed(packages, fault.seed, *switches, "--record", str(broken))
        if violation is None:
            raise RuntimeError(f"seed {fault.seed} does not catch: {fault.name}")
        run_seed(ROOT / packages.name, fault.seed, *switches, "--record", str(whole))
        beside = Beside(whole.read_bytes(), fault.file, fault.old, fault.new)
        target.write_text(exported_page(broken.read_bytes(), fault.name, beside), encoding="utf-8")
    return violation


def table(data: Path = DATA) -> str:
    """The faults as docs/simulated-faults.md shows them."""
    rows = []
    for fault in read_faults(data):
        parts = fault.violation.replace(".*", "...").split("|")
        words = " or ".join(f"`{each}`" for each in parts)
        folder, name = fault.file.split("/", 1)[0], fault.file.rsplit("/", 1)[1]
        rows.append(f"| {fault.name} | {folder}: `{name}` | {fault.caught_by} | {words} |")
    return "\n".join(rows)


def main() -> int:
    """Run faults; 1 when one is not caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only faults with one of these in their name")
    parser.add_argument("--seeds", type=int, default=0, help="count over so many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--replicas", action="store_true", help="those of replicas")
    parser.add_argument("--acting", action="store_true", help="those of acting masters")
    parser.add_argument("--export", type=Path, help="of one fault: a page that shows it")
    parser.add_argument("--table", action="store_true", help="print the page's table, run nothing")
    options = parser.parse_args()
    data, switches = DATA, []
    if options.replicas:
        data, switches = REPLICA_DATA, ["--replicas"]
    if options.acting:
        data, switches = ACTING_DATA, ["--acting"]
    if options.table:
        print(table(data))
        return 0
    chosen = [
        fault
        for fault in read_faults(data)
        if not options.words or any(word in fault.name for word in options.words)
    ]
    if options.export is not None:
        if len(chosen) != 1:
            parser.error("--export shows one fault; name it: " + "; ".join(f.name for f in chosen))
        print(lesson(chosen[0], options.export, *switches))
        return 0
    missed = 0
    for fault in chosen:
        seeds = range(options.first, options.first + options.seeds)
        if seeds:
            missed += not _count(fault, seeds, switches)
        else:
            missed += not _try(fault, switches)
    return 1 if missed else 0


def _try(fault: Fault, switches: Sequence[str]) -> bool:
    """A fault with its own seed or schedule."""
    with overlay(fault) as packages:
        violation = run_fault(fault, packages, *switches)
    found = fault.is_caught_by(violation)
    print(f"{fault.name}: {fault.caught_by} {'catches it' if found else 'DOES NOT CATCH IT'}")
    print(f"    {violation}", flush=True)
    return found


def _count(fault: Fault, seeds: Sequence[int], switches: Sequence[str]) -> bool:
    caught, others = [], []
    with overlay(fault) as packages:
        for seed in seeds:
            violation = run_seed(packages, seed, *switches)
            if fault.is_caught_by(violation):
                caught.append(seed)
                example = violation
            elif violation is not None:
                others.append(f"{seed}: {violation[:120]}")
    print(f"{fault.name}: {len(caught)} of {len(seeds)}", flush=True)
    print(f"    {example}" if caught else "    not caught")
    print(f"    seeds {caught[:20]}", *others[:3], sep="\n    ", flush=True)
    return bool(caught)


if __name__ == "__main__":
    sys.exit(main())

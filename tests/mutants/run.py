"""Breaks one line of the code at a time and shows that tests notice: `make mutants`.

    python tests/mutants/run.py [ROW ...]        some rows only; 0 are those of no behaviour

A mutant of mutants.toml belongs to one of the 70 behaviours and changes one line of a file that
cites one of its rules, or it names the test that once was missing. It is applied to a copy of the
copy in a temporary folder, whose packages come first on PYTHONPATH; there the tests run that say
`behaviour <row>`, or the one named, and one of them must fail.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from docs.behaviour_page import Row, read_rows  # noqa: E402 - ROOT first
from docs.rule_scan import Citations, scan  # noqa: E402

DATA = Path(__file__).with_name("mutants.toml")
COPIED = ("*/pocketmq", "tests", "docs", "pyproject.toml", ".importlinter")
PATIENCE_S = "8"
"""Real seconds for which a broken program's tests wait for what never comes."""
TEST_LIMIT_S = 60


@dataclass(frozen=True)
class Mutant:
    """One broken line."""

    row: int
    """The behaviour; 0 for none, and then a test is named."""
    file: str
    old: str
    """The line, without its indentation."""
    new: str
    test: str | None = None
    """Name of the test function that notices, when no behaviour says which."""
    nth: int | None = None
    """Which of several equal lines."""
    sample: bool = False
    """Whether CI runs it."""

    def applied_to(self, text: str) -> str:
        """The file's text with the line broken.

        Raises:
            ValueError: the line is not there, or not to be told from others.
        """
        lines = text.splitlines(keepends=True)
        at = [number for number, line in enumerate(lines) if line.strip() == self.old]
        if (len(at) != 1) if self.nth is None else (len(at) < self.nth):
            raise ValueError(f"row {self.row}: {len(at)} lines of {self.file} are {self.old!r}")
        chosen = at[(self.nth or 1) - 1]
        lines[chosen] = lines[chosen].replace(self.old, self.new)
        return "".join(lines)


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    verdict: str
    """`caught`, `SURVIVED`, or `BROKEN` when the tests did not even run."""
    seconds: float
    output: str

    @property
    def is_caught(self) -> bool:
        """Whether a test noticed."""
        return self.verdict == "caught"


def read_mutants(rows: Iterable[int] = ()) -> list[Mutant]:
    """All mutants, or those of some rows."""
    wanted = set(rows)
    with DATA.open("rb") as file:
        mutants = [Mutant(**entry) for entry in tomllib.load(file)["mutant"]]
    return [mutant for mutant in mutants if not wanted or mutant.row in wanted]


def problem_with(mutant: Mutant, row: Row | None, found: Citations) -> str | None:
    """Why a mutant proves nothing, or None."""
    path = ROOT / mutant.file
    if not path.exists():
        return f"{mutant.file} does not exist"
    try:
        changed = mutant.applied_to(path.read_text(encoding="utf-8"))
    except ValueError as exc:
        return str(exc)
    if changed == path.read_text(encoding="utf-8") or "\n" in mutant.new:
        return "it does not change one line"
    if row is None:
        return None if named_test(mutant.test) else f"there is no test {mutant.test}"
    if not any(mutant.file in found.code[rule] for rule in row.rules):
        return f"{mutant.file} cites none of {', '.join(row.rules)}"
    if not found.proofs[row.number]:
        return "no test proves the row"
    return None


@cache
def named_test(name: str | None) -> str | None:
    """Node id of the test function of this name, wherever it lies."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if name and f"def {name}(" in path.read_text(encoding="utf-8"):
            return f"{path.relative_to(ROOT).as_posix()}::{name}"
    return None


def copy_repository(target: Path) -> Path:
    """A copy that tests can run in; compiled files and their dates come along."""
    for pattern in COPIED:
        for source in ROOT.glob(pattern):
            copy = target / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                # A compiler that works here now renames its *.pyc.<number> files.
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.pyc.*"))
            else:
                shutil.copy2(source, copy)
    return target


def run_tests(copy: Path, node_ids: Sequence[str]) -> tuple[int, str]:
    """Run tests of a copied copy with its own packages; pytest's exit status and output."""
    packages = [str(folder.parent) for folder in sorted(copy.glob("*/pocketmq"))]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line"]
    command += ["-p", "no:cacheprovider", f"--basetemp={copy / 'nested-pytest'}"]
    command += [f"--timeout={TEST_LIMIT_S}", *node_ids]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(packages),
        "TEST_PATIENCE_S": PATIENCE_S,
    }
    ran = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


def tests_of(mutant: Mutant, found: Citations) -> list[str]:
    """Node ids of the tests that must notice."""
    if test := named_test(mutant.test):
        return [test]
    return [test.node_id for test in sorted(found.proofs[mutant.row])]


def run(mutants: Sequence[Mutant], jobs: int = 2) -> list[Outcome]:
    """Run each mutant against its row's tests, in copies of the repository.

    Raises:
        RuntimeError: these tests fail without any mutant.
    """
    found = scan()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(copy_repository(Path(folder) / str(number)))
        check_whole(copies, sorted({test for m in mutants for test in tests_of(m, found)}))

        def outcome_of(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                outcome = run_one(copy, mutant, tests_of(mutant, found))
            finally:
                copies.put(copy)
            sys.stdout.write(
                f"row {mutant.row:2}  {outcome.verdict:8} {outcome.seconds:5.1f} s  {mutant.new}\n"
            )
            return outcome

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(outcome_of, mutants))


def check_whole(copies: queue.SimpleQueue[Path], node_ids: Sequence[str]) -> None:
    """A test that fails anyway would catch everything."""
    copy = copies.get()
    status, output = run_tests(copy, node_ids)
    copies.put(copy)
    if status != 0:
        raise RuntimeError(f"the tests fail without any mutant:\n{output[-3000:]}")


def run_one(copy: Path, mutant: Mutant, node_ids: Sequence[str]) -> Outcome:
    """Break the line, run the tests, mend the line."""
    path = copy / mutant.file
    whole = path.read_text(encoding="utf-8")
    stat = path.stat()
    began = perf_counter()
    try:
        path.write_text(mutant.applied_to(whole), encoding="utf-8")
        status, output = run_tests(copy, node_ids)
    finally:
        path.write_text(whole, encoding="utf-8")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    verdict = {0: "SURVIVED", 1: "caught"}.get(status, "BROKEN")
    return Outcome(mutant, verdict, perf_counter() - began, output)


def main() -> int:
    """Run all mutants, or those of the rows named; 1 when one was not caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, help="numbers of behaviours; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at the same time")
    options = parser.parse_args()
    mutants = read_mutants(options.rows)
    rows, found = {row.number: row for row in read_rows()}, scan()
    problems = [p for m in mutants if (p := problem_with(m, rows.get(m.row), found))]
    for problem in problems:
        print(problem)
    if problems:
        return 1
    outcomes = run(mutants, options.jobs)
    missed = [outcome for outcome in outcomes if not outcome.is_caught]
    for outcome in missed:
        tail = "" if outcome.verdict == "SURVIVED" else outcome.output[-2000:]
        print(f"\nrow {outcome.mutant.row} {outcome.verdict}: {outcome.mutant.file}\n{tail}")
    print(f"\n{len(outcomes) - len(missed)} of {len(outcomes)} mutants are caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

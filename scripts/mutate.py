"""Mutation tests of the pure modules: makes small faults, one at a time, and runs tests on each.

The modules are those of the contract in `.importlinter` that belong to client, broker, nameserver,
controller and protocol; another one is tried when its whole name is given. First the quick tests
run once, to record which of them run which line. Then each fault is tried against the tests of its
line, until the first that fails: those that caught the faults before it, then the fastest, in a
fork of a process that has collected all tests. Modules and lines are in tests/mutants/lines.py.

Results are kept: an interrupted run goes on, and after a change only the changed modules and the
survivors are tried again. Faults that a user could not notice are listed in
tests/mutants/equivalent.toml, each with the reason; any other survivor needs a test.

With `--edges` the modules are all others of broker, controller, nameserver and client, and the
faults those of tests/mutants/edges.py: an effect that is left out or comes too early, a branch, a
check or a `finally` that is not there. Their verdicts stand in equivalent-edges.toml.

The tests are all quick ones of the roles, or, when modules are named, those files that import them
(tests/mutants/chosen.py says how), or, at the edges, those of their subject; `--tests` names
others. `--make-map` records only which tests run which lines, for later runs with `--same-map`.

examples:
  python scripts/mutate.py                            all of it, some hours
  python scripts/mutate.py client.routes nameserver   modules whose name holds one of these
  python scripts/mutate.py broker.store.recovery.recovery --tests tests/broker/store
  python scripts/mutate.py broker.stats --sample 60   60 of its faults, the same each time
  python scripts/mutate.py --only-report              what is known so far, and the survivors
  python scripts/mutate.py --edges controller.consensus --jobs 1 --most-s 5
  python scripts/mutate.py --edges --make-map; python scripts/mutate.py --edges --same-map
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import random
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from mutants.chosen import importing_tests, naming_tests, subject_tests  # noqa: E402 - tests first
from mutants.collected import CollectedRunner  # noqa: E402
from mutants.forked import Result, Runner  # noqa: E402
from mutants.generate import CodeMutant, mutants_of  # noqa: E402
from mutants.lines import (  # noqa: E402
    QUICK,
    ROLES,
    Coverage,
    Module,
    edge_modules,
    measure,
    named_modules,
)
from mutants.run import copy_repository  # noqa: E402

TESTS = tuple(f"tests/{name}" for name in (*ROLES, "behaviour", "events"))
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent.toml"
EQUIVALENT_EDGES = EQUIVALENT.with_name("equivalent-edges.toml")
QUICK_KILLER_S = 0.5
"""Processor seconds: a test that caught a fault is tried first on the next, if it takes no more."""


@dataclass(frozen=True)
class Options:
    """How faults are tried."""

    jobs: int
    most_s: float
    """Processor seconds of all tests for a fault."""
    hang_s: float
    """Real seconds that tests of a fault may take, beside ten times what they take without it."""
    sample: int | None = None
    """Faults of each module that are tried at most; all by default."""
    seed: int = 1
    """Another one draws another sample."""
    is_edge: bool = False
    """Whether faults at the edges are made, not those of pure cores."""


@dataclass
class Kept:
    """Results of this and earlier runs, one line each."""

    path: Path
    tests_sum: str
    """Of the tests that are run; a survivor of others is tried again. Empty: any will do."""
    found: dict[str, dict[str, object]]

    @classmethod
    def read(cls, path: Path, tests_sum: str) -> Kept:
        """Read earlier results; the last line of a fault counts."""
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return cls(path, tests_sum, {(entry := json.loads(line))["name"]: entry for line in lines})

    def result(self, module: Module, mutant: CodeMutant) -> Result | None:
        """The result for this fault, if it is still valid."""
        entry = self.found.get(mutant.name)
        if entry is None or entry["module_sum"] != module.sum:
            return None
        result = Result(str(entry["verdict"]), str(entry["by"]), float(str(entry["seconds"])))
        is_valid = result.is_caught or self.tests_sum in ("", entry["tests_sum"])
        return result if is_valid else None

    def note(self, module: Module, mutant: CodeMutant, result: Result) -> None:
        """Append a result to the file at once."""
        entry: dict[str, object] = {
            "name": mutant.name,
            "line": mutant.line,
            "module_sum": module.sum,
            "tests_sum": self.tests_sum,
            **asdict(result),
        }
        self.found[mutant.name] = entry
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def equivalents(*, is_edge: bool = False) -> dict[str, str]:
    """Name of a fault that nobody can notice -> the reason."""
    path = EQUIVALENT_EDGES if is_edge else EQUIVALENT
    if not path.exists():
        return {}
    with path.open("rb") as file:
        return {each["name"]: each["why"] for each in tomllib.load(file).get("mutant", [])}


class Worker:
    """Tries faults, in forks of a process that has everything imported wherever that will do."""

    def __init__(
        self,
        copy: Path,
        modules: Sequence[Module],
        tests: Sequence[str],
        covered: Coverage,
        options: Options,
    ) -> None:
        self._collected = CollectedRunner(copy, [each.name for each in modules], tests, QUICK)
        self._forked = Runner(copy)
        self._covered = covered
        self._options = options
        self._killers: dict[str, int] = {}
        """Test -> number of the fault that it caught last."""
        self._tried = 0

    def try_out(self, module: Module, mutant: CodeMutant) -> Result:
        """Run the tests of the fault's line."""
        tests = self._covered.tests(mutant.file, mutant.line, self._options.most_s)
        if not tests:
            return Result("no tests", "", 0.0)
        tests.sort(key=self._killed_last, reverse=True)
        self._tried += 1
        limit_s = self._options.hang_s + 10 * self._covered.seconds(tests)
        result = self._collected.run(mutant, module.name, tests, limit_s)
        if result.is_caught:
            self._killers[result.by.split("[")[0]] = self._tried
            return result
        if result.verdict != "outside" and not self._covered.is_imported(mutant.file, mutant.line):
            return result
        return self._forked.run(mutant, module.name, tests, limit_s)

    def _killed_last(self, test: str) -> int:
        is_quick = self._covered.seconds([test]) <= QUICK_KILLER_S
        return self._killers.get(test, 0) if is_quick else 0

    def close(self) -> None:
        """End the processes."""
        self._collected.close()
        self._forked.close()


def drawn(module: Module, options: Options) -> list[CodeMutant]:
    """The faults of a module that are tried: all, or a sample in the order of its lines."""
    found = mutants_of(module.source, module.file, is_edge=options.is_edge)
    if options.sample is None or len(found) <= options.sample:
        return found
    chosen = random.Random(f"{options.seed} {module.name}").sample(
        range(len(found)), options.sample
    )
    return [found[at] for at in sorted(chosen)]


def run(
    copy: Path,
    modules: Sequence[Module],
    tests: Sequence[str],
    covered: Coverage,
    kept: Kept,
    options: Options,
) -> None:
    """Try the faults without a result."""
    todo = [
        (module, mutant)
        for module in modules
        for mutant in drawn(module, options)
        if kept.result(module, mutant) is None
    ]
    print(f"{len(todo)} faults to try", flush=True)
    workers: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def one(number: int, module: Module, mutant: CodeMutant) -> None:
        worker = workers.get()
        try:
            result = worker.try_out(module, mutant)
        finally:
            workers.put(worker)
        kept.note(module, mutant, result)
        if not result.is_caught:
            print(f"{result.verdict} {mutant.file}:{mutant.line} {mutant.old} -> {mutant.new}")
        if number % 100 == 0:
            print(f"{number} of {len(todo)}", flush=True)

    started = [Worker(copy, modules, tests, covered, options) for _ in range(options.jobs)]
    for worker in started:
        workers.put(worker)
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(one, n, *each) for n, each in enumerate(todo, start=1)]:
            done.result()
    for worker in started:
        worker.close()


def report(modules: Sequence[Module], kept: Kept, *, is_edge: bool) -> int:
    """Print the score of each module, then the survivors; 1 when one is not in the list."""
    known = equivalents(is_edge=is_edge)
    open_: list[str] = []
    total: Counter[str] = Counter()
    print(f"{'module':58} {'faults':>6} {'caught':>6} {'same':>5} {'open':>5}  score")
    by_module: dict[str, Counter[str]] = defaultdict(Counter)
    for module in modules:
        counts = by_module[module.name]
        for mutant in mutants_of(module.source, module.file, is_edge=is_edge):
            result = kept.result(module, mutant)
            if result is None:
                counts["not tried"] += 1
            elif result.is_caught:
                counts["caught"] += 1
            elif mutant.name in known:
                counts["same"] += 1
            else:
                counts["open"] += 1
                open_.append(f"{mutant.line:4} {mutant.name}")
        total.update(counts)
    for name, counts in [*by_module.items(), ("all", total)]:
        tried = counts["caught"] + counts["same"] + counts["open"]
        counted = tried - counts["same"]
        score = f"{100 * counts['caught'] / counted:5.1f} %" if counted else "    -"
        missing = f"  {counts['not tried']} not tried" if counts["not tried"] else ""
        print(
            f"{name:58} {tried:6} {counts['caught']:6} {counts['same']:5} {counts['open']:5}"
            f"  {score}{missing}"
        )
    for line in open_:
        print(line)
    return 1 if open_ else 0


def _sum_of(folder: Path, tests: Sequence[str]) -> str:
    """Checksum of all tests and helpers, and of the choice among them."""
    found = hashlib.sha256("\n".join(tests).encode())
    for path in sorted(folder.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def chosen_tests(
    copy: Path, named: Sequence[str], modules: Sequence[Module], *, is_edge: bool
) -> list[str]:
    """Test files and folders that are run: those named, or derived from the modules."""
    if named:
        return list(named)
    if modules and is_edge:
        return subject_tests(copy, [module.name for module in modules])
    if not modules:
        return [name for name in TESTS if (copy / name).exists()]
    return importing_tests(copy, [module.name for module in modules], TESTS)


def main() -> int:
    """Try the faults and print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", help="parts of names of modules; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="faults at the same time")
    parser.add_argument(
        "--most-s", type=float, default=20.0, help="processor seconds of all tests for a fault"
    )
    parser.add_argument(
        "--hang-s", type=float, default=60.0, help="real seconds after which a fault hangs"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="try N faults of each module")
    parser.add_argument("--seed", type=int, default=1, help="which ones are in the sample")
    parser.add_argument("--state", type=Path, default=ROOT / ".mutation", help="folder of results")
    parser.add_argument("--only-report", action="store_true", help="try nothing")
    parser.add_argument(
        "--tests",
        nargs="+",
        default=[],
        metavar="PATH",
        help="test files and folders; those that import the modules by default",
    )
    parser.add_argument("--same-map", action="store_true", help="do not record lines again")
    parser.add_argument("--make-map", action="store_true", help="record lines, and try nothing")
    parser.add_argument(
        "--edges", action="store_true", help="effects, branches and checks of modules not pure"
    )
    options = parser.parse_args()
    if options.edges and options.state == ROOT / ".mutation":
        options.state = ROOT / ".mutation" / "edges"
    options.state = options.state.absolute()  # its processes run in the copy
    options.state.mkdir(parents=True, exist_ok=True)
    copy = options.state / "copy"
    # In a copy of the code and its tests, so that both may be edited meanwhile.
    if not options.only_report:
        rmtree(copy, ignore_errors=True)
        copy_repository(copy)
    elif not copy.exists():
        parser.error(f"nothing was tried yet with {options.state}; leave --only-report out")
    named = edge_modules if options.edges else named_modules
    modules = named(copy, options.modules)
    if not modules:
        parser.error(f"no module is called {' or '.join(options.modules)}")
    results = options.state / "results.jsonl"
    if options.only_report:
        return report(modules, Kept.read(results, ""), is_edge=options.edges)
    tests = chosen_tests(
        copy, options.tests, modules if options.modules else (), is_edge=options.edges
    )
    if missing := [name for name in tests if not (copy / name).exists()]:
        parser.error(f"there is no {missing[0]}")
    kept = Kept.read(results, _sum_of(copy / "tests", tests))
    lines = options.state / "lines.json"
    if not (options.same_map and lines.exists()):
        measure(copy, modules, tests, lines, options.jobs)
    if options.make_map:
        return 0
    names = naming_tests(copy)
    naming = {module.file: names.get(module.name, set()) for module in modules}
    covered = Coverage(json.loads(lines.read_text(encoding="utf-8")), naming)
    chosen = Options(
        options.jobs,
        options.most_s,
        options.hang_s,
        options.sample,
        options.seed,
        is_edge=options.edges,
    )
    run(copy, modules, tests, covered, kept, chosen)
    return report(modules, kept, is_edge=options.edges)


if __name__ == "__main__":
    sys.exit(main())

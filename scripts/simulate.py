"""Run the deterministic simulation of a whole cluster, seed after seed.

    python scripts/simulate.py                      # 100 seeds
    python scripts/simulate.py --seeds 100000       # for hours; Ctrl-C ends it with a summary
    python scripts/simulate.py --seed 17 --trace    # repeat one seed and print its events
    python scripts/simulate.py --seed 17 --record seed17.jsonl    # its events, for `pocketmq watch`
    python scripts/simulate.py --seed 17 --export seed17.html     # the page with them, in one file
    python scripts/simulate.py --replay             # seeds that failed once, fastest first
    python scripts/simulate.py --replicas           # other seeds: three replicas and controllers
    python scripts/simulate.py --schedule parted    # a scripted history of them, by its name
    python scripts/simulate.py --acting             # others: a slave that acts for its master

Exits with 1 when an invariant was violated, and prints one line per failing seed that replays it.
docs/simulation.md says what is simulated.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pocketmq.cluster.watching.export import export_recording
from pocketmq.simulation.acting.plan import acting_plan
from pocketmq.simulation.acting.run import run_acting
from pocketmq.simulation.play import Result
from pocketmq.simulation.recording import record_replicas, record_seed
from pocketmq.simulation.replicas.plan import replica_plan
from pocketmq.simulation.replicas.run import run_replicas
from pocketmq.simulation.replicas.schedules import SCHEDULES, schedule
from pocketmq.simulation.runner import run
from pocketmq.simulation.seed_ledger import Entry, parse, render
from pocketmq.simulation.swarm import scenario

INTERRUPTED = 130
LEDGER = Path(__file__).resolve().parents[1] / "tests" / "simulation" / "ledger.txt"
BLOCK = 1000
"""Seeds that are queued at once."""
SEEDS_PER_PROCESS = 2000
"""Then a new one takes its place."""


def main() -> int:
    options = _options()
    if options.seed is not None or options.schedule is not None:
        return _one(options)
    seeds: Sequence[int] = range(options.first, options.first + options.seeds)
    if options.replay:
        seeds = [entry.seed for entry in parse(options.ledger.read_text(encoding="utf-8"))]
    summary = _Summary()
    ended = _many(seeds, options.jobs, summary, _runner(options))
    if options.keep and not options.replicas and not options.acting and summary.found:
        entries = parse(options.ledger.read_text(encoding="utf-8"))
        options.ledger.write_text(render([*entries, *summary.found]), encoding="utf-8")
    return ended


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=100, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run only this seed")
    parser.add_argument("--replicas", action="store_true", help="seeds of three replicas")
    parser.add_argument(
        "--schedule", choices=sorted(SCHEDULES), help="a history of replicas; --seed is its chance"
    )
    parser.add_argument("--acting", action="store_true", help="seeds of acting masters")
    parser.add_argument("--trace", action="store_true", help="with --seed: print its events")
    parser.add_argument("--record", type=Path, help="with --seed: write its events to this file")
    parser.add_argument("--export", type=Path, help="with --seed: the same as one HTML file")
    parser.add_argument("--replay", action="store_true", help="run the seeds that failed once")
    parser.add_argument("--keep", action="store_true", help="add failing seeds to that list")
    parser.add_argument("--ledger", type=Path, default=LEDGER, help="seeds that failed once")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    one = options.seed if options.schedule is None else options.schedule
    if one is None and (options.record or options.export or options.trace):
        parser.error("--trace, --record and --export are of one seed; name it: --seed 17")
    if options.acting and (options.record or options.export):
        parser.error("--record and --export are not made of --acting yet; use --trace")
    if options.schedule is not None:
        if options.acting or options.record or options.export:
            parser.error("a schedule is one of replicas, and is shown with --trace")
        options.replicas = True
    return options


def _runner(options: argparse.Namespace) -> Callable[..., Result]:
    return run_acting if options.acting else run_replicas if options.replicas else run


def _one(options: argparse.Namespace) -> int:
    if options.schedule is not None:
        plan = schedule(options.schedule)
        if options.trace:
            print(plan)
        seed = plan.seed if options.seed is None else options.seed
        result = run_replicas(seed, plan=plan, sink=print if options.trace else None)
        return _told(options.schedule, result)
    seed: int = options.seed
    if options.trace:
        drawn = acting_plan if options.acting else replica_plan if options.replicas else scenario
        print(drawn(seed))
    sink = print if options.trace else None
    if options.record is not None or options.export is not None:
        result = _recorded(options, sink)
    else:
        result = _runner(options)(seed, sink=sink)
    return _told(f"seed {seed}", result)


def _told(what: str, result: Result) -> int:
    print(f"{what}: trace {result.digest}, {result.virtual_s:.0f} virtual seconds in "
          f"{result.real_s:.2f} s")  # fmt: skip
    _print_counts(result.stats)
    if result.violation is not None:
        print(f"VIOLATED {result.violation}")
        return 1
    return 0


def _recorded(options: argparse.Namespace, sink: Callable[[str], object] | None) -> Result:
    """Run a seed with a recording, which is kept, or shown in a page, or both."""
    seed: int = options.seed
    record: Path | None = options.record
    export: Path | None = options.export
    with TemporaryDirectory() as folder:
        path = record or Path(folder) / f"seed{seed}.jsonl"
        made = record_replicas if options.replicas else record_seed
        result, events = made(seed, path, sink=sink)
        if record is not None:
            print(f"{events} events in {record}")
        if export is not None:
            print(export_recording(path, export))
    return result


class _Summary:
    """Summary of many seeds."""

    def __init__(self) -> None:
        self.done = 0
        self.failed = 0
        self.found: list[Entry] = []
        self.processor_s = self.virtual_s = 0.0
        self.totals: Counter[str] = Counter()
        self._began_at = perf_counter()

    def add(self, result: Result) -> None:
        """Count a run; for a failing one print a command that repeats it."""
        self.done += 1
        self.processor_s += result.real_s
        self.virtual_s += result.virtual_s
        self.totals.update(result.stats)
        if result.violation is not None:
            self.failed += 1
            self.found.append(Entry(result.real_s, result.seed, result.violation))
            print(f"{result.replay}  # {result.violation}", flush=True)

    def print(self) -> None:
        """Print the summary."""
        per_s = self.done / (perf_counter() - self._began_at)
        print(
            f"{self.done} seeds, {self.failed} failed, {per_s:.1f} seeds/s, "
            f"{self.processor_s / max(1, self.done):.2f} processor seconds each, "
            f"{self.virtual_s / max(1e-9, self.processor_s):.0f} virtual seconds in each"
        )
        _print_counts(self.totals)


def _many(
    seeds: Sequence[int], jobs: int, summary: _Summary, run_one: Callable[[int], Result]
) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that child processes end too
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn())  # fmt: skip
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_leave_interrupts_to_the_parent,
        max_tasks_per_child=SEEDS_PER_PROCESS,
    )
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("seeds", total=len(seeds))
            for first in range(0, len(seeds), BLOCK):
                for result in pool.map(run_one, seeds[first : first + BLOCK]):
                    summary.add(result)
                    progress.update(task, advance=1, description=f"seeds, {summary.failed} failed")
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        summary.print()
        return INTERRUPTED
    pool.shutdown()
    summary.print()
    return 1 if summary.failed else 0


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _print_counts(counts: dict[str, int]) -> None:
    print("  ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count))


if __name__ == "__main__":
    sys.exit(main())

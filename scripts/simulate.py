"""Run the deterministic simulation of a whole cluster, seed after seed.

    python scripts/simulate.py                      # 100 seeds
    python scripts/simulate.py --seeds 100000       # all night
    python scripts/simulate.py --seed 17 --trace    # one seed again, with all that happens in it

Exits with 1 when an invariant was violated, and prints one line per failing seed that replays it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pocketmq.cluster.simulation.runner import Result, run
from pocketmq.cluster.simulation.scenario import scenario


def main() -> int:
    options = _options()
    if options.seed is not None:
        return _one(options.seed, options.trace)
    return _many(range(options.first, options.first + options.seeds), options.jobs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happens")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser.parse_args()


def _one(seed: int, trace: bool) -> int:
    if trace:
        print(scenario(seed))
    result = run(seed, sink=print if trace else None)
    print(f"seed {seed}: trace {result.digest}, {result.virtual_s:.0f} virtual seconds in "
          f"{result.real_s:.2f} s")  # fmt: skip
    print("  ".join(f"{name} {count}" for name, count in result.stats.items()))
    if result.violation is not None:
        print(f"VIOLATED {result.violation}")
        return 1
    return 0


def _many(seeds: range, jobs: int) -> int:
    console = Console(stderr=True)
    failed: list[Result] = []
    totals: Counter[str] = Counter()
    began_at = perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=console) as progress, ProcessPoolExecutor(jobs) as pool:
        task = progress.add_task("seeds", total=len(seeds))
        for result in pool.map(run, seeds, chunksize=4):
            totals.update(result.stats)
            if result.violation is not None:
                failed.append(result)
                progress.console.print(f"seed {result.seed}: {result.violation}")
                print(f"replay: {result.replay}", flush=True)
            progress.update(task, advance=1, description=f"seeds, {len(failed)} failed")
    took_s = perf_counter() - began_at
    print(f"{len(seeds)} seeds, {len(failed)} failed, {len(seeds) / took_s:.1f} seeds/s")
    print("  ".join(f"{name} {count}" for name, count in totals.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Kills a broker at random times, repeatedly, and checks its guarantees after each restart.

Producers send messages with known contents and a consumer commits offsets, until the broker's
process gets SIGKILL: under load, at a flush, when a log file rolls, at a dispatch, while a
configuration file is written, while it stops, and while it starts and recovers. After each restart

  * every acknowledged message is stored once, at the acknowledged offset;
  * queues have no gap, and each sender's messages are in their order;
  * `pocketmq store verify` finds no problem;
  * consumer offsets went back by at most one interval of saving (5 s);
  * acknowledged delayed messages are delivered when they are due.

examples:
  python scripts/crash_loop.py                      30 rounds, about a minute
  python scripts/crash_loop.py --rounds 1000        a thorough run
  python scripts/crash_loop.py --seed 7 --life 3    repeats one store's rounds, as a failure says
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pocketmq.runtime import logs
from support import crash_loop
from support.crash_loop import Figures, RoundFailed


def main(arguments: list[str] | None = None) -> int:
    """Run the rounds; 1 when a check failed."""
    options = _options(arguments)
    logs.configure("error")  # warnings about lost brokers are expected here
    lives = -(-options.rounds // options.rounds_per_life)
    numbers = range(lives) if options.life is None else range(options.life, options.life + 1)
    began = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="crash-loop-", dir=options.folder))
    failures, figures = uvloop.run(_run(options, folder, numbers))
    took = time.perf_counter() - began
    _report(figures, took)
    for failure in failures:
        print(f"BROKEN {failure}")
        print(
            f"replay: python scripts/crash_loop.py --seed {options.seed} --life {failure.life}"
            f" --rounds-per-life {options.rounds_per_life}"
        )
    if not failures:
        shutil.rmtree(folder)
    return 1 if failures else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30, help="kills under load (30)")
    parser.add_argument(
        "--rounds-per-life",
        type=int,
        default=10,
        help="rounds with one store; more would make each comparison longer (10)",
    )
    parser.add_argument("--seed", type=int, default=2013, help="decides all times (2013)")
    parser.add_argument("--life", type=int, help="only the store with this number")
    parser.add_argument("--jobs", type=int, default=1, help="stores at the same time (1)")
    parser.add_argument(
        "--folder", type=Path, help="folder for stores, such as on a disk under test (temporary)"
    )
    return parser.parse_args(arguments)


async def _run(
    options: argparse.Namespace, folder: Path, lives: range
) -> tuple[list[RoundFailed], Figures]:
    failures: list[RoundFailed] = []
    figures = Figures()
    free = asyncio.Semaphore(options.jobs)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("rounds", total=len(lives) * options.rounds_per_life)

        async def run_one(life: int) -> None:
            async with free:
                try:
                    figures.add(
                        await crash_loop.run_life(
                            folder,
                            seed=options.seed,
                            life=life,
                            rounds=options.rounds_per_life,
                            on_round=lambda: progress.update(task, advance=1),
                        )
                    )
                except RoundFailed as failure:
                    failures.append(failure)
                    progress.console.print(str(failure), style="red")

        await asyncio.gather(*(run_one(life) for life in lives))
    return failures, figures


def _report(figures: Figures, took: float) -> None:
    print(
        f"{figures.rounds} rounds, {figures.kills.total()} kills, {took:.0f} s:"
        f" {figures.acknowledged} messages acknowledged, {figures.in_doubt} sent and in doubt,"
        f" {figures.commits} offsets committed"
    )
    if figures.restarts_s:
        median, most = statistics.median(figures.restarts_s), max(figures.restarts_s)
        print(f"restart: median {median:.2f} s, longest {most:.2f} s")
    for what, count in figures.kills.most_common():
        print(f"  {count:5d} while {what}")


if __name__ == "__main__":
    sys.exit(main())

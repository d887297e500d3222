"""Several brokers on one machine: what more of them bring while there are cores for them.

    .venv/bin/python benchmarks/brokers.py [--rounds 5] [--scale 1.0] [--brokers 1 2 4]
        [--window 64]

One broker is one process that runs on one core: one commit log has one writer. A machine with more
cores runs more brokers (`pocketmq up --brokers N`), and producers and consumers spread over them by
the route of their topic. Here 1, 2 and 4 brokers share one nameserver, and one load (plain sockets,
`many_load.py`) keeps as many sends in flight in all, however many brokers there are.

What is measured is also what the arithmetic needs. Let a message take `b` us of processor time of
its broker and `c` us of all else on this machine (the load, the nameserver). Then N brokers on P
cores take at most

    min(N / b, P / (b + c))     messages a us: each broker has one core, and all together have P

and the last table says how much of that was reached here, and what 8 cores would give if `b` stays
what it is. It grows with the number of brokers where caches or memory are too small for them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from figures import CONSOLE, Figures, judged, median_ratio, save, show_figures
from processes import HERE, Process, cluster, run_json
from rich.table import Table

RATE, BROKER, ELSE = "msg/s", "us of the brokers", "us of all else"
CONNECTIONS = 8
GOAL = 1.0
"""Four brokers lose nothing against two."""
NOISE = 0.03


def row(brokers: int, what: str) -> str:
    """The name of a figure."""
    return f"{brokers} brokers | {what}"


def measure(
    counts: Sequence[int], rounds: int, messages: int, body_bytes: int, window: int
) -> Figures:
    """Each number of brokers in turn; all of them run all the time, and idle ones cost nothing."""
    figures: Figures = {}
    with contextlib.ExitStack() as stack:
        clusters: dict[int, list[Process]] = {}
        for count in counts:
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=HERE))
            _, clusters[count] = stack.enter_context(cluster(Path(folder), count))
        for number in range(rounds + 1):
            for count, brokers in sorted(clusters.items(), reverse=number % 2 == 0):
                before_s = sum(each.cpu_s for each in brokers)
                result = run_json(
                    "many_load.py",
                    *("--address", ";".join(each.address for each in brokers)),
                    *("--connections", str(CONNECTIONS), "--window", str(window)),
                    *("--messages", str(messages), "--body-bytes", str(body_bytes)),
                )
                if number == 0:  # makes the topics, and the machine warm
                    continue
                if result["refused"]:
                    CONSOLE.print(f"[red]{count} brokers: {result['refused']:,} sends were refused")
                used_s = sum(each.cpu_s for each in brokers) - before_s
                found = {
                    RATE: result["messages"] / result["seconds"],
                    BROKER: used_s / result["sent"] * 1e6,
                    ELSE: result["cpu_s"] / result["sent"] * 1e6,
                }
                for what, value in found.items():
                    figures.setdefault(row(count, what), []).append(value)
    return figures


def most(brokers: int, cores: int, broker_us: float, else_us: float) -> float:
    """Messages a second that so many brokers on so many cores can take."""
    return min(brokers / broker_us, cores / (broker_us + else_us)) * 1e6


def show(figures: Figures, counts: Sequence[int], cores: int) -> None:
    """Print the figures, what they are of what could be, and what more cores would give."""
    show_figures(figures)
    ratios = Table("ratio of medians, messages a second", "value", "to reach")
    for few, many in pairwise(counts):
        value = median_ratio(figures, row(many, RATE), row(few, RATE))
        told = judged(value, reached=value >= GOAL - NOISE)
        ratios.add_row(f"{many} brokers : {few}", told, f">= {GOAL}")
    CONSOLE.print(ratios)
    paper = Table("brokers", f"most on {cores} cores, msg/s", "reached", "brokers' share")
    for count in counts:
        rate, broker_us, else_us = (
            statistics.median(figures[row(count, what)]) for what in (RATE, BROKER, ELSE)
        )
        limit = most(count, cores, broker_us, else_us)
        share = broker_us / (broker_us + else_us)
        paper.add_row(str(count), f"{limit:,.0f}", f"{rate / limit:.2f}", f"{share:.2f}")
    CONSOLE.print(paper)
    broker_us, else_us = (
        statistics.median(figures[row(counts[-1], what)]) for what in (BROKER, ELSE)
    )
    with_load, alone = most(8, 8, broker_us, else_us), most(8, 8, broker_us, 0)
    CONSOLE.print(
        f"8 brokers on 8 cores: {with_load:,.0f} msg/s with the load on the same machine, "
        f"{alone:,.0f} with it elsewhere, on paper"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 = 200,000 messages a row")
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--window", type=int, default=64, help="sends in flight, of 8 connections")
    parser.add_argument("--brokers", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    counts = sorted(set(options.brokers))
    messages = int(200_000 * options.scale)
    figures = measure(counts, options.rounds, messages, options.body_bytes, options.window)
    show(figures, counts, len(os.sched_getaffinity(0)))
    save(figures, "brokers", None if counts == [1, 2, 4] else list(map(str, counts)))


if __name__ == "__main__":
    main()

"""`make bench`: transactions and timers beside plain sends, pops with acks beside pulls, in turn.

    python benchmarks/features.py [--rounds 5] [--scale 1.0] [--only send] [--only receive]

Only ratios of one run mean something. "by CPU" is the ratio of the processor time for one message,
which other processes on the machine change less: the broker's, and of the rows that receive in
brackets the broker's and the client's together.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from figures import CONSOLE, Figures, judged, median_ratio, save, show_figures
from processes import HERE, Process, cluster, run_json
from rich.table import Table

CPU = " broker CPU us/message"
CLIENT_CPU = " client CPU us/message"

RATIOS = (
    ("transaction", "plain", 0.35),
    ("transaction-thread", "plain", None),
    ("timer", "plain", None),
    ("pop", "pull", 0.5),
    ("pop", "pull-bare", None),
    ("pop-batch", "pull-bare", None),
    ("pop-single", "pull-bare", None),
)
"""What, beside what, and the ratio to reach, if one was promised."""


def measure(figures: Figures, kind: str, broker: Process, messages: int, *options: str) -> None:
    """One run of a kind."""
    used_s = broker.cpu_s
    result = run_json("feature_load.py", kind, "--messages", str(messages), *options)
    if result["messages"] != messages:
        raise RuntimeError(f"{kind}: {result['messages']:,} of {messages:,} messages")
    figures.setdefault(kind, []).append(messages / result["seconds"])
    us = (broker.cpu_s - used_s) / messages * 1e6
    figures.setdefault(kind + CPU, []).append(us)
    if "cpu_s" in result:
        client_us = result["cpu_s"] / messages * 1e6
        figures.setdefault(kind + CLIENT_CPU, []).append(client_us)


def send_rows(rounds: int, scale: float) -> Figures:
    """Plain, timed and transactional sends to one broker, in turn."""
    figures: Figures = {}
    messages = int(20_000 * scale)
    with (
        tempfile.TemporaryDirectory(dir=HERE) as folder,
        cluster(Path(folder)) as (names, [broker]),
    ):
        for turn in range(rounds):
            for kind in ("plain", "transaction", "transaction-thread", "timer"):
                options = ("--nameserver", names, "--topic", f"{kind}-{turn}")
                measure(figures, kind, broker, messages, *options)
    return figures


def receive_rows(rounds: int, scale: float) -> Figures:
    """Topics pulled in two ways, and popped in three, each with a new group offset."""
    figures: Figures = {}
    messages = int(40_000 * scale) // 4 * 4
    with (
        tempfile.TemporaryDirectory(dir=HERE) as folder,
        cluster(Path(folder)) as (names, [broker]),
    ):
        for turn in range(rounds):
            for kind in ("pull", "pop", "pull-bare", "pop-batch", "pop-single"):
                topic = f"{kind}-{turn}"
                options = ("--address", broker.address, "--messages", str(messages))
                sent = run_json("load.py", *options, "--topic", topic, "--window", "32")
                stored = int(sent["messages"] - sent["refused"])  # refused on a busy machine
                at = ("--nameserver", names, *options[:2])
                measure(figures, kind, broker, stored, *at, "--topic", topic)
    return figures


def show(figures: Figures) -> None:
    """Print figures and ratios."""
    show_figures(figures)
    ratios = Table("ratio", "of medians", "by CPU", "to reach", title="ratios")
    for top, bottom, goal in RATIOS:
        if top not in figures:
            continue
        value = median_ratio(figures, top, bottom)
        by_cpu = f"{cpu_us(figures, bottom, CPU) / cpu_us(figures, top, CPU):.2f}"
        if top + CLIENT_CPU in figures:
            both = [
                cpu_us(figures, row, CPU) + cpu_us(figures, row, CLIENT_CPU)
                for row in (bottom, top)
            ]
            by_cpu += f" ({both[0] / both[1]:.2f})"
        shown = f"{value:.2f}" if goal is None else judged(value, reached=value >= goal)
        ratios.add_row(f"{top} : {bottom}", shown, by_cpu, f">= {goal}" if goal else "-")
    CONSOLE.print(ratios)


def cpu_us(figures: Figures, row: str, whose: str) -> float:
    """The median of a row's processor time for one message."""
    return statistics.median(figures[row + whose])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 = 20,000 sends a row")
    parser.add_argument("--only", choices=["send", "receive"], action="append")
    options = parser.parse_args()
    wanted = options.only or ["send", "receive"]
    figures: Figures = {}
    if "send" in wanted:
        figures |= send_rows(options.rounds, options.scale)
    if "receive" in wanted:
        figures |= receive_rows(options.rounds, options.scale)
    show(figures)
    save(figures, "features", options.only)


if __name__ == "__main__":
    main()

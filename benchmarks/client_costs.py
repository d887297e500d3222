"""What the Python client costs its own process: processor time for each message, goals beside it.

    python benchmarks/client_costs.py                            two minutes
    python benchmarks/client_costs.py --beside DIR               and that of another working copy
    python benchmarks/client_costs.py --only send-128 --only push
    python benchmarks/client_costs.py --alone                    what is left without a kernel

One broker, and a client in a process of its own (`client_cost_load.py`); kernel time of the client
counts. With `--alone` the peer is in the client's process, and what it uses is taken off. Rounds of
all rows are interleaved, with `--beside` also those of both clients. What matters on a busy machine
is the least of the rounds: other work only ever adds to processor time.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from figures import CONSOLE, Figures, judged, save
from processes import HERE, cluster, run_json
from rich.table import Table


class Row(NamedTuple):
    """One thing that a client does."""

    kind: str
    """Of `client_cost_load.py`."""
    body_bytes: int
    messages: int
    goal_us: float | None
    """Processor time for each message to stay below."""


ROWS: Final = {
    "send-128": Row("send", 128, 30_000, 16),
    "send-1k": Row("send", 1_024, 30_000, 16),
    "push": Row("push", 1_024, 60_000, 6),
    "one": Row("one", 1_024, 60_000, 6),
    "iterate": Row("iterate", 1_024, 60_000, 6),
    "lite": Row("lite", 1_024, 60_000, 6),
    "memory": Row("memory", 1_024, 40_000, 2),
}


def measure(
    rows: list[str], copies: dict[str, Path | None], rounds: int, scale: float, where: list[str]
) -> Figures:
    """Microseconds of each round, by row and working copy.

    Args:
        rows: Of `ROWS`.
        copies: Name -> working copy, None for the installed one.
        rounds: How often each is measured.
        scale: Of the number of messages.
        where: Options for all loads, which end with `--topic`.
    """
    figures: Figures = {}
    for turn in range(rounds):
        for name in rows:
            row = ROWS[name]
            turns = list(copies.items())
            for copy, working_copy in turns if turn % 2 else reversed(turns):
                result = run_json(
                    "client_cost_load.py",
                    *(row.kind, *where, "sent" if row.kind == "send" else "backlog"),
                    *("--messages", str(int(row.messages * scale))),
                    *("--body-bytes", str(row.body_bytes)),
                    working_copy=working_copy,
                )
                used_us = result["cpu_s"] / result["messages"] * 1e6
                figures.setdefault(f"{name} {copy}", []).append(used_us)
    return figures


@contextlib.contextmanager
def filled(scale: float, loop: str) -> Iterator[list[str]]:
    """Run a broker with a backlog during a block; yields the options that lead there."""
    with (
        tempfile.TemporaryDirectory(dir=HERE) as folder,
        cluster(Path(folder)) as (names, _brokers),
    ):
        most = int(max(row.messages for row in ROWS.values()) * scale)
        where = ["--loop", loop, "--nameserver", names, "--topic"]
        run_json("client_cost_load.py", "fill", *where, "backlog", "--messages", str(most))
        run_json("client_cost_load.py", "fill", *where, "sent", "--messages", "256")
        yield where


def show(figures: Figures, rows: list[str], copies: list[str]) -> None:
    """Print the least and the median of each row."""
    columns = [f"{copy}, {what}" for copy in copies for what in ("least", "median")]
    table = Table("processor us a message", *columns, "to reach", title="client")
    for name in rows:
        cells = []
        goal = ROWS[name].goal_us
        for copy in copies:
            values = figures[f"{name} {copy}"]
            least = min(values)
            cells += [
                f"{least:.2f}" if goal is None else judged(least, reached=least <= goal),
                f"{statistics.median(values):.2f}",
            ]
        table.add_row(name, *cells, "-" if goal is None else f"<= {goal:g}")
    CONSOLE.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--beside", type=Path, help="another working copy of this project")
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    parser.add_argument("--alone", action="store_true", help="without a broker's process")
    parser.add_argument("--only", choices=list(ROWS), action="append")
    options = parser.parse_args()
    rows = options.only or list(ROWS)
    copies: dict[str, Path | None] = {"now": None}
    if options.beside is not None:
        copies["beside"] = options.beside.resolve()
    with contextlib.ExitStack() as stack:
        where = (
            ["--loop", options.loop, "--alone", "--topic"]
            if options.alone
            else stack.enter_context(filled(options.scale, options.loop))
        )
        figures = measure(rows, copies, options.rounds, options.scale, where)
    show(figures, rows, list(copies))
    save(figures, "client_costs_alone" if options.alone else "client_costs", options.only)


if __name__ == "__main__":
    main()

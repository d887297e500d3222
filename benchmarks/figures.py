"""What the benchmarks measured: printed as a table, beside its goals, and saved as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import TypeAlias

from processes import HERE
from rich.console import Console
from rich.table import Table

Figures: TypeAlias = dict[str, list[float]]
"""What was measured in each round, by name."""

CONSOLE = Console()


def show_figures(figures: Figures) -> None:
    """Print median, least and most of each."""
    table = Table("measured", "median", "min", "max", title="figures")
    for name, values in figures.items():
        cells = (statistics.median(values), min(values), max(values))
        table.add_row(
            name, *[f"{value:,.2f}" if value < 1000 else f"{value:,.0f}" for value in cells]
        )
    CONSOLE.print(table)


def median_ratio(figures: Figures, top: str, bottom: str) -> float:
    """Median of one by median of another."""
    return statistics.median(figures[top]) / statistics.median(figures[bottom])


def judged(value: float, *, reached: bool) -> str:
    """The value, green or red."""
    return f"[{'green' if reached else 'red'}]{value:.2f}"


def save(figures: Figures, name: str, only: Sequence[str] | None) -> None:
    """Write them to `benchmarks/results/NAME.json`, or `NAME-only-ROWS.json`.

    A run of some rows has a file of its own: it must not replace the figures of a whole run, and
    figures of two runs in one file would be compared although they cannot be.

    Args:
        figures: What was measured.
        name: Of the benchmark.
        only: The rows that were asked for; None for all.
    """
    suffix = "-".join(["-only", *only]) if only else ""
    path = HERE / "results" / f"{name}{suffix}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(figures, indent=2))
    CONSOLE.print(f"saved as {path}")

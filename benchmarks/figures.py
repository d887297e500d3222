"""Figures of the benchmarks: printed as a table, compared with goals, and saved as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from processes import HERE
from rich.console import Console
from rich.table import Table

Figures: TypeAlias = dict[str, list[float]]
"""Name -> the value of each round."""

CONSOLE = Console()

_FILE_NAME = str.maketrans({" ": "_", "/": "_", ",": None})
"""What rows are called, and no file should be."""


def show_figures(figures: Figures) -> None:
    """Print median, minimum and maximum of each figure."""
    table = Table("measured", "median", "min", "max", title="figures")
    for name, values in figures.items():
        cells = (statistics.median(values), min(values), max(values))
        table.add_row(
            name, *[f"{value:,.2f}" if value < 1000 else f"{value:,.0f}" for value in cells]
        )
    CONSOLE.print(table)


def median_ratio(figures: Figures, top: str, bottom: str) -> float:
    """The median of one figure divided by that of another."""
    return statistics.median(figures[top]) / statistics.median(figures[bottom])


def judged(value: float, *, reached: bool) -> str:
    """The value, green or red."""
    return f"[{'green' if reached else 'red'}]{value:.2f}"


def save(
    figures: Mapping[str, object], name: str, only: Sequence[str] | None, *, tell: bool = True
) -> None:
    """Write figures to `benchmarks/results/NAME.json`, or `NAME-only-ROWS.json`.

    A run of some rows has a separate file: it must not replace the figures of a complete run, and
    figures of two runs cannot be compared.

    Args:
        figures: The figures.
        name: Name of the benchmark.
        only: The rows that were asked for; None for all.
        tell: Print where they are.
    """
    suffix = "-".join(["-only", *only]) if only else ""
    path = HERE / "results" / f"{name}{suffix.translate(_FILE_NAME)}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(figures, indent=2))
    if tell:
        CONSOLE.print(f"saved as {path}")

"""Percentiles by minute as bars of text, and as a picture where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Final

from pocketmq.pipeline.jobs.latency_rows import LatencyRow

WIDTH: Final = 40
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def bar(value: float, most: float, width: int = WIDTH) -> str:
    """A bar of block characters, as long as a value is beside the greatest."""
    eighths = round(8 * width * value / most) if most > 0 else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def minute_text(minute_ms: int) -> str:
    """A minute in UTC."""
    return datetime.fromtimestamp(minute_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def series(rows: Iterable[LatencyRow]) -> Iterator[tuple[str, list[LatencyRow]]]:
    """The rows of each measure, topic and group, with a title."""
    for name, listed in groupby(rows, key=lambda row: (row.measure, row.topic, row.group)):
        measure, topic, group = name
        yield f"{measure} of {topic}" + (f" by {group}" if group else ""), list(listed)


def bars(rows: Iterable[LatencyRow]) -> Iterator[str]:
    """Lines with a bar for the p99 of each minute."""
    for title, listed in series(rows):
        yield f"{title}: p99 by minute"
        most = max(row.p99_ms for row in listed)
        width = len(f"{most:,}")
        for row in listed:
            drawn = bar(row.p99_ms, most)
            yield f"  {minute_text(row.minute_ms)} {row.p99_ms:>{width},} ms {drawn}"


def draw(rows: Sequence[LatencyRow], path: Path) -> None:
    """Draw p50, p95, p99 and p99.9 by minute; the path's suffix is the format (.png, .svg)."""
    from pocketmq.pipeline.jobs.chart import check_matplotlib

    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    every = list(series(rows))
    figure = Figure(figsize=(10, 2.6 * max(1, len(every))), layout="constrained")
    FigureCanvasAgg(figure)
    for number, (title, listed) in enumerate(every, 1):
        axes = figure.add_subplot(max(1, len(every)), 1, number)
        days = [row.minute_ms / 86_400_000 for row in listed]  # matplotlib's unit of time
        for name in ("p50", "p95", "p99", "p999"):
            values = [getattr(row, f"{name}_ms") for row in listed]
            axes.plot(days, values, marker=".", label=name.replace("p999", "p99.9"))
        axes.xaxis.axis_date()
        axes.set_title(title)
        axes.set_ylabel("ms")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
    figure.savefig(path, dpi=110)

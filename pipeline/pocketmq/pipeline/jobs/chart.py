"""Draws the mean departure delay by carrier and hour of the day in New York."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from pocketmq.runtime.errors import MissingToolError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ZONE = "America/New_York"


def check_matplotlib() -> None:
    """Raise `MissingToolError` if matplotlib is not installed; call it before a long job."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingToolError("matplotlib", "the picture", "pip install matplotlib")


def draw(delays: DataFrame, path: Path) -> None:
    """Draw windows (`carrier`, `hour` in UTC, `departed`, `minutes`) as a PNG."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from pyspark.sql import functions as f

    # Hours are stored in UTC; the chart shows the hour of the day in New York.
    local_hour = f.hour(f.from_utc_timestamp("hour", ZONE)).alias("of_day")
    rows = (
        delays.groupBy("carrier", local_hour)
        .agg(f.sum("minutes").alias("minutes"), f.sum("departed").alias("departed"))
        .where("departed > 0")
        .collect()
    )
    carriers = sorted({row.carrier for row in rows})
    hours = range(24)
    means = np.full((len(carriers), len(hours)), np.nan)
    for row in rows:
        means[carriers.index(row.carrier), row.of_day] = row.minutes / row.departed
    figure = Figure(figsize=(11, 0.4 * max(len(carriers), 4) + 1.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    # Not the maximum: a single flight that is a day late would leave all other cells white.
    bound = float(np.nanpercentile(np.abs(means), 95)) if rows else 1.0
    image = axes.imshow(means, aspect="auto", cmap="RdBu_r", vmin=-bound, vmax=bound)
    axes.set_xticks(list(hours), [f"{hour:02d}" for hour in hours])
    axes.set_yticks(range(len(carriers)), carriers)
    axes.set_xlabel("scheduled hour of departure, New York")
    axes.set_title("Mean departure delay in minutes")
    figure.colorbar(image, ax=axes, label="minutes; blue is early")
    figure.savefig(path, dpi=120)

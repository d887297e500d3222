"""Lets a reader take filters where the session allows it, and work without where it does not.

Spark calls `pushFilters` only with `spark.sql.python.filterPushdown.enabled`. Without it, Spark
refuses every reader that overrides the method, so each read in a plain session would fail. Spark
detects an override by the method's `__func__`: that of `QuietPushdown` is the inherited method, so
Spark accepts the reader and tests the conditions itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql.datasource import DataSourceReader


class QuietPushdown:
    """Assign this to a reader's `pushFilters`; `absorb` takes the filters if Spark passes any."""

    def __init__(self, absorb: Callable[[list[Any]], Iterable[Any]]) -> None:
        self._absorb = absorb

    @property
    def __func__(self) -> Any:
        return getattr(DataSourceReader, "pushFilters", None)  # Spark 4.0 has none

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        return self._absorb(filters)

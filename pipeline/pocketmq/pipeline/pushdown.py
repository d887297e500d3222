"""Lets a reader take filters where the session allows it, and do without where it does not.

Spark calls `pushFilters` only with `spark.sql.python.filterPushdown.enabled`, and refuses a reader
that merely has the method without it. A plain session, which found our sources by itself, would
then fail on every read. Spark looks at the method's `__func__`: ours says that it is the inherited
one. Spark then tests the conditions itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql.datasource import DataSourceReader


class QuietPushdown:
    """`pushFilters` of a reader, as an attribute of it."""

    def __init__(self, absorb: Callable[[list[Any]], Iterable[Any]]) -> None:
        self._absorb = absorb

    @property
    def __func__(self) -> Any:
        return getattr(DataSourceReader, "pushFilters", None)  # Spark 4.0 has none

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        return self._absorb(filters)

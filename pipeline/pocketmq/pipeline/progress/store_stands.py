"""Where a stream stands in each store, as Spark stores it between batches.

    {"s3://bucket/broker-a": {"end": 2147483648, "mark": 1700000000000}}

For each store the log offset behind the last file that was read, and the store time of that file's
first record, by which a store made anew is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pocketmq.pipeline.progress.checkpoint import BEGIN


class Stand(NamedTuple):
    """Where a stream stands in a store."""

    end: int
    """Log offset behind the last file that was read."""
    mark: int | None = None
    """Store time of that file's first record; None where no file was read."""


Stands = dict[str, Stand]
"""By the store's path."""


def to_tree(stands: Mapping[str, Stand]) -> dict[str, Any]:
    """What Spark stores."""
    return {root: {"end": each.end, "mark": each.mark} for root, each in sorted(stands.items())}


def from_tree(tree: Mapping[str, Any]) -> Stands:
    """The reverse; the tree is sound, since we made it."""
    return {
        root: Stand(int(each["end"]), each["mark"]) for root, each in tree.items() if root != BEGIN
    }

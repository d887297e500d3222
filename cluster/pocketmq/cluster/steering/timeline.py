"""What was done to a cluster, for the report of a failed test."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.operation.control.processor import real_us


class Act(NamedTuple):
    """What was done to a cluster, and when."""

    real_us: int
    at_ms: int
    """The cluster's time."""
    what: str

    @classmethod
    def now(cls, at_ms: int, what: str) -> Act:
        """An act of this moment."""
        return cls(real_us(), at_ms, what)

"""The invariants that hold after every step. Pure: they take observations and report violations.

`ProgressLedger` follows messages and committed offsets, `OwnershipLedger` members and owners of
queues. Times are virtual seconds.
"""

from __future__ import annotations

from pocketmq.simulation.invariants.ownership import OwnershipLedger
from pocketmq.simulation.invariants.progress import ProgressLedger

__all__ = ["InvariantError", "OwnershipLedger", "ProgressLedger"]


class InvariantError(AssertionError):
    """An invariant does not hold."""

"""What must hold after every step. Pure: fed with observations, it answers with violations.

`ProgressLedger` follows messages and committed offsets, `OwnershipLedger` follows who is a member
and who owns which queue. Moments are virtual seconds.
"""

from __future__ import annotations

from pocketmq.cluster.simulation.invariants.ownership import OwnershipLedger
from pocketmq.cluster.simulation.invariants.progress import ProgressLedger

__all__ = ["InvariantError", "OwnershipLedger", "ProgressLedger"]


class InvariantError(AssertionError):
    """An invariant does not hold."""

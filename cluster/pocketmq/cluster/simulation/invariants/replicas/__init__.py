"""The invariants of replicas and controllers. Pure: observations in, violations out."""

from __future__ import annotations

from pocketmq.cluster.simulation.invariants.replicas.acknowledged import AcknowledgedLedger
from pocketmq.cluster.simulation.invariants.replicas.elections import ElectionLedger
from pocketmq.cluster.simulation.invariants.replicas.logs import LogLedger
from pocketmq.cluster.simulation.invariants.replicas.offsets import OffsetLedger

__all__ = ["AcknowledgedLedger", "ElectionLedger", "LogLedger", "OffsetLedger"]

"""The invariants of replicas and controllers. Pure: observations in, violations out."""

from __future__ import annotations

from pocketmq.cluster.simulation.invariants.replicas.acknowledged import AcknowledgedLedger
from pocketmq.cluster.simulation.invariants.replicas.elections import ElectionLedger
from pocketmq.cluster.simulation.invariants.replicas.lengths import LengthLedger
from pocketmq.cluster.simulation.invariants.replicas.logs import LogLedger
from pocketmq.cluster.simulation.invariants.replicas.offsets import OffsetLedger
from pocketmq.cluster.simulation.invariants.replicas.routes import RouteLedger
from pocketmq.cluster.simulation.invariants.replicas.stillness import StillnessLedger
from pocketmq.cluster.simulation.invariants.replicas.topics import TopicLedger

__all__ = [
    "AcknowledgedLedger",
    "ElectionLedger",
    "LengthLedger",
    "LogLedger",
    "OffsetLedger",
    "RouteLedger",
    "StillnessLedger",
    "TopicLedger",
]

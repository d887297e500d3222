"""The invariants of replicas and controllers. Pure: observations in, violations out."""

from __future__ import annotations

from pocketmq.simulation.invariants.replicas.acknowledged import AcknowledgedLedger
from pocketmq.simulation.invariants.replicas.elections import ElectionLedger
from pocketmq.simulation.invariants.replicas.lengths import LengthLedger
from pocketmq.simulation.invariants.replicas.logs import LogLedger
from pocketmq.simulation.invariants.replicas.offsets import OffsetLedger
from pocketmq.simulation.invariants.replicas.routes import RouteLedger
from pocketmq.simulation.invariants.replicas.stillness import StillnessLedger
from pocketmq.simulation.invariants.replicas.topics import TopicLedger

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

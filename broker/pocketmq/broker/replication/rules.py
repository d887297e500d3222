"""The numbers of replication, in one place (H-20 to H-54)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HaRules:
    """Sizes and times of the replication stream; seconds."""

    batch_bytes: int = 32 * 1024
    """Longest body of a frame (haTransferBatchSize)."""
    heartbeat_s: float = 5.0
    """Silence after which a side says something (haSendHeartbeatInterval)."""
    housekeeping_s: float = 20.0
    """Silence of the other side after which the link is closed (haHousekeepingInterval)."""
    max_gap_bytes: int = 256 * 1024 * 1024
    """A slave that is so far behind is not in sync (haMaxGapNotInSync)."""
    retry_s: float = 5.0
    """From a link's end to the next attempt (H-22)."""
    drop_reports_beyond_end: bool = True
    """A slave that says it has more than its master is dropped (H-32, W-3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AckRules:
    """When a message counts as replicated (B-140 to B-143)."""

    in_sync_replicas: int = 1
    """Replicas that must have it, the master among them; 1 waits for nobody."""
    timeout_s: float = 3.0
    """After that the answer is FLUSH_SLAVE_TIMEOUT (12) (slaveTimeout)."""
    refuse_without_slave: bool = False
    """4.9: without a slave in reach the answer is SLAVE_NOT_AVAILABLE (11), at once."""
    max_gap_bytes: int = 256 * 1024 * 1024

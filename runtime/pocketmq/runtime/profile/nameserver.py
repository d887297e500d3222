"""Where the name servers of RocketMQ 4.9 and 5.x differ."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerProfile:
    """What a name server asks of its profile."""

    scan_initial_delay_ms: int
    """First scan for silent brokers; up to 5.3.3, 5.x took its 5 s for ms (N-3)."""
    scan_period_ms: int
    """Scan for silent brokers; the worst detection is 120 s more than this (N-3, N-21)."""
    apply_topics_per_topic: bool
    """A registration is tested per topic, so a deleted route comes back with it (N-15, N-30)."""
    refuse_first_incremental_registration: bool
    """A broker unknown by id may not register just one topic (N-14)."""
    heartbeat_timeout_per_broker: bool
    """`heartbeatTimeoutMillis` of a registration overrides the 120 s (N-2)."""
    changed_versions_keep_alive: bool
    """QUERY_DATA_VERSION with a version that is not known is a sign of life, too (N-24)."""
    unregister_in_background: bool
    """UNREGISTER_BROKER is queued and answered at once (N-19)."""
    unregister_by_broker_id: bool
    """UNREGISTER_BROKER drops whatever address holds the broker id, not its own (N-20)."""
    live_brokers_by_cluster: bool
    """The live table is keyed by cluster and address, not by address alone (N-7)."""
    state_version_in_data_version: bool
    """DataVersion has `stateVersion`, and equality needs it (N-10, E-60)."""
    slaves_may_act: bool
    """`enableActingMaster` of a registration counts (N-20, N-28)."""


NAMESERVER_4_9 = NameServerProfile(
    scan_initial_delay_ms=5_000,
    scan_period_ms=10_000,
    apply_topics_per_topic=False,
    refuse_first_incremental_registration=False,
    heartbeat_timeout_per_broker=False,
    changed_versions_keep_alive=False,
    unregister_in_background=False,
    unregister_by_broker_id=True,
    live_brokers_by_cluster=False,
    state_version_in_data_version=False,
    slaves_may_act=False,
)
"""RocketMQ 4.9.8."""

NAMESERVER_5_3 = NameServerProfile(
    scan_initial_delay_ms=5,
    scan_period_ms=5_000,
    apply_topics_per_topic=True,
    refuse_first_incremental_registration=True,
    heartbeat_timeout_per_broker=True,
    changed_versions_keep_alive=True,
    unregister_in_background=True,
    unregister_by_broker_id=False,
    live_brokers_by_cluster=True,
    state_version_in_data_version=True,
    slaves_may_act=True,
)
"""RocketMQ 5.2.0 to 5.3."""

NAMESERVER_5_5 = replace(NAMESERVER_5_3, scan_initial_delay_ms=5_000)
"""RocketMQ 5.5."""

NAMESERVER_5_X = NAMESERVER_5_5
"""The newest."""

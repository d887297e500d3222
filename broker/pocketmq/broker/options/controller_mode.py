"""Options of brokers whose controllers say who is master. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class ControllerModeOptions:
    """Controllers: where they are, and when a replica counts as in sync."""

    enable_controller_mode: bool = option(
        False,
        help="Controllers choose the master, and give this broker its role and id.",
        rule="H-1",
    )
    controllers: list[str] = option(
        [], help="Controllers: host:port, separated by ';'.", rocketmq_name="controllerAddr"
    )
    broker_heartbeat_interval: int = option(
        1_000, unit="ms", help="Between two heartbeats to controllers.", rule="D-40"
    )
    controller_heart_beat_timeout_mills: int = option(
        10_000,
        unit="ms",
        help="Controllers take this broker for dead when it is silent for this time.",
        rule="D-40",
    )
    sync_broker_metadata_period: int = option(
        5_000, unit="ms", help="Between two questions who is master.", rule="D-17"
    )
    ha_max_time_slave_not_catchup: int = option(
        15_000,
        unit="ms",
        help="A slave that lags for this time is removed from the sync-state set.",
        rule="H-153",
    )
    all_ack_in_sync_state_set: bool = option(
        False, help="Answer a send only when every replica in sync has the message.", rule="H-52"
    )
    min_in_sync_replicas: int = option(
        1, help="Refuse messages while fewer replicas than this number are in sync.", rule="D-90"
    )
    master_lease_enable: bool = option(
        False,
        help=(
            "A master refuses messages if no controller has answered it for half of "
            "controllerHeartBeatTimeoutMills. Also start the controllers with "
            "--broker-close-grace 5000."
        ),
        rule="W-2",
    )
    broker_election_priority: int = option(
        2**31 - 1, help="The smaller, the sooner master among equals.", rule="D-33"
    )

"""Options of brokers whose controllers say who is master. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class ControllerModeOptions:
    """Controllers: where they are, and when a replica counts as in sync."""

    enable_controller_mode: bool = option(
        False,
        help=(
            "Let controllers choose the master. The controllers also give this broker its "
            "role and its id."
        ),
        rule="H-1",
    )
    controllers: list[str] = option(
        [], help="Controllers: host:port, separated by ';'.", rocketmq_name="controllerAddr"
    )
    broker_heartbeat_interval: int = option(
        1_000,
        unit="ms",
        help="Time between two heartbeats of a broker to controllers.",
        rule="D-40",
    )
    controller_heart_beat_timeout_mills: int = option(
        10_000,
        unit="ms",
        help="If this broker is silent for this time, controllers take the broker for dead.",
        rule="D-40",
    )
    sync_broker_metadata_period: int = option(
        5_000,
        unit="ms",
        help="How often a broker asks the controllers which broker is the master.",
        rule="D-17",
    )
    ha_max_time_slave_not_catchup: int = option(
        15_000,
        unit="ms",
        help=(
            "If a slave lags for this time without a break, the master removes the slave "
            "from the sync-state set."
        ),
        rule="H-153",
    )
    all_ack_in_sync_state_set: bool = option(
        False,
        help=(
            "With controllers: answer a send only when every replica in the sync-state set "
            "has the message."
        ),
        rule="H-52",
    )
    min_in_sync_replicas: int = option(
        1,
        help=(
            "Minimum number of replicas that must be in sync. With fewer replicas in sync, "
            "the master refuses messages."
        ),
        rule="D-90",
    )
    master_lease_enable: bool = option(
        False,
        help=(
            "If no controller has answered a master for half of "
            "controllerHeartBeatTimeoutMills, the master refuses messages. If you turn "
            "this option on, also start the controllers with --broker-close-grace 5000."
        ),
        rule="W-2",
    )
    broker_election_priority: int = option(
        2**31 - 1,
        help=(
            "Priority of this broker in elections. If several replicas have logs of the "
            "same epoch and length, the replica with the smallest number becomes master."
        ),
        rule="D-33",
    )

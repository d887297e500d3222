"""Options of groups whose slaves may act as master. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class ActingMasterOptions:
    """Slaves that act as master: give them to all brokers of a name, and name servers theirs."""

    enable_slave_acting_master: bool = option(
        False,
        help=(
            "For a master and its slaves: while there is no master, the slave with the lowest "
            "id acts as master, read only. The broker needs slaveReadEnable, and the "
            "nameservers need supportActingMaster."
        ),
        rule="Z-1",
    )
    total_replicas: int = option(
        1,
        help=(
            "Number of brokers with this broker name, this broker included. If above 1 and "
            "enableSlaveActingMaster is on, a master fetches its slaves' offsets before it is "
            "online."
        ),
        rule="Z-9",
    )
    skip_pre_online: bool = option(
        False, help="Be online at once, without fetching offsets from other brokers.", rule="Z-9"
    )
    broker_not_active_timeout_millis: int = option(
        10_000,
        unit="ms",
        help="Nameservers forget this broker when it is silent for this time.",
        rule="Z-4",
    )
    sync_broker_member_group_period: int = option(
        1_000,
        unit="ms",
        help=(
            "Only for a slave: time between two requests to nameservers for the replicas of "
            "its broker name."
        ),
        rule="Z-4",
    )

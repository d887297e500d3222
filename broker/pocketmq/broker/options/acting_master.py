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
            "While a broker name has no master, its slave with the lowest id acts as "
            "master, read only. Turn this option on for the master and all its slaves. The "
            "slaves also need slaveReadEnable, and the nameservers need "
            "supportActingMaster."
        ),
        rule="Z-1",
    )
    total_replicas: int = option(
        1,
        help=(
            "Number of brokers with this broker name, including this broker. If the number "
            "is above 1 and enableSlaveActingMaster is on, a master that starts first "
            "fetches its slaves' offsets, and then goes online."
        ),
        rule="Z-9",
    )
    skip_pre_online: bool = option(
        False,
        help=(
            "With enableSlaveActingMaster and totalReplicas above 1: let the broker be "
            "online at once after its start. Without this option, the broker first fetches "
            "offsets from other brokers of its name."
        ),
        rule="Z-9",
    )
    broker_not_active_timeout_millis: int = option(
        10_000,
        unit="ms",
        help=(
            "With enableSlaveActingMaster: if this broker is silent for this time, "
            "nameservers remove the broker from their routes."
        ),
        rule="Z-4",
    )
    sync_broker_member_group_period: int = option(
        1_000,
        unit="ms",
        help=(
            "Only for a slave with enableSlaveActingMaster: how often the slave asks "
            "nameservers for the replicas of its broker name."
        ),
        rule="Z-4",
    )

"""Builds the subject of slaves that act as master."""

from __future__ import annotations

import structlog

from pocketmq.broker.acting_master.group_peers import GroupPeers
from pocketmq.broker.acting_master.group_processor import (
    GroupProcessor,
    HaInfoProcessor,
    NoGroupProcessor,
)
from pocketmq.broker.acting_master.members import Members
from pocketmq.broker.acting_master.preparation import Preparation
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.delays.assembly import Delays
from pocketmq.broker.offsets.assembly import Offsets
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.subject import Periodically, Subject
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.periodic import PeriodicService

log = structlog.get_logger()


def assemble_acting_master(
    core: BrokerCore,
    network: Network,
    offsets: Offsets,
    delays: Delays,
    replication: Replication,
) -> Subject:
    """Emits `master_told` and `master_returned`. Its services begin before the registration's."""
    config = core.config
    if config.enable_controller_mode:
        if config.enable_slave_acting_master:
            raise ConfigError(
                "enable_slave_acting_master",
                "in controller mode, a slave cannot act as master, because controllers elect a "
                "new master",
                advice="leave out --enable-slave-acting-master or --enable-controller-mode",
            )
        return Subject(processors=(NoGroupProcessor(),))
    acts = config.enable_slave_acting_master
    ha_info = HaInfoProcessor(core, replication, follows=acts)
    if not acts:
        return Subject(processors=(ha_info, NoGroupProcessor()))
    _warn_of_settings(core)
    # Stay isolated until this broker has taken over what an acting master did (Z-9).
    if config.total_replicas > 1 and not config.skip_pre_online:
        core.role.isolate()
    peers = GroupPeers(
        config.cluster_name,
        config.name,
        config.nameservers,
        RemotingClient(
            network,
            encoding=Encoding.JSON,  # peers may be RocketMQ's own
            credentials=core.config.inner_credentials,
        ),
        core.clock,
    )
    members = Members(
        core,
        replication.roles,
        peers,
        offsets.table,
        config.sync_broker_member_group_period / 1000,
    )
    preparation = Preparation(core, replication, peers, offsets.table, delays.planner)
    beats = PeriodicService(
        "heartbeat to name servers",
        core.clock,
        config.broker_heartbeat_interval / 1000,
        lambda: peers.heartbeat(str(core.address)),
    )

    return Subject(
        processors=(ha_info, GroupProcessor(members)),
        services=(preparation, members, Periodically(beats)),
    )


def _warn_of_settings(core: BrokerCore) -> None:
    """Say what is missing for it to be of use; RocketMQ says nothing."""
    config = core.config
    if config.broker_role.is_master and config.total_replicas < 2:
        log.warning(
            "acting_master.offsets_not_taken_back",
            reason="totalReplicas is 1",
            advice="give it the number of brokers of this name",
        )
    if not config.broker_role.is_master and not config.slave_read_enable:
        log.warning(
            "acting_master.cannot_be_read",
            reason="slaveReadEnable is off",
            advice="turn it on: without it this slave refuses pulls also while it acts as master",
        )

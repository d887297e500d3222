"""Builds controller mode; without it a subject that says so."""

from __future__ import annotations

from pocketmq.broker.controller_mode.controllers import Controllers
from pocketmq.broker.controller_mode.identity import IdentityFiles
from pocketmq.broker.controller_mode.manager import ManagerRules, ReplicaManager
from pocketmq.broker.controller_mode.role_processor import NoControllerProcessor, RoleProcessor
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.subject import Subject
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import RemotingClient


def assemble_controller_mode(
    core: BrokerCore, network: Network, replication: Replication
) -> Subject:
    """Drives `replication.roles`."""
    config = core.config
    if not config.enable_controller_mode:
        return Subject(processors=(NoControllerProcessor(),))
    encoding = Encoding[config.encoding.upper()]
    manager = ReplicaManager(
        core,
        replication,
        Controllers(
            config.controllers,
            RemotingClient(network, encoding=encoding, credentials=config.inner_credentials),
            core.clock,
        ),
        RemotingClient(
            network,
            encoding=Encoding.JSON,  # a master may be RocketMQ's own
            credentials=config.inner_credentials,
        ),
        IdentityFiles(core.store.root, core.disk),
        ManagerRules(
            heartbeat_s=config.broker_heartbeat_interval / 1000,
            timeout_ms=config.controller_heart_beat_timeout_mills,
            poll_s=config.sync_broker_metadata_period / 1000,
            all_ack=config.all_ack_in_sync_state_set,
            min_in_sync=config.min_in_sync_replicas,
            priority=config.broker_election_priority,
        ),
    )
    return Subject(
        processors=(RoleProcessor(core, replication, manager.told),), services=(manager,)
    )

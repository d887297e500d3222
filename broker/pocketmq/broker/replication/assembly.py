"""Builds the replication subject."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epoch_master import EpochSlaveConnection
from pocketmq.broker.replication.epoch_slave import EpochMasterConnection
from pocketmq.broker.replication.ha_client import HaClient, MasterConnection
from pocketmq.broker.replication.ha_port import HaPort
from pocketmq.broker.replication.ha_service import HaService
from pocketmq.broker.replication.replicas import Replicas
from pocketmq.broker.replication.role_changes import RoleChanges
from pocketmq.broker.replication.rules import AckRules, HaRules
from pocketmq.broker.replication.slave_connection import SlaveConnection
from pocketmq.broker.replication.status_processor import StatusProcessor
from pocketmq.broker.replication.sync_state import SyncState
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.subject import Subject
from pocketmq.protocol.bodies.route import MASTER_ID
from pocketmq.protocol.transport.network import Network
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication(Subject):
    """What other subjects, and a controller's client, use of it."""

    port: HaPort
    """Where slaves connect."""
    slaves: HaService
    """Those that are connected."""
    client: HaClient
    """The connection to the master."""
    replicas: Replicas
    """Waits until enough replicas have a message."""
    roles: RoleChanges
    """Becomes master or slave."""
    sync: SyncState
    """With a controller: which replicas are in sync with this master."""


def assemble_replication(core: BrokerCore, network: Network) -> Replication:
    """Emits `role_changed`; listens to `master_told`."""
    config, store, role, clock = core.config, core.store, core.role, core.clock
    check_role(config)
    rules = HaRules(
        batch_bytes=config.ha_transfer_batch_size,
        heartbeat_s=config.ha_send_heartbeat_interval / 1000,
        housekeeping_s=config.ha_housekeeping_interval / 1000,
        max_gap_bytes=config.ha_max_gap_not_in_sync,
    )
    port = HaPort(
        config.host,
        core.address,
        max(config.ha_listen_port, 0),  # below 0 is 0, as in RocketMQ
        any_port=config.port == 0,
    )
    epochs = EpochFile(store.root, core.disk)
    sync = SyncState(config.ha_max_time_slave_not_catchup / 1000)
    # With controllers the stream's frames name their epoch; `by_controller` chooses (H-100).
    by_controller = config.enable_controller_mode
    ha = HaService(
        store,
        role,
        network,
        clock,
        rules,
        port,
        core.budget,
        partial(EpochSlaveConnection, epochs=lambda: epochs.table, sync=sync)
        if by_controller
        else SlaveConnection,
    )
    client = HaClient(
        store,
        network,
        clock,
        rules,
        partial(EpochMasterConnection, epochs=epochs, own_id=lambda: sync.own_id)
        if by_controller
        else MasterConnection,
    )
    all_in_sync = by_controller and config.all_ack_in_sync_state_set
    replicas = Replicas(
        ha,
        role,
        AckRules(
            # 2 stands for all in sync: `acks` below then returns one number, that of the slowest.
            in_sync_replicas=2 if all_in_sync else config.in_sync_replicas,
            timeout_s=config.slave_timeout / 1000,
            refuse_without_slave=core.profile.broker.sync_master_needs_slave,
            max_gap_bytes=config.ha_max_gap_not_in_sync,
        ),
        clock,
        # A slave that may act has its store refuse, as in RocketMQ (H-3).
        slave_rejects_sends=core.profile.broker.slave_rejects_sends
        and not config.enable_slave_acting_master,
        acks=(lambda: [sync.lowest_ack()]) if all_in_sync else None,
    )
    roles = RoleChanges(
        role,
        store,
        ha,
        client,
        replicas,
        epochs,
        core.signals.role_changed,
    )

    def is_in_set(connection: SlaveConnection) -> bool:
        return isinstance(connection, EpochSlaveConnection) and connection.slave_id in sync.ids

    def master_told(broker: str | None, replication: str | None) -> None:
        # Only controllers name the master where there are any; a name server then adds no more than
        # the stream's address.
        known = roles.master.broker if by_controller else None
        if known is not None and broker != known:
            return  # name servers learn of a new master later than controllers do (F-17)
        roles.master_told(broker, config.ha_master_address or replication)

    core.signals.master_told.connect(master_told)
    # A configured address needs no name server. A master follows nobody.
    if config.ha_master_address:
        client.follow(None if role.leads else config.ha_master_address)
    return Replication(
        port=port,
        slaves=ha,
        client=client,
        replicas=replicas,
        roles=roles,
        sync=sync,
        tools=(StatusProcessor(role, store, ha, client, is_in_set if by_controller else None),),
        services=(roles, ha, client),
    )


def check_role(config: BrokerConfig) -> None:
    """Refuse roles and ids that do not fit (H-1).

    Raises:
        ConfigError: says which option to change.
    """
    role, broker_id = config.broker_role, config.broker_id
    if config.enable_d_leger_commit_log:
        # DLedger wraps its records in entries: written as a plain log it would be lost (D-201).
        raise ConfigError(
            "enable_d_leger_commit_log",
            "PocketMQ cannot write a commit log in the format of DLedger",
            advice=(
                "leave out dLegerGroup, dLegerPeers and dLegerSelfId; to elect masters, use "
                "--enable-controller-mode with --controllers host:port instead"
            ),
        )
    if config.enable_controller_mode:
        if not config.controllers:
            raise ConfigError(
                "controllers", "none is given", advice="add --controllers host:port;host:port"
            )
        # The controller assigns role and id.
        return
    if role is BrokerRole.SLAVE and broker_id <= MASTER_ID:
        raise ConfigError(
            "broker_id",
            f"the id of a slave must be above 0, but is {broker_id}",
            advice="give each slave of a broker name its own id, such as --broker-id 1",
        )
    if role.is_master and broker_id != MASTER_ID:
        raise ConfigError(
            "broker_id",
            f"the id of a master must be 0, but is {broker_id}",
            advice="leave --broker-id out, or add --broker-role SLAVE",
        )
    if config.in_sync_replicas < 1:
        raise ConfigError(
            "in_sync_replicas",
            counted(config.in_sync_replicas, "replica"),
            advice="write 1 for the master alone, or 2 for the master and one slave",
        )

"""What controllers tell of replicas, and brokers of their epochs (D-)."""

from __future__ import annotations

from pocketmq.protocol.bodies.route import BrokerMemberGroup
from pocketmq.protocol.body import BodyStruct, always
from pocketmq.protocol.scalars import Int32, Int64


class SyncStateSet(BodyStruct, kw_only=True):
    """The replicas that hold everything acknowledged, and the number of this set."""

    sync_state_set: set[Int64] | None = always(set)
    sync_state_set_epoch: Int32 = always(int)


class ElectMasterResponseBody(BodyStruct, kw_only=True):
    """Beside the elected master: all replicas, and who is in sync."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: set[Int64] | None = always(set)


class ReplicaIdentity(BodyStruct, kw_only=True):
    """One replica."""

    broker_name: str
    broker_id: Int64
    broker_address: str | None = None
    alive: bool | None = None


class ReplicasInfo(BodyStruct, kw_only=True):
    """The replicas of one broker name."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    in_sync_replicas: list[ReplicaIdentity] = always(list)
    not_in_sync_replicas: list[ReplicaIdentity] = always(list)


class BrokerReplicasInfo(BodyStruct, kw_only=True):
    """Answer to CONTROLLER_GET_SYNC_STATE_DATA (1006), by broker name."""

    replicas_info_table: dict[str, ReplicasInfo] = always(dict)


class EpochEntry(BodyStruct, kw_only=True):
    """From where on one master wrote a log."""

    epoch: Int32
    start_offset: Int64
    end_offset: Int64
    """2**63 - 1 while it lasts."""


class EpochEntryCache(BodyStruct, kw_only=True):
    """Answer to GET_BROKER_EPOCH_CACHE (1007)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 = 0
    epoch_list: list[EpochEntry] = always(list)
    max_offset: Int64 = 0

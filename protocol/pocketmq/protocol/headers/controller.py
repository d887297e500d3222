"""Controllers: who is master, who is in sync, who is alive (D-20 to D-54)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntryCache,
    SyncStateSet,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32, Int64


class AlterSyncStateSetResponseHeader(Header, kw_only=True):
    """The number of the set that now holds; 0 on refusals."""

    ON_EVERY_ANSWER: ClassVar[bool] = True

    new_sync_state_set_epoch: Int32 = 0


class AlterSyncStateSetRequestHeader(Header, kw_only=True):
    """CONTROLLER_ALTER_SYNC_STATE_SET (1001, D-24): a master says who is in sync."""

    CODE: ClassVar[int] = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
    RESPONSE = AlterSyncStateSetResponseHeader
    BODY = SyncStateSet
    RESPONSE_BODY = SyncStateSet

    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32
    invoke_time: Int64 = 0
    """Epoch milliseconds at the sender; 5.2 and later."""


class ElectMasterResponseHeader(Header, kw_only=True):
    """Who is master, and the numbers of its epoch and its set."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ElectMasterRequestHeader(Header, kw_only=True):
    """CONTROLLER_ELECT_MASTER (1002, D-25)."""

    CODE: ClassVar[int] = RequestCode.CONTROLLER_ELECT_MASTER
    RESPONSE = ElectMasterResponseHeader
    RESPONSE_BODY = ElectMasterResponseBody

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1
    """Who asks, or who shall be elected; -1: the controller itself asks."""
    designate_elect: bool = False
    """Elect `broker_id` or nobody."""
    invoke_time: Int64 = 0


class RegisterBrokerToControllerResponseHeader(Header, kw_only=True):
    """The master, if one is alive."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class RegisterBrokerToControllerRequestHeader(Header, kw_only=True):
    """CONTROLLER_REGISTER_BROKER (1003, D-22): a broker that has an id says where it is."""

    CODE: ClassVar[int] = RequestCode.CONTROLLER_REGISTER_BROKER
    RESPONSE = RegisterBrokerToControllerResponseHeader
    RESPONSE_BODY = SyncStateSet

    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64 = 0


class GetReplicaInfoResponseHeader(Header, kw_only=True):
    """The recorded master, alive or not."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class GetReplicaInfoRequestHeader(Header, kw_only=True):
    """CONTROLLER_GET_REPLICA_INFO (1004, D-23)."""

    CODE: ClassVar[int] = RequestCode.CONTROLLER_GET_REPLICA_INFO
    RESPONSE = GetReplicaInfoResponseHeader
    RESPONSE_BODY = SyncStateSet

    broker_name: str


class GetMetaDataResponseHeader(Header, kw_only=True):
    """Which controller leads, as this one sees it."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None
    """`n0:host:port;n1:host:port`."""


class GetControllerMetaDataRequestHeader(Header, kw_only=True):
    """CONTROLLER_GET_METADATA_INFO (1005, D-54): every controller answers it."""

    CODE: ClassVar[int] = RequestCode.CONTROLLER_GET_METADATA_INFO
    RESPONSE = GetMetaDataResponseHeader


class GetSyncStateDataRequestHeader(Header, kw_only=True):
    """CONTROLLER_GET_SYNC_STATE_DATA (1006): the body is a JSON list of broker names."""

    CODE: ClassVar[int] = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
    RESPONSE_BODY = BrokerReplicasInfo


class GetBrokerEpochCacheRequestHeader(Header, kw_only=True):
    """GET_BROKER_EPOCH_CACHE (1007): a broker tells the epochs of its log."""

    CODE: ClassVar[int] = RequestCode.GET_BROKER_EPOCH_CACHE
    RESPONSE_BODY = EpochEntryCache


class NotifyBrokerRoleChangedRequestHeader(Header, kw_only=True):
    """NOTIFY_BROKER_ROLE_CHANGED (1008, D-17, D-44): a controller tells brokers of an election."""

    CODE: ClassVar[int] = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
    BODY = SyncStateSet

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class UpdateControllerConfigRequestHeader(Header, kw_only=True):
    """UPDATE_CONTROLLER_CONFIG (1009): the body is lines of `key=value`."""

    CODE: ClassVar[int] = RequestCode.UPDATE_CONTROLLER_CONFIG


class GetControllerConfigRequestHeader(Header, kw_only=True):
    """GET_CONTROLLER_CONFIG (1010): the body of the reply is lines of `key=value`."""

    CODE: ClassVar[int] = RequestCode.GET_CONTROLLER_CONFIG


class CleanControllerBrokerDataRequestHeader(Header, kw_only=True):
    """CLEAN_BROKER_DATA (1011, D-26): forget replicas, or a whole broker name."""

    CODE: ClassVar[int] = RequestCode.CLEAN_BROKER_DATA

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    """`1;2`; without it the whole name."""
    is_clean_living_broker: bool = False
    invoke_time: Int64 = 0


class GetNextBrokerIdResponseHeader(Header, kw_only=True):
    """An id that nobody has at the moment; it is not reserved."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class GetNextBrokerIdRequestHeader(Header, kw_only=True):
    """CONTROLLER_GET_NEXT_BROKER_ID (1012, D-20)."""

    CODE: ClassVar[int] = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID
    RESPONSE = GetNextBrokerIdResponseHeader

    cluster_name: str | None = None
    broker_name: str


class ApplyBrokerIdResponseHeader(Header, kw_only=True):
    """Whose id it is."""

    cluster_name: str | None = None
    broker_name: str | None = None


class ApplyBrokerIdRequestHeader(Header, kw_only=True):
    """CONTROLLER_APPLY_BROKER_ID (1013, D-21): claim an id; again with the same check code."""

    CODE: ClassVar[int] = RequestCode.CONTROLLER_APPLY_BROKER_ID
    RESPONSE = ApplyBrokerIdResponseHeader

    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str
    """`host:port;milliseconds`: tells two claimers apart."""


class ExchangeHaInfoResponseHeader(Header, kw_only=True):
    """Where the answering master is."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeHaInfoRequestHeader(Header, kw_only=True):
    """EXCHANGE_BROKER_HA_INFO (906, Z-7): without fields a slave asks where its master is."""

    CODE: ClassVar[int] = RequestCode.EXCHANGE_BROKER_HA_INFO
    RESPONSE = ExchangeHaInfoResponseHeader

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetRequestHeader(Header, kw_only=True):
    """RESET_MASTER_FLUSH_OFFSET (908, Z-8): what a slave shows as its master's flushed offset."""

    CODE: ClassVar[int] = RequestCode.RESET_MASTER_FLUSH_OFFSET

    master_flush_offset: Int64


class RaftMessageRequestHeader(Header, kw_only=True):
    """RAFT_MESSAGE (30006): one controller to another, oneway; the body is theirs alone."""

    CODE: ClassVar[int] = RequestCode.RAFT_MESSAGE

    group: str
    sender: str
    """Id of the controller that sent it."""

"""Nameserver: registration and routes (E-31)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.route import (
    BrokerMemberGroupBody,
    ClusterInfo,
    KVTable,
    TopicList,
    TopicRouteData,
)
from pocketmq.protocol.bodies.topics import DataVersion, RegisterBrokerBody
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32, Int64


class RegisterBrokerResponseHeader(Header, kw_only=True):
    """To slaves only: where their master is (N-17)."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class RegisterBrokerRequestHeader(
    Header,
    kw_only=True,
    rename={
        "broker_name": "brokerName",
        "broker_addr": "brokerAddr",
        "cluster_name": "clusterName",
        "ha_server_addr": "haServerAddr",
        "broker_id": "brokerId",
        "body_crc32": "bodyCrc32",
        "heartbeat_timeout_millis": "heartbeatTimeoutMillis",
        "enable_acting_master": "enableActingMaster",
        "zone_name": "__ZONE_NAME",
    },
):
    """REGISTER_BROKER (103, N-11 to N-18)."""

    CODE: ClassVar[int] = RequestCode.REGISTER_BROKER
    RESPONSE = RegisterBrokerResponseHeader
    BODY = RegisterBrokerBody
    RESPONSE_BODY = KVTable

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str = ""
    broker_id: Int64
    compressed: bool = False
    body_crc32: Int32 = 0
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    zone_name: str | None = None


class UnregisterBrokerRequestHeader(Header, kw_only=True):
    """UNREGISTER_BROKER (104, N-19)."""

    CODE: ClassVar[int] = RequestCode.UNREGISTER_BROKER

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(Header, kw_only=True):
    """Whether the nameserver's copy is out of date."""

    changed: bool


class QueryDataVersionRequestHeader(Header, kw_only=True):
    """QUERY_DATA_VERSION (322, N-24)."""

    CODE: ClassVar[int] = RequestCode.QUERY_DATA_VERSION
    RESPONSE = QueryDataVersionResponseHeader
    BODY = DataVersion
    RESPONSE_BODY = DataVersion

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class BrokerHeartbeatRequestHeader(Header, kw_only=True):
    """BROKER_HEARTBEAT (904, N-25); what follows the id is for controllers (D-40)."""

    CODE: ClassVar[int] = RequestCode.BROKER_HEARTBEAT

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None
    """The smaller, the sooner among equals."""


class NotifyMinBrokerIdChangeRequestHeader(Header, kw_only=True):
    """NOTIFY_MIN_BROKER_ID_CHANGE (905, Z-6): oneway, to brokers; RocketMQ leaves the name out."""

    CODE: ClassVar[int] = RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    """Who left the group."""
    ha_broker_addr: str | None = None
    """Replication address of a broker that came."""


class GetRouteInfoRequestHeader(Header, kw_only=True):
    """GET_ROUTEINFO_BY_TOPIC (105, N-26)."""

    CODE: ClassVar[int] = RequestCode.GET_ROUTEINFO_BY_TOPIC
    RESPONSE_BODY = TopicRouteData

    topic: str
    accept_standard_json_only: bool | None = None


class GetClusterInfoRequestHeader(Header, kw_only=True):
    """GET_BROKER_CLUSTER_INFO (106, N-34)."""

    CODE: ClassVar[int] = RequestCode.GET_BROKER_CLUSTER_INFO
    RESPONSE_BODY = ClusterInfo


class GetAllTopicListRequestHeader(Header, kw_only=True):
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)."""

    CODE: ClassVar[int] = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    RESPONSE_BODY = TopicList


class GetTopicsByClusterRequestHeader(Header, kw_only=True):
    """GET_TOPICS_BY_CLUSTER (224)."""

    CODE: ClassVar[int] = RequestCode.GET_TOPICS_BY_CLUSTER
    RESPONSE_BODY = TopicList

    cluster: str


class GetSystemTopicListRequestHeader(Header, kw_only=True):
    """GET_SYSTEM_TOPIC_LIST_FROM_NS (304)."""

    CODE: ClassVar[int] = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS
    RESPONSE_BODY = TopicList


class GetUnitTopicListRequestHeader(Header, kw_only=True):
    """GET_UNIT_TOPIC_LIST (311): topics with the unit bit."""

    CODE: ClassVar[int] = RequestCode.GET_UNIT_TOPIC_LIST
    RESPONSE_BODY = TopicList


class GetUnitSubTopicListRequestHeader(Header, kw_only=True):
    """GET_HAS_UNIT_SUB_TOPIC_LIST (312): topics with the unit-subscription bit."""

    CODE: ClassVar[int] = RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST
    RESPONSE_BODY = TopicList


class GetUnitSubUnunitTopicListRequestHeader(Header, kw_only=True):
    """GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST (313): that bit without the unit bit."""

    CODE: ClassVar[int] = RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST
    RESPONSE_BODY = TopicList


class GetBrokerMemberGroupRequestHeader(Header, kw_only=True):
    """GET_BROKER_MEMBER_GROUP (901)."""

    CODE: ClassVar[int] = RequestCode.GET_BROKER_MEMBER_GROUP
    RESPONSE_BODY = BrokerMemberGroupBody

    cluster_name: str
    broker_name: str


class GetNamesrvConfigRequestHeader(Header, kw_only=True):
    """GET_NAMESRV_CONFIG (319): the body of the reply is text, `key=value` line by line."""

    CODE: ClassVar[int] = RequestCode.GET_NAMESRV_CONFIG


class DeleteTopicInNamesrvRequestHeader(Header, kw_only=True):
    """DELETE_TOPIC_IN_NAMESRV (216, N-30)."""

    CODE: ClassVar[int] = RequestCode.DELETE_TOPIC_IN_NAMESRV

    topic: str
    cluster_name: str | None = None


class RegisterTopicRequestHeader(Header, kw_only=True):
    """REGISTER_TOPIC_IN_NAMESRV (217, N-32)."""

    CODE: ClassVar[int] = RequestCode.REGISTER_TOPIC_IN_NAMESRV
    BODY = TopicRouteData

    topic: str


class WipeWritePermResponseHeader(Header, kw_only=True):
    """How many topics changed."""

    wipe_topic_count: Int32


class WipeWritePermRequestHeader(Header, kw_only=True):
    """WIPE_WRITE_PERM_OF_BROKER (205, N-31)."""

    CODE: ClassVar[int] = RequestCode.WIPE_WRITE_PERM_OF_BROKER
    RESPONSE = WipeWritePermResponseHeader

    broker_name: str


class AddWritePermResponseHeader(Header, kw_only=True):
    """How many topics changed."""

    add_topic_count: Int32


class AddWritePermRequestHeader(Header, kw_only=True):
    """ADD_WRITE_PERM_OF_BROKER (327, N-31)."""

    CODE: ClassVar[int] = RequestCode.ADD_WRITE_PERM_OF_BROKER
    RESPONSE = AddWritePermResponseHeader

    broker_name: str

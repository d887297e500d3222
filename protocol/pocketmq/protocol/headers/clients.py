"""Clients and their groups (E-24, E-28)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.clients import (
    CheckClientRequestBody,
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerList,
    ConsumerRunningInfo,
    HeartbeatData,
    ProducerConnection,
    ProducerTableInfo,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32


class HeartbeatResponseHeader(
    Header,
    kw_only=True,
    rename={
        "support_heartbeat_v2": "IS_SUPPORT_HEART_BEAT_V2",
        "subscription_changed": "IS_SUB_CHANGE",
    },
):
    """What 5.x answers to a heartbeat (B-29)."""

    support_heartbeat_v2: bool | None = None
    subscription_changed: bool | None = None


class HeartbeatRequestHeader(Header, kw_only=True):
    """HEART_BEAT (34)."""

    CODE: ClassVar[int] = RequestCode.HEART_BEAT
    RESPONSE = HeartbeatResponseHeader
    BODY = HeartbeatData


class UnregisterClientRequestHeader(
    Header,
    kw_only=True,
    rename={
        "client_id": "clientID",
        "producer_group": "producerGroup",
        "consumer_group": "consumerGroup",
    },
):
    """UNREGISTER_CLIENT (35)."""

    CODE: ClassVar[int] = RequestCode.UNREGISTER_CLIENT

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None
    bname: str | None = None


class GetConsumerListRequestHeader(Header, kw_only=True):
    """GET_CONSUMER_LIST_BY_GROUP (38)."""

    CODE: ClassVar[int] = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    RESPONSE_BODY = ConsumerList

    consumer_group: str
    bname: str | None = None


class NotifyConsumerIdsChangedRequestHeader(Header, kw_only=True):
    """NOTIFY_CONSUMER_IDS_CHANGED (40), broker to client, one-way: rebalance now."""

    CODE: ClassVar[int] = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

    consumer_group: str


class CheckClientConfigRequestHeader(Header, kw_only=True):
    """CHECK_CLIENT_CONFIG (46)."""

    CODE: ClassVar[int] = RequestCode.CHECK_CLIENT_CONFIG
    BODY = CheckClientRequestBody


class GetConsumerConnectionListRequestHeader(Header, kw_only=True):
    """GET_CONSUMER_CONNECTION_LIST (203)."""

    CODE: ClassVar[int] = RequestCode.GET_CONSUMER_CONNECTION_LIST
    RESPONSE_BODY = ConsumerConnection

    consumer_group: str


class GetProducerConnectionListRequestHeader(Header, kw_only=True):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    CODE: ClassVar[int] = RequestCode.GET_PRODUCER_CONNECTION_LIST
    RESPONSE_BODY = ProducerConnection

    producer_group: str


class GetAllProducerInfoRequestHeader(Header, kw_only=True):
    """GET_ALL_PRODUCER_INFO (328): every producer that is connected to a broker."""

    CODE: ClassVar[int] = RequestCode.GET_ALL_PRODUCER_INFO
    RESPONSE_BODY = ProducerTableInfo


class GetConsumerRunningInfoRequestHeader(Header, kw_only=True):
    """GET_CONSUMER_RUNNING_INFO (307): admin to broker, passed on to the client."""

    CODE: ClassVar[int] = RequestCode.GET_CONSUMER_RUNNING_INFO
    RESPONSE_BODY = ConsumerRunningInfo

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequestHeader(Header, kw_only=True):
    """CONSUME_MESSAGE_DIRECTLY (309, M-32): admin to broker; passed on with the message's record
    as body, and with what the broker knows: its name and the system flags."""

    CODE: ClassVar[int] = RequestCode.CONSUME_MESSAGE_DIRECTLY
    RESPONSE_BODY = ConsumeMessageDirectlyResult

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None

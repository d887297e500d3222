"""Topics: create, delete, list (E-29, E-31)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.clients import GroupList, QuerySubscriptionBody
from pocketmq.protocol.bodies.route import KVTable, TopicList
from pocketmq.protocol.bodies.topics import (
    CreateTopicListBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32


class UpdateAndCreateTopicRequestHeader(Header, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC (17)."""

    CODE: ClassVar[int] = RequestCode.UPDATE_AND_CREATE_TOPIC

    topic: str
    default_topic: str = "TBW102"
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class CreateTopicListRequestHeader(Header, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC_LIST (18)."""

    CODE: ClassVar[int] = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    BODY = CreateTopicListBody


class DeleteTopicRequestHeader(Header, kw_only=True):
    """DELETE_TOPIC_IN_BROKER (215, B-16)."""

    CODE: ClassVar[int] = RequestCode.DELETE_TOPIC_IN_BROKER

    topic: str


class GetAllTopicConfigRequestHeader(Header, kw_only=True):
    """GET_ALL_TOPIC_CONFIG (21)."""

    CODE: ClassVar[int] = RequestCode.GET_ALL_TOPIC_CONFIG
    RESPONSE_BODY = TopicConfigSerializeWrapper


class GetTopicConfigRequestHeader(Header, kw_only=True):
    """GET_TOPIC_CONFIG (351)."""

    CODE: ClassVar[int] = RequestCode.GET_TOPIC_CONFIG
    RESPONSE_BODY = TopicConfig

    topic: str
    lo: bool | None = None


class QueryTopicConsumeByWhoRequestHeader(Header, kw_only=True):
    """QUERY_TOPIC_CONSUME_BY_WHO (300)."""

    CODE: ClassVar[int] = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    RESPONSE_BODY = GroupList

    topic: str


class QueryTopicsByConsumerRequestHeader(Header, kw_only=True):
    """QUERY_TOPICS_BY_CONSUMER (343)."""

    CODE: ClassVar[int] = RequestCode.QUERY_TOPICS_BY_CONSUMER
    RESPONSE_BODY = TopicList

    group: str


class QuerySubscriptionByConsumerRequestHeader(Header, kw_only=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345)."""

    CODE: ClassVar[int] = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    RESPONSE_BODY = QuerySubscriptionBody

    group: str
    topic: str


class GetBrokerRuntimeInfoRequestHeader(Header, kw_only=True):
    """GET_BROKER_RUNTIME_INFO (28)."""

    CODE: ClassVar[int] = RequestCode.GET_BROKER_RUNTIME_INFO
    RESPONSE_BODY = KVTable


class DeleteExpiredCommitLogRequestHeader(Header, kw_only=True):
    """DELETE_EXPIRED_COMMITLOG (329)."""

    CODE: ClassVar[int] = RequestCode.DELETE_EXPIRED_COMMITLOG


class CleanExpiredConsumeQueueRequestHeader(Header, kw_only=True):
    """CLEAN_EXPIRED_CONSUMEQUEUE (306)."""

    CODE: ClassVar[int] = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE


class CleanUnusedTopicRequestHeader(Header, kw_only=True):
    """CLEAN_UNUSED_TOPIC (316)."""

    CODE: ClassVar[int] = RequestCode.CLEAN_UNUSED_TOPIC


class PopRollbackRequestHeader(Header, kw_only=True):
    """POP_ROLLBACK (200056): check points of pops out of RocksDB into the log."""

    CODE: ClassVar[int] = RequestCode.POP_ROLLBACK


class GetSystemTopicsFromBrokerRequestHeader(Header, kw_only=True):
    """GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305)."""

    CODE: ClassVar[int] = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
    RESPONSE_BODY = TopicList

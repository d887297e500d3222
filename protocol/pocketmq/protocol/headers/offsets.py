"""Consumer offsets and the bounds of queues (E-23, E-29)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.offsets import (
    ConsumerOffsetTable,
    ConsumeStats,
    ConsumeStatsList,
    DelayOffsetTable,
    GetConsumerStatusBody,
    QueryConsumeQueueBody,
    QueryConsumeTimeSpanBody,
    ResetOffsetBody,
    TopicStatsTable,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32, Int64


class OffsetResponseHeader(Header, kw_only=True):
    """One offset."""

    offset: Int64


class QueryConsumerOffsetRequestHeader(Header, kw_only=True):
    """QUERY_CONSUMER_OFFSET (14): where does this group go on? (B-34)"""

    CODE: ClassVar[int] = RequestCode.QUERY_CONSUMER_OFFSET
    RESPONSE = OffsetResponseHeader

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    bname: str | None = None


class UpdateConsumerOffsetRequestHeader(Header, kw_only=True):
    """UPDATE_CONSUMER_OFFSET (15): next offset to consume (B-33)."""

    CODE: ClassVar[int] = RequestCode.UPDATE_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    bname: str | None = None


class SearchOffsetRequestHeader(Header, kw_only=True):
    """SEARCH_OFFSET_BY_TIMESTAMP (29), by store time (S-41)."""

    CODE: ClassVar[int] = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    RESPONSE = OffsetResponseHeader

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    """LOWER (default) or UPPER, in any case."""

    bname: str | None = None


class GetMaxOffsetRequestHeader(Header, kw_only=True):
    """GET_MAX_OFFSET (30): next offset to be written."""

    CODE: ClassVar[int] = RequestCode.GET_MAX_OFFSET
    RESPONSE = OffsetResponseHeader

    topic: str
    queue_id: Int32
    committed: bool = True
    bname: str | None = None


class GetMinOffsetRequestHeader(Header, kw_only=True):
    """GET_MIN_OFFSET (31)."""

    CODE: ClassVar[int] = RequestCode.GET_MIN_OFFSET
    RESPONSE = OffsetResponseHeader

    topic: str
    queue_id: Int32
    bname: str | None = None


class EarliestStoreTimeResponseHeader(Header, kw_only=True):
    """Milliseconds, -1 if there is no message."""

    timestamp: Int64


class GetEarliestStoreTimeRequestHeader(Header, kw_only=True):
    """GET_EARLIEST_MSG_STORETIME (32)."""

    CODE: ClassVar[int] = RequestCode.GET_EARLIEST_MSG_STORETIME
    RESPONSE = EarliestStoreTimeResponseHeader

    topic: str
    queue_id: Int32
    bname: str | None = None


class GetAllConsumerOffsetRequestHeader(Header, kw_only=True):
    """GET_ALL_CONSUMER_OFFSET (43)."""

    CODE: ClassVar[int] = RequestCode.GET_ALL_CONSUMER_OFFSET
    RESPONSE_BODY = ConsumerOffsetTable


class GetAllDelayOffsetRequestHeader(Header, kw_only=True):
    """GET_ALL_DELAY_OFFSET (45)."""

    CODE: ClassVar[int] = RequestCode.GET_ALL_DELAY_OFFSET
    RESPONSE_BODY = DelayOffsetTable


class GetTopicStatsRequestHeader(Header, kw_only=True):
    """GET_TOPIC_STATS_INFO (202)."""

    CODE: ClassVar[int] = RequestCode.GET_TOPIC_STATS_INFO
    RESPONSE_BODY = TopicStatsTable

    topic: str


class GetConsumeStatsRequestHeader(Header, kw_only=True):
    """GET_CONSUME_STATS (208)."""

    CODE: ClassVar[int] = RequestCode.GET_CONSUME_STATS
    RESPONSE_BODY = ConsumeStats

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GetConsumeStatsInBrokerHeader(Header, kw_only=True):
    """GET_BROKER_CONSUME_STATS (317)."""

    CODE: ClassVar[int] = RequestCode.GET_BROKER_CONSUME_STATS
    RESPONSE_BODY = ConsumeStatsList

    is_order: bool
    """Only topics that are consumed in order."""


class QueryConsumeTimeSpanRequestHeader(Header, kw_only=True):
    """QUERY_CONSUME_TIME_SPAN (303)."""

    CODE: ClassVar[int] = RequestCode.QUERY_CONSUME_TIME_SPAN
    RESPONSE_BODY = QueryConsumeTimeSpanBody

    topic: str
    group: str


class QueryConsumeQueueRequestHeader(Header, kw_only=True):
    """QUERY_CONSUME_QUEUE (321)."""

    CODE: ClassVar[int] = RequestCode.QUERY_CONSUME_QUEUE
    RESPONSE_BODY = QueryConsumeQueueBody

    topic: str
    queue_id: Int32 = 0
    index: Int64 = 0
    """Number of the first entry."""

    count: Int32 = 0
    consumer_group: str | None = None


class ResetOffsetRequestHeader(Header, kw_only=True):
    """INVOKE_BROKER_TO_RESET_OFFSET (222): move a group by time or to an offset."""

    CODE: ClassVar[int] = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    RESPONSE_BODY = ResetOffsetBody

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = True
    queue_id: Int32 = -1
    offset: Int64 | None = None


class ResetConsumerClientOffsetRequestHeader(Header, kw_only=True):
    """RESET_CONSUMER_CLIENT_OFFSET (220), broker to client, one-way."""

    CODE: ClassVar[int] = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    BODY = ResetOffsetBody

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = True
    queue_id: Int32 = -1
    offset: Int64 | None = None


class GetConsumerStatusRequestHeader(Header, kw_only=True):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223)."""

    CODE: ClassVar[int] = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    RESPONSE_BODY = GetConsumerStatusBody

    topic: str
    group: str
    client_addr: str | None = None

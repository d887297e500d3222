"""Offsets of consumers and topics (E-66, E-67)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.scalars import Int32, Int64


class ConsumerOffsetTable(BodyStruct, kw_only=True, omit_defaults=False):
    """Committed offsets, `topic@group` -> queue id -> offset (B-31).

    GET_ALL_CONSUMER_OFFSET (43), and the file `consumerOffset.json`.
    """

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"data_version"})

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    offset_table: dict[str, dict[int, int]] = {}


class DelayOffsetTable(BodyStruct, kw_only=True, omit_defaults=False):
    """How far each delay level has been delivered (B-94).

    GET_ALL_DELAY_OFFSET (45), and the file `delayOffset.json`.
    """

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    offset_table: dict[int, int] = {}


class TopicOffset(BodyStruct, kw_only=True, omit_defaults=False):
    """Bounds of one queue."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class TopicStatsTable(BodyStruct, kw_only=True, omit_defaults=False):
    """Bounds of every queue of a topic on one broker: GET_TOPIC_STATS_INFO (202).

    Keyed by `mq_key(queue)`.
    """

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"topic_put_tps"})

    offset_table: dict[str, TopicOffset] = {}
    topic_put_tps: float = 0.0


class OffsetWrapper(BodyStruct, kw_only=True, omit_defaults=False):
    """One queue's end beside a group's progress on it."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"pull_offset"})

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    pull_offset: Int64 = 0
    last_timestamp: Int64 = 0


class ConsumeStats(BodyStruct, kw_only=True, omit_defaults=False):
    """Progress of a group on one broker: GET_CONSUME_STATS (208), keyed by `mq_key(queue)`."""

    offset_table: dict[str, OffsetWrapper] = {}
    consume_tps: float = 0.0


class ConsumeStatsList(BodyStruct, kw_only=True, omit_defaults=False):
    """Progress of all groups on one broker: GET_BROKER_CONSUME_STATS (317)."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"total_inflight_diff"})

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    """A table with one group each: one entry a topic."""

    broker_addr: str | None = None
    total_diff: Int64 = 0
    """How many messages all groups lag."""

    total_inflight_diff: Int64 = 0
    """How many messages are pulled and not yet committed."""


class QueueTimeSpan(BodyStruct, kw_only=True, omit_defaults=False):
    """Store times of one queue, and of what a group has consumed of it; epoch ms, -1 for none."""

    message_queue: MessageQueue
    min_time_stamp: Int64 = 0
    max_time_stamp: Int64 = 0
    consume_time_stamp: Int64 = 0
    """Of the last message that is committed."""

    delay_time: Int64 = 0
    """Age of the next message, ms; 0 when there is none."""


class QueryConsumeTimeSpanBody(BodyStruct, kw_only=True, omit_defaults=False):
    """How far in time a group is in each queue: QUERY_CONSUME_TIME_SPAN (303)."""

    consume_time_span_set: list[QueueTimeSpan] = []


class ConsumeQueueData(BodyStruct, kw_only=True):
    """One entry of a consume queue."""

    physic_offset: Int64 = msgspec.field(default_factory=lambda: 0)
    physic_size: Int32 = msgspec.field(default_factory=lambda: 0)
    tags_code: Int64 = msgspec.field(default_factory=lambda: 0)
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = msgspec.field(default_factory=lambda: False)
    msg: str | None = None


class QueryConsumeQueueBody(BodyStruct, kw_only=True):
    """Entries of a consume queue: QUERY_CONSUME_QUEUE (321)."""

    subscription_data: SubscriptionData | None = None
    """Of the group that was asked for."""

    filter_data: str | None = None
    """What the broker keeps of its expression; `null` for tags."""

    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: Int64 = msgspec.field(default_factory=lambda: 0)
    min_queue_index: Int64 = msgspec.field(default_factory=lambda: 0)


class ResetOffsetBody(BodyStruct, kw_only=True, omit_defaults=False):
    """Where queues were or are to be reset to, keyed by `mq_key(queue)`.

    RESET_CONSUMER_CLIENT_OFFSET (220), and the answer to INVOKE_BROKER_TO_RESET_OFFSET (222).
    """

    offset_table: dict[str, Int64] = {}


class GetConsumerStatusBody(BodyStruct, kw_only=True, omit_defaults=False):
    """Offsets as consumers know them.

    GET_CONSUMER_STATUS_FROM_CLIENT (221) and INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223).
    """

    message_queue_table: dict[str, Int64] = {}
    consumer_table: dict[str, dict[str, Int64]] = {}

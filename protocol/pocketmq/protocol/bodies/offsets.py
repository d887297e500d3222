"""Offsets of consumers and topics (E-66, E-67)."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.scalars import Int64


class ConsumerOffsetTable(BodyStruct, kw_only=True, omit_defaults=False):
    """Committed offsets, `topic@group` -> queue id -> offset (B-31).

    GET_ALL_CONSUMER_OFFSET (43), and the file `consumerOffset.json`.
    """

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

    offset_table: dict[str, TopicOffset] = {}
    topic_put_tps: float = 0.0


class OffsetWrapper(BodyStruct, kw_only=True, omit_defaults=False):
    """One queue's end beside a group's progress on it."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    pull_offset: Int64 = 0
    last_timestamp: Int64 = 0


class ConsumeStats(BodyStruct, kw_only=True, omit_defaults=False):
    """Progress of a group on one broker: GET_CONSUME_STATS (208), keyed by `mq_key(queue)`."""

    offset_table: dict[str, OffsetWrapper] = {}
    consume_tps: float = 0.0


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

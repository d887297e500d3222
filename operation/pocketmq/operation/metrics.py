"""RocketMQ 5.3.3's metrics that a broker of PocketMQ has: names, kinds, labels and buckets.

Names are those that RocketMQ's own `/metrics` shows, with the unit at the end; its documentation
leaves units and `_total` out. `tests/golden/metrics.tsv` is what a RocketMQ showed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

TOPIC: Final = "topic"
CONSUMER_GROUP: Final = "consumer_group"
IS_SYSTEM: Final = "is_system"
IS_RETRY: Final = "is_retry"
QUEUE_ID: Final = "queue_id"
STORE: Final = ("storage_type", "storage_medium")
"""Labels of what a store tells; their values are `STORE_VALUES`."""
STORE_VALUES: Final = ("local", "disk")
NODE: Final = ("cluster", "node_type", "node_id")
"""Labels of everything that a broker tells; who asks a broker adds them."""

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric."""

    name: str
    """Without `_total`, `_bucket` and the like."""
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    """Beside those of the node. One with an empty value is left out."""
    bounds: tuple[float, ...] = ()
    """Highest values of a histogram's buckets, the last one without a bound not among them."""


ALL: Final[dict[str, Metric]] = {}
"""By name."""


def _declare(
    name: str,
    kind: Kind,
    text: str,
    *labels: str,
    bounds: tuple[float, ...] = (),
) -> Metric:
    metric = ALL[name] = Metric(name, kind, text, labels, bounds)
    return metric


_SENT = (TOPIC, "message_type", IS_SYSTEM)
_OUT = (TOPIC, CONSUMER_GROUP, IS_SYSTEM, IS_RETRY)
_LAG = (CONSUMER_GROUP, TOPIC, IS_RETRY, IS_SYSTEM)
_KIB, _MIB = 1024, 1024 * 1024

MESSAGES_IN: Final = _declare(
    "rocketmq_messages_in", "counter", "messages sent since the broker's start", *_SENT
)
BYTES_IN: Final = _declare(
    "rocketmq_throughput_in", "counter", "bytes of the records of messages sent", *_SENT
)
MESSAGE_SIZE: Final = _declare(
    "rocketmq_message_size",
    "histogram",
    "bytes of the records of messages sent",
    *_SENT,
    bounds=(_KIB, 4 * _KIB, 512 * _KIB, _MIB, 2 * _MIB, 4 * _MIB),
)
MESSAGES_OUT: Final = _declare(
    "rocketmq_messages_out", "counter", "messages handed out since the broker's start", *_OUT
)
BYTES_OUT: Final = _declare(
    "rocketmq_throughput_out", "counter", "bytes of records handed out", *_OUT
)
SENT_TO_DLQ: Final = _declare(
    "rocketmq_send_to_dlq_messages",
    "counter",
    "messages that ended in dead letter topics",
    CONSUMER_GROUP,
    TOPIC,
    IS_SYSTEM,
)

BROKER_PERMISSION: Final = _declare(
    "rocketmq_broker_permission", "gauge", "2 for writing and 4 for reading together"
)
TOPIC_NUMBER: Final = _declare(
    "rocketmq_topic_number", "gauge", "topics of a broker, its own included"
)
GROUP_NUMBER: Final = _declare(
    "rocketmq_consumer_group_number", "gauge", "groups of a broker, its own included"
)
PRODUCER_CONNECTIONS: Final = _declare(
    "rocketmq_producer_connections",
    "gauge",
    "connections of producers, one for each group",
    "language",
    "version",
    "protocol_type",
)
CONSUMER_CONNECTIONS: Final = _declare(
    "rocketmq_consumer_connections",
    "gauge",
    "connections of consumers",
    CONSUMER_GROUP,
    "language",
    "version",
    "consume_mode",
    "protocol_type",
    IS_SYSTEM,
)

LAG_MESSAGES: Final = _declare(
    "rocketmq_consumer_lag_messages", "gauge", "messages that a group has not consumed", *_LAG
)
LAG_LATENCY: Final = _declare(
    "rocketmq_consumer_lag_latency_milliseconds",
    "gauge",
    "age of the first message that a group has not consumed",
    *_LAG,
)
IN_FLIGHT: Final = _declare(
    "rocketmq_consumer_inflight_messages",
    "gauge",
    "messages handed out to a group and not consumed",
    *_LAG,
)
QUEUEING_LATENCY: Final = _declare(
    "rocketmq_consumer_queueing_latency_milliseconds",
    "gauge",
    "age of the first message that was not handed out to a group",
    *_LAG,
)
READY: Final = _declare(
    "rocketmq_consumer_ready_messages", "gauge", "messages not yet handed out to a group", *_LAG
)

COMMITS: Final = _declare(
    "rocketmq_commit_messages", "counter", "half messages that were committed", TOPIC
)
ROLLBACKS: Final = _declare(
    "rocketmq_rollback_messages", "counter", "half messages that were rolled back", TOPIC
)
FINISH_LATENCY: Final = _declare(
    "rocketmq_finish_message_latency_milliseconds",
    "histogram",
    "seconds, whatever the name says, from a half message's birth to its commit",
    TOPIC,
    bounds=(5, 60, 600, 3_600, 43_200, 86_400),
)
HALF_MESSAGES: Final = _declare(
    "rocketmq_half_messages", "gauge", "half messages that are not decided", TOPIC
)

STORAGE_SIZE: Final = _declare(
    "rocketmq_storage_size_bytes", "gauge", "used bytes of the store's partition", *STORE
)
FLUSH_BEHIND: Final = _declare(
    "rocketmq_storage_flush_behind_bytes", "gauge", "bytes that are not on the disk", *STORE
)
DISPATCH_BEHIND: Final = _declare(
    "rocketmq_storage_dispatch_behind_bytes",
    "gauge",
    "bytes that are stored and not dispatched",
    *STORE,
)
RESERVE_TIME: Final = _declare(
    "rocketmq_storage_message_reserve_time_milliseconds",
    "gauge",
    "age of the oldest message",
    *STORE,
)

TIMER_ENQUEUE_LAG: Final = _declare(
    "rocketmq_timer_enqueue_lag", "gauge", "timer messages that are not taken in", *STORE
)
TIMER_DEQUEUE_LAG: Final = _declare(
    "rocketmq_timer_dequeue_lag", "gauge", "timer messages that wait in the wheel", *STORE
)
TIMER_DEQUEUE_LATENCY: Final = _declare(
    "rocketmq_timer_dequeue_latency_milliseconds",
    "gauge",
    "seconds, whatever the name says, by which deliveries are late",
    *STORE,
)
TIMING_MESSAGES: Final = _declare(
    "rocketmq_timing_messages", "gauge", "timer messages that wait", *STORE, TOPIC
)
TIMER_ENQUEUED: Final = _declare(
    "rocketmq_timer_enqueue", "counter", "timer messages taken in", *STORE, TOPIC
)
TIMER_DEQUEUED: Final = _declare(
    "rocketmq_timer_dequeue", "counter", "timer messages delivered", *STORE, TOPIC
)
TIMER_BOUNDS_S: Final = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
"""Ends of the classes of `TIMER_SNAPSHOT`; each begins where the one before ends."""
TIMER_SNAPSHOT: Final = _declare(
    "rocketmq_timer_message_snapshot",
    "gauge",
    "waiting timer messages by when they are due, up to a day ahead",
    *STORE,
    "timer_bound_s",
)
DELAY_LATENCY: Final = _declare(
    "rocketmq_delay_message_latency_seconds",
    "histogram",
    "how far ahead timer messages are due when they are sent",
    *STORE,
    TOPIC,
    bounds=(60, 600, 3_600, 43_200, 86_400, 259_200),
)

POP_CHECKPOINTS: Final = _declare(
    "rocketmq_pop_checkpoint_buffer_size", "gauge", "check points of pops that are only in memory"
)
POP_OFFSETS: Final = _declare(
    "rocketmq_pop_offset_buffer_size", "gauge", "pops whose offset is not committed"
)
POP_SCAN_TIME: Final = _declare(
    "rocketmq_pop_buffer_scan_time_consume_milliseconds",
    "histogram",
    "how long looks at the check points in memory took",
    bounds=(1, 10, 100, 1_000, 2_000, 3_000),
)
POP_REVIVE_LAG: Final = _declare(
    "rocketmq_pop_revive_lag_milliseconds",
    "gauge",
    "records of the revive topic, not milliseconds, that are not settled",
    QUEUE_ID,
)
POP_REVIVE_LATENCY: Final = _declare(
    "rocketmq_pop_revive_latency_milliseconds",
    "gauge",
    "how late the first record of the revive topic is",
    QUEUE_ID,
)
POP_REVIVE_READ: Final = _declare(
    "rocketmq_pop_revive_out_message",
    "counter",
    "check points (CK) and acks (ACK) read from the revive topic",
    CONSUMER_GROUP,
    TOPIC,
    QUEUE_ID,
    "revive_message_type",
)
POP_RETRIED: Final = _declare(
    "rocketmq_pop_revive_retry_messages",
    "counter",
    "popped messages that were stored again",
    CONSUMER_GROUP,
    TOPIC,
    "put_status",
)

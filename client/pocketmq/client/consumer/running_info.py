"""What a consumer tells operators of itself (307). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pocketmq.client.consumer.offset_table import OffsetTable
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo, ProcessQueueInfo
from pocketmq.protocol.body import mq_key
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.subscription import SubscriptionData


def running_info(
    properties: Mapping[str, str],
    subscriptions: Iterable[SubscriptionData],
    process_queues: Mapping[MessageQueue, ProcessQueue],
    offsets: OffsetTable,
    *,
    epoch_at_zero_ms: float,
) -> ConsumerRunningInfo:
    """The body of the answer.

    Args:
        properties: Settings by RocketMQ's names (`PROP_CONSUME_TYPE`, ...).
        subscriptions: What is consumed.
        process_queues: The owned queues.
        offsets: How far they are.
        epoch_at_zero_ms: Epoch ms at which the clock's `monotonic()` was 0.
    """

    def moment_ms(at: float) -> int:
        return round(epoch_at_zero_ms + at * 1000)

    table = {}
    for queue, held in process_queues.items():
        first = held.first_offset or 0
        table[mq_key(queue)] = ProcessQueueInfo(
            commit_offset=offsets.get(queue),
            cached_msg_min_offset=first,
            cached_msg_max_offset=first + held.span,
            cached_msg_count=held.count,
            cached_msg_size_in_mib=held.body_mib,
            locked=held.locked,
            try_unlock_times=held.lock_tries,
            last_lock_timestamp=moment_ms(held.last_lock_at),
            droped=held.dropped,
            last_pull_timestamp=moment_ms(held.last_pull_at),
            last_consume_timestamp=moment_ms(held.last_consume_at),
        )
    return ConsumerRunningInfo(
        properties=dict(properties), subscription_set=list(subscriptions), mq_table=table
    )

"""A consumer's report about itself: GET_CONSUMER_RUNNING_INFO (307). No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pocketmq.client.consumer.popping.popped_queue import PopQueue
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.protocol.bodies.clients import (
    ConsumerRunningInfo,
    PopProcessQueueInfo,
    ProcessQueueInfo,
)
from pocketmq.protocol.body import mq_key
from pocketmq.protocol.messages.subscription import SubscriptionData


def running_info(
    properties: Mapping[str, str],
    subscriptions: Iterable[SubscriptionData],
    buffers: Iterable[ProcessQueue],
    offsets: OffsetTable,
    *,
    popped: Iterable[PopQueue] = (),
    epoch_at_zero_ms: float,
) -> ConsumerRunningInfo:
    """The body of the answer.

    Args:
        properties: Settings by RocketMQ's names (`PROP_CONSUME_TYPE`, ...).
        subscriptions: What is consumed.
        buffers: What was pulled of each owned queue.
        offsets: How far they are.
        popped: What brokers have us pop.
        epoch_at_zero_ms: Epoch ms at which the clock's `monotonic()` was 0.
    """

    def moment_ms(at: float) -> int:
        return round(epoch_at_zero_ms + at * 1000)

    table = {}
    for buffer in buffers:
        claim, first = buffer.claim, buffer.first_offset or 0
        table[mq_key(buffer.queue)] = ProcessQueueInfo(
            commit_offset=offsets.get(buffer.queue),
            cached_msg_min_offset=first,
            cached_msg_max_offset=first + buffer.span,
            cached_msg_count=buffer.count,
            cached_msg_size_in_mib=buffer.body_mib,
            locked=claim.locked,
            try_unlock_times=claim.release_tries,
            last_lock_timestamp=moment_ms(claim.last_lock_at),
            droped=claim.dropped,
            last_pull_timestamp=moment_ms(claim.last_pull_at),
            last_consume_timestamp=moment_ms(buffer.last_consume_at),
        )
    pop_table = {
        mq_key(each.queue): PopProcessQueueInfo(
            wait_ack_count=each.waiting,
            droped=each.dropped,
            last_pop_timestamp=moment_ms(each.last_pop_at),
        )
        for each in popped
    }
    return ConsumerRunningInfo(
        properties=dict(properties),
        subscription_set=list(subscriptions),
        mq_table=table,
        mq_pop_table=pop_table,
    )

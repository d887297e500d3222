"""What a consumer tells of itself: GET_CONSUMER_RUNNING_INFO (307)."""

from __future__ import annotations

from pocketmq.client.consumer.membership.running_info import running_info
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.protocol.body import mq_key
from support.claims import buffer
from support.messages import pulled_message


def test_positions_and_moments_are_those_of_the_buffer() -> None:
    held, offsets = buffer(), OffsetTable()
    held.put([pulled_message(offset=5), pulled_message(offset=8)])
    held.claim.last_pull_at = 2.5
    info = running_info({}, [], [held], offsets, epoch_at_zero_ms=1_000_000.0)
    queue = info.mq_table[mq_key(held.queue)]
    assert (queue.cached_msg_min_offset, queue.cached_msg_max_offset) == (5, 8)
    assert queue.cached_msg_count == 2
    assert queue.last_pull_timestamp == 1_002_500


def test_an_empty_buffer_has_no_span() -> None:
    held = buffer()
    info = running_info({}, [], [held], OffsetTable(), epoch_at_zero_ms=0.0)
    queue = info.mq_table[mq_key(held.queue)]
    assert (queue.cached_msg_min_offset, queue.cached_msg_max_offset) == (0, 0)

"""What tells a queue's message from another one at the same offset, asked of the brokers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pocketmq.pipeline.checkpoint import Mark
from pocketmq.pipeline.cluster_client import ClusterClient
from pocketmq.pipeline.record_columns import positions_in, read_columns
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.subscription import SUB_ALL


async def read_marks(
    client: ClusterClient, group: str, offsets: Mapping[MessageQueue, int]
) -> dict[MessageQueue, Mark]:
    """Marks of these messages; those that are not stored are missing."""

    async def of(queue: MessageQueue) -> Mark | None:
        header = PullMessageRequestHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offsets[queue],
            max_msg_nums=1,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            subscription=SUB_ALL,
            expression_type="TAG",
        )
        channel = await client.channel(queue)
        response = await channel.request(header, timeout_s=client.access.timeout_s)
        if response.code != 0:
            return None
        reply = bytes(response.body_view)
        first = np.array(positions_in(reply)[:1], np.int64)
        records = read_columns(np.frombuffer(reply, np.uint8), first)
        head = records.head
        if len(head) == 0 or head["queue_offset"][0] != offsets[queue]:
            return None
        return Mark(int(head["store_timestamp"][0]), int(head["physical_offset"][0]))

    found = await client.each([queue for queue, offset in offsets.items() if offset >= 0], of)
    return {queue: mark for queue, mark in found.items() if mark is not None}

"""What tells a queue's message from another one at the same offset: of brokers, and of stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from pocketmq.pipeline.columns.record_columns import positions_in, read_columns
from pocketmq.pipeline.progress.checkpoint import Mark
from pocketmq.pipeline.stores.places import Place
from pocketmq.pipeline.stores.store_files import FileRow, QueueFiles, log_files
from pocketmq.pipeline.topics.cluster_client import ClusterClient
from pocketmq.pipeline.topics.pull_range import READABLE
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SUB_ALL
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.store_layout import FILLER_SIZE, FIXED_SIZE, RECORD, store_time_ms

_OFFSET_AT: Final = RECORD.offset_of("QUEUEOFFSET")


async def read_marks(
    client: ClusterClient, group: str, offsets: Mapping[MessageQueue, int]
) -> dict[MessageQueue, Mark]:
    """Marks of these messages; those that are not stored are missing.

    Raises:
        BrokerError: A broker refuses, and so does not say whether one is stored.
    """

    async def of(queue: MessageQueue) -> Mark | None:
        # A pull without long polling, which commits nothing for the group.
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
        # These codes mean that the queue exists but has no such message.
        if response.code in READABLE:
            return None
        if response.code != 0:
            raise BrokerError(response.code, response.remark, address=channel.address)
        reply = bytes(response.body_view)
        first = np.array(positions_in(reply)[:1], np.int64)
        records = read_columns(np.frombuffer(reply, np.uint8), first)
        head = records.head
        # A broker may answer with a later message instead.
        if len(head) == 0 or head["queue_offset"][0] != offsets[queue]:
            return None
        return Mark(int(head["store_timestamp"][0]), int(head["physical_offset"][0]))

    found = await client.each([queue for queue, offset in offsets.items() if offset >= 0], of)
    return {queue: mark for queue, mark in found.items() if mark is not None}


def stored_marks(root: Place, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
    """Marks of these messages of a store; those that are not stored are missing."""
    found = {}
    with log_files(root) as log:
        for queue, offset in offsets.items():
            files = QueueFiles(root, queue.topic, queue.queue_id)
            with files.row:
                mark = stored_mark(files, offset, log)
            if mark is not None:
                found[queue] = mark
    return found


def stored_mark(files: QueueFiles, offset: int, log: FileRow) -> Mark | None:
    """Mark of a message in a store; None if it is not stored."""
    found = files.entries(offset, offset + 1)
    # Fillers before a queue's first entry stand for no message (S-33).
    if offset < 0 or not len(found) or found["size"][0] in (0, FILLER_SIZE):
        return None
    position = int(found["offset"][0])
    head = log.read(position, FIXED_SIZE)
    # The message's log file may be gone, or have another message at this place.
    if len(head) < FIXED_SIZE or int.from_bytes(head[:4], "big") != found["size"][0]:
        return None
    if int.from_bytes(head[_OFFSET_AT : _OFFSET_AT + 8], "big") != offset:
        return None
    return Mark(store_time_ms(head), position)

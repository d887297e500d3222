"""Where a group begins to consume a queue (C-33).

    stored v            LAST_OFFSET          FIRST_OFFSET     TIMESTAMP
    v >= 0              v                    v                v
    -1, normal topic    max offset           0                offset at consume_timestamp
    -1, %RETRY% topic   0                    0                max offset
    below -1            not known: the queue is tried again at the next rebalance

FIRST_OFFSET's 0 may lie below the queue's first offset; the first pull then answers 21 and is
corrected (C-43). And a broker answers 0 instead of "nothing stored" for young queues (B-34).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum

import structlog

from pocketmq.client.consumer.offset_table import Offset
from pocketmq.client.heartbeat import ConsumeFromWhere
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.validation import is_retry
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class Start(Enum):
    """What decides the start."""

    STORED = "stored"
    ZERO = "zero"
    MAX = "max"
    TIMESTAMP = "timestamp"
    UNKNOWN = "unknown"


def start_rule(stored: int, where: ConsumeFromWhere, *, retry_topic: bool) -> Start:
    """The cell of the table."""
    if stored >= 0:
        return Start.STORED
    if stored != Offset.NOT_FOUND:
        return Start.UNKNOWN
    match where:
        case ConsumeFromWhere.LAST_OFFSET:
            return Start.ZERO if retry_topic else Start.MAX
        case ConsumeFromWhere.FIRST_OFFSET:
            return Start.ZERO
        case ConsumeFromWhere.TIMESTAMP:
            return Start.MAX if retry_topic else Start.TIMESTAMP


async def find_start_offset(
    queue: MessageQueue,
    stored: int,
    where: ConsumeFromWhere,
    *,
    max_offset: Callable[[MessageQueue], Awaitable[int]],
    search_offset: Callable[[MessageQueue], Awaitable[int]],
) -> int:
    """The offset to begin at, or a negative one when it cannot be found out now.

    Args:
        queue: The queue.
        stored: What the offset store read.
        where: The consumer's wish.
        max_offset: Asks the broker for the queue's end.
        search_offset: Asks the broker for the offset at the consumer's timestamp.
    """
    rule = start_rule(stored, where, retry_topic=is_retry(queue.topic))
    try:
        match rule:
            case Start.STORED:
                return stored
            case Start.ZERO:
                return 0
            case Start.MAX:
                return await max_offset(queue)
            case Start.TIMESTAMP:
                return await search_offset(queue)
            case Start.UNKNOWN:
                return Offset.FAILED
    except PocketMQError as exc:
        log.warning("start_offset.not_found", queue=str(queue), rule=rule.value, reason=str(exc))
        return Offset.FAILED

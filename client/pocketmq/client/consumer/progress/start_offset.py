"""Where a group begins to consume a queue (C-33).

    stored v            LAST_OFFSET          FIRST_OFFSET     TIMESTAMP
    v >= 0              v                    v                v
    -1, normal topic    max offset           0                offset at consume_timestamp
    -1, %RETRY% topic   0                    0                max offset
    below -1            not known: the queue is tried again at the next rebalance

FIRST_OFFSET's 0 may lie below the queue's first offset; then PULL_OFFSET_MOVED (21) answers the
first pull (C-43). And a broker answers 0 instead of "nothing stored" for young queues (B-34).
"""

from __future__ import annotations

from enum import Enum

import structlog

from pocketmq.client.api import ClientApi
from pocketmq.client.broker_addresses import BrokerAddresses
from pocketmq.client.consumer.progress.offset_store import OffsetStore
from pocketmq.client.consumer.progress.offset_table import Offset, ReadOffsetType
from pocketmq.client.consumer.progress.skipped import warn_of_skipped
from pocketmq.client.heartbeat import ConsumeFromWhere
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class Start(Enum):
    """What decides the start."""

    STORED = "stored"
    ZERO = "zero"
    MAX = "max"
    TIMESTAMP = "timestamp"
    UNKNOWN = "unknown"


# behaviours 19, 20, 21, 23, 24, 26 and 27
def start_rule(stored: int, where: ConsumeFromWhere, *, retry_topic: bool) -> Start:
    """What decides where a group begins in a queue: the table at the top of this file (C-33)."""
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


class StartOffsets:
    """Finds the starts of one consumer.

    Args:
        api: To ask brokers.
        addresses: Where their masters are.
        store: What the group has stored.
        where: The consumer's option for when nothing is stored.
        timestamp_ms: The moment, for `TIMESTAMP`.
        watch_since_ms: Warn if messages since then, in epoch ms, lie before the start; None: do
            not look (`skipped.py`).
        memory_first: Use an offset in memory (L-4); otherwise it is forgotten first, since it may
            date from before another member owned the queue (`removeDirtyOffset`).
    """

    def __init__(
        self,
        api: ClientApi,
        addresses: BrokerAddresses,
        store: OffsetStore,
        where: ConsumeFromWhere,
        timestamp_ms: int,
        *,
        memory_first: bool,
        watch_since_ms: int | None = None,
    ) -> None:
        self._watch_since_ms = watch_since_ms
        self._store = store
        self._memory_first = memory_first
        self._api = api
        self._addresses = addresses
        self._where = where
        self._timestamp_ms = timestamp_ms

    async def find(self, queue: MessageQueue) -> int:
        """The offset to begin at, or a negative one when it cannot be found out now."""
        if self._memory_first:
            kind = ReadOffsetType.MEMORY_FIRST_THEN_STORE
        else:
            kind = ReadOffsetType.READ_FROM_STORE
            # If the broker cannot be asked, the queue must not begin at an old offset.
            self._store.table.remove(queue)
        stored = await self._store.read(queue, kind)
        rule = start_rule(stored, self._where, retry_topic=is_retry(queue.topic))
        if rule is Start.STORED:
            return stored
        if rule is Start.ZERO:
            return 0
        # Beginning anywhere would skip or repeat; the next rebalance asks again (C-33).
        if rule is Start.UNKNOWN:
            return Offset.FAILED
        try:
            address = await self._addresses.master(queue)
            if rule is Start.MAX:
                end = await self._api.max_offset(address, queue)
                if self._watch_since_ms is not None:
                    since_ms = self._watch_since_ms
                    await warn_of_skipped(self._api, address, queue, end, since_ms)
                return end
            return await self._api.search_offset(address, queue, self._timestamp_ms)
        except PocketMQError as exc:
            log.warning(
                "start_offset.not_found", queue=str(queue), rule=rule.value, reason=str(exc)
            )
            return Offset.FAILED

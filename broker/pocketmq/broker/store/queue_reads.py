"""What can be asked of a store's queues: messages, first and last offsets, and times."""

from __future__ import annotations

from collections.abc import Iterator

from pocketmq.broker.store.commit_log import CommitLog
from pocketmq.broker.store.consume_queues import ConsumeQueues
from pocketmq.broker.store.lookup import (
    Boundary,
    GetResult,
    GetStatus,
    offset_by_time,
    offset_nearest_time,
)
from pocketmq.broker.store.mend import Mender
from pocketmq.broker.store.queue_reader import Accept, AcceptRecord, LimitsNow, get_messages
from pocketmq.runtime.profile.broker import BrokerProfile


class QueueReads:
    """The reading side of a store. Nothing here writes, and nothing waits.

    Args:
        commit_log: Where the messages are.
        consume_queues: Where each queue's messages lie in it.
        mender: Finds the true place of a message whose entry is wrong.
        limits: What one read may bring, as the options are now.
        profile: In what RocketMQ 4.9 and 5.x differ.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        consume_queues: ConsumeQueues,
        mender: Mender,
        limits: LimitsNow,
        profile: BrokerProfile,
    ) -> None:
        self.commit_log = commit_log
        self.consume_queues = consume_queues
        self._mender = mender
        self._limits = limits
        self._profile = profile

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        max_bytes: int | None = None,
        accept: Accept | None = None,
        accept_record: AcceptRecord | None = None,
        record_weight: int = 0,
    ) -> GetResult:
        """The messages of a queue from `offset` on, as views of the log (B-59 to B-62).

        Args:
            topic: whose messages.
            queue_id: which of its queues.
            offset: position in the queue.
            max_count: most messages wanted.
            max_bytes: most bytes wanted; one message comes even when it is longer.
            accept: takes or refuses a tags code, before its message is touched; None takes all.
            accept_record: the same for the record; it is read for this.
            record_weight: what that costs for each record, in bytes of properties.
        """
        queue = self.consume_queues.get(topic, queue_id)
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        return get_messages(
            queue,
            self.commit_log,
            offset,
            max_count,
            self._limits(),
            self._mender.true_place,
            accept,
            max_bytes,
            accept_record,
            record_weight,
        )

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First offset that can be read; 0 for an unknown queue (S-36)."""
        queue = self.consume_queues.get(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """One behind the last message that can be read; 0 for an unknown queue (S-36)."""
        queue = self.consume_queues.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored, in epoch milliseconds; -1 when it cannot be read."""
        queue = self.consume_queues.get(topic, queue_id)
        entry = None if queue is None else queue.entry(offset)
        return -1 if entry is None else self.commit_log.store_time(entry[0])

    def physical_offset(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Where in the log a message lies; None outside the queue."""
        queue = self.consume_queues.get(topic, queue_id)
        entry = None if queue is None else queue.entry(offset)
        return None if entry is None else entry[0]

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """When the oldest readable message was stored; -1 when there is none."""
        return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    def offset_by_time(
        self, topic: str, queue_id: int, time_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """The offset that a store time means (S-40, S-41); 0 without queue or message (S-42)."""
        queue = self.consume_queues.get(topic, queue_id)
        if queue is None:
            return 0

        def stored_at(offset: int) -> int:
            return max(0, self.store_time(topic, queue_id, offset))  # unreadable counts as old

        low, high = queue.min_offset, queue.max_offset
        if self._profile.search_nearest_time:
            return offset_nearest_time(time_ms, low, high, stored_at)
        return offset_by_time(time_ms, low, high, stored_at, boundary)

    def queues(self) -> Iterator[tuple[str, int]]:
        """(topic, queue id) of every queue that holds or held a message."""
        for queue in self.consume_queues:
            yield queue.topic, queue.queue_id

"""From the log to what is derived from it: consume queues, index, waiting consumers (S-20 to S-24).

RocketMQ's `ReputMessageService` reads each record again a millisecond after it was written. Here
the batch that was just appended is dispatched from memory, in the same turn of the event loop;
records are read back only when that was not possible: at recovery, and after a full disk.

Under SYNC_FLUSH a batch waits until it is on the disk. What a consumer has seen, and has perhaps
committed past, can then never be taken back by a power cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pocketmq.broker.store.commit_log import UNCOUNTED
from pocketmq.broker.store.consume_queue import ENTRY, ConsumeQueue
from pocketmq.broker.store.stored_message import PutResult, PutStatus, StoredMessage
from pocketmq.protocol.scalars import MessageSysFlag

ArrivalListener = Callable[[str, int, int, Sequence[int]], None]
"""(topic, queue id, new max offset, tags codes of the new messages in order)."""

_OK = PutStatus.PUT_OK
_TRANSACTION = MessageSysFlag.TRANSACTION_MASK


class Dispatcher:
    """Writes queue entries and index entries, and tells who waits for messages."""

    def __init__(self, delay_levels_ms: Sequence[int]) -> None:
        self.listener: ArrivalListener | None = None
        self.dirty: set[ConsumeQueue] = set()
        """Queues written since they were last flushed."""
        self._delay_levels_ms = delay_levels_ms

    def dispatch(
        self,
        messages: Sequence[StoredMessage],
        queues: Sequence[ConsumeQueue],
        results: Sequence[PutResult],
    ) -> None:
        """Make a batch that was appended visible.

        The three sequences belong together; messages that were not stored are passed over.
        """
        runs: dict[ConsumeQueue, _Run] = {}
        for message, queue, result in zip(messages, queues, results, strict=True):
            if result.status is not _OK:
                continue
            if message.sys_flag & _TRANSACTION in UNCOUNTED:
                continue
            code = message.tags_code
            if queue.is_schedule and message.delay_level > 0:
                code = self.delivery_time_ms(message.delay_level, result.store_timestamp_ms)
            run = runs.get(queue)
            if run is None:
                run = runs[queue] = _Run(result.queue_offset)
            run.entries.append(ENTRY.pack(result.physical_offset, result.size, code))
            run.codes.append(code)
            run.end = result.physical_offset + result.size
        for queue, run in runs.items():
            queue.put(run.first, b"".join(run.entries), run.end)
            self.dirty.add(queue)
        if self.listener is not None:
            for queue, run in runs.items():
                self.listener(queue.topic, queue.queue_id, queue.max_offset, run.codes)

    def delivery_time_ms(self, delay_level: int, store_timestamp_ms: int) -> int:
        """When a delayed message is due; its queue entry holds this as tags code (B-91)."""
        levels = self._delay_levels_ms
        return store_timestamp_ms + levels[min(delay_level, len(levels) - 1)]


class _Run:
    """Neighbouring entries of one queue, gathered from a batch."""

    __slots__ = ("codes", "end", "entries", "first")

    def __init__(self, first: int) -> None:
        self.first = first
        self.entries: list[bytes] = []
        self.codes: list[int] = []
        self.end = 0

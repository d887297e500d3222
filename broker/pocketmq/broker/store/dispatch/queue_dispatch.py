"""From the log to what is derived from it: consume queues, index, waiting consumers (S-20 to S-24).

RocketMQ's `ReputMessageService` reads each record again a millisecond after it was written. Here
the batch that was just appended is dispatched from memory, in the same turn of the event loop;
records are read back only when that was not possible: at recovery, and after a full disk.

Index entries wait until there are some more of them and answers are written (after_put.py); nobody
is told of them.

Under SYNC_FLUSH a batch waits until it is on the disk. What a consumer has seen, and has perhaps
committed past, can then never be taken back by a power cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import sub

from pocketmq.broker.store.dispatch.store_events import NO_STORE_EVENTS, StoreEvents
from pocketmq.broker.store.dispatch.stored_batches import PlacedBatch, StoredBatch
from pocketmq.broker.store.index.index_service import IndexService
from pocketmq.broker.store.log.commit_log import UNCOUNTED
from pocketmq.broker.store.queues.consume_queue import ENTRY, ConsumeQueue
from pocketmq.broker.store.stored_message import PutStatus, StoredMessage
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import QUEUE_ENTRY

ArrivalListener = Callable[[str, int, int, Sequence[int]], None]
"""(topic, queue id, new max offset, tags codes of the new messages in order)."""

_OK = PutStatus.PUT_OK
_TRANSACTION = MessageSysFlag.TRANSACTION_MASK


class QueueDispatcher:
    """Writes queue entries and index entries, and signals the arrival of messages.

    Args:
        delay_levels_ms: delay of level 0 (none), 1, 2, ...
        index: gets the keys; None when there is no index.
        on_arrival: told of messages that became readable, once per queue and batch.
        events: tells the same to who watches.
    """

    def __init__(
        self,
        delay_levels_ms: Sequence[int],
        index: IndexService | None,
        on_arrival: ArrivalListener | None = None,
        events: StoreEvents = NO_STORE_EVENTS,
    ) -> None:
        self.dirty: set[ConsumeQueue] = set()
        """Queues written since the flusher last looked at them."""
        self.offset = 0
        """Every record below it is dispatched; consumers see nothing beyond."""
        self.index = index
        self._delay_levels_ms = delay_levels_ms
        self._on_arrival = on_arrival
        self._events = events

    # behaviour 57
    def dispatch(self, batch: StoredBatch | PlacedBatch) -> None:
        """Make messages visible; those among them that were not stored are passed over.

        Dispatching the same again does no harm.

        Raises:
            DiskFullError: some of it is visible, `offset` has not moved; dispatch it again later.
        """
        if isinstance(batch, StoredBatch):
            runs, count = self._runs(batch), len(batch.messages)
        else:
            runs, count = [self._batch_run(batch)], len(batch.result.physical_offsets)
        for run in runs:
            # Before the put, which may write some files before it fails.
            self.dirty.add(run.queue)
            run.queue.put(run.first, b"".join(run.entries), run.end)
        if self.index is not None and count:
            # After the queues: if they fail, the whole batch is dispatched again.
            self.index.add(batch, count, max(0, batch.end - self.offset))
        # Behind all that may fail: what is not below it is dispatched again.
        if batch.end > self.offset:
            self.offset = batch.end
        if self._events.sink.is_on:
            for run in runs:
                queue = run.queue
                self._events.dispatched(
                    queue.topic, queue.queue_id, run.first, len(run.codes), run.end
                )
        # Last: held pulls run again inside of this call, and read what was written above.
        arrived = self._on_arrival
        if arrived is not None:
            for run in runs:
                queue = run.queue
                arrived(queue.topic, queue.queue_id, queue.max_offset, run.codes)

    def _runs(self, batch: StoredBatch) -> list[_Run]:
        """The entries of a batch, neighbours together."""
        runs: list[_Run] = []
        open_runs: dict[ConsumeQueue, _Run] = {}
        pack = ENTRY.pack
        for message, queue, result in zip(batch.messages, batch.queues, batch.results, strict=True):
            # Refused messages have no record; half and rolled back ones must not be visible (S-22).
            if result.status is not _OK or message.sys_flag & _TRANSACTION in UNCOUNTED:
                continue
            code = message.tags_code
            if queue.is_schedule:
                code = self.entry_code(queue, message, result.store_timestamp_ms)
            offset, physical_offset, size = result.queue_offset, result.physical_offset, result.size
            run = open_runs.get(queue)
            # Consecutive entries of a queue are written together; a batch may alternate between
            # queues.
            if run is None or run.next_offset != offset:
                run = open_runs[queue] = _Run(queue, offset)
                runs.append(run)
            run.next_offset = offset + 1
            run.entries.append(pack(physical_offset, size, code))
            run.codes.append(code)
            run.end = physical_offset + size
        return runs

    @staticmethod
    def _batch_run(placed: PlacedBatch) -> _Run:
        result, codes = placed.result, placed.batch.tags_codes
        run = _Run(placed.queue, result.queue_offset)
        begins = result.physical_offsets
        # With equal sizes, entries can be packed without a list of sizes.
        if placed.batch.is_uniform:
            size = (result.end - begins[0]) // len(begins)
            run.entries = [QUEUE_ENTRY.pack_numbered(begins, size, codes[0])]
        else:
            # The records of a batch are contiguous (S-14).
            sizes = list(map(sub, [*begins[1:], result.end], begins))
            run.entries = [QUEUE_ENTRY.pack_columns(begins, sizes, codes)]
        run.codes = codes
        run.end = result.end
        return run

    def entry_code(self, queue: ConsumeQueue, message: StoredMessage, stored_ms: int) -> int:
        """Tags code of a message's entry: of a delayed one the time at which it is due (B-91)."""
        # Delivered messages have no delay level, and keep their tag's code.
        if not queue.is_schedule or message.delay_level <= 0:
            return message.tags_code
        levels = self._delay_levels_ms
        # The level may be beyond the table, which may have been shortened since (B-91).
        return stored_ms + levels[min(message.delay_level, len(levels) - 1)]


class _Run:
    """Neighbouring entries of one queue, gathered from a batch."""

    __slots__ = ("codes", "end", "entries", "first", "next_offset", "queue")

    def __init__(self, queue: ConsumeQueue, first: int) -> None:
        self.queue = queue
        self.first = first
        self.next_offset = first
        self.end = 0
        """Log offset behind the last record."""
        self.entries: list[bytes] = []
        self.codes: list[int] = []

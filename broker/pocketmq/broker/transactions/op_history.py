"""What op records say of half messages that were decided before a restart (X-4).

Memory knows the latest decisions of this process; the index knows committed copies. A rollback of
an earlier process is only named by an op record. That record lies behind its half message in the
log, so a question reads back from the newest op record to the half message's place, and what one
question has read serves the next:

    log          half 7 ... half 8 ... op "7," ... half 9 ... op "8," ... restart
    end of 9     reads op "8,": it does not name 9, which is open
    end of 7     reads op "7," too: it is decided
"""

from __future__ import annotations

from typing import Final

from pocketmq.broker.store import GetStatus, QueueReads
from pocketmq.broker.transactions.half_messages import offsets_of
from pocketmq.broker.transactions.offset_set import OffsetSet
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.protocol.stored.record import decode_records

MOST_RECORDS: Final = 20_000
"""So many op records of each queue are read, the newest; each names up to 500 half messages."""

AT_ONCE: Final = 64
"""Records read before it is asked whether more are wanted."""


class _Queue:
    """What was read of the op records of one half queue: those from `begin` on."""

    def __init__(self, end: int) -> None:
        self.begin = end
        self.least = end - MOST_RECORDS
        self.named = OffsetSet()


class OpHistory:
    """Reads op records as far back as it is asked.

    Args:
        reads: holds them.
    """

    def __init__(self, reads: QueueReads) -> None:
        self._reads = reads
        self._queues: dict[int, _Queue] = {}

    def names(self, half: MessageExt) -> bool:
        """Whether a half message was committed or rolled back before the first question."""
        reads, queue_id = self._reads, half.queue_id
        queue = self._queues.get(queue_id)
        # Start from the present end: later op records are this process's own decisions.
        if queue is None:
            end = reads.max_offset(OP_HALF_TOPIC, queue_id)
            queue = self._queues[queue_id] = _Queue(end)
        while queue.begin > max(queue.least, reads.min_offset(OP_HALF_TOPIC, queue_id)):
            place = reads.physical_offset(OP_HALF_TOPIC, queue_id, queue.begin - 1)
            # This op record is older than the half message, so earlier ones cannot name it.
            if place is not None and place < half.commit_log_offset:
                break
            self._read_back(queue_id, queue)
        return half.queue_offset in queue.named

    def forget(self) -> None:
        """Read again when it is asked for next: another broker has written the log since."""
        self._queues.clear()

    def _read_back(self, queue_id: int, queue: _Queue) -> None:
        first = self._reads.min_offset(OP_HALF_TOPIC, queue_id)
        begin = offset = max(queue.begin - AT_ONCE, queue.least, first)
        halves = self._reads.consume_queues.get(HALF_TOPIC, queue_id)
        end = 0 if halves is None else halves.next_offset  # no broker names others
        while offset < queue.begin:
            wanted = queue.begin - offset
            found = self._reads.get_message(OP_HALF_TOPIC, queue_id, offset, wanted)
            if found.status is GetStatus.FOUND:
                for record in decode_records(b"".join(found.records)):
                    queue.named.add(each for each in offsets_of(record) if each < end)
            # If reading cannot go on, skip the rest of this portion.
            if found.next_begin_offset <= offset:
                break
            offset = found.next_begin_offset
        queue.begin = begin

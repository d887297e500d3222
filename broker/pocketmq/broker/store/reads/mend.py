"""Entries from before the last start, tested when they are first read, corrected when wrong.

A restart does not read the whole store; a bit that flipped on the disk shows when a consumer comes
to it. Then the record must say that it is the one the entry stands for, and have the right CRC. A
wrong entry with an intact record is found again in the log, between its neighbours' records. A
damaged record is lost: it is passed over, and reported with its place.
"""

from __future__ import annotations

import structlog

from pocketmq.broker.store.config import ENTRY_SIZE, MIB
from pocketmq.broker.store.dispatch.log_scan import message_of, sound_records
from pocketmq.broker.store.dispatch.queue_dispatch import QueueDispatcher
from pocketmq.broker.store.log.commit_log import CommitLog
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER_SIZE, ConsumeQueue
from pocketmq.broker.store.recovery.queue_recovery import tells_the_truth

log = structlog.get_logger()

_NEIGHBOURS = 100
_SEARCH_BYTES = 64 * MIB


class Mender:
    """Finds where the record of an old entry really is."""

    def __init__(self, commit_log: CommitLog, queue_dispatcher: QueueDispatcher) -> None:
        self._log = commit_log
        self._queue_dispatcher = queue_dispatcher
        self._lost: set[tuple[str, int, int]] = set()

    def true_place(
        self, queue: ConsumeQueue, offset: int, physical: int, size: int
    ) -> tuple[int, int] | None:
        """(physical offset, size) of the record for entry `offset`; None when it is lost.

        Args:
            queue: whose entry it is.
            offset: number of the entry.
            physical: what the entry says.
            size: what the entry says.
        """
        if self._is_true(queue, offset, physical, size):
            return physical, size
        place = (queue.topic, queue.queue_id, offset)
        # Search and log only once, as a consumer may ask again and again.
        if place in self._lost:
            return None
        facts = {"topic": queue.topic, "queue_id": queue.queue_id, "offset": offset}
        found = self._search(queue, offset)
        if found is None:
            self._lost.add(place)
            log.error("message.lost", **facts, physical_offset=physical, size=size)
            return None
        log.warning("entry.mended", **facts, said=(physical, size), found=found)
        return found

    def _is_true(self, queue: ConsumeQueue, offset: int, physical: int, size: int) -> bool:
        # No record has such a place: the entry is damaged.
        if size <= 0 or physical < 0:
            return False
        record = self._log.read(physical, size)
        return record is not None and tells_the_truth(queue, offset, record)

    def _search(self, queue: ConsumeQueue, offset: int) -> tuple[int, int] | None:
        """Find the record in the log, and correct the entry."""
        start, end = self._between(queue, offset)
        # Limit the search, which reads every record.
        for message in sound_records(self._log, start, min(end, start + _SEARCH_BYTES)):
            if (
                message.queue_offset == offset
                and message.queue_id == queue.queue_id
                and message.topic == queue.topic
            ):
                physical, size = message.commit_log_offset, message.store_size
                # Correct the tags code too, which is the due time of a delayed message (B-91).
                code = self._queue_dispatcher.entry_code(
                    queue, message_of(message), message.store_timestamp_ms
                )
                # Correct the file, for later reads and the next start.
                view = queue.writable_entry(offset)
                if view is not None:
                    view[:] = ENTRY.pack(physical, size, code)
                    self._queue_dispatcher.dirty.add(queue)
                return physical, size
        return None

    def _between(self, queue: ConsumeQueue, offset: int) -> tuple[int, int]:
        """The stretch of log between the nearest sound entries on both sides."""
        start, end = self._log.min_offset, self._log.max_offset
        # Entries ascend by log offset, so the record is between its neighbours' records.
        for before in range(offset - 1, max(queue.min_offset, offset - _NEIGHBOURS) - 1, -1):
            physical, size, _ = self._entry(queue, before)
            # Neighbours may be wrong too.
            if self._is_true(queue, before, physical, size):
                start = physical + size
                break
        for after in range(offset + 1, min(queue.max_offset, offset + _NEIGHBOURS)):
            physical, size, _ = self._entry(queue, after)
            if self._is_true(queue, after, physical, size):
                end = physical
                break
        return start, end

    @staticmethod
    def _entry(queue: ConsumeQueue, offset: int) -> tuple[int, int, int]:
        view = queue.entries(offset, 1)
        if view is None or len(view) < ENTRY_SIZE:
            return 0, FILLER_SIZE, 0
        return ENTRY.unpack(view)

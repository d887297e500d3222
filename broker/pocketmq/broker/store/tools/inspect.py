"""What a store holds: files, offsets, topics, sizes, times. Reads entries, few records."""

from __future__ import annotations

import os

import msgspec

from pocketmq.broker.store.config import ENTRY_SIZE
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER_SIZE
from pocketmq.broker.store.tools.stopped_store import StoppedQueue, StoppedStore, StoreShape
from pocketmq.broker.store.tools.verify_derived import count_live
from pocketmq.protocol.stored.record_check import check_record


class FileFacts(msgspec.Struct):
    """One file."""

    path: str
    """Relative to the store."""
    size: int
    """Length in bytes."""
    used: int
    """Position at which its records end."""


class QueueFacts(msgspec.Struct):
    """One consume queue."""

    topic: str
    queue_id: int
    min_offset: int
    """First message that is not deleted."""
    max_offset: int
    """One behind the last message."""
    size_bytes: int
    """Of its messages' records in the log."""
    first_ms: int
    """Store time of the first message, 0 when there is none."""
    last_ms: int


class IndexFacts(msgspec.Struct):
    """One index file."""

    path: str
    entries: int
    used_slots: int
    begin_ms: int
    end_ms: int
    begin_physical: int
    end_physical: int


class StoreFacts(msgspec.Struct):
    """All of a store at a glance."""

    root: str
    is_clean: bool
    """The last process closed it as it should."""
    shape: StoreShape
    min_physical: int
    """Log offset of the oldest byte."""
    max_physical: int
    """Log offset behind the newest record."""
    confirmed: int
    """Log offset up to which the checkpoint promises everything; -1 when it is not ours."""
    log_files: list[FileFacts] = []
    queues: list[QueueFacts] = []
    index_files: list[IndexFacts] = []
    config_files: list[FileFacts] = []
    is_running: bool = False
    """A broker has it open; this is what it held when it was looked at."""
    is_ledger: bool = False
    """DLedger wrote the log, or its last part: it can only be read."""

    @property
    def first_ms(self) -> int:
        """Store time of the oldest message; 0 when there is none."""
        return min((queue.first_ms for queue in self.queues if queue.first_ms), default=0)

    @property
    def last_ms(self) -> int:
        """Store time of the newest message; 0 when there is none."""
        return max((queue.last_ms for queue in self.queues), default=0)


def inspect_store(store: StoppedStore) -> StoreFacts:
    """Gather it all. O(queue entries); of the log only what the queues do not know is read."""
    log_min = store.log_start
    queues = [_queue_facts(store, queue, log_min) for queue in store.queues]
    end = store.log_end()
    root, disk = store.root, store.disk
    config = os.path.join(root, "config")
    facts = StoreFacts(
        root,
        store.is_clean,
        store.shape,
        log_min,
        end,
        # -1: the checkpoint is missing, or RocketMQ wrote it last.
        store.checkpoint.durable_offset if store.checkpoint.is_ours else -1,
        [
            FileFacts(
                os.path.relpath(file.path, root),
                disk.file_size(file.path) or 0,
                # A file made in advance is empty, and the last one ends where the log does.
                max(0, min(file.end, end) - file.start),
            )
            for file in store.log.files
        ],
        queues,
        is_running=store.is_running,
        is_ledger=store.is_ledger,
    )
    for file in store.index_files():
        facts.index_files.append(
            IndexFacts(
                os.path.relpath(file.path, root),
                file.next_entry - 1,
                file.used_slots,
                file.begin_ms,
                file.end_ms,
                file.begin_physical,
                file.end_physical,
            )
        )
    for name in disk.list_directory(config):
        size = disk.file_size(os.path.join(config, name)) or 0
        facts.config_files.append(FileFacts(os.path.join("config", name), size, size))
    return facts


def _queue_facts(store: StoppedStore, queue: StoppedQueue, log_min: int) -> QueueFacts:
    # Entries before it lead to expired messages.
    low = queue.end - count_live(queue, log_min)
    total = 0
    for file in queue.row.files:
        start = max(0, low * ENTRY_SIZE - file.start)
        end = min(file.size // ENTRY_SIZE * ENTRY_SIZE, queue.end * ENTRY_SIZE - file.start)
        # The rest of the file is zeros.
        if start < end:
            sizes = ENTRY.iter_unpack(file.view()[start:end])
            total += sum(size for _, size, _ in sizes if size != FILLER_SIZE)
    times = (_store_ms(store, queue, low), _store_ms(store, queue, queue.end - 1))
    return QueueFacts(queue.topic, queue.queue_id, low, queue.end, total, *times)


def _store_ms(store: StoppedStore, queue: StoppedQueue, offset: int) -> int:
    entry = queue.row.read(offset * ENTRY_SIZE, ENTRY_SIZE) if offset >= 0 else None
    if entry is None:
        return 0
    physical, size, _ = ENTRY.unpack(entry)
    record = store.log.read(physical, size)
    return 0 if record is None else max(0, check_record(record, 0).store_timestamp_ms)

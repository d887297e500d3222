"""A store of tiny files whose disk does everything at once: filled, and read as consumers do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pocketmq.broker.store import MessageStore, PutStatus, StoreConfig, StoredMessage
from pocketmq.broker.store.disk.disk_worker import InlineWorker
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.disks import SteppedDisk

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
NOW_MS = 1_700_000_000_000
LOG_FILE = 4096
QUEUE_FILE = 20 * 20
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


def store_at(root: Path, disk: SteppedDisk | None = None, **options: Any) -> MessageStore:
    config = StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=LOG_FILE,
        mapped_file_size_consume_queue=QUEUE_FILE,
        max_hash_slot_num=10,
        max_index_num=40,
        **options,
    )
    return MessageStore(config, disk or SteppedDisk(), ManualClock(NOW_MS), PROFILE_5_X.broker)


def run_inline(store: MessageStore) -> None:
    """As `start` does, with flushing in the calls themselves and no timers."""
    worker = InlineWorker()
    store._log_flusher.start(worker)
    store._flush._queue_flusher.start(worker)


def text_message(number: int, topic: str = "T", queues: int = 2) -> StoredMessage:
    body = b"body-%04d-" % number + b"x" * (number * 7 % 60)
    return StoredMessage(
        topic,
        number % queues,
        body,
        b"UNIQ_KEY\x01U%d\x02KEYS\x01k%d\x02" % (number, number % 5),
        0,
        0,
        NOW_MS,
        HOST,
        HOST,
        uniq_key=f"U{number}",
        keys=f"k{number % 5}",
    )


def contents(store: MessageStore) -> dict[tuple[str, int, int], bytes]:
    """(topic, queue, offset) -> body, as consumers get them."""
    found = {}
    for topic, queue_id in store.reads.queues():
        offset = store.reads.min_offset(topic, queue_id)
        while offset < store.reads.max_offset(topic, queue_id):
            result = store.reads.get_message(topic, queue_id, offset, 32)
            assert result.next_begin_offset > offset, result
            for message in decode_records(b"".join(result.records)):
                found[topic, queue_id, message.queue_offset] = bytes(message.raw_body)
            offset = result.next_begin_offset
    return found


def filled(root: Path, count: int = 60, disk: SteppedDisk | None = None) -> dict[Any, bytes]:
    """A store with `count` messages, closed; what it holds."""
    store = store_at(root, disk)
    store.load()
    run_inline(store)
    for number in range(count):
        assert store.put_messages([text_message(number)])[0].status is PutStatus.PUT_OK
    held = contents(store)
    assert len(held) == count
    store.close_files()
    return held


def mark_unclean(root: Path) -> None:
    (root / "abort").write_bytes(b"1")

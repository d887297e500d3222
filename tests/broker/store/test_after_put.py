"""What a put leaves to be done after its answer: index entries."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pocketmq.broker.store import MessageStore, PutStatus, StoredMessage
from pocketmq.broker.store.dispatch.after_put import ENOUGH_MESSAGES
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.disks import NO_SPACE, SteppedDisk, fail_with

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]

LARGE = {"max_hash_slot_num": 500, "max_index_num": 5_000, "mapped_file_size_commit_log": 1 << 20}


def put(store: MessageStore, message: Message, count: int, body: bytes = b"") -> None:
    known = store.reads.max_offset("T", 0)
    for number in range(known, known + count):
        results = store.put_messages([message(body, uniq_key=f"{number:032X}")])
        assert results[0].status is PutStatus.PUT_OK


def indexed(store: MessageStore) -> int:
    """Entries in the files, without those that a query would have written first."""
    assert store.index is not None
    return sum(file.next_entry - 1 for file in store.index.files)


async def test_index_entries_of_many_messages_are_written_a_turn_later(
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    store = open_store(**LARGE)
    store.start()
    put(store, message, ENOUGH_MESSAGES - 1)
    await clock.sleep(0)
    assert indexed(store) == 0
    put(store, message, 1)
    assert indexed(store) == 0
    await clock.sleep(0)
    assert indexed(store) == ENOUGH_MESSAGES
    await store.close()


async def test_a_full_disk_puts_index_entries_off(
    open_store: Make, message: Message, clock: ManualClock, logged: list[Any]
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk, **LARGE)
    store.start()
    full = True

    def fail(number: int, operation: str, path: str) -> None:
        if full and operation in ("create_file", "reserve") and f"{os.sep}index{os.sep}" in path:
            raise fail_with(NO_SPACE)

    disk.on_step = fail
    put(store, message, ENOUGH_MESSAGES)
    await clock.sleep(0)
    assert indexed(store) == 0
    assert [line for line in logged if line["event"] == "index.write_failed"]
    full = False
    put(store, message, 1)
    await clock.sleep(0)
    assert indexed(store) == ENOUGH_MESSAGES + 1
    await store.close()


async def test_nothing_is_done_once_the_store_is_closed(open_store: Make, message: Message) -> None:
    store = open_store(**LARGE)
    store.start()
    put(store, message, 2 * ENOUGH_MESSAGES)
    await store.close()
    assert indexed(store) == 2 * ENOUGH_MESSAGES

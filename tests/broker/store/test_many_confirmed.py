"""Thousands of messages that become visible together, because a replica was away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.broker.store import MessageStore, PutStatus, StoredMessage
from pocketmq.broker.store.dispatch.stored_batches import PlacedBatch, StoredBatch
from pocketmq.broker.store.flush.retried_dispatch import SHOWN_AT_ONCE
from support.disks import SteppedDisk
from support.eventually import eventually

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]

TOGETHER = 10
COUNT = 3 * SHOWN_AT_ONCE


@pytest.fixture
def store(open_store: Make, message: Message, tmp_path: Path) -> MessageStore:
    """A store with `COUNT` messages that replicas have not confirmed."""
    made = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path))
    made.confirm(0)
    for _ in range(COUNT // TOGETHER):
        made.put_messages([message(b"hidden") for _ in range(TOGETHER)])
    return made


async def test_other_work_goes_on_while_they_become_visible(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [0]
    """In each turn of the loop."""
    dispatch = store.queue_dispatcher.dispatch

    def counted(batch: StoredBatch | PlacedBatch) -> None:
        if not shown[-1]:
            asyncio.get_running_loop().call_soon(lambda: shown.append(0))
        shown[-1] += batch.count
        dispatch(batch)

    monkeypatch.setattr(store.queue_dispatcher, "dispatch", counted)
    store.start()
    store.confirm(store.commit_log.max_offset)
    await eventually(lambda: store.reads.max_offset("T", 0) == COUNT, "all are visible")
    assert sum(shown) == COUNT
    assert max(shown) < SHOWN_AT_ONCE + TOGETHER
    await store.close()


async def test_what_comes_meanwhile_is_seen_behind_them(
    store: MessageStore, message: Message
) -> None:
    store.start()
    store.confirm(None)  # nobody waits for replicas any more
    before = store.reads.max_offset("T", 0)
    [result] = store.put_messages([message(b"new")])
    assert (result.status, result.queue_offset) == (PutStatus.PUT_OK, COUNT)
    assert before == store.reads.max_offset("T", 0) < COUNT
    await eventually(lambda: store.reads.max_offset("T", 0) == COUNT + 1, "all are visible")
    bodies = [store.reads.get_message("T", 0, at, 1).records[0] for at in (0, COUNT - 1, COUNT)]
    assert [b"hidden" in bytes(body) for body in bodies] == [True, True, False]
    await store.close()


async def test_a_store_that_is_closed_meanwhile_has_shown_all(
    store: MessageStore, open_store: Make, tmp_path: Path
) -> None:
    store.start()
    store.confirm(None)
    assert store.reads.max_offset("T", 0) < COUNT
    await store.close()
    again = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path))
    assert again.reads.max_offset("T", 0) == COUNT

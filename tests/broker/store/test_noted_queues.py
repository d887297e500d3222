"""A start after a clean stop opens no queue's files, unless something happened in between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.broker.store import GetStatus, MessageStore
from pocketmq.broker.store.recovery.noted_queues import LEAST_QUEUES, path_of
from support.disks import SteppedDisk
from support.tiny_store import text_message

StoreMaker = Callable[..., MessageStore]

TOPICS, QUEUES = LEAST_QUEUES // 4, 4
LONG = 250
"""Messages of the longest queue: three files of 100 entries."""


def put_all(store: MessageStore) -> None:
    """One message into each queue."""
    store.put_messages(
        [
            text_message(queue, f"topic-{topic}", QUEUES)
            for topic in range(TOPICS)
            for queue in range(QUEUES)
        ]
    )


def age(root: Path) -> None:
    """Let all folders have changed an hour ago."""
    for folder, _, _ in os.walk(root / "consumequeue"):
        os.utime(folder, (1_700_000_000, 1_700_000_000))


def bounds(store: MessageStore) -> list[tuple[object, ...]]:
    """What a start finds out about each queue."""
    return sorted(
        (
            *(queue.topic, queue.queue_id, queue.min_offset, queue.max_offset, queue.next_offset),
            *(queue.max_physical, queue.checked_below),
            tuple((file.start, file.wrote, file.flushed) for file in queue.files.files),
        )
        for queue in store.consume_queues
    )


def record(store: MessageStore, topic: str, queue_id: int, offset: int) -> bytes:
    """The record of a message."""
    found = store.get_message(topic, queue_id, offset, 1)
    assert found.status is GetStatus.FOUND
    return bytes(found.records[0])


def looked_at(disk: SteppedDisk) -> set[tuple[str, ...]]:
    """(topic, queue id) of the queues whose files were opened."""
    opened = [path for what, path in disk.steps if what == "look_at_row"]
    opened += [
        os.path.dirname(path)
        for what, path in disk.steps
        if what == "map_file" and "consumequeue" in path
    ]
    return {Path(folder).parts[-2:] for folder in opened}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def stopped(open_store: StoreMaker, root: Path) -> list[tuple[object, ...]]:
    """A store of many queues, one of them long, stopped properly; the bounds of its queues."""
    store = open_store()
    put_all(store)
    for _ in range(LONG):
        store.put_messages([text_message(1, "topic-0", QUEUES)])
    found = bounds(store)
    age(root)
    store.close_files()
    return [(*each[:6], each[3], each[7]) for each in found]  # all date from before the next start


def test_a_start_after_a_clean_stop_opens_no_queue(
    open_store: StoreMaker, stopped: list[tuple[object, ...]]
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk)
    assert looked_at(disk) == set()
    assert [each[:7] for each in bounds(store)] == [each[:7] for each in stopped]
    assert b"topic-0" in record(store, "topic-0", 1, LONG)
    put_all(store)
    assert b"topic-7" in record(store, "topic-7", 2, 1)


def test_the_bounds_are_those_that_loading_finds(
    open_store: StoreMaker, root: Path, stopped: list[tuple[object, ...]]
) -> None:
    noted = open_store()
    told = bounds(noted)
    noted.close_files()
    Path(path_of(str(root))).unlink()
    loaded = open_store()
    assert told == bounds(loaded)


def test_what_was_noted_is_true_once(
    open_store: StoreMaker, root: Path, stopped: list[tuple[object, ...]]
) -> None:
    crashed = root.with_name("crashed")
    store = open_store()
    assert not Path(path_of(str(root))).exists()
    put_all(store)
    shutil.copytree(root, crashed)  # as a kill would leave it
    after = open_store(store_path_root_dir=str(crashed))
    assert all(
        queue.max_offset == (LONG + 2 if (queue.topic, queue.queue_id) == ("topic-0", 1) else 2)
        for queue in after.consume_queues
    )


def test_a_queue_whose_file_was_removed_is_made_again(
    open_store: StoreMaker, root: Path, stopped: list[tuple[object, ...]]
) -> None:
    next((root / "consumequeue/topic-3/2").iterdir()).unlink()
    store = open_store()
    assert b"topic-3" in record(store, "topic-3", 2, 0)


def test_a_topic_whose_folder_was_removed_is_made_again(
    open_store: StoreMaker, root: Path, stopped: list[tuple[object, ...]]
) -> None:
    shutil.rmtree(root / "consumequeue/topic-5")
    store = open_store()
    assert b"topic-5" in record(store, "topic-5", 3, 0)


@pytest.mark.parametrize("content", [b"", b"torn", b"\0" * 4096])
def test_a_torn_note_is_passed_over(
    open_store: StoreMaker, root: Path, stopped: list[tuple[object, ...]], content: bytes
) -> None:
    note = Path(path_of(str(root)))
    note.write_bytes(note.read_bytes()[:100] if content == b"torn" else content)
    disk = SteppedDisk()
    store = open_store(disk=disk)
    assert len(looked_at(disk)) == TOPICS * QUEUES
    assert b"topic-5" in record(store, "topic-5", 3, 0)


def test_after_rocketmq_the_note_does_not_count(
    open_store: StoreMaker, root: Path, stopped: list[tuple[object, ...]]
) -> None:
    with (root / "checkpoint").open("r+b") as checkpoint:  # it writes its own fields only
        checkpoint.write((1_700_000_009_000).to_bytes(8, "big"))
    disk = SteppedDisk()
    open_store(disk=disk)
    assert len(looked_at(disk)) == TOPICS * QUEUES


def test_a_folder_that_changed_just_before_the_stop_is_looked_at(
    open_store: StoreMaker, root: Path, stopped: list[tuple[object, ...]]
) -> None:
    store = open_store()
    store.put_messages([text_message(QUEUES, "topic-0", QUEUES + 1)])
    store.close_files()
    disk = SteppedDisk()
    open_store(disk=disk)
    assert looked_at(disk) == {("topic-0", str(queue)) for queue in range(QUEUES + 1)}


def test_few_queues_are_not_noted(open_store: StoreMaker, root: Path) -> None:
    store = open_store()
    store.put_messages([text_message(0)])
    store.close_files()
    assert not Path(path_of(str(root))).exists()

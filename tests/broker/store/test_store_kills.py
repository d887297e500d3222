"""A store that is killed at any step keeps what it promised (faults 2 to 9)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import FlushDiskType, MessageStore, PutStatus
from support.disks import Killed, PowerCutDisk, SteppedDisk
from support.tiny_store import (
    contents,
    run_inline,
    store_at,
    text_message,
)

# -- kills --------------------------------------------------------------------------------------


class Played:
    def __init__(self, disk: SteppedDisk) -> None:
        self.disk = disk
        self.acknowledged: dict[Any, bytes] = {}


def play(root: Path, disk: SteppedDisk) -> Played:
    """A short life: roll files, flush, close, open, write on. Ends early when killed."""
    played = Played(disk)

    def write(store: MessageStore, numbers: range) -> None:
        for number in numbers:
            message = text_message(number)
            result = store.put_messages([message])[0]
            if result.status is PutStatus.PUT_OK:
                key = ("T", message.queue_id, result.queue_offset)
                played.acknowledged[key] = bytes(message.body)
            if number % 10 == 9:
                store._log_flusher.flush()
                store._flush.confirm_soon()

    try:
        store = store_at(root, disk)
        store.load()
        run_inline(store)
        write(store, range(35))
        store.close_files()
        store = store_at(root, disk)
        store.load()
        run_inline(store)
        write(store, range(35, 55))
        store.close_files()
    except Killed:
        pass
    return played


def test_a_kill_at_any_step_loses_nothing_that_was_acknowledged(
    memory_path: Path,
) -> None:  # faults 2, 3
    total = len(play(memory_path / "count", SteppedDisk()).disk.steps)
    assert total > 60
    for number in range(1, total + 1):

        def kill(step: int, operation: str, path: str, number: int = number) -> None:
            if step == number:
                raise Killed(f"step {step}: {operation} {path}")

        root = memory_path / f"kill-{number}"
        played = play(root, SteppedDisk(kill))
        store = store_at(root)
        store.load()
        served = contents(store)
        assert served.items() >= played.acknowledged.items(), f"killed at step {number}"
        offsets: dict[Any, list[int]] = {}
        for topic, queue_id, offset in served:
            offsets.setdefault((topic, queue_id), []).append(offset)
        assert all(found == list(range(len(found))) for found in offsets.values())
        assert store.put_messages([text_message(999)])[0].status is PutStatus.PUT_OK
        store.close_files()
        again = store_at(root)
        assert again.load().records == 0
        assert len(contents(again)) == len(served) + 1
        again.close_files()
        shutil.rmtree(root)


# -- power cuts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(FlushDiskType), ids=lambda mode: mode.name)
def test_after_a_power_cut_what_was_promised_is_there_without_a_hole(  # faults 6 to 9
    memory_path: Path, mode: FlushDiskType
) -> None:
    chance = random.Random(7)
    root = memory_path / "store"
    disk = PowerCutDisk(root)
    held: dict[Any, bytes] = {}
    flushed: dict[Any, bytes] = {}

    def wrote(key: Any, body: bytes) -> Callable[[PutStatus], None]:
        return lambda status: flushed.__setitem__(key, body)

    def cut_and_look() -> None:
        dirty = disk.dirty_pages()
        for _ in range(4):
            kept = [page for page in dirty if chance.random() < 0.5]
            disk.cut(memory_path / "cut", kept)
            after = SteppedDisk()
            after.boot = b"next boot ......"
            found = store_at(memory_path / "cut", after)
            found.load()
            served = contents(found)
            assert served.items() >= flushed.items()
            assert served.items() <= held.items()
            lost = [key for key in held if key not in served]
            assert lost == list(held)[len(held) - len(lost) :], "only a suffix may be lost"
            found.close_files()

    for life in (range(45), range(45, 70)):
        store = store_at(root, disk, flush_disk_type=mode)
        store.load()
        cut_and_look()
        run_inline(store)
        for number in life:
            message = text_message(number)
            result = store.put_messages([message])[0]
            key = ("T", message.queue_id, result.queue_offset)
            held[key] = bytes(message.body)
            if mode is FlushDiskType.SYNC_FLUSH:
                store.when_flushed(result.physical_offset + result.size, wrote(key, held[key]))
                assert key in flushed
            if number % 7 == 6 and mode is FlushDiskType.ASYNC_FLUSH:
                store._log_flusher.flush()
                flushed.update(held)
            if number % 20 == 19:
                store._flush.confirm_soon()
            cut_and_look()
        store.close_files()
        flushed.update(held)
        cut_and_look()

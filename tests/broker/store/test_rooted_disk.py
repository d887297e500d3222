"""Names that peers choose never lead out of the store, whichever disk is below."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import Disk, OsDisk, PutStatus
from pocketmq.broker.store.disk.fault_disk import OPERATIONS, FaultDisk
from pocketmq.broker.store.disk.rooted_disk import child, rooted
from pocketmq.broker.store.errors import IllegalPathError
from pocketmq.simulation.disk import MemoryDisk
from support.batches import batch_of
from support.disks import SteppedDisk
from support.model_disk import ModelDisk

BAD_NAMES = ["", ".", "..", "a/b", "/../../x", "/../orders", "../orders", "/", "x\0y", "x" * 256]
ON_FILES = [name for name in OPERATIONS if name not in ("reserve", "sync", "verify")]
"""What a disk itself is asked for; the others are calls of a file that it has opened."""
MORE = ["list_directory", "file_size", "modified_ms", "usage"]


def disks(path: Path) -> list[Disk]:
    path.mkdir()
    return [OsDisk(), FaultDisk(), SteppedDisk(), ModelDisk(path), MemoryDisk(lambda: 0)]


async def call(disk: Disk, operation: str, path: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "create_file": (4096,), "resize_file": (0,), "map_file": (1,), "next_data": (0,),
        "write_file": (b"x",), "write_text": ("x",),
    }  # fmt: skip
    if operation == "rename":
        await disk.rename(path, f"{os.path.dirname(path)}/y")
        return
    function: Callable[..., Any] = getattr(disk, operation)
    result = function(path, *arguments.get(operation, ()))
    if hasattr(result, "__await__"):
        await result


@pytest.mark.parametrize("operation", [*ON_FILES, *MORE])
async def test_no_call_of_any_disk_leaves_the_root(tmp_path: Path, operation: str) -> None:
    (tmp_path / "outside").write_bytes(b"mine")
    root = str(tmp_path / "store")
    for disk in disks(tmp_path / "store"):
        safe = rooted(disk, root)
        for path in (
            f"{tmp_path}/outside", f"{root}/../outside", f"{root}/consumequeue/../../outside",
            f"{root}x/outside", "outside", f"{root}/./a", f"{root}//a", f"{root}/a/",
            f"{root}/a\0b",
        ):  # fmt: skip
            with pytest.raises(IllegalPathError):
                await call(safe, operation, path)
    assert sorted(os.listdir(tmp_path)) == ["outside", "store"]
    assert (tmp_path / "outside").read_bytes() == b"mine"


async def test_a_rename_checks_both_names(tmp_path: Path) -> None:
    disk = rooted(OsDisk(), str(tmp_path / "store"))
    with pytest.raises(IllegalPathError):
        await disk.rename(str(tmp_path / "store" / "a"), str(tmp_path / "a"))


def test_the_root_itself_stays(tmp_path: Path) -> None:
    disk = rooted(OsDisk(), str(tmp_path))
    with pytest.raises(IllegalPathError):
        disk.remove_directory(str(tmp_path))
    assert rooted(disk, str(tmp_path)) is disk, "rooted once"


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_is_one_component_of_a_path(name: str) -> None:
    with pytest.raises(IllegalPathError, match=r"leads out of it or is no file name.*rename"):
        child("/store/consumequeue", name)
    assert child("/store/consumequeue", "%RETRY%a") == "/store/consumequeue/%RETRY%a"


@pytest.mark.parametrize("topic", BAD_NAMES)
def test_a_message_for_such_a_topic_is_refused_alone(
    open_store: Any, message: Any, tmp_path: Path, topic: str
) -> None:
    store = open_store()
    messages = [message(b"1"), message(b"2", topic=topic), message(b"3")]
    results = [result.status for result in store.put_messages(messages)]
    assert results == [PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL, PutStatus.PUT_OK]
    assert store.put_batch(batch_of(messages[1:])).status is PutStatus.MESSAGE_ILLEGAL
    assert store.max_offset("T", 0) == 2
    assert list(store.queues()) == [("T", 0)]
    with pytest.raises(IllegalPathError):
        store.delete_topic(topic)
    assert os.listdir(tmp_path) == ["store"]

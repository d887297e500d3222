"""The checkpoint: RocketMQ's 40 bytes, and PocketMQ's own behind them (S-54, H-143)."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from pocketmq.broker.store import MessageStore
from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.flush.checkpoint import SIZE, StoreCheckpoint
from pocketmq.runtime.errors import DiskFullError
from support.disks import NO_SPACE, PowerCutDisk, SteppedDisk, fail_with
from support.golden import STORE_SIZES, unpack_store

CONFIRM_AT = 32


def written(path: Path) -> tuple[int, ...]:
    """RocketMQ's five numbers, read without any code of ours."""
    return struct.unpack_from(">5q", path.read_bytes())


def test_a_checkpoint_that_rocketmq_wrote_is_read_and_written_back_as_it_was(
    tmp_path: Path,
) -> None:
    root = unpack_store("clean", tmp_path) / "store"
    before = written(root / "checkpoint")
    assert before[0] > 1_600_000_000_000, "RocketMQ flushed messages"
    checkpoint = StoreCheckpoint(OsDisk(), str(root))
    checkpoint.load()
    assert not checkpoint.is_ours
    assert before == (
        checkpoint.physic_msg_timestamp,
        checkpoint.logics_msg_timestamp,
        checkpoint.index_msg_timestamp,
        checkpoint.master_flushed_offset,
        checkpoint.confirm_phy_offset,
    )
    checkpoint.durable_offset, checkpoint.durable_entries = 777, 7
    checkpoint.write()
    checkpoint.close()
    assert written(root / "checkpoint") == before, "our progress has a field of its own"
    again = StoreCheckpoint(OsDisk(), str(root))
    again.load()
    assert (again.is_ours, again.durable_offset, again.durable_entries) == (True, 777, 7)


def test_progress_that_an_older_pocketmq_kept_in_rocketmqs_field_is_found(tmp_path: Path) -> None:
    head = struct.pack(">5qq16s", 1, 2, 3, 0, 4096, 12, b"boot id of 16 by")
    content = head + struct.pack(">I", crc32(head))
    (tmp_path / "checkpoint").write_bytes(content.ljust(SIZE, b"\0"))
    checkpoint = StoreCheckpoint(OsDisk(), str(tmp_path))
    checkpoint.load()
    assert checkpoint.is_ours
    assert (checkpoint.durable_offset, checkpoint.durable_entries) == (4096, 12)
    assert checkpoint.boot_id == b"boot id of 16 by"


def test_progress_that_an_older_pocketmq_kept_where_rocketmq_5_5_reads_is_moved(
    tmp_path: Path,
) -> None:
    """5.5 takes the number at byte 40 for an offset of the log, and may cut the log there."""
    path = tmp_path / "checkpoint"
    head = struct.pack(">5qq16sq", 1, 2, 3, 0, 5, 12, b"boot id of 16 by", 4096)
    path.write_bytes((head + struct.pack(">I", crc32(head))).ljust(SIZE, b"\0"))
    checkpoint = StoreCheckpoint(OsDisk(), str(tmp_path))
    checkpoint.load()
    assert checkpoint.is_ours
    assert (checkpoint.durable_offset, checkpoint.durable_entries) == (4096, 12)
    assert (checkpoint.confirm_phy_offset, checkpoint.boot_id) == (5, b"boot id of 16 by")
    checkpoint.write()
    checkpoint.close()
    assert struct.unpack_from(">6q", path.read_bytes()) == (1, 2, 3, 0, 5, 0)
    again = StoreCheckpoint(OsDisk(), str(tmp_path))
    again.load()
    assert (again.is_ours, again.durable_offset, again.durable_entries) == (True, 4096, 12)


NUMBERS = (
    "physic_msg_timestamp",
    "logics_msg_timestamp",
    "index_msg_timestamp",
    "master_flushed_offset",
    "confirm_phy_offset",
    "durable_offset",
    "durable_entries",
)


def numbers(root: Path) -> tuple[StoreCheckpoint, list[int]]:
    """A checkpoint that was just loaded, and its numbers."""
    checkpoint = StoreCheckpoint(OsDisk(), str(root))
    checkpoint.load()
    return checkpoint, [getattr(checkpoint, name) for name in NUMBERS]


def test_without_a_readable_file_all_is_zero(tmp_path: Path) -> None:
    for content in (None, b"", b"\1" * 39):
        if content is not None:
            (tmp_path / "checkpoint").write_bytes(content)
        checkpoint, found = numbers(tmp_path)
        assert found == [0] * 7
        assert (checkpoint.boot_id, checkpoint.is_ours) == (bytes(16), False)


def test_rocketmqs_numbers_may_be_all_there_is(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(struct.pack(">5q", 1, 2, 3, 4, 5))
    checkpoint, found = numbers(tmp_path)
    assert found == [1, 2, 3, 4, 5, 0, 0]
    assert not checkpoint.is_ours


def test_what_is_written_is_read_again_and_fills_one_page(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"\1" * 5000)  # of another size: made anew
    first = StoreCheckpoint(OsDisk(), str(tmp_path))
    for value, name in enumerate(NUMBERS, start=1):
        setattr(first, name, value)
    first.boot_id = b"boot id of 16 by"
    first.write()
    assert first.is_ours
    first.durable_offset = 60
    first.write()
    first.sync()
    first.close()
    again, found = numbers(tmp_path)
    assert found == [1, 2, 3, 4, 5, 60, 7]
    assert (again.is_ours, again.boot_id) == (True, b"boot id of 16 by")
    content = path.read_bytes()
    assert len(content) == 4096
    assert content[84:] == bytes(4012)
    assert path.stat().st_blocks * 512 >= 4096, "its space is reserved: a write cannot fail"


def test_a_full_disk_is_an_error_of_the_first_write_and_nothing_is_mapped(tmp_path: Path) -> None:
    def full(number: int, operation: str, path: str) -> None:
        if operation == "reserve":
            raise fail_with(NO_SPACE)

    disk = SteppedDisk(full)
    with pytest.raises(DiskFullError):
        StoreCheckpoint(disk, str(tmp_path)).write()
    assert "map_file" not in [operation for operation, _ in disk.steps]


def test_what_is_synced_survives_a_power_cut_and_what_is_written_later_may_not(
    tmp_path: Path,
) -> None:
    root = tmp_path / "store"
    root.mkdir()
    disk = PowerCutDisk(root)
    checkpoint = StoreCheckpoint(disk, str(root))
    checkpoint.durable_offset = 777
    checkpoint.write()
    checkpoint.sync()
    disk.sync_directory(str(root))
    checkpoint.durable_offset = 888
    checkpoint.write()
    disk.cut(tmp_path / "after")
    again, found = numbers(tmp_path / "after")
    assert (again.is_ours, found) == (True, [0, 0, 0, 0, 0, 777, 0])


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_a_checkpoint_keeps_no_descriptor_and_after_its_close_no_mapping(tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")

    def is_open() -> bool:
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return path in [os.readlink(link) for link in links if os.path.islink(link)]

    def is_mapped() -> bool:
        return path in Path("/proc/self/maps").read_text(encoding="utf-8")

    checkpoint = StoreCheckpoint(OsDisk(), str(tmp_path))
    checkpoint.write()
    assert (is_open(), is_mapped()) == (False, True)
    checkpoint.sync()
    assert not is_open()
    checkpoint.close()
    assert not is_mapped()


def test_progress_counts_no_more_when_rocketmq_wrote_last(tmp_path: Path) -> None:
    first = StoreCheckpoint(OsDisk(), str(tmp_path))
    first.durable_offset = 777
    first.write()
    first.close()
    content = bytearray((tmp_path / "checkpoint").read_bytes())
    struct.pack_into(">5q", content, 0, 1, 2, 3, 4, 5)
    (tmp_path / "checkpoint").write_bytes(content)
    checkpoint, found = numbers(tmp_path)
    assert (checkpoint.is_ours, found[:6]) == (False, [1, 2, 3, 4, 5, 0])


def test_a_confirm_offset_beyond_the_log_is_pulled_back_at_the_start(
    tmp_path: Path, open_store: Callable[..., MessageStore]
) -> None:
    root = unpack_store("clean", tmp_path) / "store"
    content = bytearray((root / "checkpoint").read_bytes())
    struct.pack_into(">q", content, CONFIRM_AT, 1 << 40)
    (root / "checkpoint").write_bytes(content)
    store = open_store(store_path_root_dir=str(root), **_snake(STORE_SIZES))
    end = store.commit_log.max_offset
    store.close_files()
    assert written(root / "checkpoint")[4] == end


def _snake(options: dict[str, int]) -> dict[str, int]:
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in name): value
        for name, value in options.items()
    }

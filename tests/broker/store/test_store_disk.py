"""The seam to the file system: mappings, descriptors, space, locks."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.broker.store import FlushDiskType, MessageStore, StoredMessage
from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.errors import StoreFileError, StoreLockedError
from pocketmq.runtime.errors import DiskError, DiskFullError

SIZE = 8192


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_mapping_costs_no_descriptor(tmp_path: Path) -> None:
    disk, path = OsDisk(), str(tmp_path / "f")
    disk.create_file(path, SIZE)
    before = open_descriptors()
    views = [disk.map_file(path, SIZE) for _ in range(50)]
    assert open_descriptors() <= before  # fewer when a collection closed another test's
    views[0][10:13] = b"abc"
    assert bytes(views[49][10:13]) == b"abc"


def test_a_mapping_lives_as_long_as_its_last_slice(tmp_path: Path) -> None:  # fault 55
    disk, path = OsDisk(), str(tmp_path / "f")
    disk.create_file(path, SIZE)
    view = disk.map_file(path, SIZE)
    view[5000:5005] = b"hello"
    piece = view[5000:5005]
    disk.remove_file(path)
    del view
    gc.collect()
    assert bytes(piece) == b"hello"
    assert "f (deleted)" in Path("/proc/self/maps").read_text()
    del piece
    gc.collect()
    assert "f (deleted)" not in Path("/proc/self/maps").read_text()


def test_a_file_shorter_than_its_mapping_is_an_error_and_no_sigbus(tmp_path: Path) -> None:
    disk, path = OsDisk(), str(tmp_path / "f")
    disk.create_file(path, SIZE - 1)
    with pytest.raises(StoreFileError, match="8191"):
        disk.map_file(path, SIZE)


def test_a_new_file_has_its_length_and_takes_no_space(tmp_path: Path) -> None:
    disk, path = OsDisk(), str(tmp_path / "f")
    disk.create_file(path, 1 << 30)
    assert disk.file_size(path) == 1 << 30
    assert os.stat(path).st_blocks == 0
    file = disk.open_file(path)
    file.reserve(0, 1 << 20)
    file.close()
    assert os.stat(path).st_blocks * 512 >= 1 << 20
    assert disk.file_size(path) == 1 << 30


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count otherwise")
def test_the_first_entry_of_a_queue_brings_one_page_into_memory(tmp_path: Path) -> None:
    disk, path, size = OsDisk(), str(tmp_path / "f"), 6_000_000
    disk.create_file(path, size)
    view = disk.map_file(path, size)
    view[3_000_000:3_000_020] = bytes(range(20))
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(view))
    pages = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
    assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages) == 0
    assert sum(page & 1 for page in pages) == 1


def test_the_end_of_the_content_is_found_without_reading_holes(tmp_path: Path) -> None:
    disk, path = OsDisk(), str(tmp_path / "f")
    disk.create_file(path, 1 << 30)
    assert disk.next_data(path, 0) is None
    disk.map_file(path, 1 << 30)[500_000_000:500_000_003] = b"abc"
    found = disk.next_data(path, 4096)
    assert found is not None
    assert 499_990_000 < found <= 500_000_000
    assert disk.next_data(path, 600_000_000) is None
    assert disk.next_data(path, 1 << 30) is None


def test_what_a_medium_holds_can_be_compared(tmp_path: Path) -> None:
    disk, path = OsDisk(), str(tmp_path / "f")
    disk.create_file(path, SIZE)
    view = disk.map_file(path, SIZE)
    view[4000:4200] = b"x" * 200
    file = disk.open_file(path)
    file.sync()
    file.verify(4000, view[4000:4200])
    with pytest.raises(DiskError, match="differ from the bytes synced there"):
        file.verify(4000, memoryview(b"x" * 199 + b"y"))
    file.close()


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="missing"):
        OsDisk().open_file(str(tmp_path / "missing"))


@pytest.mark.root
def test_a_lack_of_space_is_its_own_error(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(mount)], capture_output=True
    )
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.decode().strip()}")
    try:
        disk, path = OsDisk(), str(mount / "f")
        disk.create_file(path, 16 << 20)
        file = disk.open_file(path)
        file.reserve(0, 512 << 10)
        with pytest.raises(DiskFullError, match="No space"):
            file.reserve(0, 8 << 20)
        file.close()
        assert disk.usage(str(mount)).total_bytes == 1 << 20
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_store_is_open_in_one_process_only(tmp_path: Path) -> None:
    code = (
        "import sys; from pocketmq.broker.store.disk.disk import OsDisk;"
        f"held = OsDisk().lock({str(tmp_path / 'lock')!r}); print('held', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StoreLockedError, match="another process"):
            OsDisk().lock(str(tmp_path / "lock"))
        other.communicate()
    OsDisk().lock(str(tmp_path / "lock")).close()


def test_the_boot_id_stays_while_the_machine_runs() -> None:
    assert OsDisk().boot_id() == OsDisk().boot_id()
    assert len(OsDisk().boot_id()) == 16


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_only_where_small_writes_are_expected_nothing_is_read_ahead(tmp_path: Path) -> None:
    """Pages that are read ahead together are written together: 2 MiB for one synced message."""
    disk, path, size = OsDisk(), str(tmp_path / "log"), 64 * 1024 * 1024

    def random_bytes() -> int:
        mappings = Path("/proc/self/smaps").read_text().split(path)[1:]
        flags = [re.search(r"^Size: +(\d+) kB.*?^VmFlags:(.*?)$", m, re.M | re.S) for m in mappings]
        return sum(int(found[1]) * 1024 for found in flags if found and " rr" in found[2])

    disk.create_file(path, size)
    view = disk.map_file(path, size)
    assert random_bytes() == 0
    disk.expect_small_writes(view, 0)
    assert random_bytes() == size
    disk.expect_small_writes(view, 5_000_000)
    assert random_bytes() == size - 5_000_000 // 4096 * 4096


@pytest.mark.parametrize("mode", FlushDiskType)
def test_a_log_that_is_synced_often_says_so(
    open_store: Callable[..., MessageStore],
    message: Callable[..., StoredMessage],
    monkeypatch: pytest.MonkeyPatch,
    mode: FlushDiskType,
) -> None:
    said: list[int] = []
    monkeypatch.setattr(OsDisk, "expect_small_writes", lambda _disk, _view, at: said.append(at))
    store = open_store(flush_disk_type=mode)
    store.put_messages([message()])
    assert said == ([0] if mode is FlushDiskType.SYNC_FLUSH else [])


async def test_what_is_created_is_for_its_user_alone(tmp_path: Path) -> None:
    disk, root = OsDisk(), str(tmp_path / "deep" / "store")
    before = os.umask(0)  # the most open one
    try:
        disk.make_directory(f"{root}/config")
        disk.make_directory(f"{root}/config")
        disk.create_file(f"{root}/log", 4096)
        disk.write_file(f"{root}/abort", b"1")
        disk.lock(f"{root}/lock").close()
        await disk.write_text(f"{root}/config/topics.json", "{}")
    finally:
        os.umask(before)
    names = ("", "/config", "/log", "/abort", "/lock", "/config/topics.json")
    modes = {mode_of(f"{tmp_path}/deep"), *(mode_of(root + name) for name in names)}
    assert modes == {"700 folder", "600 file"}


def test_a_file_in_the_way_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"")
    for path in ("store", "store/config"):
        with pytest.raises(DiskError, match="store"):
            OsDisk().make_directory(str(tmp_path / path))


def mode_of(path: str) -> str:
    kind = "folder" if os.path.isdir(path) else "file"
    return f"{stat.S_IMODE(os.stat(path).st_mode):o} {kind}"

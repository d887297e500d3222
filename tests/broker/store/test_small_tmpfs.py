"""Stores on a tmpfs that is small, or full: reading allocates nothing, and nothing dies of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig
from pocketmq.broker.store.disk import mapping
from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.broker.store.disk.mapping import map_readable
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.eventually import PATIENCE_S
from support.mounts import overlay, tmpfs
from support.store_life import numbered

PAGE, MIB = 4096, 1024 * 1024
MESSAGES = 100


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on a tmpfs, which needs no root."""
    if not Path("/dev/shm").is_dir():
        pytest.skip("there is no /dev/shm")
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 64 MiB of its own."""
    with tmpfs(tmp_path / "small", 64) as place:
        yield place


def bytes_of(root: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())


def default_store(root: Path) -> None:
    """What a broker with default options leaves of a hundred messages when it is killed."""
    config = StoreConfig(store_path_root_dir=str(root))
    store = MessageStore(config, OsDisk(), SystemClock(), PROFILE_5_X.broker)
    store.load()
    store.put_messages([numbered(number) for number in range(MESSAGES)])
    store._opening._lock.close()  # type: ignore[union-attr]


def fill(place: Path) -> None:
    with (place / "filler").open("wb") as filler:
        while True:
            try:
                filler.write(bytes(64 * 1024))
                filler.flush()
            except OSError:
                break
    free = os.statvfs(place).f_bavail
    assert free == 0, "it is full to the last page"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("pocketmq")), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_reading_a_mapping_allocates_nothing(memory: Path) -> None:
    path = memory / "sparse"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 64 * MIB)
        for at in (0, 10 * MIB + 5, 64 * MIB - 3):
            os.pwrite(file.fileno(), b"abc", at)
    before = path.stat().st_blocks
    descriptor = os.open(path, os.O_RDWR)
    view = map_readable(descriptor, 64 * MIB)
    os.close(descriptor)
    assert bytes(view) == path.read_bytes()
    assert view.readonly
    assert path.stat().st_blocks == before


@pytest.mark.parametrize("on_tmpfs", [True, False])
def test_an_overlay_is_as_what_it_writes_to(
    tmp_path: Path, memory: Path, on_tmpfs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "_known_devices", {})
    below = memory if on_tmpfs else tmp_path / "disk"
    below.mkdir(exist_ok=True)
    with overlay(tmp_path / "overlay", below) as place:
        path = place / "sparse"
        with path.open("wb") as file:
            os.truncate(file.fileno(), 16 * MIB)
        before = path.stat().st_blocks
        descriptor = os.open(path, os.O_RDWR)
        view = map_readable(descriptor, 16 * MIB)
        os.close(descriptor)
        assert not any(view)
        assert view.readonly == on_tmpfs
        assert path.stat().st_blocks == before
        del view


def test_a_file_that_was_read_can_be_written_and_read_again(memory: Path) -> None:
    path = str(memory / "0")
    disk = OsDisk()
    disk.create_file(path, 4 * MIB)
    for at in (0, 3 * PAGE):
        file = MappedFile(disk, path, 0, 4 * MIB)
        file.wrote = at
        early = file.view()
        assert not any(early[at:])
        file.reserve(at + 5, low=PAGE, high=PAGE)
        file.append(b"hello")
        assert bytes(file.view()[at : at + 5]) == b"hello"
        assert (memory / "0").read_bytes()[at : at + 5] == b"hello"
    again = MappedFile(disk, path, 0, 4 * MIB)
    assert bytes(again.view()) == (memory / "0").read_bytes()


def test_more_stretches_of_data_than_are_mapped_apart(memory: Path) -> None:
    path = memory / "holes"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 8 * MIB)
        for number in range(500):
            os.pwrite(file.fileno(), b"%d" % number, number * 4 * PAGE)
    descriptor = os.open(path, os.O_RDWR)
    assert bytes(map_readable(descriptor, 8 * MIB)) == path.read_bytes()
    os.close(descriptor)


@pytest.mark.root
def test_the_tools_read_a_store_on_a_small_tmpfs_and_leave_it_as_it_is(small: Path) -> None:
    # `store verify` filled it and ended with a BrokenProcessPool, `store inspect` died of SIGBUS.
    default_store(small / "store")
    fill(small)
    before = bytes_of(small / "store")
    for command in ("verify", "inspect"):
        done = run("store", command, str(small / "store"))
        assert done.returncode == 0, f"{command}: {done.stdout[-500:]} {done.stderr[-1500:]}"
        assert command == "inspect" or f"{MESSAGES}" in done.stdout
    assert bytes_of(small / "store") == before


def broker_on(place: Path, out: Path) -> tuple[int | None, str]:
    """Exit status of a broker, or None when it came up and was stopped; and what it said."""
    command = [sys.executable, "-m", "pocketmq.broker", "--port", "0", "--data", str(place)]
    with (
        out.open("w+") as told,
        subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT) as process,
    ):
        clock = SystemClock()
        ends_at = clock.monotonic() + PATIENCE_S
        while process.poll() is None and "READY " not in out.read_text():
            if clock.monotonic() > ends_at:
                process.kill()
                raise AssertionError(f"neither up nor gone: {out.read_text()[-2000:]}")
            os.sched_yield()
        came_up = process.poll() is None
        process.terminate()
        status = process.wait(PATIENCE_S)
    return (None if came_up and status == 0 else status), out.read_text()


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("gone", ["", "consumequeue", "no entry"])
def test_a_broker_started_on_a_full_tmpfs_serves_or_says_what_it_lacks(
    small: Path, tmp_path: Path, gone: str
) -> None:
    # After a SIGKILL it died of SIGBUS without a word.
    default_store(small / "store")
    if gone == "no entry":  # a queue's file was made, and there was no page for its first entry
        (small / "store" / "consumequeue" / "T" / "7").mkdir()
        file = small / "store" / "consumequeue" / "T" / "7" / f"{0:020d}"
        file.write_bytes(b"")
        os.truncate(file, 6_000_000)
    elif gone:
        shutil.rmtree(small / "store" / gone)  # has to be made again, which needs space
    fill(small)
    status, told = broker_on(small / "store", tmp_path / "out")
    is_lacking = gone == "consumequeue"
    assert status == (1 if is_lacking else None), f"{status}: {told[-2000:]}"
    assert "Traceback" not in told
    if is_lacking:
        last = told.strip().splitlines()[-1]
        assert "No space left on device" in last
        assert "free space on its partition" in last

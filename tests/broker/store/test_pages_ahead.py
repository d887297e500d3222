"""Pages of the log are made on a thread, some MiB before they are written."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.broker.store import FlushDiskType, MessageStore, OsDisk, StoredMessage
from pocketmq.broker.store.config import MIB
from pocketmq.broker.store.disk.disk_worker import DiskWorker, Done, Job
from pocketmq.broker.store.disk.mapped_files import MappedFiles
from pocketmq.broker.store.log.pages_ahead import AHEAD_BYTES, PagesAhead
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.eventually import eventually

FILE_BYTES = 20 * MIB


class LateWorker:
    """Does a job when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Job, Done]] = []
        self.closed = False

    def submit(self, job: Job, done: Done) -> None:
        self.waiting.append((job, done))

    def close(self) -> None:
        self.closed = True

    def work(self, failure: Exception | None = None) -> None:
        job, done = self.waiting.pop(0)
        job()
        done(failure)


class AskedDisk(OsDisk):
    """Says what was asked of it."""

    def __init__(self) -> None:
        self.worker = LateWorker()
        self.asked: list[tuple[int, int]] = []

    def start_worker(self, name: str) -> DiskWorker:
        return self.worker

    def read_ahead(self, view: memoryview, start: int, end: int) -> None:
        self.asked.append((start // MIB, end // MIB))


def files_in(folder: Path, disk: OsDisk) -> MappedFiles:
    return MappedFiles(disk, str(folder), FILE_BYTES, lasting=True)


def test_it_asks_for_each_stretch_once_and_before_it_is_written(tmp_path: Path) -> None:
    disk = AskedDisk()
    files = files_in(tmp_path, disk)
    pages = PagesAhead(disk, files)
    pages.start()
    pages.look()  # there is no file yet
    file = files.add_file(0)
    for wrote in range(0, FILE_BYTES, MIB):
        file.wrote = wrote
        pages.look()
        if disk.worker.waiting:
            disk.worker.work()
    assert disk.asked[0] == (0, 8)
    ends = [end for _, end in disk.asked]
    assert [start for start, _ in disk.asked[1:]] == ends[:-1]
    assert ends[-1] == FILE_BYTES // MIB
    assert len(disk.asked) <= FILE_BYTES // AHEAD_BYTES
    file.wrote = FILE_BYTES
    files.add_file()
    pages.look()
    disk.worker.work()
    assert disk.asked[-1] == (0, 8)  # of the next file


def test_it_asks_for_one_stretch_at_a_time_and_goes_on_behind_what_was_written(
    tmp_path: Path, logged: list[dict[str, object]]
) -> None:
    disk = AskedDisk()
    files = files_in(tmp_path, disk)
    pages = PagesAhead(disk, files)
    pages.look()  # not started
    pages.start()
    file = files.add_file(0)
    for wrote in (0, 2 * MIB, 9 * MIB):  # faster than the thread
        file.wrote = wrote
        pages.look()
    assert len(disk.worker.waiting) == 1
    disk.worker.work(OSError("no"))
    assert [line["event"] for line in logged] == ["log.pages_not_made"]
    pages.look()
    disk.worker.work()
    assert disk.asked == [(0, 8), (9, 17)]
    pages.stop()
    assert disk.worker.closed
    file.wrote = 15 * MIB
    pages.look()
    assert not disk.worker.waiting


def in_memory(view: memoryview, position: int) -> bool:
    """Whether the system has the page of a mapping in memory."""
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(view)) + position
    found = ctypes.create_string_buffer(1)
    done = ctypes.CDLL(None).mincore(
        ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), found
    )
    assert done == 0
    return bool(found.raw[0] & 1)


@pytest.mark.skipif(sys.platform != "linux", reason="MADV_POPULATE_READ is Linux's")
async def test_the_pages_are_there_before_anything_is_written_into_them(
    open_store: Callable[..., MessageStore], message: Callable[..., StoredMessage]
) -> None:
    # Of a short file nothing is read ahead, so that no other page comes along.
    store = open_store(mapped_file_size_commit_log=16 * MIB)
    store.start()
    store.put_messages([message(bytes(20_000))])
    last = store.commit_log.files.last
    assert last is not None
    view, page = last.view(), last.wrote // mmap.PAGESIZE * mmap.PAGESIZE + 5 * MIB
    assert not in_memory(view, page)
    await eventually(lambda: in_memory(view, page), "the page is in memory")
    assert last.ready < page  # the loop has not touched it
    await store.close()


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_nothing_is_read_ahead_where_each_message_is_synced(
    open_store: Callable[..., MessageStore],
    message: Callable[..., StoredMessage],
    monkeypatch: pytest.MonkeyPatch,
    clock: ManualClock,
    flush: FlushDiskType,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(OsDisk, "read_ahead", lambda _disk, _view, start, _end: asked.append(start))
    store = open_store(flush_disk_type=flush, mapped_file_size_commit_log=FILE_BYTES)
    store.start()
    store.put_messages([message(bytes(20_000))])
    await clock.sleep(0)
    await store.close()  # when the thread has ended
    assert bool(asked) is (flush is FlushDiskType.ASYNC_FLUSH)

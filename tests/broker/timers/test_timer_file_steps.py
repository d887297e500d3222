"""A flush of the timers' files, step by step: nothing promises what is not on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.disk import DiskFile
from pocketmq.broker.store.disk.disk_worker import DiskWorker, Done, InlineWorker, Job
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.files import TimerFiles
from pocketmq.broker.timers.layout import CHECKPOINT_SIZE, Checkpoint, LogRecord
from pocketmq.broker.timers.log import TimerLog
from pocketmq.broker.timers.wheel import TimerWheel
from pocketmq.runtime.errors import DiskError
from pocketmq.simulation.disk import MemoryDisk

ROOT = Path("/store")
WHEEL, LOG, FIRST = "timerwheel", "timerlog", "timerlog/00000000000000000000"
CHECK, COUNTS = "config/timercheck", "config/timermetrics"
NOW_MS = 1_700_000_000_000


class NotedFile:
    """An open file of a `NotedDisk`."""

    def __init__(self, disk: NotedDisk, path: str, file: DiskFile) -> None:
        self._disk, self._path, self._file = disk, path, file
        disk.open_files.append(path)

    def reserve(self, start: int, length: int) -> None:
        self._file.reserve(start, length)

    def sync(self) -> None:
        self._disk.note("sync", self._path)
        self._file.sync()

    def verify(self, start: int, expected: memoryview) -> None:
        self._disk.note("verify", self._path)
        self._file.verify(start, expected)

    def close(self) -> None:
        self._disk.open_files.remove(self._path)
        self._file.close()


class NotedWorker(InlineWorker):
    """Notes its end; a job is said to be done in the loop's next turn."""

    def __init__(self, disk: NotedDisk) -> None:
        self._disk = disk

    def submit(self, job: Job, done: Done) -> None:
        super().submit(job, lambda error: self._later(done, error))

    @staticmethod
    def _later(done: Done, error: Exception | None) -> None:
        # Who does not wait for the job goes on before it is done.
        asyncio.get_running_loop().call_soon(done, error)

    def close(self) -> None:
        self._disk.done.append("worker closed")


class NotedDisk(MemoryDisk):
    """A disk in memory that notes what is synced, and fails where it is told to."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW_MS, power_cuts=True)
        self.done: list[str] = []
        self.open_files: list[str] = []
        self.failing = "nothing"
        self.at_sync: Callable[[], object] = lambda: None

    def note(self, what: str, path: str) -> None:
        name = str(Path(path).relative_to(ROOT))
        self.done.append(f"{what} {name}")
        self.at_sync()
        if self.failing == name and what == "sync":
            raise DiskError(path, "a sync has failed")

    def create_file(self, path: str, size: int) -> None:
        assert self.file_size(path) is None, "a real disk makes no file where one is"
        super().create_file(path, size)

    def open_file(self, path: str) -> DiskFile:
        return NotedFile(self, path, super().open_file(path))

    def sync_directory(self, path: str) -> None:
        self.note("names", path)
        super().sync_directory(path)

    async def write_text(self, path: str, text: str) -> None:
        self.note("write", path)
        await super().write_text(path, text)

    def start_worker(self, name: str) -> DiskWorker:
        return NotedWorker(self)

    def checkpoint(self) -> Checkpoint:
        """What a process that starts now reads."""
        content = self.read_file(str(ROOT / CHECK))
        return Checkpoint() if content is None else Checkpoint.decode(content)


class Timers:
    """The files of the timers, and nothing else of them."""

    def __init__(self, disk: NotedDisk | None = None) -> None:
        self.disk = disk or NotedDisk()
        self.wheel, self.counts = TimerWheel(1000), TimerCounts()
        self.log = TimerLog(self.disk, str(ROOT), 52 * 100)
        self.files = TimerFiles(self.disk, str(ROOT), self.log, self.wheel, self.counts)
        self.files.start()

    def wait(self, delay_s: int = 60) -> None:
        """One more message waits."""
        record = LogRecord(-1, 0, NOW_MS, delay_s * 1000, 0, 100, 0)
        self.wheel.add(record.slot_ms, self.log.append(record), 1)
        self.counts.change("T", 1, NOW_MS)

    async def flush(self, queue_offset: int = 0) -> list[str]:
        """What it does."""
        self.disk.done.clear()
        await self.files.flush(queue_offset)
        assert set(self.disk.open_files) <= {str(ROOT / FIRST)}, "the log's stays open"
        return list(self.disk.done)


async def test_the_log_the_wheel_the_checkpoint_and_the_counts_in_this_order() -> None:  # T-116
    timers = Timers()
    timers.wait()
    promised: list[int] = []
    timers.disk.at_sync = lambda: promised.append(timers.disk.checkpoint().queue_offset)
    first = await timers.flush(7)
    assert first[:8] == [
        f"sync {FIRST}", f"names {LOG}", "names .",
        f"sync {WHEEL}", f"verify {WHEEL}", "names .",
        f"sync {CHECK}", "names config",
    ]  # fmt: skip
    assert f"write {COUNTS}.tmp" in first[8:]
    assert promised == [0] * 6 + [7] * (len(first) - 6), "not before all of it is there"
    assert timers.disk.checkpoint().flushed_position == timers.log.end
    timers.disk.at_sync = lambda: None
    assert await timers.flush(8) == [f"sync {CHECK}"], "nothing new but what was read"
    assert timers.disk.checkpoint().queue_offset == 8
    timers.wait()
    assert (await timers.flush(9))[:3] == [f"sync {FIRST}", f"sync {WHEEL}", f"sync {CHECK}"]


@pytest.mark.parametrize("failing", [FIRST, WHEEL])
async def test_what_could_not_be_synced_is_promised_by_nothing_and_comes_again(
    failing: str,
) -> None:
    timers = Timers()
    timers.wait()
    await timers.flush(1)
    timers.wait(70)
    timers.disk.failing = failing
    with pytest.raises(DiskError):
        await timers.flush(2)
    assert timers.disk.checkpoint().queue_offset == 1
    assert timers.wheel.is_dirty
    timers.disk.failing = "nothing"
    again = await timers.flush(2)
    synced = [step for step in again if COUNTS not in step]
    # What failed is read back: a second sync alone would succeed and prove nothing.
    expected = [f"sync {FIRST}", f"sync {WHEEL}"][failing == WHEEL :]
    expected.insert(1, f"verify {failing}")
    assert synced == [*expected, f"sync {CHECK}"]


async def test_names_that_could_not_be_synced_come_again() -> None:
    timers = Timers()
    timers.wait()
    real, fails = timers.disk.sync_directory, ["."]

    def sync_directory(path: str) -> None:
        if fails and Path(path) == ROOT / "config":
            fails.clear()
            raise DiskError(path, "a sync has failed")
        real(path)

    timers.disk.sync_directory = sync_directory  # type: ignore[method-assign]
    with pytest.raises(DiskError):
        await timers.flush(1)
    assert "names config" in await timers.flush(1)


async def test_a_checkpoint_that_a_power_cut_left_short_is_made_anew() -> None:
    disk = NotedDisk()
    disk.write_file(str(ROOT / CHECK), b"\1\2\3")
    timers = Timers(disk)
    timers.files.write_checkpoint(Checkpoint(queue_offset=5))
    assert disk.file_size(str(ROOT / CHECK)) == CHECKPOINT_SIZE
    assert disk.checkpoint().queue_offset == 5
    assert disk.open_files == []
    assert "names config" in await timers.flush(6)
    again = Timers(disk)
    assert again.files.load_checkpoint()
    assert again.files.checkpoint.queue_offset == 6
    assert not Timers().files.load_checkpoint(), "there is none"


async def test_a_wheel_of_another_length_is_none_and_an_empty_one_is_removed() -> None:
    disk = NotedDisk()
    Timers(disk).files.load_wheel(0)
    disk.write_file(str(ROOT / WHEEL), b"")
    Timers(disk).files.load_wheel(0)
    assert disk.file_size(str(ROOT / WHEEL)) is None
    disk.write_file(str(ROOT / WHEEL), b"\0" * 10)
    with pytest.raises(StoreFileError, match="it is not a timer wheel"):
        Timers(disk).files.load_wheel(0)


async def test_what_was_flushed_is_read_by_the_next_process_and_the_last_lets_go() -> None:
    timers = Timers()
    timers.wait()
    await timers.flush(1)
    timers.disk.done.clear()
    timers.files.close()
    assert (timers.disk.done, timers.disk.open_files) == (["worker closed"], [])
    again = Timers(timers.disk)
    again.files.load_wheel(0)
    await again.files.load_counts()
    assert again.wheel.waiting == 1
    assert again.counts.table() == timers.counts.table()

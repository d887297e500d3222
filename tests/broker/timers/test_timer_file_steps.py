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
from pocketmq.broker.timers.layout import (
    BLANK_SIZE,
    CHECKPOINT_SIZE,
    RECORD_SIZE,
    Checkpoint,
    LogRecord,
)
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


# -- the log --------------------------------------------------------------------------------------


def a_record(number: int = 0) -> LogRecord:
    return LogRecord(-1, 0, NOW_MS, 60_000, number, 100, 0)


def a_log(file_size: int, disk: MemoryDisk | None = None) -> TimerLog:
    log = TimerLog(disk or NotedDisk(), str(ROOT), file_size)
    log.load()
    return log


def test_a_file_has_room_for_a_blank_behind_its_last_record() -> None:  # T-113
    log = a_log(3 * RECORD_SIZE + BLANK_SIZE)
    assert log.place_of(1) is None, "there is no file yet"
    assert [log.append(a_record(at)) for at in range(4)] == [0, 52, 104, 172]
    assert [log.place_of(count) for count in (1, 2, 3)] == [224, 224, None]
    log.append_packed(a_record(4).encode() + a_record(5).encode())
    assert log.place_of(1) is None
    newest_first = [record.physical_offset for record in log.newest_first()]
    assert newest_first == [5, 4, 3, 2, 1, 0]
    first, last = log.read(104), log.read(276)
    assert first is not None
    assert last is not None
    assert (first.physical_offset, last.physical_offset) == (2, 5)
    assert [log.read(at) for at in (277, 328, 400)] == [None, None, None]


def test_space_is_there_before_a_record_or_a_blank_is_written() -> None:
    size = 69_660  # a first reserve ends 4 bytes behind the last record
    log = a_log(size)
    for at in range(1_339):
        log.append(a_record(at))
        file = log._files.files[0]
        assert file.reserved >= file.wrote
    assert (file.wrote, file.reserved) == (69_628, 69_632)
    assert log.place_of(1) is None, "a packed write asks for no space"
    log.append(a_record())
    assert log._files.files[0].reserved == size


def test_a_file_that_is_full_is_closed_once_though_there_is_no_space_for_the_next() -> None:
    class Full(NotedDisk):
        is_full = False

        def write_file(self, path: str, content: bytes) -> None:
            if self.is_full:
                raise DiskError(path, "no space")
            super().write_file(path, content)

    disk = Full()
    log = a_log(3 * RECORD_SIZE + BLANK_SIZE, disk)
    for at in range(3):
        log.append(a_record(at))
    disk.is_full = True
    for _ in range(2):
        with pytest.raises(DiskError):
            log.append(a_record(3))
    disk.is_full = False
    assert log.append(a_record(3)) == 172


@pytest.mark.parametrize(
    ("begin", "read_again"), [(0, [0, 52, 104, 172]), (104, [0, 52, 104, 172]), (172, [172])]
)
def test_recovery_reads_what_may_be_unsynced_and_no_more(
    begin: int, read_again: list[int]
) -> None:  # T-145
    disk, size = NotedDisk(), 3 * RECORD_SIZE + BLANK_SIZE
    log = a_log(size, disk)
    for at in range(4):
        log.append(a_record(at))
    again, found = a_log(size, disk), list[int]()
    assert again.recover(begin, lambda position, _record: found.append(position)) == 224
    assert found == read_again
    assert (again.end, again.append(a_record(4))) == (224, 224)


def test_what_is_behind_a_torn_record_is_not_read_even_if_its_file_stays() -> None:  # T-145
    class Stuck(NotedDisk):
        is_stuck = False

        def remove_file(self, path: str) -> None:
            if self.is_stuck:
                raise DiskError(path, "it cannot be removed")
            super().remove_file(path)

    disk, size = Stuck(), 3 * RECORD_SIZE + BLANK_SIZE
    log = a_log(size, disk)
    for at in range(4):
        log.append(a_record(at))
    disk.map_file(str(ROOT / FIRST), size)[104:108] = b"torn"
    again = a_log(size, disk)
    disk.is_stuck = True
    with pytest.raises(DiskError):
        again.recover(0, lambda *_: None)
    assert again.read(172) is None
    disk.is_stuck = False
    assert again.recover(0, lambda *_: None) == 104
    assert [again.read(at) is None for at in (0, 52, 104, 172)] == [False, False, True, True]
    assert again.append(a_record(2)) == 104


async def test_recovered_records_are_synced_again_and_read_back() -> None:
    disk, size = NotedDisk(), 3 * RECORD_SIZE + BLANK_SIZE
    log = a_log(size, disk)
    for at in range(4):
        log.append(a_record(at))
    second = "timerlog/00000000000000000172"
    names = [f"names {LOG}", "names ."]
    for begin, expected in (
        (224, names),
        (172, [f"sync {second}", f"verify {second}", *names]),
        (0, [f"sync {FIRST}", f"verify {FIRST}", f"sync {second}", f"verify {second}", *names]),
    ):
        again = a_log(size, disk)
        again.recover(begin, lambda *_: None)
        disk.done.clear()

        async def now(job: Job) -> None:
            job()

        await again.sync(now)
        assert disk.done == expected
        disk.done.clear()
        await again.sync(now)
        assert disk.done == []
    certain = a_log(size, disk)
    certain.recover(224, lambda *_: None)
    certain.append(a_record(4))
    disk.done.clear()
    await certain.sync(now)
    assert disk.done == [f"sync {second}", *names], "nothing was in doubt"


def test_files_go_when_all_their_messages_are_gone() -> None:  # T-148
    log = a_log(3 * RECORD_SIZE + BLANK_SIZE)
    for at in range(7):
        log.append(a_record(at))
    assert log.clean(2) == 0, "the newest of the first file is there still"
    assert log.clean(3) == 1
    assert log.clean(100) == 1
    assert log.clean(100) == 0, "the last one stays"
    newest = log.last_record()
    assert newest is not None
    assert newest.physical_offset == 6

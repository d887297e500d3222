"""Behaviours 56 to 59: what the store writes, where, and what survives."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import FlushDiskType, MessageStore, PutStatus, StoreConfig, StoredMessage
from pocketmq.broker.store.disk.disk_worker import DiskWorker, Done, InlineWorker, Job
from pocketmq.broker.store.dispatch.stored_batches import StoredBatch
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.store_layout import MAGIC_BLANK
from pocketmq.protocol.stored.record_check import check_record
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.disks import PowerCutDisk, SteppedDisk

START_MS = 1_700_000_000_000
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
LOG_FILE = 4096
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


class HeldWorker:
    """A slow disk: a job runs when the test says so."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Job, Done]] = deque()

    def submit(self, job: Job, done: Done) -> None:
        self.jobs.append((job, done))

    def run_all(self) -> None:
        while self.jobs:
            InlineWorker().submit(*self.jobs.popleft())

    def close(self) -> None:
        self.run_all()


class SlowDisk(SteppedDisk):
    """Its log is synced when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = HeldWorker()

    def start_worker(self, name: str) -> DiskWorker:
        return self.worker if name == "log-flush" else InlineWorker()


def store_at(
    root: Path, disk: SteppedDisk | None = None, clock: ManualClock | None = None, **options: Any
) -> MessageStore:
    small: dict[str, Any] = {
        "store_path_root_dir": str(root),
        "mapped_file_size_commit_log": LOG_FILE,
        "mapped_file_size_consume_queue": 100 * 20,
        "max_hash_slot_num": 50,
        "max_index_num": 100,
    }
    clock = clock or ManualClock(START_MS)
    on_arrival = options.pop("on_arrival", None)
    store = MessageStore(
        StoreConfig(**(small | options)),
        disk or SteppedDisk(),
        clock,
        PROFILE_5_X.broker,
        on_arrival=on_arrival,
    )
    store.load()
    return store


def text(body: bytes = b"hello", topic: str = "T", **fields: Any) -> StoredMessage:
    values: dict[str, Any] = {
        "queue_id": 0,
        "properties": b"",
        "flag": 0,
        "sys_flag": 0,
        "born_timestamp_ms": START_MS,
        "born_host": HOST,
        "store_host": HOST,
    } | fields
    return StoredMessage(topic=topic, body=body, **values)


def bodies(store: MessageStore) -> list[bytes]:
    """All of queue 0 of T, read from the log."""
    found = store.reads.get_message("T", 0, 0, 1000)
    data, read = b"".join(found.records), []
    while data:
        size = int.from_bytes(data[:4], "big")
        body_size = int.from_bytes(data[84:88], "big")
        read.append(data[88 : 88 + body_size])
        data = data[size:]
    return read


def test_the_log_is_written_in_sequence_and_a_full_file_ends_in_a_blank(tmp_path: Path) -> None:
    # behaviour 56: S-1, S-14
    assert StoreConfig().mapped_file_size_commit_log == 1_073_741_824
    store = store_at(tmp_path)
    for number in range(10):
        store.put_messages([text(b"%d" % number * 700, topic=f"Topic{number % 3}")])
    store.close_files()
    files = sorted((tmp_path / "commitlog").iterdir())
    assert [file.name for file in files] == ["0" * 20, f"{LOG_FILE:020}"]
    records = blanks = 0
    for file in files:
        data, at = memoryview(file.read_bytes()), 0
        assert len(data) == LOG_FILE
        while size := (checked := check_record(data, at)).size:
            if int.from_bytes(data[at + 4 : at + 8], "big", signed=True) == MAGIC_BLANK:
                assert at + size == LOG_FILE, "the blank covers the rest"
                blanks += 1
                break
            assert checked.physical_offset == int(file.name) + at, "one after the other"
            records += 1
            at += size
    assert (records, blanks) == (10, 1), "whatever their topics"


async def test_the_queue_is_written_after_the_log_by_the_dispatcher(tmp_path: Path) -> None:
    """The seed writes both together; in the source a service of its own follows the log."""
    # behaviour 57: S-20, S-24
    store = store_at(tmp_path)
    seen: list[tuple[int, int]] = []
    dispatch: Callable[[StoredBatch], None] = store.queue_dispatcher.dispatch

    def watched(batch: StoredBatch) -> None:
        seen.append((store.commit_log.max_offset, store.reads.max_offset("T", 0)))
        dispatch(batch)

    store.queue_dispatcher.dispatch = watched  # type: ignore[method-assign]
    [put] = store.put_messages([text()])
    assert seen == [(put.size, 0)], "the record lies in the log, and no queue knows of it"
    assert store.reads.max_offset("T", 0) == 1
    store.close_files()


async def test_a_message_in_the_log_is_no_message_for_consumers_yet(tmp_path: Path) -> None:
    """Under SYNC_FLUSH the distance can be seen: the dispatcher follows what is flushed."""
    # behaviour 57: S-20, S-24
    disk = SlowDisk()
    arrived: list[int] = []
    store = store_at(
        tmp_path,
        disk,
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        on_arrival=lambda _topic, _queue_id, new_max, _codes: arrived.append(new_max),
    )
    store.start()
    [put] = store.put_messages([text()])
    assert put.status is PutStatus.PUT_OK
    assert store.commit_log.max_offset == put.size
    store.when_flushed(put.size, lambda status: None)
    assert store.reads.max_offset("T", 0) == 0
    assert bodies(store) == []
    assert arrived == []
    disk.worker.run_all()
    assert store.reads.max_offset("T", 0) == 1
    assert bodies(store) == [b"hello"]
    assert arrived == [1]
    await store.close()


def test_a_queue_entry_is_offset_size_and_tag_hash_in_20_bytes(tmp_path: Path) -> None:
    # behaviour 58: S-1, S-30, S-31
    assert StoreConfig().mapped_file_size_consume_queue == 300_000 * 20 == 6_000_000
    store = store_at(tmp_path)
    puts = store.put_messages(
        [text(tags_code=tags_code(tag)) for tag in ("TagA", "TagB", None, "\u822a\u73ed")]
    )
    store.close_files()
    [file] = (tmp_path / "consumequeue" / "T" / "0").iterdir()
    assert file.name == "0" * 20
    data = file.read_bytes()
    entries = [struct.unpack_from(">qiq", data, 20 * n) for n in range(4)]
    assert entries == [
        (put.physical_offset, put.size, code)
        for put, code in zip(puts, (2598919, 2598920, 0, java_hash("\u822a\u73ed")), strict=True)
    ]


def test_in_the_schedule_topic_the_entry_says_when_the_message_is_due(tmp_path: Path) -> None:
    # behaviour 58: S-30, S-31
    store = store_at(tmp_path)
    [put] = store.put_messages([text(topic=SCHEDULE, queue_id=2, delay_level=3)])
    store.close_files()
    [file] = (tmp_path / "consumequeue" / SCHEDULE / "2").iterdir()
    entry = struct.unpack_from(">qiq", file.read_bytes())
    assert entry == (put.physical_offset, put.size, START_MS + 10_000)


@pytest.mark.parametrize(
    ("mode", "survives"), [(FlushDiskType.ASYNC_FLUSH, 1), (FlushDiskType.SYNC_FLUSH, 2)]
)
async def test_a_power_cut_takes_what_was_acknowledged_and_not_flushed(
    tmp_path: Path, mode: FlushDiskType, survives: int
) -> None:
    # behaviour 59: S-50, B-144
    root, clock = tmp_path / "store", ManualClock(START_MS)
    disk = PowerCutDisk(root)
    store = store_at(root, disk, clock, flush_disk_type=mode)
    store.start()

    def put(body: bytes) -> PutStatus:
        [result] = store.put_messages([text(body)])
        acknowledged: list[PutStatus] = []
        store.when_flushed(result.physical_offset + result.size, acknowledged.append)
        [status] = acknowledged
        return status

    assert put(b"0") is PutStatus.PUT_OK
    await clock.move_to(clock.time_ms() + 11_000)  # few pages: flushed after 10 s
    assert put(b"1") is PutStatus.PUT_OK
    disk.cut(tmp_path / "after")
    next_boot = SteppedDisk()
    next_boot.boot = b"next boot ......"
    after = store_at(tmp_path / "after", next_boot)
    assert bodies(after) == [b"0", b"1"][:survives]
    after.close_files()
    await store.close()


async def test_synchronous_flushing_acknowledges_what_is_on_the_disk(tmp_path: Path) -> None:
    # behaviour 59: B-144
    disk = SlowDisk()
    store = store_at(tmp_path, disk, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    store.start()
    acknowledged: list[PutStatus] = []
    [put] = store.put_messages([text()])
    store.when_flushed(put.physical_offset + put.size, acknowledged.append)
    assert acknowledged == []
    disk.worker.run_all()
    assert acknowledged == [PutStatus.PUT_OK]
    await store.close()


@pytest.mark.parametrize(("size", "flushed_after_s"), [(4 * 4096, 0.5), (4096, 10.0)])
async def test_the_log_is_flushed_every_500_ms_from_4_pages_on_and_after_10_s_anyhow(
    tmp_path: Path, size: int, flushed_after_s: float
) -> None:
    # behaviour 59: S-50
    clock = ManualClock(START_MS)
    store = store_at(tmp_path, clock=clock, mapped_file_size_commit_log=1 << 20)
    store.start()
    store.put_messages([text(bytes(size))])
    await clock.move_to(START_MS + round(flushed_after_s * 1000) - 1)
    assert store.unflushed_bytes > 0
    await clock.move_to(START_MS + round(flushed_after_s * 1000))
    assert store.unflushed_bytes == 0
    await store.close()

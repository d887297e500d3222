"""What a store of many queues and files costs: a turn of the loop does a portion of the work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import MessageStore, StoredMessage
from pocketmq.broker.store.disk.disk_worker import DiskWorker, Done, InlineWorker, Job
from pocketmq.broker.store.disk.mapped_file import MappedFile, Mappings
from pocketmq.broker.store.flush import flush_queues
from pocketmq.broker.store.flush.flush_log import flush_job
from pocketmq.broker.store.flush.flush_queues import dirty_files
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue, ConsumeQueues
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.disks import BROKEN, SteppedDisk, fail_with
from support.growth import least_s

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]
MANY = 20_000


class SteppedWorker(InlineWorker):
    """A job runs when the test says so."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Job, Done]] = deque()

    def submit(self, job: Job, done: Done) -> None:
        self.jobs.append((job, done))

    def run_next(self) -> None:
        super().submit(*self.jobs.popleft())

    def close(self) -> None:
        while self.jobs:
            self.run_next()


class QueueWorkerDisk(SteppedDisk):
    """Its queue worker waits for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = SteppedWorker()

    def start_worker(self, name: str) -> DiskWorker:
        return self.worker if name == "queue-flush" else InlineWorker()


def synced_queues(disk: SteppedDisk) -> list[int]:
    """Ids of the queues of T whose files were synced, in order."""
    return [
        int(Path(path).parent.name)
        for step, path in disk.steps
        if step == "sync" and "consumequeue/T/" in path
    ]


@pytest.fixture
def portions_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush_queues, "PORTION", 2)


async def thorough_pass(store: MessageStore, disk: QueueWorkerDisk, clock: ManualClock) -> None:
    """Go to where one has begun over the queues that were written."""
    store.start()
    await clock.move_to(clock.time_ms() + 61_000)
    disk.steps.clear()


def put_into(store: MessageStore, message: Message, queues: int) -> None:
    store.put_messages([message(queue_id=n) for n in range(queues)])


@pytest.mark.usefixtures("portions_of_two")
async def test_a_pass_syncs_a_portion_at_a_time_and_confirms_after_the_last(  # S-52, S-53
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    disk = QueueWorkerDisk()
    store = open_store(disk=disk)
    put_into(store, message, 5)
    await thorough_pass(store, disk, clock)
    sizes = []
    while store.checkpoint.durable_offset == 0:
        before = len(synced_queues(disk))
        disk.worker.run_next()
        sizes.append(len(synced_queues(disk)) - before)
    assert sizes == [2, 2, 1]
    assert sorted(synced_queues(disk)) == [0, 1, 2, 3, 4]
    assert store.checkpoint.durable_offset == store.commit_log.max_offset
    await store.close()


@pytest.mark.usefixtures("portions_of_two")
async def test_a_message_that_comes_between_two_portions_is_confirmed_by_the_next_pass(
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    disk = QueueWorkerDisk()
    store = open_store(disk=disk)
    put_into(store, message, 5)
    first_end = store.commit_log.max_offset
    await thorough_pass(store, disk, clock)
    disk.worker.run_next()
    put_into(store, message, 5)
    while store.checkpoint.durable_offset == 0:
        disk.worker.run_next()
    assert store.checkpoint.durable_offset == first_end
    await store.close()


@pytest.mark.usefixtures("portions_of_two")
async def test_a_pass_of_which_a_portion_failed_confirms_nothing(  # fault 17
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    disk = QueueWorkerDisk()
    store = open_store(disk=disk)
    put_into(store, message, 5)
    await thorough_pass(store, disk, clock)
    disk.worker.run_next()

    def fail(number: int, operation: str, path: str) -> None:
        if operation == "sync" and "consumequeue" in path:
            raise fail_with(BROKEN)

    disk.on_step = fail
    disk.worker.run_next()
    disk.on_step = None
    disk.worker.close()
    assert store.checkpoint.durable_offset == 0
    done = synced_queues(disk)[:2]
    disk.steps.clear()
    await clock.move_to(clock.time_ms() + 61_000)
    disk.worker.close()
    assert sorted(synced_queues(disk)) == [n for n in range(5) if n not in done]
    assert store.checkpoint.durable_offset == store.commit_log.max_offset
    await store.close()


@pytest.mark.usefixtures("portions_of_two")
async def test_a_topic_deleted_during_a_pass_is_passed_over(
    open_store: Make, message: Message, clock: ManualClock, logged: list[Any]
) -> None:
    disk = QueueWorkerDisk()
    store = open_store(disk=disk)
    put_into(store, message, 5)
    await thorough_pass(store, disk, clock)
    disk.worker.run_next()
    store.delete_topic("T")
    disk.worker.close()
    assert "queues.flush_failed" not in [line["event"] for line in logged]
    assert store.checkpoint.durable_offset == 0, "it counted entries that are no longer there"
    await clock.move_to(clock.time_ms() + 1_000)
    disk.worker.close()
    assert store.checkpoint.durable_offset == store.commit_log.max_offset
    assert store.checkpoint.durable_entries == 0
    await store.close()


async def test_a_topic_deleted_while_a_few_queues_are_flushed_moves_the_checkpoint_after_that(
    open_store: Make, message: Message, clock: ManualClock
) -> None:  # S-53: else a start after a crash finds queues without their entries
    disk = QueueWorkerDisk()
    store = open_store(disk=disk)
    put_into(store, message, 3)
    await thorough_pass(store, disk, clock)
    disk.worker.close()
    store.put_messages([message(topic="U") for _ in range(150)])  # more than a file of its queue
    await clock.move_to(clock.time_ms() + 1_000)
    assert len(disk.worker.jobs) == 1
    store.delete_topic("T")
    disk.worker.close()
    await clock.move_to(clock.time_ms() + 1_000)
    disk.worker.close()
    assert store.checkpoint.durable_offset == store.commit_log.max_offset
    assert store.checkpoint.durable_entries == 150
    await store.close()


@pytest.mark.usefixtures("portions_of_two")
def test_a_store_with_many_queues_is_flushed_whole_when_it_closes(
    open_store: Make, message: Message
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk)
    put_into(store, message, 2_500)  # of a call for each portion the stack would be too small
    store.close_files()
    assert sorted(synced_queues(disk)) == list(range(2_500))


def test_a_look_at_queues_costs_the_same_while_many_wait_for_the_thorough_pass(
    open_store: Make,
) -> None:
    store = open_store(disk=SteppedDisk())
    flusher, dirty = store._flush._queue_flusher, store.queue_dispatcher.dirty
    flusher.start(SteppedWorker())
    queues = iter([queue_of_one_entry(store.consume_queues, n) for n in range(MANY + 2_000)])

    def next_look() -> None:
        dirty.add(next(queues))
        flusher.flush()

    before_s = least_s(next_look, runs=5, steps=100)
    for _ in range(MANY):
        dirty.add(next(queues))
    flusher.flush()
    assert least_s(next_look, runs=5, steps=100) < 10 * before_s


def queue_of_one_entry(queues: ConsumeQueues, number: int) -> ConsumeQueue:
    queue = queues.get_or_create(f"T{number}", 0)
    row = queue.files
    file = MappedFile(row.disk, f"{row.directory}/0", 0, row.file_size)
    file.wrote = 20
    row.files.append(file)
    return queue


def test_a_flush_costs_the_same_however_many_files_are_on_the_disk(open_store: Make) -> None:
    store = open_store(disk=SteppedDisk())
    log, queue = store.commit_log, store.consume_queues.get_or_create("T", 0)

    def full_files(number: int) -> list[MappedFile]:
        files = []
        for nth in range(number):
            file = MappedFile(log.files.disk, "", nth * 100, 100)
            file.wrote = file.flushed = 100
            files.append(file)
        return files

    def flush_nothing() -> None:
        flush_job(log, log.max_offset)
        assert dirty_files(queue) == []

    costs_s = []
    for number in (10, MANY):
        log.files.files, queue.files.files = full_files(number), full_files(number)
        costs_s.append(least_s(flush_nothing, runs=5, steps=100))
    log.files.files, queue.files.files = [], []
    assert costs_s[1] < 10 * costs_s[0]


def test_the_files_to_flush_are_those_with_new_bytes_in_order(open_store: Make) -> None:
    store = open_store(disk=SteppedDisk())
    row = store.consume_queues.get_or_create("T", 0)
    files = [MappedFile(row.files.disk, "", n * 100, 100) for n in range(4)]
    for file, wrote, flushed in zip(files, (100, 100, 60, 0), (100, 20, 0, 0), strict=True):
        file.wrote, file.flushed = wrote, flushed
    row.files.files = files
    assert dirty_files(row) == files[1:3], "the last one is empty yet"
    row.files.files = []


def test_a_file_is_deleted_as_fast_while_many_are_mapped() -> None:
    mappings = Mappings(MANY)
    files = (MappedFile(SteppedDisk(), str(n), 0, 100, mappings) for n in count())

    def map_and_delete() -> None:
        file = next(files)
        mappings.opened(file)
        mappings.forget(file)

    before_s = least_s(map_and_delete, runs=5, steps=100)
    for _ in range(MANY - 1):
        mappings.opened(next(files))
    assert least_s(map_and_delete, runs=5, steps=100) < 10 * before_s


def test_a_file_that_is_mapped_anew_counts_once() -> None:
    mappings = Mappings(10)
    file = MappedFile(SteppedDisk(), "f", 0, 100, mappings)
    mappings.opened(file)
    mappings.opened(file)
    assert len(mappings) == 1
    mappings.forget(file)
    assert len(mappings) == 0

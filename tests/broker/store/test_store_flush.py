"""When data reaches the disk, who is told, and what happens when it does not (S-50..S-54)."""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.broker.store import FlushDiskType, GetStatus, MessageStore, PutStatus, StoredMessage
from pocketmq.broker.store.disk.disk_worker import DiskWorker, Done, InlineWorker, Job, ThreadWorker
from pocketmq.broker.store.flush.flush_service import SYNC_FAILED
from pocketmq.broker.store.flush.retried_dispatch import BEHIND
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue
from pocketmq.runtime.errors import DiskError, DiskFullError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.periodic import AT_REST
from support.disks import BROKEN, NO_SPACE, SteppedDisk, fail_with

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]
SYNC = FlushDiskType.SYNC_FLUSH


class HeldWorker:
    """A slow disk: a job runs when the test says so."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Job, Done]] = deque()

    def submit(self, job: Job, done: Done) -> None:
        self.jobs.append((job, done))

    def run_next(self) -> None:
        InlineWorker().submit(*self.jobs.popleft())

    def close(self) -> None:
        while self.jobs:
            self.run_next()


class HeldDisk(SteppedDisk):
    """Its log worker is slow, its queue worker is not."""

    def __init__(self) -> None:
        super().__init__()
        self.log_worker = HeldWorker()

    def start_worker(self, name: str) -> DiskWorker:
        return self.log_worker if name == "log-flush" else InlineWorker()


def end_of(store: MessageStore) -> int:
    return store.commit_log.max_offset


def has_abort_file(store: MessageStore) -> bool:
    return Path(store.root, "abort").exists()


async def test_one_sync_answers_all_who_waited_for_it(open_store: Make, message: Message) -> None:
    disk = HeldDisk()
    store = open_store(disk=disk, flush_disk_type=SYNC)
    store.start()
    answers: list[tuple[int, PutStatus]] = []

    def put(number: int) -> None:
        store.put_messages([message(b"%d" % number)])
        store.when_flushed(end_of(store), lambda status: answers.append((number, status)))

    put(0)
    assert len(disk.log_worker.jobs) == 1
    put(1)  # these two came too late for the sync that is under way ...
    put(2)
    assert len(disk.log_worker.jobs) == 1
    disk.log_worker.run_next()
    assert answers == [(0, PutStatus.PUT_OK)]
    syncs = len([step for step in disk.steps if step[0] == "sync"])
    disk.log_worker.run_next()  # ... and share the next
    assert answers[1:] == [(1, PutStatus.PUT_OK), (2, PutStatus.PUT_OK)]
    assert len([step for step in disk.steps if step[0] == "sync"]) == syncs + 1
    await store.close()


async def test_a_message_is_invisible_until_a_power_cut_could_not_take_it(  # fault 6
    open_store: Make, message: Message
) -> None:
    disk = HeldDisk()
    arrived: list[int] = []
    store = open_store(
        disk=disk,
        flush_disk_type=SYNC,
        on_arrival=lambda topic, queue_id, new_max, codes: arrived.append(new_max),
    )
    store.start()
    put = store.put_messages([message(b"a")])[0]
    store.when_flushed(end_of(store), lambda status: None)
    assert store.reads.get_message("T", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE
    assert store.reads.max_offset("T", 0) == 0
    assert store.lookup(put.physical_offset) is None
    assert arrived == []
    disk.log_worker.run_next()
    assert store.reads.get_message("T", 0, 0, 32).status is GetStatus.FOUND
    assert store.lookup(put.physical_offset) is not None
    assert arrived == [1]
    await store.close()


async def test_a_flush_that_takes_too_long_is_a_timeout_and_not_a_hang(  # fault 18
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    disk = HeldDisk()
    store = open_store(disk=disk, flush_disk_type=SYNC)
    store.start()
    answers: list[PutStatus] = []
    store.put_messages([message(b"a")])
    store.when_flushed(end_of(store), answers.append)
    await clock.move_to(clock.time_ms() + 4999)
    assert answers == []
    await clock.move_to(clock.time_ms() + 1)
    assert answers == [PutStatus.FLUSH_DISK_TIMEOUT]
    disk.log_worker.run_next()
    assert answers == [PutStatus.FLUSH_DISK_TIMEOUT]
    assert store.reads.max_offset("T", 0) == 1
    await store.close()


async def test_asynchronous_flush_waits_for_four_pages_or_ten_seconds(  # S-50
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    store = open_store(disk=SteppedDisk())
    store.start()
    store.put_messages([message(b"x" * 4000)])
    await clock.move_to(clock.time_ms() + 5000)
    assert store._log_flusher.flushed_offset == 0
    await clock.move_to(clock.time_ms() + 5500)
    assert store._log_flusher.flushed_offset == end_of(store)
    for _ in range(5):
        store.put_messages([message(b"x" * 4000)])
    await clock.move_to(clock.time_ms() + 500)
    assert store._log_flusher.flushed_offset == end_of(store)
    await store.close()


async def test_the_first_pass_after_a_recovery_confirms_it(
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    store = open_store(disk=SteppedDisk())
    store.put_messages([message(b"a")])  # no flush, no close: a kill
    shutil.rmtree(store.consume_queues.directory)
    again = open_store(disk=SteppedDisk())
    assert again.checkpoint.durable_offset == 0
    again.start()
    await clock.move_to(clock.time_ms() + 1000)
    assert again.checkpoint.durable_offset == end_of(again)
    await again.close()


async def test_a_message_that_nobody_waits_for_is_flushed_all_the_same(
    open_store: Make, message: Message
) -> None:
    store = open_store(disk=SteppedDisk(), flush_disk_type=SYNC)
    store.start()
    store.put_messages([message(b"a", wait_store_ok=False)])
    assert store.reads.max_offset("T", 0) == 1
    await store.close()


async def test_the_checkpoint_follows_after_a_thorough_pass(  # S-52, S-53
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    store = open_store(disk=SteppedDisk())
    store.start()
    store.put_messages([message(b"a")])
    await clock.move_to(clock.time_ms() + 59_000)
    assert store.checkpoint.durable_offset == 0
    await clock.move_to(clock.time_ms() + 2_000)
    assert store.checkpoint.durable_offset == end_of(store)
    assert store.checkpoint.durable_entries == 1
    await store.close()


async def test_a_store_with_threads_answers_on_the_loop(open_store: Make, message: Message) -> None:
    store = open_store(flush_disk_type=SYNC)
    store.start()
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[PutStatus] = loop.create_future()
    for number in range(50):
        store.put_messages([message(b"%d" % number)])
    store.when_flushed(end_of(store), answered.set_result)
    assert await answered is PutStatus.PUT_OK
    assert store.reads.max_offset("T", 0) == 50
    await store.close()
    assert not has_abort_file(store)


async def test_a_worker_reports_what_ended_a_job() -> None:
    worker = ThreadWorker("test")
    outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def job() -> None:
        raise ValueError("no")

    worker.submit(job, outcome.set_result)
    assert isinstance(await outcome, ValueError)
    worker.close()


async def test_a_full_disk_refuses_messages_and_takes_them_again(  # fault 15
    open_store: Make, message: Message
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk)
    full = False

    def fail(number: int, operation: str, path: str) -> None:
        if full and operation == "reserve" and "commitlog" in path:
            raise fail_with(NO_SPACE)

    disk.on_step = fail
    store.put_messages([message(b"before")])
    full = True
    refused = []
    for number in range(200):
        results = store.put_messages([message(b"%d" % number * 300), message(b"two")])
        refused += [r for r in results if r.status is PutStatus.SERVICE_NOT_AVAILABLE]
    assert refused
    before = store.reads.max_offset("T", 0)
    assert store.reads.get_message("T", 0, 0, 1).status is GetStatus.FOUND
    full = False
    again = store.put_messages([message(b"after")])[0]
    assert (again.status, again.queue_offset) == (PutStatus.PUT_OK, before)
    store.close_files()


async def test_a_queue_that_cannot_be_written_catches_up(  # S-35
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk)
    store.start()
    full = True

    def fail(number: int, operation: str, path: str) -> None:
        if full and operation == "reserve" and "consumequeue" in path:
            raise fail_with(NO_SPACE)

    disk.on_step = fail
    assert store.put_messages([message(b"a"), message(b"b", "U")])[0].status is PutStatus.PUT_OK
    assert BEHIND in store.readiness.reasons
    assert store.put_messages([message(b"c")])[0].status is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.reads.max_offset("T", 0) == 0
    await clock.move_to(clock.time_ms() + 1000)
    assert BEHIND in store.readiness.reasons
    full = False
    await clock.move_to(clock.time_ms() + 1000)
    assert store.is_writeable
    assert (store.reads.max_offset("T", 0), store.reads.max_offset("U", 0)) == (1, 1)
    assert store.put_messages([message(b"c")])[0].queue_offset == 1
    await store.close()


async def test_a_sync_failure_is_survived_by_writing_the_bytes_again(  # fault 17
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk, flush_disk_type=SYNC)
    store.start()
    store.put_messages([message(b"first", "Other")])  # makes the log's file, which is synced too
    broken = True

    def fail(number: int, operation: str, path: str) -> None:
        if broken and operation == "sync" and "commitlog" in path:
            raise fail_with(BROKEN)

    disk.on_step = fail
    answers: list[PutStatus] = []
    store.put_messages([message(b"a"), message(b"b")])
    store.when_flushed(end_of(store), answers.append)
    assert answers == [PutStatus.FLUSH_DISK_TIMEOUT]
    assert SYNC_FAILED in store.readiness.reasons
    assert store.put_messages([message(b"c")])[0].status is PutStatus.SERVICE_NOT_AVAILABLE
    await clock.move_to(clock.time_ms() + 2000)
    assert SYNC_FAILED in store.readiness.reasons
    broken = False
    disk.steps.clear()
    await clock.move_to(clock.time_ms() + 1000)
    assert store.is_writeable
    assert [step[0] for step in disk.steps if "commitlog/" in step[1]][:2] == ["sync", "verify"]
    assert store.reads.max_offset("T", 0) == 2
    store.put_messages([message(b"c")])
    store.when_flushed(end_of(store), answers.append)
    assert answers[-1] is PutStatus.PUT_OK
    await store.close()
    assert not has_abort_file(store)


async def test_a_store_that_could_not_be_flushed_stays_marked_unclean(  # S-60
    open_store: Make, message: Message
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk)
    store.start()
    store.put_messages([message(b"a")])

    def fail(number: int, operation: str, path: str) -> None:
        if operation == "sync" and "commitlog" in path:
            raise fail_with(BROKEN)

    disk.on_step = fail
    await store.close()
    assert has_abort_file(store)


# -- rest ----------------------------------------------------------------------------------------


async def test_a_store_with_nothing_to_flush_sleeps_until_it_looks_at_the_disk(
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    store = open_store(disk=SteppedDisk())
    store.start()
    store.put_messages([message(b"a")])
    await clock.move_to(clock.time_ms() + 130_000)  # 60 s later queues and checkpoint are flushed
    before = clock.time_ms()
    deadline = clock.next_deadline_ms()
    assert deadline is not None
    assert deadline % 10_000 == 0, "only the cleaner is left (S-70)"
    assert deadline - before >= 5_000
    await store.close()


@pytest.mark.parametrize("rested_s", [0, 3, 3600])
async def test_four_pages_are_flushed_500_ms_after_they_were_appended(  # S-50
    open_store: Make, message: Message, clock: ManualClock, rested_s: int
) -> None:
    store = open_store(disk=SteppedDisk())
    store.start()
    await clock.move_to(clock.time_ms() + rested_s * 1000)
    store.put_messages([message(b"x" * 5000) for _ in range(4)])
    assert store.unflushed_bytes > 4 * 4096
    await clock.move_to(clock.time_ms() + 499)
    assert store.unflushed_bytes > 0
    await clock.move_to(clock.time_ms() + 1)
    assert store.unflushed_bytes == 0
    await store.close()


async def test_few_dirty_pages_are_flushed_within_10_s_however_long_the_store_rested(  # S-50
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    store = open_store(disk=SteppedDisk())
    store.start()
    for _ in range(5):
        store.put_messages([message(b"a")])
        await clock.move_to(clock.time_ms() + 10_500)
        assert store.unflushed_bytes == 0
        await clock.move_to(clock.time_ms() + 77_777)
    assert store.checkpoint.durable_offset == store.commit_log.max_offset  # S-52, S-53
    await store.close()


async def test_queues_whose_sync_failed_are_written_again_and_read_back(  # fault 17
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk)
    store.start()
    broken = True

    def fail(number: int, operation: str, path: str) -> None:
        if broken and operation == "sync" and "consumequeue" in path:
            raise fail_with(BROKEN)

    disk.on_step = fail
    store.put_messages([message(b"a"), message(b"b")])
    await clock.move_to(clock.time_ms() + 61_000)
    assert store.checkpoint.durable_offset == 0, "the checkpoint waits"
    broken = False
    disk.steps.clear()
    await clock.move_to(clock.time_ms() + 61_000)
    of_queues = [operation for operation, path in disk.steps if "consumequeue/T/0/" in path]
    assert of_queues == ["sync", "verify"], "a second sync alone would prove nothing"
    assert store.checkpoint.durable_offset == store.commit_log.max_offset
    store.put_messages([message(b"c")])
    disk.steps.clear()
    await store.close()
    assert "verify" not in [operation for operation, _ in disk.steps]
    assert not has_abort_file(store)


async def test_a_store_whose_index_could_not_be_synced_stays_marked_unclean(  # S-49, S-60
    open_store: Make, message: Message
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk)
    store.start()
    store.put_messages([message(b"a", keys="k")])

    def fail(number: int, operation: str, path: str) -> None:
        if operation == "sync" and "/index/" in path:
            raise fail_with(BROKEN)

    disk.on_step = fail
    await store.close()
    assert has_abort_file(store)


def held_queues(store: MessageStore) -> HeldWorker:
    """From now on passes over queues run when the test says so."""
    worker = HeldWorker()
    store._log_flusher.start(InlineWorker())
    store._flush._queue_flusher.start(worker)
    return worker


def queue_of(store: MessageStore) -> ConsumeQueue:
    queue = store.consume_queues.get("T", 0)
    assert queue is not None
    return queue


def test_a_pass_goes_on_when_a_topic_of_its_is_deleted(open_store: Make, message: Message) -> None:
    store = open_store(disk=SteppedDisk())
    worker = held_queues(store)
    store.put_messages([message(b"a"), message(b"b", topic="U")])
    store._flush.confirm_soon()
    store.delete_topic("U")
    worker.close()
    [file] = queue_of(store).files.files
    assert file.flushed == file.wrote == 20


def test_entries_written_again_after_a_cut_are_synced_again(
    open_store: Make, message: Message
) -> None:
    store = open_store(disk=SteppedDisk())
    worker = held_queues(store)
    results = [store.put_messages([message(b"%d" % n)])[0] for n in range(9)]
    store._flush.confirm_soon()
    queue = queue_of(store)
    queue.files.truncate(3 * 20)
    store._flush.cut(results[3].physical_offset)
    worker.close()
    [file] = queue.files.files
    assert file.flushed <= file.wrote == 3 * 20
    assert not store._flush._queue_flusher.is_clean


def test_passes_go_on_after_one_could_not_be_prepared(
    open_store: Make, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk)
    worker = held_queues(store)
    store.put_messages([message(b"a")])
    [file] = queue_of(store).files.files
    flusher = store._flush._queue_flusher
    flusher.doubt([file.path])  # a sync failed before
    file.unmap()

    def refused(path: str, _size: int) -> memoryview:
        raise DiskError(path, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "map_file", refused)
        store._flush.confirm_soon()
    assert not flusher.is_running
    assert not flusher.is_clean
    store._flush.confirm_soon()
    worker.close()
    assert store._flush._queue_flusher.confirmed == end_of(store)


def test_a_checkpoint_that_waits_for_the_index_is_moved_later(
    open_store: Make, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(disk=SteppedDisk())
    held_queues(store)
    store.put_messages([message(b"a", keys="k")])
    index = store.queue_dispatcher.index
    assert index is not None

    def refused() -> None:
        raise DiskError("index", "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(index, "flush", refused)
        store._flush.confirm_soon()
    store._flush.flush_queues()
    store._flush._queue_worker.close()
    assert store._flush._queue_flusher.is_running, "a thorough pass has begun"


def test_passes_do_not_rest_while_one_may_fail(open_store: Make, message: Message) -> None:
    store = open_store(disk=SteppedDisk())
    worker = held_queues(store)
    store.put_messages([message(b"a")])
    store._flush.confirm_soon()
    worker.close()
    [file] = queue_of(store).files.files
    file.flushed = 0
    store.queue_dispatcher.dirty.add(queue_of(store))
    store._flush._queue_flusher.flush_thoroughly(store._flush._progress())
    assert store._flush.flush_queues() is None
    worker.close()
    assert store._flush.flush_queues() == AT_REST


def test_catching_up_shows_nothing_that_replicas_have_not(  # H-144
    open_store: Make, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[int] = []
    store = open_store(
        disk=SteppedDisk(),
        on_arrival=lambda topic, queue_id, new_max, codes: arrived.append(new_max),
    )
    store.confirm(0)
    results = [store.put_messages([message(b"%d" % n)])[0] for n in range(10)]

    def refused(_batch: object) -> None:
        raise DiskFullError("queue", "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(store.queue_dispatcher, "dispatch", refused)
        store.confirm(results[5].physical_offset - 1)  # within the fifth record
        store.confirm(results[5].physical_offset + 1)
    store._dispatch._catch_up()
    assert BEHIND not in store.readiness.reasons
    assert store.reads.max_offset("T", 0) == 5
    arrived.clear()
    store.confirm(end_of(store))
    assert (store.reads.max_offset("T", 0), arrived) == (10, [6, 7, 8, 9, 10])

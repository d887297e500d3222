"""What is deleted when, and what is refused when space runs out (S-70..S-74, B-163..B-166)."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from pocketmq.broker.store import GetStatus, MessageStore, PutStatus, StoredMessage, cleaning
from pocketmq.broker.store.cleaning import DISK_FULL, cleaning_service
from pocketmq.broker.store.disk.disk import DiskUsage
from pocketmq.broker.store.disk.disk_worker import Done, InlineWorker, Job
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, PROFILE_5_5, Profile
from support.disks import SteppedDisk
from support.eventually import eventually
from support.tiny_store import HOST

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]
HOUR_MS = 3_600_000
FOUR_O_CLOCK = int(datetime(2024, 1, 2, 4, 30).timestamp() * 1000)  # noqa: DTZ001 - local on purpose
NOON = FOUR_O_CLOCK + 8 * HOUR_MS


class RoomyDisk(SteppedDisk):
    """Says how full it is as the test wants, and how old its files are."""

    def __init__(self) -> None:
        super().__init__()
        self.used = 0.1
        self.written_ms = FOUR_O_CLOCK

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(1000, int(self.used * 1000))

    def modified_ms(self, path: str) -> int:
        return self.written_ms


@pytest.fixture
def disk() -> RoomyDisk:
    return RoomyDisk()


@pytest.fixture
def store(open_store: Make, message: Message, disk: RoomyDisk) -> MessageStore:
    """Ten log files, queue files of 100 entries, several index files."""
    store = open_store(disk=disk, mapped_file_size_commit_log=4096)
    for n in range(350):
        store.put_messages([message(b"%03d" % n, queue_id=n % 2, keys=f"k{n}")])
    assert len(store.commit_log.files.files) == 9
    store._log_flusher.start(InlineWorker())
    store._flush._queue_flusher.start(InlineWorker())
    store._flush.confirm_soon()
    return store


def logs(store: MessageStore) -> int:
    return len(store.commit_log.files.files)


def cleaned(store: MessageStore, now_ms: int) -> float | None:
    """A whole round, and in how many seconds it wants the next."""
    steps = store._cleaner.run(now_ms)
    while True:
        try:
            job = next(steps)
        except StopIteration as ended:
            wait_s: float | None = ended.value
            return wait_s
        if job is not None:
            job()


def test_nothing_goes_while_it_is_young(store: MessageStore, disk: RoomyDisk) -> None:
    assert cleaned(store, FOUR_O_CLOCK + 71 * HOUR_MS) is None, "not at once again"
    assert cleaned(store, FOUR_O_CLOCK + 48 * HOUR_MS) is None
    assert logs(store) == 9


def test_expired_files_go_at_four_and_never_the_last(store: MessageStore) -> None:  # S-70, S-71
    cleaned(store, NOON + 96 * HOUR_MS)
    assert logs(store) == 9
    cleaned(store, FOUR_O_CLOCK + 72 * HOUR_MS)
    assert logs(store) == 1
    assert store.put_messages([])[:] == []


def test_a_file_that_is_not_flushed_does_not_go(
    open_store: Make, message: Message, disk: RoomyDisk
) -> None:
    store = open_store(disk=disk, mapped_file_size_commit_log=4096)
    store.put_messages([message(b"%03d" % n * 300) for n in range(20)])
    assert cleaned(store, FOUR_O_CLOCK + 72 * HOUR_MS) is None, "not at once again"
    assert logs(store) > 4


def test_expired_files_go_at_any_hour_when_space_gets_short(  # B-165
    store: MessageStore, disk: RoomyDisk
) -> None:
    disk.used = 0.76
    cleaned(store, NOON + 96 * HOUR_MS)
    assert logs(store) == 1


def test_expired_files_go_when_somebody_asks(store: MessageStore) -> None:  # S-70
    store._cleaner.delete_soon()
    cleaned(store, NOON + 96 * HOUR_MS)
    assert logs(store) == 1


def test_young_files_go_when_the_disk_is_nearly_full(  # B-164
    store: MessageStore, disk: RoomyDisk
) -> None:
    disk.used = 0.86
    cleaned(store, NOON)
    assert logs(store) == 1
    assert store.is_writeable


def test_a_full_disk_takes_no_messages_until_it_has_space(  # B-163, B-166, fault 15
    store: MessageStore, disk: RoomyDisk, message: Message
) -> None:
    disk.used = 0.91
    cleaned(store, NOON)
    assert store.readiness.reasons == {DISK_FULL}
    assert store.put_messages([message(b"no")])[0].status is PutStatus.SERVICE_NOT_AVAILABLE
    assert (
        store.reads.get_message("T", 1, store.reads.min_offset("T", 1), 1).status is GetStatus.FOUND
    )
    disk.used = 0.5
    cleaned(store, NOON)
    assert store.put_messages([message(b"yes")])[0].status is PutStatus.PUT_OK


@pytest.mark.parametrize(
    ("profile", "full_above"),
    [(PROFILE_4_9, 0.9), (PROFILE_5_3, 0.85), (PROFILE_5_5, 0.85)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_disk_that_was_full_has_space_at_the_level_of_the_release(
    open_store: Make, disk: RoomyDisk, profile: Profile, full_above: float
) -> None:  # B-166
    store = open_store(disk=disk, profile=profile.broker)
    for used in (0.91, 0.9, 0.851, 0.85):
        disk.used = used
        cleaned(store, NOON)
        assert store.readiness.reasons == ({DISK_FULL} if used > full_above else set()), used
    disk.used = 0.9  # it was not full just before
    cleaned(store, NOON)
    assert store.readiness.reasons == set()


def test_queues_and_index_follow_the_log(store: MessageStore) -> None:  # S-73, S-34
    index_files = len(store.index.files) if store.index else 0
    cleaned(store, FOUR_O_CLOCK + 72 * HOUR_MS)
    log_min = store.commit_log.min_offset
    for queue_id in (0, 1):
        queue = store.consume_queues.get("T", queue_id)
        assert queue is not None
        assert len(queue.files.files) == 1
        first = queue.entry(queue.min_offset)
        assert first is not None
        assert first[0] >= log_min
        assert first[0] - log_min < 300
    assert store.index is not None
    assert len(store.index.files) < index_files
    assert store.index.files[0].end_physical >= log_min


def test_a_queue_file_stays_while_its_last_record_does(  # S-73
    open_store: Make, message: Message, disk: RoomyDisk
) -> None:
    store = open_store(
        disk=disk, mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=4 * 20
    )
    store.put_messages([message(b"x" * 1000) for _ in range(18)])  # three in a file of the log
    store._log_flusher.start(InlineWorker())
    store._log_flusher.flush()
    disk.used = 0.95
    left = {3: [0, 4, 8, 12, 16], 6: [4, 8, 12, 16]}
    for first, starts in left.items():  # 3 is the last in its queue's first file, and stays
        store._cleaner._checkpoint.durable_offset = store.commit_log.files.files[0].end
        cleaned(store, NOON)
        queue = store.consume_queues.get("T", 0)
        assert queue is not None
        assert [file.start // 20 for file in queue.files.files] == starts
        assert store.reads.min_offset("T", 0) == first


def test_a_consumer_too_far_behind_is_sent_to_the_first_offset(store: MessageStore) -> None:  # S-74
    view = store.reads.get_message("T", 0, 0, 32)
    body = b"".join(view.records)
    cleaned(store, FOUR_O_CLOCK + 72 * HOUR_MS)
    assert b"".join(view.records) == body, "a reader keeps what it holds"  # fault 55
    result = store.reads.get_message("T", 0, 0, 32)
    assert result.status is GetStatus.OFFSET_TOO_SMALL
    assert result.next_begin_offset == result.min_offset == store.reads.min_offset("T", 0) > 0
    assert store.reads.get_message("T", 0, result.min_offset, 32).status is GetStatus.FOUND
    assert store.lookup(0) is None


def test_a_store_opens_again_after_its_beginning_was_deleted(
    store: MessageStore, open_store: Make
) -> None:
    cleaned(store, FOUR_O_CLOCK + 72 * HOUR_MS)
    bounds = [(store.reads.min_offset("T", q), store.reads.max_offset("T", q)) for q in (0, 1)]
    store.close_files()
    again = open_store(mapped_file_size_commit_log=4096)
    assert [
        (again.reads.min_offset("T", q), again.reads.max_offset("T", q)) for q in (0, 1)
    ] == bounds
    os.unlink(os.path.join(again.root, "checkpoint"))
    again.close_files()


def test_the_queues_of_a_shortened_log_are_made_again_from_what_is_left(
    store: MessageStore, open_store: Make
) -> None:  # S-33
    cleaned(store, FOUR_O_CLOCK + 72 * HOUR_MS)
    bounds = [(store.reads.min_offset("T", q), store.reads.max_offset("T", q)) for q in (0, 1)]
    store.close_files()
    store._opening._disk.remove_directory(store.consume_queues.directory)
    again = open_store(mapped_file_size_commit_log=4096)
    assert [
        (again.reads.min_offset("T", q), again.reads.max_offset("T", q)) for q in (0, 1)
    ] == bounds


async def test_rounds_come_every_ten_seconds(  # S-70
    store: MessageStore, disk: RoomyDisk, clock: ManualClock
) -> None:
    store.start()
    await clock.move_to(clock.time_ms() + 60_000)
    disk.used = 0.86
    await clock.move_to(clock.time_ms() + 9_999)
    assert logs(store) == 9
    await clock.move_to(clock.time_ms() + 1)
    assert logs(store) == 1
    await store.close()


class HeldWorker:
    """Deletes files of the log when it is told to, and others at once."""

    def __init__(self) -> None:
        self.most = 8  # as many of the log go
        self.waiting: list[tuple[Job, Done]] = []

    def submit(self, job: Job, done: Done) -> None:
        self.waiting.append((job, done))
        self.most -= 1
        if self.most < 0:
            self.work()

    def close(self) -> None:
        assert not self.waiting

    def work(self) -> None:
        job, done = self.waiting.pop(0)
        job()
        done(None)


async def test_others_are_served_while_a_file_is_deleted(
    store: MessageStore, message: Message, disk: RoomyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1 GiB of a log took 0.3 s of one turn of the loop.
    held = HeldWorker()
    monkeypatch.setattr(disk, "start_worker", lambda _name: held)
    disk.used = 0.86
    paths = [file.path for file in store.commit_log.files.files]
    service = cleaning_service(store._cleaner, disk, SystemClock(), lambda: store.config)
    service.start()
    service.wakeup()
    for gone in range(1, len(paths)):
        await eventually(lambda: held.waiting, "the next file is to be deleted")
        assert len(held.waiting) == 1, "not before this one is gone"
        assert present(paths) == paths[gone - 1 :]
        assert logs(store) == len(paths) - gone
        [result] = store.put_messages([message(b"meanwhile")])
        assert result.status is PutStatus.PUT_OK
        first = store.reads.get_message("T", 0, store.reads.min_offset("T", 0), 1)
        assert first.status is GetStatus.FOUND
        held.work()
    await service.stop()
    assert present(paths) == paths[-1:]


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue", "index"])
async def test_a_file_that_could_not_be_deleted_is_deleted_in_the_next_round(
    store: MessageStore,
    open_store: Make,
    disk: RoomyDisk,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
) -> None:
    # Its neighbours went, and the row had a hole: the next start was impossible.
    refused: list[str] = []

    def remove_file(path: str) -> None:
        if f"/{folder}/" in path and not refused:
            refused.append(path)
            raise DiskError(path, "input/output error")
        SteppedDisk.remove_file(disk, path)

    monkeypatch.setattr(disk, "remove_file", remove_file)
    disk.used = 0.86
    clock = ManualClock(FOUR_O_CLOCK)
    service = cleaning_service(store._cleaner, disk, clock, lambda: store.config)
    with capture_logs() as lines:
        service.start()
        service.wakeup()
        await clock.move_to(clock.time_ms() + 1)
    assert present(refused), "it is still on the disk"
    assert [line for line in lines if line["log_level"] == "error"]
    first = store.reads.get_message("T", 0, store.reads.min_offset("T", 0), 1)
    assert first.status is GetStatus.FOUND
    for _ in range(2):
        monkeypatch.setattr(disk, "used", 0.86)
        store.put_messages([StoredMessage("T", 0, b"x" * 3000, b"", 0, 0, 0, HOST, HOST)])
        store._log_flusher.flush()
        store._flush.confirm_soon()
        service.wakeup()
        await clock.move_to(clock.time_ms() + 1)
    assert not present(refused)
    await service.stop()
    store.close_files()
    again = open_store(disk=RoomyDisk(), mapped_file_size_commit_log=4096)
    assert (
        again.reads.get_message("T", 0, again.reads.min_offset("T", 0), 1).status is GetStatus.FOUND
    )


def present(paths: list[str]) -> list[str]:
    """Those that are still there."""
    return [path for path in paths if os.path.exists(path)]


async def test_cleaning_begins_after_a_minute(  # S-70
    store: MessageStore, disk: RoomyDisk, clock: ManualClock
) -> None:
    disk.used = 0.86
    store.start()
    await clock.move_to(clock.time_ms() + 59_000)
    assert logs(store) == 9
    await clock.move_to(clock.time_ms() + 1_000)
    assert logs(store) == 1
    await store.close()


def test_a_log_file_stays_until_the_entries_of_its_records_are_on_the_disk(
    open_store: Make, message: Message, disk: RoomyDisk
) -> None:
    # S-71. Else a power cut takes the entries, and the queue begins anew at offset 0 behind its
    # consumers (seed 9 of the simulation).
    store = open_store(disk=disk, mapped_file_size_commit_log=4096)
    for n in range(350):
        store.put_messages([message(b"%03d" % n)])
    store._log_flusher.start(InlineWorker())
    store._log_flusher.flush()
    files, disk.used = logs(store), 0.95
    assert cleaned(store, NOON) is None, "not at once again"
    assert logs(store) == files
    store._cleaner._checkpoint.durable_offset = store.commit_log.files.files[0].end
    cleaned(store, NOON)
    assert logs(store) == files - 1
    store._flush._queue_flusher.start(InlineWorker())
    store._flush.confirm_soon()
    cleaned(store, NOON)
    assert logs(store) == 1


def test_each_deletion_is_on_the_disk_before_the_next(store: MessageStore, disk: RoomyDisk) -> None:
    # A power cut could bring a file back whose neighbour is gone: a row with a hole is not opened
    # (seed 9 of the simulation).
    disk.used = 0.95
    disk.steps.clear()
    cleaned(store, NOON)
    of_log = [step for step, path in disk.steps
              if path.endswith("commitlog") or "commitlog/" in path]  # fmt: skip
    assert of_log[:4] == ["remove_file", "sync_directory"] * 2


@pytest.mark.parametrize(
    ("used", "left"), [(0.75, 9), (0.751, 9), (0.85, 9), (0.851, 1), (0.9, 1), (0.91, 1)]
)
def test_young_files_go_above_85_percent_only(
    store: MessageStore, disk: RoomyDisk, used: float, left: int
) -> None:  # B-163 to B-165
    disk.used = used
    cleaned(store, NOON)
    assert logs(store) == left
    assert store.readiness.reasons == ({DISK_FULL} if used > 0.9 else set())


def test_files_expire_after_exactly_72_hours(store: MessageStore, disk: RoomyDisk) -> None:  # S-70
    disk.used = 0.751
    cleaned(store, FOUR_O_CLOCK + 72 * HOUR_MS - 1)
    assert logs(store) == 9
    disk.used = 0.75
    cleaned(store, NOON + 72 * HOUR_MS)
    assert logs(store) == 9
    disk.used = 0.751
    cleaned(store, NOON + 72 * HOUR_MS)
    assert logs(store) == 1


def test_young_files_stay_where_that_is_wanted(  # B-164
    open_store: Make, message: Message, disk: RoomyDisk
) -> None:
    store = open_store(
        disk=disk, mapped_file_size_commit_log=4096, clean_file_forcibly_enable=False
    )
    fill(store, message, 100)
    disk.used = 0.95
    files = logs(store)
    cleaned(store, NOON)
    assert logs(store) == files > 1
    cleaned(store, NOON + 96 * HOUR_MS)
    assert logs(store) == 1, "expired ones go"


def fill(store: MessageStore, message: Message, count: int) -> None:
    """Messages in queue 0, all of it on the disk."""
    for n in range(count):
        store.put_messages([message(b"%03d" % n)])
    store._log_flusher.start(InlineWorker())
    store._flush._queue_flusher.start(InlineWorker())
    store._flush.confirm_soon()


def test_ten_files_go_at_a_time_with_a_pause_between(  # S-70
    open_store: Make, message: Message, disk: RoomyDisk
) -> None:
    store = open_store(disk=disk, mapped_file_size_commit_log=4096)
    fill(store, message, 500)
    files, late_ms = logs(store), FOUR_O_CLOCK + 72 * HOUR_MS
    assert 11 < files < 20
    assert cleaned(store, late_ms) == 0.1
    assert logs(store) == files - 10
    queue = store.consume_queues.get("T", 0)
    assert queue is not None
    assert queue.files.min_offset // 20 == queue.min_offset // 100 * 100 > 0, "follows the log"
    assert cleaned(store, late_ms) is None
    assert logs(store) == 1
    assert cleaned(store, late_ms) is None


def test_who_asks_for_a_deletion_gets_twenty_rounds_of_it(
    store: MessageStore, disk: RoomyDisk
) -> None:  # S-70
    late_ms = NOON + 96 * HOUR_MS
    disk.written_ms = late_ms
    for young_rounds, left in ((20, 9), (19, 1)):
        store._cleaner.delete_soon()
        disk.written_ms = late_ms
        for _ in range(young_rounds):
            cleaned(store, late_ms)
        disk.written_ms = FOUR_O_CLOCK
        cleaned(store, late_ms)
        assert logs(store) == left


@pytest.mark.parametrize(("rounds", "goes"), [(19, True), (20, False)])
def test_rounds_without_anything_to_delete_count_too(
    open_store: Make, message: Message, disk: RoomyDisk, rounds: int, *, goes: bool
) -> None:  # S-70
    late_ms = NOON + 96 * HOUR_MS
    store = open_store(disk=disk, mapped_file_size_commit_log=4096)
    fill(store, message, 3)
    store._cleaner.delete_soon()
    for _ in range(rounds):
        assert cleaned(store, late_ms) is None
    for n in range(100):
        store.put_messages([message(b"%03d" % n)])
    store._flush.confirm_soon()
    files = logs(store)
    cleaned(store, late_ms)
    assert files > 1
    assert logs(store) == (1 if goes else files)


def test_a_full_disk_is_logged_once_and_its_end_too(
    store: MessageStore, disk: RoomyDisk, logged: list[Any]
) -> None:  # B-163
    for used, event in ((0.91, "disk.full"), (0.5, "disk.has_space"), (0.95, "disk.full")):
        disk.used = used
        logged.clear()
        for _ in range(3):
            cleaned(store, NOON)
        found = [line for line in logged if line["event"].startswith("disk.")]
        assert [(line["event"], line["used_ratio"]) for line in found] == [(event, used)]


@pytest.mark.parametrize(
    ("level", "used", "full"),
    [(90, 0.91, True), (99, 0.91, True), (1, 0.34, False), (1, 0.36, True), (50, 0.51, True)],
)
def test_the_warning_level_counts_as_35_to_90_percent(
    open_store: Make, message: Message, disk: RoomyDisk, level: int, used: float, *, full: bool
) -> None:  # B-163
    store = open_store(disk=disk, disk_space_warning_level_ratio=level)
    disk.used = used
    cleaned(store, NOON)
    status = store.put_messages([message(b"x")])[0].status
    assert (status is not PutStatus.PUT_OK) == full


@pytest.mark.parametrize(
    ("options", "used", "goes"),
    [
        ({"disk_space_clean_forcibly_ratio": 99}, 0.86, True),
        ({"disk_space_clean_forcibly_ratio": 1}, 0.29, False),
        ({"disk_space_clean_forcibly_ratio": 1}, 0.31, True),
        ({"disk_max_used_space_ratio": 1000, "file_reserved_time_h": 0}, 0.95, False),
        ({"disk_max_used_space_ratio": 1000, "file_reserved_time_h": 0}, 0.96, True),
        ({"disk_max_used_space_ratio": 0, "file_reserved_time_h": 0}, 0.1, False),
        ({"disk_max_used_space_ratio": 0, "file_reserved_time_h": 0}, 0.11, True),
    ],
)
def test_levels_of_cleaning_count_as_rocketmqs(
    open_store: Make,
    message: Message,
    disk: RoomyDisk,
    options: dict[str, int],
    used: float,
    *,
    goes: bool,
) -> None:  # B-164, B-165
    if "disk_max_used_space_ratio" in options:
        options |= {"clean_file_forcibly_enable": False}
    store = open_store(disk=disk, mapped_file_size_commit_log=4096, **options)
    for n in range(100):
        store.put_messages([message(b"%03d" % n)])
    store._log_flusher.start(InlineWorker())
    store._flush._queue_flusher.start(InlineWorker())
    store._flush.confirm_soon()
    files, disk.used = logs(store), used
    disk.written_ms = NOON
    cleaned(store, NOON)
    assert (logs(store) < files) == goes


def test_no_entry_leads_to_a_record_that_is_gone_while_a_round_pauses(  # S-34, S-73
    open_store: Make, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file may have to be mapped for each queue: 80,000 took 2 s of one turn.
    monkeypatch.setattr(cleaning, "PORTION", 2)
    store = open_store(disk=SteppedDisk(), mapped_file_size_commit_log=4096, file_reserved_time_h=0)
    for number in range(350):
        store.put_messages([message(b"%03d" % number, queue_id=number % 7)])
    store._log_flusher.start(InlineWorker())
    store._flush._queue_flusher.start(InlineWorker())
    store._flush.confirm_soon()
    files = len(store.commit_log.files.files)
    store.delete_expired_files()
    pauses = 0
    for job in store._cleaner.run(2**42):
        pauses += 1
        if job is not None:
            job()
        for queue in store.consume_queues:
            first = queue.entry(queue.min_offset)
            assert first is None or store.commit_log.record_at(first[0]) is not None
    assert len(store.commit_log.files.files) == 1
    assert pauses == 7 // 2 + (files - 1) + 7 // 2


@pytest.mark.parametrize("kept", [340, 40], ids=["behind what goes", "before it"])
async def test_a_log_that_is_cut_while_a_round_pauses_keeps_its_entries_sound(  # S-34, H-112
    open_store: Make, message: Message, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(cleaning, "PORTION", 2)
    store = open_store(disk=SteppedDisk(), mapped_file_size_commit_log=4096, file_reserved_time_h=0)
    places = []
    for number in range(350):
        [stored] = store.put_messages([message(b"%03d" % number, queue_id=number % 7)])
        places.append(stored.physical_offset)
    store._log_flusher.start(InlineWorker())
    store._flush._queue_flusher.start(InlineWorker())
    store._flush.confirm_soon()
    store.delete_expired_files()
    is_cut = False
    for job in store._cleaner.run(2**42):
        if job is not None:
            job()
        elif not is_cut and any(queue.min_offset for queue in store.consume_queues):
            is_cut = True
            await store.replica.truncate(places[kept])
        for queue in store.consume_queues:
            first = queue.entry(queue.min_offset)
            assert first is None or store.commit_log.record_at(first[0]) is not None
    assert is_cut
    firsts = [queue.min_offset for queue in store.consume_queues]
    assert (sum(firsts) == 0) is (kept == 40)
    assert store.commit_log.max_offset == places[kept]

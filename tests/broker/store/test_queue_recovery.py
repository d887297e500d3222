"""Where a queue ends after a crash, entry by entry (S-60 to S-66), and where it begins (S-34)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.dispatch.log_scan import NEVER
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER, ConsumeQueue
from pocketmq.broker.store.recovery.queue_recovery import (
    correct_min_offset,
    cut_at,
    load_queue,
    tells_the_truth,
    zero_behind_end,
)
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.stored.record import encode_record

PER_FILE = 10
HOST = pack_host("127.0.0.1", 10911)


def record(
    offset: int, physical: int, *, topic: bytes = b"T", queue_id: int = 0, body: bytes = b"body"
) -> bytes:
    return encode_record(
        topic=topic, queue_id=queue_id, flag=0, queue_offset=offset, physical_offset=physical,
        sys_flag=0, born_timestamp_ms=1, born_host=HOST, store_timestamp_ms=2, store_host=HOST,
        reconsume_times=0, prepared_transaction_offset=0, body=body, properties=b"",
    )  # fmt: skip


SIZE = len(record(0, 0))


class Log:
    """A log of equal records back to back, each the next message of the queue."""

    def __init__(self, min_offset: int = 0) -> None:
        self.min_offset = min_offset
        self.torn: set[int] = set()
        self.read_at: list[int] = []

    def read(self, physical: int, size: int) -> memoryview | None:
        self.read_at.append(physical)
        number, rest = divmod(physical, SIZE)
        if number in self.torn or rest or size != SIZE:
            return None
        return memoryview(record(number, physical))


def entries(*numbers: int) -> bytes:
    return b"".join(ENTRY.pack(number * SIZE, SIZE, 7) for number in numbers)


def queue_at(root: Path) -> ConsumeQueue:
    return ConsumeQueue(OsDisk(), str(root), "T", 0, PER_FILE * 20)


def stored(root: Path, data: bytes, first: int = 0) -> ConsumeQueue:
    """A queue over files that another process wrote."""
    written = queue_at(root)
    written.put(first, data, 0)
    return queue_at(root)


def load(queue: ConsumeQueue, log: Log, confirmed: int, limit: int = NEVER) -> int:
    return load_queue(queue, log, confirmed, limit)  # type: ignore[arg-type]


def files(root: Path) -> list[int]:
    """Numbers of the first entries of the files that are there."""
    return sorted(int(path.name) // 20 for path in root.rglob("0" * 10 + "*"))


@pytest.mark.parametrize("count", range(26))
def test_a_power_cut_leaves_the_entries_below_the_confirmed_offset(
    tmp_path: Path, count: int
) -> None:
    queue, end = stored(tmp_path, entries(*range(25))), count * SIZE
    assert load(queue, Log(), end, end) == count
    assert (queue.max_offset, queue.checked_below, queue.max_physical) == (count, count, end)
    kept = list(range(0, count, PER_FILE)) if count else []
    assert files(tmp_path) == kept
    assert [file.start // 20 for file in queue.files.files] == kept
    if queue.files.last is not None:
        assert queue.files.last.wrote == queue.files.last.flushed == (count - kept[-1]) * 20


@pytest.mark.parametrize("confirmed", range(27))
def test_a_kill_leaves_all_of_which_those_below_the_confirmed_offset_are_told(
    tmp_path: Path, confirmed: int
) -> None:
    queue = stored(tmp_path, entries(*range(25)))
    assert load(queue, Log(), confirmed * SIZE) == min(confirmed, 25)
    assert (queue.max_offset, queue.checked_below, queue.max_physical) == (25, 25, 25 * SIZE)
    assert files(tmp_path) == [0, 10, 20]


@pytest.mark.parametrize("count", [1, 9, 10, 20])
def test_a_queue_of_any_length_ends_behind_its_last_entry(tmp_path: Path, count: int) -> None:
    queue = stored(tmp_path, entries(*range(count)))
    assert load(queue, Log(), NEVER, NEVER) == count
    assert (queue.max_offset, queue.max_physical) == (count, count * SIZE)


@pytest.mark.parametrize("count", range(14, 17))
def test_a_file_of_a_power_of_two_entries_is_read_to_its_end(tmp_path: Path, count: int) -> None:
    ConsumeQueue(OsDisk(), str(tmp_path), "T", 0, 16 * 20).put(0, entries(*range(count)), 0)
    queue = ConsumeQueue(OsDisk(), str(tmp_path), "T", 0, 16 * 20)
    assert load(queue, Log(), NEVER, NEVER) == count


def test_without_files_there_is_nothing(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    assert load(queue, Log(), 0) == 0
    assert (queue.max_offset, queue.max_physical, files(tmp_path)) == (0, 0, [])


def test_an_empty_file_that_is_not_the_first_stays_the_queue_s_end(tmp_path: Path) -> None:
    queue = stored(tmp_path, entries(*range(10, 13)), first=10)  # the records before are deleted
    assert load(queue, Log(min_offset=9 * SIZE), 0, 0) == 0
    assert (queue.max_offset, files(tmp_path)) == (0, [])


@pytest.mark.parametrize("confirmed", [0, 12 * SIZE])
def test_a_queue_whose_first_file_is_missing_is_made_again_while_the_log_is_whole(
    tmp_path: Path, confirmed: int
) -> None:
    queue = stored(tmp_path, entries(*range(10, 13)), first=10)
    assert load(queue, Log(), confirmed) == -1
    assert (queue.max_offset, queue.files.files, files(tmp_path)) == (0, [], [])


def test_a_queue_that_begins_where_the_log_does_is_whole(tmp_path: Path) -> None:
    queue = stored(tmp_path, entries(*range(10, 13)), first=10)
    assert load(queue, Log(min_offset=10 * SIZE), NEVER) == 13
    assert queue.max_offset == 13


@pytest.mark.parametrize("torn", [1, 2, 3])
def test_entries_whose_records_a_kill_tore_are_dropped(tmp_path: Path, torn: int) -> None:
    queue, log = stored(tmp_path, entries(*range(8))), Log()
    log.torn = set(range(8 - torn, 8))
    assert load(queue, log, 5 * SIZE) == 5
    assert (queue.max_offset, queue.max_physical) == (8 - torn, (8 - torn) * SIZE)


def test_a_confirmed_entry_that_does_not_fit_its_record_is_damage(tmp_path: Path) -> None:
    for torn, found in ((4, -1), (5, 5)):
        queue, log = stored(tmp_path, entries(*range(6))), Log()
        log.torn = set(range(torn, 6))
        assert load(queue, log, 5 * SIZE) == found
        assert files(tmp_path) == ([0] if found > 0 else [])


def test_the_last_record_s_body_is_left_to_its_reader(tmp_path: Path) -> None:
    class Flipped(Log):
        def read(self, physical: int, size: int) -> memoryview | None:
            return memoryview(record(physical // SIZE, physical).replace(b"body", b"bodx"))

    assert load(stored(tmp_path, entries(*range(6))), Flipped(), 9 * SIZE) == 6


def test_nothing_is_read_of_records_that_are_deleted(tmp_path: Path) -> None:
    queue, log = stored(tmp_path, entries(*range(6))), Log(min_offset=6 * SIZE)
    log.torn = set(range(6))
    assert load(queue, log, 9 * SIZE) == 6
    assert log.read_at == []
    sixth = Log(min_offset=5 * SIZE)
    assert load(stored(tmp_path, entries(*range(6))), sixth, 9 * SIZE) == 6
    assert sixth.read_at == [5 * SIZE]


@pytest.mark.parametrize("hole", [0, 1, 7, 9])
def test_entries_behind_one_that_is_none_are_damage(tmp_path: Path, hole: int) -> None:
    data = bytearray(entries(*range(10)))
    data[hole * 20 : hole * 20 + 20] = bytes(20)
    is_last = hole == 9
    assert load(stored(tmp_path, bytes(data)), Log(), 10 * SIZE) == (9 if is_last else -1)
    assert files(tmp_path) == ([0] if is_last else [])


def test_damage_that_bisection_passes_over_is_found_when_it_is_read(tmp_path: Path) -> None:
    data = bytearray(entries(*range(10)))
    data[4 * 20 : 5 * 20] = bytes(20)
    queue = stored(tmp_path, bytes(data))
    assert load(queue, Log(), 10 * SIZE) == 10
    assert queue.checked_below == 10


@pytest.mark.parametrize(("physical", "size"), [(-1, SIZE), (0, 0), (0, -1), (1 << 62, 0)])
def test_what_is_no_entry_ends_the_queue(tmp_path: Path, physical: int, size: int) -> None:
    queue = stored(tmp_path, entries(0, 1, 2) + ENTRY.pack(physical, size, 7))
    assert load(queue, Log(), 3 * SIZE) == 3
    assert queue.max_offset == 3


def test_an_entry_of_the_log_s_first_byte_behind_the_end_is_damage(tmp_path: Path) -> None:
    queue = stored(tmp_path, entries(0) + bytes(20) + entries(0))
    assert load(queue, Log(), SIZE) == -1


def test_fillers_stand_for_nothing_and_stay(tmp_path: Path) -> None:
    queue = stored(tmp_path, entries(0, 1) + FILLER * 3)
    assert load(queue, Log(), 2 * SIZE, 2 * SIZE) == 5
    assert (queue.max_offset, queue.max_physical) == (5, 0)
    queue = stored(tmp_path, entries(0, 1) + FILLER * 3)
    assert load(queue, Log(), 2 * SIZE) == 5
    assert load(stored(tmp_path, entries(0, 1) + FILLER * 3), Log(), SIZE) == 1


# -- the log's end --------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [-1, 0, 1])
@pytest.mark.parametrize("whole", range(1, 26))
def test_entries_go_whose_records_are_not_wholly_in_the_log(
    tmp_path: Path, whole: int, part: int
) -> None:
    queue, end = stored(tmp_path, entries(*range(25))), whole * SIZE + part
    load(queue, Log(), NEVER)
    cut_at(queue, end)
    count = min(end // SIZE, 25)
    assert (queue.max_offset, queue.checked_below) == (count, count)
    assert queue.max_physical == count * SIZE
    assert files(tmp_path) == list(range(0, max(1, count), PER_FILE))
    assert queue.files.max_offset == count * 20


def test_a_log_without_anything_leaves_a_queue_without_entries(tmp_path: Path) -> None:
    queue = stored(tmp_path, entries(*range(25)))
    load(queue, Log(), NEVER)
    cut_at(queue, 0)
    assert (queue.max_offset, queue.max_physical, files(tmp_path)) == (0, 0, [0])


def test_what_is_not_yet_checked_stays_so(tmp_path: Path) -> None:
    queue = stored(tmp_path, entries(*range(9)))
    load(queue, Log(), NEVER)
    queue.checked_below = 2
    cut_at(queue, 5 * SIZE)
    assert (queue.max_offset, queue.checked_below) == (5, 2)


def test_fillers_before_the_log_s_end_stay(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, entries(0) + FILLER * 2 + entries(3, 4), 5 * SIZE)
    cut_at(queue, 3 * SIZE)
    assert (queue.max_offset, queue.max_physical) == (3, 0)
    again = queue_at(tmp_path / "again")
    again.put(0, entries(0) + FILLER * 2 + entries(3, 4), 5 * SIZE)
    cut_at(again, 4 * SIZE)
    assert (again.max_offset, again.max_physical) == (4, 4 * SIZE)


def test_what_lies_behind_the_end_is_zeroed(tmp_path: Path) -> None:  # S-64
    queue = stored(tmp_path, entries(*range(9)))
    load(queue, Log(), 5 * SIZE, 5 * SIZE)
    zero_behind_end(queue)
    (path,) = tmp_path.rglob("0" * 20)
    assert path.read_bytes() == entries(*range(5)).ljust(PER_FILE * 20, b"\0")
    assert queue.max_offset == 5
    zero_behind_end(queue_at(tmp_path / "empty"))


def test_bytes_far_behind_the_end_are_zeroed(tmp_path: Path) -> None:  # S-64
    size = 1000 * 20  # more than the pages that a short queue has
    ConsumeQueue(OsDisk(), str(tmp_path), "T", 0, size).put(0, entries(0, 1), 0)
    (path,) = tmp_path.rglob("0" * 20)
    with path.open("r+b") as file:
        file.seek(15_000)
        file.write(b"left")
    queue = ConsumeQueue(OsDisk(), str(tmp_path), "T", 0, size)
    assert load(queue, Log(), 2 * SIZE) == 2
    zero_behind_end(queue)
    assert path.read_bytes() == entries(0, 1).ljust(size, b"\0")


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 30])
def test_a_file_that_was_not_yet_as_long_as_it_shall_be_is_no_problem(
    tmp_path: Path, length: int
) -> None:  # S-3
    queue = stored(tmp_path, entries(0))
    (path,) = tmp_path.rglob("0" * 20)
    os.truncate(path, length)
    assert load(queue, Log(), SIZE) == (1 if length else 0)
    assert [each.stat().st_size for each in tmp_path.rglob("0" * 20)] == (
        [PER_FILE * 20] if length else []
    )


@pytest.mark.parametrize("confirmed", [0, PER_FILE + 5])
def test_a_first_file_that_was_emptied_does_not_hide_the_second(
    tmp_path: Path, confirmed: int
) -> None:
    queue = stored(tmp_path, entries(*range(PER_FILE + 5)))
    path = next(tmp_path.rglob("0" * 20))
    os.truncate(path, 100)
    os.truncate(path, PER_FILE * 20)
    load(queue, Log(), confirmed * SIZE)
    assert queue.max_offset == PER_FILE + 5


def test_a_name_that_is_gone_from_the_middle_is_missed(tmp_path: Path) -> None:
    queue = stored(tmp_path, entries(0, 1, 2))
    third = next(tmp_path.rglob("0" * 20)).with_name(f"{2 * PER_FILE * 20:020d}")
    third.write_bytes(entries(2 * PER_FILE).ljust(PER_FILE * 20, b"\0"))
    assert load(queue, Log(), 3 * SIZE) == -1


# -- what an entry's record has to say ----------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "is_true"),
    [
        (record(3, 0), True),
        (record(4, 0), False),
        (record(3, 0, queue_id=1), False),
        (record(3, 0, topic=b"U"), False),
        (record(3, 0) + b"\0", False),
        (record(3, 0)[:-1], False),
        (bytes(SIZE), False),
    ],
)
def test_a_record_is_its_entry_s_when_it_says_so(
    tmp_path: Path, data: bytes, *, is_true: bool
) -> None:
    assert tells_the_truth(queue_at(tmp_path), 3, memoryview(data)) is is_true


def test_a_body_is_checked_when_that_is_wanted(tmp_path: Path) -> None:
    data = record(3, 0).replace(b"body", b"bodx")
    queue = queue_at(tmp_path)
    assert not tells_the_truth(queue, 3, memoryview(data))
    assert tells_the_truth(queue, 3, memoryview(data), check_crc=False)


# -- the first offset -----------------------------------------------------------------------------


@pytest.mark.parametrize("log_min", range(25))
@pytest.mark.parametrize("known", [0, 3, 20])
def test_a_queue_begins_at_its_first_record_that_is_left(
    tmp_path: Path, log_min: int, known: int
) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, entries(*range(24)), 0)
    queue.min_offset = known
    correct_min_offset(queue, log_min * SIZE)
    assert queue.min_offset == log_min


@pytest.mark.parametrize(
    ("data", "log_min", "first"),
    [
        (FILLER * 3 + entries(3, 4), 0, 3),
        (FILLER * 3 + entries(3, 4), 4, 4),
        (FILLER * 3 + entries(3, 4), 5, 5),
        (entries(0) + FILLER * 2 + entries(3), 1, 3),
        (entries(0) + FILLER * 12 + entries(13), 1, 13),
        (entries(0) + FILLER * 3, 1, 4),
        (FILLER * 12, 0, 12),
        (FILLER * 12, 5, 12),
        (b"", 5, 0),
    ],
)
def test_fillers_are_no_beginning(tmp_path: Path, data: bytes, log_min: int, first: int) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, data, 0)
    correct_min_offset(queue, log_min * SIZE)
    assert queue.min_offset == first


def test_a_queue_whose_first_files_are_gone_begins_in_those_that_are_left(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, entries(*range(25)), 0)
    queue.files.remove_first()
    correct_min_offset(queue, 0)
    assert queue.min_offset == 10
    correct_min_offset(queue, 15 * SIZE)
    assert queue.min_offset == 15

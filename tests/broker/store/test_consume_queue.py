"""Queue entries: bytes, holes, files, and many queues at little cost (S-30..S-36)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.queues import consume_queue
from pocketmq.broker.store.queues.consume_queue import (
    ENTRY,
    FILLER,
    ConsumeQueue,
    ConsumeQueues,
)
from pocketmq.broker.store.recovery.queue_recovery import correct_min_offset
from pocketmq.protocol.messages.subscription import tags_code

PER_FILE = 10


def queue_at(root: Path) -> ConsumeQueue:
    return ConsumeQueue(OsDisk(), str(root), "T", 0, PER_FILE * 20)


def entries(first: int, count: int) -> bytes:
    """Entries of 100-byte records that lie back to back."""
    return b"".join(ENTRY.pack(n * 100, 100, n) for n in range(first, first + count))


def test_an_entry_is_twenty_bytes_big_endian(tmp_path: Path) -> None:  # S-30
    queue = queue_at(tmp_path)
    queue.put(0, ENTRY.pack(0x0102030405060708, 0x11121314, -2), 1)
    content = (tmp_path / "T" / "0" / f"{0:020d}").read_bytes()
    assert content[:20].hex() == "010203040506070811121314fffffffffffffffe"
    assert len(content) == PER_FILE * 20


def test_a_run_of_entries_goes_on_in_the_next_file(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, entries(0, 25), 2500)
    assert [file.wrote for file in queue.files.files] == [200, 200, 100]
    assert queue.entry(19) == (1900, 100, 19)
    assert queue.max_offset == 25
    assert len(queue.entries(15, 100) or b"") == 5 * 20  # never beyond a file


def test_putting_the_same_again_changes_nothing(tmp_path: Path) -> None:  # S-32
    queue = queue_at(tmp_path)
    queue.put(0, entries(0, 7), 700)
    queue.put(3, entries(3, 4), 700)
    queue.put(5, entries(5, 4), 900)
    assert queue.max_offset == 9
    assert [queue.entry(n) for n in range(9)] == [(n * 100, 100, n) for n in range(9)]


def test_a_hole_is_filled_so_that_later_offsets_stay_right(tmp_path: Path) -> None:  # S-32
    queue = queue_at(tmp_path)
    queue.put(0, entries(0, 2), 200)
    queue.put(5, entries(5, 1), 600)
    assert bytes(queue.entries(2, 3) or b"") == FILLER * 3
    assert queue.entry(5) == (500, 100, 5)
    queue.put(1, entries(1, 3), 400)
    assert [queue.entry(n) for n in (2, 3, 5)] == [(200, 100, 2), (300, 100, 3), (500, 100, 5)]
    assert queue.entry(4) == (0, 0x7FFFFFFF, 0)


@pytest.mark.parametrize("first", [1, 9, 10, 13, 25])
def test_a_queue_may_begin_anywhere(tmp_path: Path, first: int) -> None:  # S-2, S-33
    queue = queue_at(tmp_path)
    queue.put(first, entries(first, 3), 0)
    assert queue.files.min_offset == first // PER_FILE * PER_FILE * 20
    assert (queue.min_offset, queue.max_offset) == (first, first + 3)
    correct_min_offset(queue, 0)
    assert queue.min_offset == first
    assert queue.entry(first) == (first * 100, 100, first)


@pytest.mark.parametrize(
    ("log_min", "expected"), [(0, 0), (100, 1), (650, 7), (1200, 12), (2400, 24), (99_999, 25)]
)
def test_the_first_offset_is_the_first_whose_record_exists(  # S-34
    tmp_path: Path, log_min: int, expected: int
) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, entries(0, 25), 2500)
    correct_min_offset(queue, log_min)
    assert queue.min_offset == expected


def test_files_are_mapped_while_they_are_used_and_no_more_than_allowed(tmp_path: Path) -> None:
    queues = ConsumeQueues(OsDisk(), str(tmp_path), PER_FILE * 20, max_open_files=5)
    for _ in range(3):
        for queue_id in range(20):
            queue = queues.get_or_create("T", queue_id)
            queue.put(queue.max_offset, ENTRY.pack(queue_id, 1, 0), 1)
    mapped = sum(file.is_mapped for queue in queues for file in queue.files.files)
    assert mapped == 5
    for queue in queues:
        assert queue.entry(2) == (queue.queue_id, 1, 0)


def test_a_deleted_topic_leaves_no_file_and_its_readers_their_view(tmp_path: Path) -> None:
    queues = ConsumeQueues(OsDisk(), str(tmp_path), PER_FILE * 20, max_open_files=5)
    queue = queues.get_or_create("T", 0)
    queue.put(0, entries(0, 3), 300)
    view = queue.entries(0, 3)
    queues.delete_topic("T")
    assert not (tmp_path / "consumequeue" / "T").exists()
    assert bytes(view or b"") == entries(0, 3)
    assert queues.get("T", 0) is None


@pytest.mark.parametrize("memory", [False, True])
def test_a_look_behind_the_last_entry_reads_no_holes(tmp_path: Path, *, memory: bool) -> None:
    # fault 52: on a tmpfs such a look gave each queue of a killed broker its 6 MB.
    if memory and not Path("/dev/shm").is_dir():
        pytest.skip("there is no /dev/shm")
    with TemporaryDirectory(dir="/dev/shm" if memory else tmp_path) as folder:
        queue = ConsumeQueue(OsDisk(), folder, "T", 0, 300_000 * 20)
        queue.put(0, entries(0, 3), 300)
        last = queue.files.last
        assert last is not None
        before = os.stat(last.path).st_blocks
        assert not last.has_data_behind(last.wrote)
        assert os.stat(last.path).st_blocks == before
        for position in (last.wrote, 4095, 4096, 70_000, last.size - 1):
            last.view()[position] = 1
            assert last.has_data_behind(last.wrote), position
            last.view()[position] = 0


def test_only_what_is_in_the_queue_is_read(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    assert (queue.entries(0, 1), queue.writable_entry(0), queue.entry(0)) == (None, None, None)
    queue.put(0, entries(0, 12), 1200)
    queue.min_offset = 2
    assert [queue.entry(n) for n in (1, 12)] == [None, None]
    assert [queue.entry(n) for n in (2, 11)] == [(200, 100, 2), (1100, 100, 11)]
    assert bytes(queue.entries(10, 9) or b"") == entries(10, 2)
    assert bytes(queue.entries(8, 1) or b"") == entries(8, 1)
    assert (queue.entries(12, 1), queue.entries(20, 1)) == (None, None)
    assert (queue.writable_entry(12), queue.writable_entry(20)) == (None, None)
    view = queue.writable_entry(11)
    assert view is not None
    assert bytes(view) == entries(11, 1)
    view[:] = entries(77, 1)
    assert queue.entry(11) == (7700, 100, 77)


@pytest.mark.parametrize(("offset", "following"), [(0, 10), (9, 10), (10, 20), (25, 30)])
def test_a_reader_goes_on_in_the_file_after_a_missing_one(
    tmp_path: Path, offset: int, following: int
) -> None:  # B-59
    assert queue_at(tmp_path).next_file_offset(offset) == following


def test_ends_only_ever_move_on(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.next_offset = 5  # the log is ahead of dispatching
    queue.put(0, entries(0, 3), 300)
    assert (queue.next_offset, queue.max_offset, queue.max_physical) == (5, 3, 300)
    queue.put(0, entries(0, 1), 100)
    assert (queue.next_offset, queue.max_offset, queue.max_physical) == (5, 3, 300)
    queue.put(3, entries(3, 4), 700)
    assert (queue.next_offset, queue.max_offset, queue.max_physical) == (7, 7, 700)


def test_a_queue_that_begins_anew_has_nothing(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(13, entries(13, 3), 1600)
    queue.checked_below = 15
    queue.restart()
    assert not (tmp_path / "T" / "0").exists()
    assert (queue.next_offset, queue.max_offset, queue.min_offset) == (0, 0, 0)
    assert (queue.max_physical, queue.checked_below, queue.files.files) == (0, 0, [])
    queue.put(0, entries(0, 1), 100)
    assert (queue.min_offset, queue.max_offset) == (0, 1)


def test_a_wide_gap_is_filled_in_all_its_places(tmp_path: Path) -> None:  # S-32, S-33
    queue = ConsumeQueue(OsDisk(), str(tmp_path), "T", 0, 10_000 * 20)
    queue.put(9_000, entries(9_000, 1), 0)
    assert (queue.min_offset, queue.max_offset) == (9_000, 9_001)
    assert bytes(queue.entries(0, 10_000) or b"") == FILLER * 9_000 + entries(9_000, 1)
    queue.put(14_100, entries(14_100, 1), 0)
    assert (queue.min_offset, queue.max_offset) == (9_000, 14_101)
    assert bytes(queue.entries(9_001, 999) or b"") == FILLER * 999
    assert bytes(queue.entries(10_000, 9_999) or b"") == FILLER * 4_100 + entries(14_100, 1)


def test_pages_that_a_power_cut_could_take_are_counted(tmp_path: Path) -> None:  # S-50
    queue = ConsumeQueue(OsDisk(), str(tmp_path), "T", 0, 1_000 * 20)
    assert queue.dirty_pages() == 0
    for count, pages in ((1, 0), (204, 0), (205, 1), (409, 1), (410, 2), (999, 4)):
        queue.put(queue.max_offset, entries(queue.max_offset, count - queue.max_offset), 0)
        assert queue.dirty_pages() == pages
    first = queue.files.files[0]
    first.flushed = 205 * 20
    assert queue.dirty_pages() == 3
    queue.put(999, entries(999, 1), 0)
    assert queue.dirty_pages() == 1 << 20
    first.flushed = first.wrote
    assert queue.dirty_pages() == 0
    queue.put(1_000, entries(1_000, 2_205), 0)
    assert queue.dirty_pages() == (1 << 20) + 1
    queue.files.files[2].flushed = queue.files.files[2].wrote
    assert queue.dirty_pages() == 1, "the last two files count"


def test_the_entries_that_the_module_opens_with_are_what_it_packs() -> None:  # S-30, S-31
    text = consume_queue.__doc__ or ""
    rows = re.findall(r"^ {4}((?:[0-9a-f]{8,16} ){3}) {3}entry", text, re.MULTILINE)
    tag = tags_code("TagA")
    assert [bytes.fromhex(row) for row in rows] == [
        consume_queue.ENTRY.pack(0, 112, tag),
        consume_queue.ENTRY.pack(112, 112, tag),
    ]

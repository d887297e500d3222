"""One index file, step by step: exact numbers, what damage does, and what it keeps open."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.disk.fault_disk import Fault, FaultDisk
from pocketmq.broker.store.index.index_file import IndexFile, Walk
from pocketmq.broker.store.index.index_service import IndexService
from pocketmq.protocol.store_layout import INDEX_ENTRY
from pocketmq.runtime.errors import DiskFullError

NOW = 1_700_000_000_000
FOREVER = 1 << 62
NAME = "20240102030405678"


def file_at(root: Path, slots: int = 4, entries: int = 10) -> IndexFile:
    file = IndexFile(OsDisk(), str(root / NAME), slots, entries)
    file.create()
    file.reserve(entries)
    return file


def loaded(file: IndexFile) -> IndexFile:
    """The file as the next process sees it."""
    again = IndexFile(OsDisk(), file.path, file.slots, file.max_entries)
    again.load()
    return again


def put(file: IndexFile, *entries: tuple[int, int, int]) -> None:
    """Put entries of (hash, offset, ms after NOW), saved one by one."""
    for hashed, offset, after_ms in entries:
        file.put([hashed], [offset], [NOW + after_ms])
        file.save_header()


def overwrite(file: IndexFile, position: int, *numbers: int) -> None:
    with open(file.path, "r+b") as raw:
        raw.seek(position)
        raw.write(struct.pack(f">{len(numbers)}i", *numbers))


def seconds_in(file: IndexFile) -> list[int]:
    return [entry[2] for entry in INDEX_ENTRY.struct.iter_unpack(file.entries(1))]


@pytest.mark.parametrize(
    ("after_ms", "seconds"),
    [(-5000, 0), (1999, 1), ((2**31 - 1) * 1000, 2**31 - 1), (2**33 * 1000, 2**31 - 1)],
)
def test_the_seconds_of_an_entry_are_bounded(tmp_path: Path, after_ms: int, seconds: int) -> None:
    file = file_at(tmp_path)  # S-47
    for at_ms in (1, max(0, 1 + after_ms)):
        file.put([6], [at_ms], [at_ms])
    assert seconds_in(file) == [0, seconds]


def test_the_first_entry_counts_its_seconds_from_the_file_before(tmp_path: Path) -> None:  # S-47
    service = IndexService(OsDisk(), str(tmp_path), 4, 10)
    service.put([(6, n) for n in range(9)], NOW)
    service.put([(6, n) for n in range(9, 12)], NOW + 5000)
    assert [seconds_in(file) for file in service.files] == [[0] * 9, [5, 0, 0]]
    service.close()


def test_an_entry_finds_the_one_before_it_in_a_long_file(tmp_path: Path) -> None:
    """256 in the other order of bytes is 65,536, which is an entry as well."""
    file = file_at(tmp_path, slots=2, entries=70_000)
    for hashed, count in ((1, 256), (0, 66_000), (1, 1)):
        first = file.next_entry
        file.put([hashed] * count, [*range(first, first + count)], [NOW] * count)
    assert list(file.find(1, 0, FOREVER)) == [66_257, *range(256, 0, -1)]
    file.close()


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_an_entry_after_a_kill_follows_those_that_count(tmp_path: Path, lost: int) -> None:
    file = file_at(tmp_path)
    put(file, (6, 1, 0), (6, 2, 0))
    for offset in range(lost):  # the kill comes before the header is saved
        file.put([6], [50 + offset], [NOW])
    again = loaded(file)
    again.reserve(1)
    put(again, (6, 9, 0))
    assert list(again.find(6, 0, FOREVER)) == [9, 2, 1]


def test_a_search_stops_where_nothing_can_follow(tmp_path: Path) -> None:  # S-48
    file = file_at(tmp_path)
    put(file, *((6, n, n * 1000) for n in range(5)))
    assert list(file.find(6, 0, FOREVER, Walk(3))) == [4, 3, 2]
    walk = Walk(100)
    assert list(file.find(6, NOW + 3000, FOREVER, walk)) == [4, 3]
    assert walk.entries_left == 97, "times only fall from there on"


@pytest.mark.parametrize("older", [2, 3])
def test_a_chain_that_leads_back_ends(tmp_path: Path, older: int) -> None:
    file = file_at(tmp_path)
    put(file, (6, 10, 0), (6, 20, 0), (7, 30, 0))
    overwrite(file, file.entry_at(2) + 16, older)
    assert list(file.find(6, 0, FOREVER)) == [20]
    assert not file.holds(10, 15)
    assert not file.holds(6, 10)


def test_entries_that_do_not_count_lead_nowhere_when_they_lead_back(tmp_path: Path) -> None:
    file = file_at(tmp_path)
    put(file, (6, 10, 0))
    overwrite(file, file.slot_at(2), 5)
    overwrite(file, file.entry_at(5) + 16, 5)
    assert list(file.find(6, 0, FOREVER)) == []


def test_a_slot_that_points_behind_the_last_entry_is_empty(tmp_path: Path) -> None:
    file = file_at(tmp_path)
    put(file, (6, 10, 0))
    overwrite(file, file.slot_at(2), file.max_entries)
    assert list(file.find(6, 0, FOREVER)) == []


def test_a_file_says_what_it_holds(tmp_path: Path) -> None:
    file = file_at(tmp_path)
    put(file, (6, 10, 0), (6, 20, 0))
    asked = [(6, 20), (6, 10), (10, 20), (10, 10), (6, 30), (6, 15), (7, 10), (4, 0)]
    assert [each for each in asked if file.holds(*each)] == [(6, 20), (6, 10)]
    assert (file.newest(6), file.newest(7)) == (2, 0)
    assert file.slot_numbers() == struct.pack(">4i", 0, 0, 2, 0)


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "overlaps"),
    [(-5, -1, False), (-5, 0, True), (2, 3, True), (1000, 2000, True), (1001, 2000, False)],
)
def test_a_file_is_searched_for_its_own_times(
    tmp_path: Path, begin_ms: int, end_ms: int, overlaps: bool
) -> None:
    file = file_at(tmp_path)
    put(file, (6, 10, 0), (6, 20, 1000))
    assert file.overlaps(NOW + begin_ms, NOW + end_ms) is overlaps


@pytest.mark.parametrize(
    ("log_end", "left", "end_ms"), [(5, 2, 999), (15, 3, 2999), (25, 4, 3999), (35, 5, 4100)]
)
def test_a_cut_file_ends_in_the_second_of_its_last_message(
    tmp_path: Path, log_end: int, left: int, end_ms: int
) -> None:
    file = file_at(tmp_path)
    file.begin_ms = file.end_ms = NOW - 7000  # where the file before it ends
    put(file, (6, 0, 0), (6, 10, 2500), (7, 20, 3700), (6, 30, 4100), (6, 40, 4100))
    file.cut(log_end)
    again = loaded(file)
    assert (again.next_entry, again.end_ms) == (left, NOW + end_ms)


def test_no_file_is_made_without_space_for_its_slots(tmp_path: Path) -> None:
    disk = FaultDisk(Fault("enospc", 1, lasts=True, operation="reserve"))
    with pytest.raises(DiskFullError):
        IndexFile(disk, str(tmp_path / NAME), 4, 10).create()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count otherwise")
def test_only_entries_with_blocks_can_be_put(tmp_path: Path) -> None:
    file = IndexFile(OsDisk(), str(tmp_path / NAME), 1000, 20_000)
    file.create()
    file.reserve(1)
    blocks = 512 * os.stat(file.path).st_blocks
    assert 1 < file.room_until < file.max_entries
    assert file.entry_at(file.room_until) <= blocks


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_a_file_keeps_no_descriptor_and_when_closed_no_mapping(tmp_path: Path) -> None:
    def descriptors() -> int:
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return [os.readlink(link) for link in links if os.path.islink(link)].count(file.path)

    def is_mapped() -> bool:
        return file.path in Path("/proc/self/maps").read_text(encoding="utf-8")

    file = IndexFile(OsDisk(), str(tmp_path / NAME), 4, 20_000)
    file.create()
    file.close()
    assert descriptors() == 0
    file.reserve(10_000)
    assert descriptors() == 0
    put(file, (6, 10, 0))
    assert is_mapped()
    file.close()
    assert not is_mapped()

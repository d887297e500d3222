"""Queues whose last file is read at its start, and not mapped: the result is that of a mapping."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.store.disk.disk import Disk, OsDisk, ReadOnlyDisk
from pocketmq.broker.store.dispatch.log_scan import NEVER
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER, ConsumeQueue
from pocketmq.broker.store.recovery import queue_recovery
from pocketmq.broker.store.recovery.queue_recovery import (
    cut_at,
    load_queue,
    settle,
    tells_the_truth,
)
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.stored.record import encode_record
from pocketmq.runtime.errors import DiskError
from pocketmq.simulation.disk import MemoryDisk

PER_FILE = 1000  # 20,000 bytes: their first two pages hold 409 entries
HOST = pack_host("127.0.0.1", 10911)


def record(offset: int, physical: int, properties: bytes = b"") -> bytes:
    return encode_record(
        topic=b"T", queue_id=0, flag=0, queue_offset=offset, physical_offset=physical,
        sys_flag=0, born_timestamp_ms=1, born_host=HOST, store_timestamp_ms=2, store_host=HOST,
        reconsume_times=0, prepared_transaction_offset=0, body=b"body",
        properties=properties,
    )  # fmt: skip


SIZE = len(record(0, 0))


class Log:
    """A log of equal records back to back, each the next message of the queue."""

    def __init__(self, min_offset: int = 0, torn: Sequence[int] = ()) -> None:
        self.min_offset = min_offset
        self.torn = torn

    def read(self, physical: int, size: int) -> memoryview | None:
        number, rest = divmod(physical, SIZE)
        if number in self.torn or rest or size != SIZE:
            return None
        return memoryview(record(number, physical))


class CountedDisk(OsDisk):
    """Counts mappings."""

    def __init__(self) -> None:
        self.mapped = 0

    def map_file(self, path: str, size: int) -> memoryview:
        self.mapped += 1
        return super().map_file(path, size)

    def map_for_reading(self, path: str, size: int) -> memoryview:
        self.mapped += 1
        return super().map_for_reading(path, size)


def queue_at(root: Path, disk: Disk | None = None) -> ConsumeQueue:
    return ConsumeQueue(disk or OsDisk(), str(root), "T", 0, PER_FILE * 20)


def entries(*numbers: int) -> bytes:
    return b"".join(ENTRY.pack(number * SIZE, SIZE, 7) for number in numbers)


class Outcome(NamedTuple):
    entries: int
    bounds: tuple[int, int, int, int]
    files: dict[str, bytes]


def recover(root: Path, disk: Disk, log: Log, confirmed: int, limit: int, end: int) -> Outcome:
    """What a start after a crash makes of a queue."""
    queue = queue_at(root, disk)
    found = load_queue(queue, log, confirmed, limit)  # type: ignore[arg-type]
    cut_at(queue, end)
    settle(queue, found, log.min_offset, crashed=True)
    return Outcome(
        found.entries,
        (queue.min_offset, queue.max_offset, queue.max_physical, queue.checked_below),
        {path.name: path.read_bytes() for path in root.rglob("0*") if path.is_file()},
    )


counts = st.one_of(
    st.integers(0, 12), st.integers(200, 260), st.integers(400, 415), st.integers(990, 2010)
)


@given(
    count=counts,
    shift=st.sampled_from([0, 0, 3, PER_FILE]),
    damage=st.lists(
        st.tuples(
            st.integers(0, 2 * PER_FILE),
            st.sampled_from([bytes(20), FILLER, b"\xff" * 20, entries(1), entries(5000), b"x"]),
        ),
        max_size=2,
    ),
    torn=st.integers(0, 3),
    confirmed=st.integers(-3, 500),
    is_power_cut=st.booleans(),
    log_min=st.sampled_from([0, 0, 2, PER_FILE]),
    cut=st.integers(0, 3),
)
def test_what_is_read_and_what_is_mapped_come_to_the_same(
    *,
    count: int,
    shift: int,
    damage: list[tuple[int, bytes]],
    torn: int,
    confirmed: int,
    is_power_cut: bool,
    log_min: int,
    cut: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        read, mapped = Path(folder) / "read", Path(folder) / "mapped"
        read.mkdir()
        queue_at(read).put(shift, entries(*range(shift, shift + count)), 0)
        files = sorted(read.rglob("0" * 10 + "*"))
        for at, what in damage:
            if at // PER_FILE < len(files):
                with files[at // PER_FILE].open("r+b") as file:
                    file.seek(at % PER_FILE * 20)
                    file.write(what)
        shutil.copytree(read, mapped)
        total = shift + count
        log = Log(log_min * SIZE, torn=range(total - torn, total))
        confirmed_at = max(0, total - confirmed) * SIZE
        limit = confirmed_at if is_power_cut else NEVER
        end = max(log.min_offset, (total - cut) * SIZE)
        found = recover(read, OsDisk(), log, confirmed_at, limit, end)
        with patch.object(queue_recovery, "_LOOKED_AT", 0):
            assert found == recover(mapped, OsDisk(), log, confirmed_at, limit, end)


@pytest.mark.parametrize(("count", "mappings"), [(1, 0), (255, 0), (256, 1)])
def test_a_queue_of_few_entries_is_not_mapped(tmp_path: Path, count: int, mappings: int) -> None:
    queue_at(tmp_path).put(0, entries(*range(count)), 0)
    disk = CountedDisk()
    found = recover(tmp_path, disk, Log(), count * SIZE, NEVER, count * SIZE)
    assert found.bounds == (0, count, count * SIZE, count)
    assert min(disk.mapped, 1) == mappings


@pytest.mark.parametrize(
    ("count", "log_min", "first"),
    [(5, 0, 0), (5, 1, 1), (5, 3, 3), (5, 9, 5), (PER_FILE + 5, 3, 3)],
)
def test_a_queue_that_was_only_read_begins_with_its_first_record_that_is_left(
    tmp_path: Path, count: int, log_min: int, first: int
) -> None:  # S-34
    queue_at(tmp_path).put(0, entries(*range(count)), 0)
    end = 2 * PER_FILE * SIZE
    assert recover(tmp_path, OsDisk(), Log(log_min * SIZE), end, NEVER, end).bounds[0] == first


@pytest.mark.parametrize("properties", [b"", b"KEYS\x01k\x02", b"KEYS\x01" + b"k" * 300])
@pytest.mark.parametrize("flip", [1, 0x80, 0xFF])
def test_the_short_way_to_believe_a_record_believes_what_the_whole_check_does(
    tmp_path: Path, properties: bytes, flip: int
) -> None:
    queue, good = queue_at(tmp_path), record(3, 700, properties)
    tried = [good, good + b"\0", good[:-1], good[:-1] + b"\0", good[:60], b""]
    bare = record(3, 700)
    much = bare[:-2] + (1 << 15).to_bytes(2, "big") + b"p" * (1 << 15)  # no record has so many
    others = (much, bare[:-1], bare[:-2], bare[:-3])
    tried += [len(other).to_bytes(4, "big") + other[4:] for other in others]  # as they say
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= flip
        tried.append(bytes(damaged))
    short = [tells_the_truth(queue, 3, memoryview(each), check_crc=False) for each in tried]
    with patch.object(queue_recovery, "check_record") as asked:
        assert tells_the_truth(queue, 3, memoryview(good), check_crc=False)
        assert not asked.called  # of this one
    with patch.object(queue_recovery, "_tells_plainly", lambda *_: False):
        whole = [tells_the_truth(queue, 3, memoryview(each), check_crc=False) for each in tried]
    assert short == whole
    assert short[0]
    assert not short[2]


def test_bytes_far_behind_the_end_are_zeroed(tmp_path: Path) -> None:  # S-64
    queue_at(tmp_path).put(0, entries(0, 1), 0)
    (path,) = tmp_path.rglob("0" * 20)
    with path.open("r+b") as file:
        file.seek(15_000)
        file.write(b"left")
    assert recover(tmp_path, OsDisk(), Log(), 2 * SIZE, NEVER, 2 * SIZE).entries == 2
    assert path.read_bytes() == entries(0, 1).ljust(PER_FILE * 20, b"\0")


@pytest.mark.parametrize("length", [0, 30])
def test_a_file_that_was_not_yet_as_long_as_it_shall_be_is_no_problem(
    tmp_path: Path, length: int
) -> None:  # S-3
    queue_at(tmp_path).put(0, entries(0), 0)
    (path,) = tmp_path.rglob("0" * 20)
    os.truncate(path, length)
    found = recover(tmp_path, OsDisk(), Log(), 0, NEVER, SIZE)
    assert found.bounds[1] == (1 if length else 0)
    assert [len(content) for content in found.files.values()] == ([20_000] if length else [])


# -- the disks' looks ---------------------------------------------------------------------------


def filled(disk: Disk, root: str) -> Disk:
    """A disk with a row of two files, and other names beside them."""
    disk.make_directory(root)
    for name, content in (("0" * 20, b"first"), (f"{10_000:020d}", b"\0" * 9_000 + b"x")):
        disk.write_file(f"{root}/{name}", content)
    disk.write_file(f"{root}/zzz", b"no offset")
    return disk


@pytest.mark.parametrize("kind", ["os", "read-only", "memory"])
def test_a_look_shows_the_names_and_the_last_file_s_start(tmp_path: Path, kind: str) -> None:
    root = str(tmp_path / "row")
    disk = filled(MemoryDisk(lambda: 0) if kind == "memory" else OsDisk(), root)
    if kind == "read-only":
        disk = ReadOnlyDisk()
    names = ["0" * 20, f"{10_000:020d}"]
    look = disk.look_at_row(root, 8)
    assert look[:3] == (names, 9_001, bytes(8))
    assert look.next_data is not None
    assert disk.look_at_row(root, 20_000) == (names, 9_001, b"\0" * 9_000 + b"x", None)
    assert disk.look_at_row(str(tmp_path / "none"), 8) == ([], 0, b"", None)


def test_a_last_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / ("0" * 20)).symlink_to(tmp_path / "gone")
    assert OsDisk().look_at_row(str(tmp_path), 8) == (["0" * 20], 0, b"", None)
    (tmp_path / ("1" * 20)).mkdir()
    with pytest.raises(DiskError, match="1" * 20):
        OsDisk().look_at_row(str(tmp_path), 8)


def test_a_row_of_one_file_that_is_not_full_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_at(tmp_path).put(0, entries(0), 0)
    path = next(tmp_path.rglob("0" * 20))
    listed: list[str] = []
    found = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: listed.append(folder) or found(folder))
    look = OsDisk().look_at_row(str(path.parent), 8192, PER_FILE * 20)
    assert look == (["0" * 20], PER_FILE * 20, entries(0).ljust(8192, b"\0"), None)
    assert listed == []
    assert OsDisk().look_at_row(str(path.parent), 8192) == look
    assert listed == [str(path.parent)]


@pytest.mark.parametrize(
    ("first", "second"), [("data behind", ""), ("too short", ""), ("", "there"), ("missing", "")]
)
def test_any_other_row_is_listed(tmp_path: Path, first: str, second: str) -> None:
    size = PER_FILE * 20
    content = b"\0" * 10_000 + b"x" if first == "data behind" else b""
    if first != "missing":
        (tmp_path / ("0" * 20)).write_bytes(content)
        os.truncate(tmp_path / ("0" * 20), size - (first == "too short"))
    if second:
        (tmp_path / f"{size:020d}").write_bytes(b"")
    (tmp_path / f"{2 * size:020d}").write_bytes(b"third")
    look = OsDisk().look_at_row(str(tmp_path), 8192, size)
    assert look == OsDisk().look_at_row(str(tmp_path), 8192)
    assert look.content == b"third"


@pytest.mark.parametrize("confirmed", [0, PER_FILE + 5])
def test_a_first_file_that_was_emptied_does_not_hide_the_second(
    tmp_path: Path, confirmed: int
) -> None:
    outcomes = []
    for name, looked_at in (("read", 8192), ("mapped", 0)):
        queue_at(tmp_path / name).put(0, entries(*range(PER_FILE + 5)), 0)
        path = next((tmp_path / name).rglob("0" * 20))
        os.truncate(path, 100)
        os.truncate(path, PER_FILE * 20)
        end = (PER_FILE + 5) * SIZE
        with patch.object(queue_recovery, "_LOOKED_AT", looked_at):
            outcomes.append(recover(tmp_path / name, OsDisk(), Log(), confirmed * SIZE, NEVER, end))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].bounds[1] == PER_FILE + 5


@pytest.mark.parametrize(("is_power_cut", "found"), [(True, -1), (False, 3)])
def test_a_name_that_a_power_cut_took_is_missed(
    tmp_path: Path, found: int, *, is_power_cut: bool
) -> None:
    queue_at(tmp_path).put(0, entries(0, 1, 2), 0)
    third = next(tmp_path.rglob("0" * 20)).with_name(f"{2 * PER_FILE * 20:020d}")
    third.write_bytes(entries(2 * PER_FILE).ljust(PER_FILE * 20, b"\0"))
    limit = 3 * SIZE if is_power_cut else NEVER
    assert recover(tmp_path, OsDisk(), Log(), 3 * SIZE, limit, 3 * SIZE).entries == found

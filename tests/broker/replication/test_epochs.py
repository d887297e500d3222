"""Epochs: the file, and up to where two logs agree (H-130 to H-136)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epochs import NO_POINT, Epoch, Epochs, EpochsError
from pocketmq.broker.store import OsDisk
from pocketmq.runtime.errors import DiskError
from support.disks import FullDisk

ROCKETMQ = "2\n773307083\n7-7000\n8-8000\n"
"""As RocketMQ's CheckpointFile wrote it."""


def epochs(*entries: tuple[int, int]) -> Epochs:
    return Epochs(Epoch(*entry) for entry in entries)


def test_the_file_is_rocketmqs() -> None:  # H-131
    assert epochs((7, 7000), (8, 8000)).text() == ROCKETMQ
    assert Epochs.parse(ROCKETMQ).entries == (Epoch(7, 7000), Epoch(8, 8000))


def test_a_file_may_have_no_crc() -> None:  # H-131
    assert Epochs.parse("1\r\n0\r\n1-5\r\n").entries == (Epoch(1, 5),)
    assert Epochs.parse("0\n0\n").entries == ()


def test_what_follows_the_announced_epochs_is_not_read() -> None:  # H-131
    assert Epochs.parse("1\n0\n1-5\n2-9\n").entries == (Epoch(1, 5),)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x\n", "2\n0\n1-1\n", "1\n5\n1-1\n", "1\n1\n1-1\n", "1\n0\n1-x\n"),
        *("2\n0\n2-5\n1-6\n", "2\n0\n1-5\n1-6\n", "2\n0\n1-5\n2-5\n", "2\n0\n1-5\n2-4\n"),
    ],
)
def test_a_damaged_file_says_so(text: str) -> None:
    with pytest.raises(EpochsError):
        Epochs.parse(text)


def test_an_epoch_in_which_nothing_was_written_gives_way_to_its_successor() -> None:  # W-5, F-8
    table = epochs((1, 0))
    assert table.append(Epoch(2, 500))
    assert table.append(Epoch(3, 500))
    assert table.entries == (Epoch(1, 0), Epoch(3, 500))


def test_an_epoch_that_is_the_last_already_keeps_its_start() -> None:  # W-5, F-32
    table = epochs((1, 0), (2, 500))
    assert not table.append(Epoch(2, 900))
    assert table.last == Epoch(2, 500)


def test_epochs_rise() -> None:  # I-2
    with pytest.raises(ValueError, match="cannot follow"):
        epochs((3, 100)).append(Epoch(2, 200))
    with pytest.raises(ValueError, match="cannot follow"):
        epochs((3, 100)).append(Epoch(4, 50))


@pytest.mark.parametrize(
    ("mine", "end", "theirs", "their_end", "point"),
    [
        ([(1, 0)], 900, [(1, 0)], 700, 700),
        ([(1, 0)], 500, [(1, 0), (2, 700)], 900, 500),
        ([(1, 0)], 900, [(1, 0), (2, 700)], 1000, 700),  # the old master's tail
        ([(1, 0), (2, 600)], 900, [(1, 0), (3, 500)], 1000, 500),
        ([(1, 0), (2, 600), (4, 800)], 900, [(1, 0), (2, 600), (3, 700)], 1000, 700),
        ([(2, 100)], 900, [(1, 0), (3, 500)], 1000, NO_POINT),
        ([(1, 5)], 900, [(1, 0)], 1000, NO_POINT),
    ],
)
def test_logs_agree_up_to_the_end_of_the_newest_common_epoch(
    mine: list[tuple[int, int]],
    end: int,
    theirs: list[tuple[int, int]],
    their_end: int,
    point: int,
) -> None:  # H-136
    assert epochs(*mine).consistent_point(end, epochs(*theirs), their_end) == point


def test_a_log_without_epochs_has_number_below_0() -> None:  # H-136
    none = epochs()
    assert (none.last, none.last_number, none.of(5)) == (None, -1, None)
    assert epochs((3, 100)).last_number == 3
    assert none.consistent_point(900, epochs((1, 0)), 900) == -1
    assert none.append(Epoch(1, 0))


def test_cuts_take_epochs_along() -> None:  # H-134, H-135
    table = epochs((1, 0), (2, 500), (3, 800))
    assert not table.cut_suffix(801)
    assert table.cut_suffix(800)
    assert table.entries == (Epoch(1, 0), Epoch(2, 500))
    assert table.cut_prefix(500)
    assert table.entries == (Epoch(2, 500),)
    assert not table.cut_prefix(700)


def test_an_offset_belongs_to_the_epoch_that_wrote_it() -> None:
    table = epochs((1, 100), (2, 500))
    assert [table.of(at) for at in (0, 100, 499, 500, 9999)] == [
        Epoch(1, 100), Epoch(1, 100), Epoch(1, 100), Epoch(2, 500), Epoch(2, 500),
    ]  # fmt: skip


async def test_the_file_is_on_the_disk_before_the_epoch_counts(tmp_path: Path) -> None:
    file = EpochFile(str(tmp_path), OsDisk())
    await file.load()
    await file.append(Epoch(7, 7000))
    await file.append(Epoch(8, 8000))
    assert (tmp_path / "epochFileCheckpoint").read_text() == ROCKETMQ
    again = EpochFile(str(tmp_path), OsDisk())
    await again.load()
    assert again.table.entries == file.table.entries
    await again.cut_suffix(8000)
    assert again.table.last == Epoch(7, 7000)


async def on_disk(folder: Path) -> tuple[Epoch, ...]:
    """What a broker that starts now reads."""
    file = EpochFile(str(folder), OsDisk())
    await file.load()
    return tuple(file.table.entries)


async def test_an_epoch_that_was_not_written_is_not_there(tmp_path: Path) -> None:
    disk = FullDisk()
    file = EpochFile(str(tmp_path), disk)
    await file.append(Epoch(1, 0))
    disk.is_full = True
    with pytest.raises(DiskError):
        await file.append(Epoch(2, 500))
    assert file.table.entries == (Epoch(1, 0),)
    disk.is_full = False
    await file.append(Epoch(2, 500))
    assert file.table.entries == await on_disk(tmp_path) == (Epoch(1, 0), Epoch(2, 500))


async def test_epochs_whose_messages_were_all_deleted_go_with_the_next_one(  # H-135, W-14
    tmp_path: Path,
) -> None:
    file = EpochFile(str(tmp_path), OsDisk())
    for number, start in enumerate((0, 500, 900), 1):
        await file.append(Epoch(number, start))
    await file.append(Epoch(4, 1200), log_min=600)
    assert await on_disk(tmp_path) == (Epoch(2, 500), Epoch(3, 900), Epoch(4, 1200))


async def test_a_cut_that_was_not_written_is_written_with_the_next_change(tmp_path: Path) -> None:
    disk = FullDisk()
    file = EpochFile(str(tmp_path), disk)
    await file.append(Epoch(1, 0))
    await file.append(Epoch(2, 500))
    disk.is_full = True
    with pytest.raises(DiskError):
        await file.cut_suffix(500)
    assert file.table.entries == (Epoch(1, 0),), "the log is cut already"
    disk.is_full = False
    await file.append(Epoch(1, 0))  # it is the last already
    assert await on_disk(tmp_path) == (Epoch(1, 0),)


async def test_an_epoch_that_a_power_cut_took_from_the_log_keeps_nobody_from_leading(  # H-134
    tmp_path: Path,
) -> None:
    file = EpochFile(str(tmp_path), OsDisk())
    for number, start in ((1, 0), (2, 500), (3, 900)):
        await file.append(Epoch(number, start))
    again = EpochFile(str(tmp_path), OsDisk())
    await again.load()
    again.recovered(500)
    assert again.table.last == Epoch(2, 500), "it may have begun there, and written nothing yet"
    await again.append(Epoch(2, 500))  # elected again in the same term
    assert await on_disk(tmp_path) == (Epoch(1, 0), Epoch(2, 500))
    await again.append(Epoch(4, 500))
    assert await on_disk(tmp_path) == (Epoch(1, 0), Epoch(4, 500))

"""Reading store directories that are written to, cut off or damaged (fault 57)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pocketmq.pipeline.errors import CorruptRecordError
from pocketmq.pipeline.stores import log_walk
from support import spark_store
from support.spark_store import (
    MESSAGES,
    by_place,
    log_files,
    mixed,
    open_store,
    planned,
    pulled,
    put,
    read_rows,
    row_of,
)

# -- in use, or cut off -------------------------------------------------------------------------


def test_a_read_of_a_living_store_stops_at_its_snapshot(tmp_path: Path) -> None:
    root = tmp_path / "s"
    with open_store(root) as store:
        put(store, mixed(150))
        snapshot = [row_of(message, str(root)) for message in pulled(store)]
        reader, partitions = planned(path=str(root), minPartitions="3")
        walker, walks = planned(path=str(root), scan="commitlog")
        put(store, mixed(400))  # the log and the queues roll
        assert by_place(read_rows(reader, partitions)) == snapshot
        assert read_rows(walker, walks) == snapshot


def test_a_log_cut_at_any_byte_shows_whole_records_only(
    store: Path, tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    last = log_files(store)[-1]
    start = int(last.name)
    inside = [row["physicalOffset"] - start for row in expected if row["physicalOffset"] >= start]
    for number, cut in enumerate([1, 50, *(at + d for at in inside[1:40:13] for d in (0, 7, 95))]):
        root = shutil.copytree(store, tmp_path / str(number))
        with (root / "commitlog" / last.name).open("r+b") as file:
            file.truncate(cut)
        whole = [row["physicalOffset"] for row in expected if row["physicalOffset"] < start + cut]
        for scan in ("consumequeue", "commitlog"):
            rows = spark_store.rows(path=str(root), scan=scan, columns="physicalOffset,body")
            found = sorted(row["physicalOffset"] for row in rows)
            assert found in (whole, whole[:-1]), (cut, scan)


@pytest.mark.parametrize("more", [0, 7, 95])
def test_a_log_file_that_is_cut_after_it_was_planned_is_told_and_ends_the_read(
    copy: Path, expected: list[dict[str, Any]], more: int
) -> None:
    """As a broker does that starts after a crash; 95 bytes are more than a record's head."""
    last = log_files(copy)[-1]
    start = int(last.name)
    inside = [row["physicalOffset"] for row in expected if row["physicalOffset"] >= start]
    strict = planned(path=str(copy), scan="commitlog")
    lenient = planned(path=str(copy), scan="commitlog", mode="PERMISSIVE", columns="physicalOffset")
    with last.open("r+b") as file:
        file.truncate(inside[5] - start + more)
    with pytest.raises(CorruptRecordError, match=r"was cut here|a record of"):
        read_rows(*strict)
    rows = read_rows(*lenient)
    read = {row["physicalOffset"] for row in rows}
    assert {offset for offset in read if offset >= start} == {*inside[:5]}


def test_zeros_behind_the_last_record_end_the_table(
    copy: Path, expected: list[dict[str, Any]]
) -> None:
    """What a power cut, or a copy made while the broker ran, leaves behind."""
    last = log_files(copy)[-1]
    data = bytearray(last.read_bytes())
    cut = expected[-3]["physicalOffset"] - int(last.name)
    data[cut:] = bytes(len(data) - cut)
    last.write_bytes(data)
    found = by_place(spark_store.rows(path=str(copy), brokerName=expected[0]["brokerName"]))
    assert found == expected[:-3]


def test_a_file_deleted_before_the_read_is_no_part_of_the_table(
    copy: Path, expected: list[dict[str, Any]]
) -> None:
    first, second = log_files(copy)[:2]
    first.unlink()
    found = by_place(spark_store.rows(path=str(copy), brokerName=expected[0]["brokerName"]))
    assert found == [row for row in expected if row["physicalOffset"] >= int(second.name)]


def test_a_file_deleted_during_the_read_is_named_or_counted(
    copy: Path, expected: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    strict, partitions = planned(path=str(copy))
    lenient, same = planned(path=str(copy), mode="PERMISSIVE")
    first, second = log_files(copy)[:2]
    first.unlink()
    with pytest.raises(CorruptRecordError, match=r"missing.*mode=PERMISSIVE"):
        read_rows(strict, partitions)
    rows = read_rows(lenient, same)
    kept = [row for row in expected if row["physicalOffset"] >= int(second.name)]
    assert len(rows) == len(kept)
    assert f"count={len(expected) - len(kept)}" in caplog.text


# -- damage -------------------------------------------------------------------------------------


def damage(root: Path, row: dict[str, Any], at: int, byte: int = 0xFF) -> tuple[Path, int]:
    """Flip a byte of a record; its file and the record's position there."""
    file = [path for path in log_files(root) if int(path.name) <= row["physicalOffset"]][-1]
    position = row["physicalOffset"] - int(file.name)
    with file.open("r+b") as opened:
        opened.seek(position + at)
        old = opened.read(1)[0]
        opened.seek(position + at)
        opened.write(bytes((old ^ byte,)))
    return file, position


@pytest.mark.parametrize(
    ("at", "scan"),
    [
        *((at, "consumequeue") for at in (1, 5, 15, 27, 35, 86)),
        # Only a queue knows which queue and number a record has: bytes 15 and 27.
        *((at, "commitlog") for at in (1, 5, 35, 86)),
    ],
)
def test_a_broken_record_is_named_or_skipped_and_counted(
    at: int,
    scan: str,
    copy: Path,
    expected: list[dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    file, position = damage(copy, expected[100], at)
    options = {"path": str(copy), "scan": scan, "brokerName": expected[0]["brokerName"]}
    with pytest.raises(CorruptRecordError) as caught:
        spark_store.rows(**options)
    assert f"{file}: no valid record at byte {position}: " in str(caught.value)
    found = by_place(spark_store.rows(**options, mode="permissive"))
    assert found == expected[:100] + expected[101:]
    assert "records.skipped" in caplog.text
    assert "count=1" in caplog.text


def test_a_wrong_checksum_is_found_when_asked_for(
    copy: Path, expected: list[dict[str, Any]]
) -> None:
    row = next(row for row in expected[50:] if row["sysFlag"] == 0)
    file, position = damage(copy, row, 90)
    assert len(spark_store.rows(path=str(copy))) == MESSAGES
    with pytest.raises(CorruptRecordError, match="BODYCRC") as caught:
        spark_store.rows(path=str(copy), verifyCrc="true", columns="queueOffset")
    assert caught.value.path == file
    assert caught.value.position == position
    rows = spark_store.rows(path=str(copy), verifyCrc="true", mode="PERMISSIVE")
    assert len(rows) == MESSAGES - 1


def test_a_compressed_body_that_cannot_be_inflated_is_a_broken_record(
    copy: Path, expected: list[dict[str, Any]]
) -> None:
    row = next(row for row in expected[50:] if row["sysFlag"] != 0)
    damage(copy, row, 89)
    with pytest.raises(CorruptRecordError, match="inflated"):
        spark_store.rows(path=str(copy))
    assert len(spark_store.rows(path=str(copy), columns="queueOffset")) == MESSAGES
    rows = spark_store.rows(path=str(copy), mode="PERMISSIVE", brokerName=row["brokerName"])
    assert by_place(rows) == [each for each in expected if each != row]


def test_a_queue_that_points_at_another_message_is_found(
    copy: Path, expected: list[dict[str, Any]]
) -> None:
    queue = copy / "consumequeue" / "T" / "0" / f"{0:020d}"
    data = bytearray(queue.read_bytes())
    data[20:40] = data[40:60]
    queue.write_bytes(data)
    with pytest.raises(CorruptRecordError, match="another queue or offset"):
        spark_store.rows(path=str(copy))
    assert len(spark_store.rows(path=str(copy), mode="PERMISSIVE")) == MESSAGES - 1


def test_an_entry_that_claims_a_giant_takes_no_memory(copy: Path) -> None:
    queue = copy / "consumequeue" / "T" / "0" / f"{0:020d}"
    data = bytearray(queue.read_bytes())
    data[28:32] = (0x7FFFFF00).to_bytes(4, "big")
    queue.write_bytes(data)
    assert len(spark_store.rows(path=str(copy), mode="PERMISSIVE")) == MESSAGES - 1


class CutLog:
    """The first file of a log, cut after the read was planned."""

    def __init__(self, data: bytes, cut: int) -> None:
        self._data = data[:cut]

    def read(self, at: int, size: int) -> bytearray:
        return bytearray(self._data[at : at + size])


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_cut_is_told_where_it_is_whatever_windows_the_log_is_read_in(
    copy: Path,
    expected: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    is_damaged: bool,
) -> None:
    monkeypatch.setattr(log_walk, "ROWS", 2)
    data = bytearray(log_files(copy)[0].read_bytes())
    inside = [row["physicalOffset"] for row in expected if row["physicalOffset"] < len(data)]
    if is_damaged:
        data[inside[1] + 4] ^= 0xFF
    log: Any = CutLog(bytes(data), inside[5] + 7)
    windows = list(log_walk.walk(log, 0, len(data)))
    told = [offset for window in windows for offset, _ in window.broken]
    assert told == ([inside[1], inside[5]] if is_damaged else [inside[5]])
    read = [window.base + int(at) for window in windows for at in window.positions]
    assert read == [at for at in inside[:5] if not (is_damaged and at == inside[1])]

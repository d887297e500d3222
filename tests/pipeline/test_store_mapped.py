"""Few columns, and few of the records, are read from mapped files where nothing cuts those."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual

from pocketmq.pipeline import read_store
from pocketmq.pipeline.columns import arrow
from pocketmq.pipeline.errors import CorruptRecordError
from pocketmq.pipeline.progress.checkpoint import Mark
from pocketmq.pipeline.progress.marks import stored_marks
from pocketmq.pipeline.stores.places import LocalBytes, place_of
from pocketmq.pipeline.workers.read_counts import ReadCounts
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.scalars import MessageSysFlag
from support import spark_store
from support.spark_store import by_place, log_files, open_store, put, stored

HEADS = "topic,queueId,queueOffset,storeTimestamp,sysFlag,physicalOffset,offsetMsgId,bornHost"


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Position and size of all that was mapped."""
    found = []
    real = LocalBytes.mapped

    def mapped(self: LocalBytes, position: int, size: int) -> memoryview | None:
        found.append((position, size))
        return real(self, position, size)

    monkeypatch.setattr(LocalBytes, "mapped", mapped)
    return found


@pytest.fixture
def log_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of the log that each task has read."""
    found = []
    real = ReadCounts.tell

    def tell(self: ReadCounts) -> None:
        found.append(self.bytes)
        real(self)

    monkeypatch.setattr(ReadCounts, "tell", tell)
    return found


def projected(expected: list[dict[str, Any]], columns: str = HEADS) -> list[dict[str, Any]]:
    return [{name: row[name] for name in columns.split(",")} for row in expected]


def test_columns_of_the_head_are_those_of_the_whole_record(
    store: Path, expected: list[dict[str, Any]], maps: list[tuple[int, int]]
) -> None:
    assert set(HEADS.split(",")) <= arrow.HEAD_COLUMNS
    assert by_place(spark_store.rows(path=str(store), columns=HEADS)) == projected(expected)
    assert maps
    seen = len(maps)
    both = spark_store.rows(path=str(store), columns=HEADS + ",keys")
    assert by_place(both) == projected(expected, HEADS + ",keys")
    assert len(maps) == seen, "all records of the log with their properties are read, not mapped"


def test_conditions_hold_where_only_heads_are_read(
    store: Path, expected: list[dict[str, Any]], maps: list[tuple[int, int]]
) -> None:
    conditions = [EqualTo(("topic",), "U"), EqualTo(("queueId",), 1)]
    found = by_place(spark_store.rows(conditions, path=str(store), columns=HEADS))
    wanted = [row for row in expected if row["topic"] == "U" and row["queueId"] == 1]
    assert found == projected(wanted)
    assert maps


def test_hosts_of_ipv6_shift_what_is_behind_them(tmp_path: Path) -> None:
    host = pack_host("2001:db8::7", 5000)
    flags = int(MessageSysFlag.BORN_HOST_V6)
    with open_store(tmp_path / "s") as store:
        for number in range(30):
            message = stored(b"x", queue_id=number % 2)
            if number % 3 == 0:
                message.born_host, message.sys_flag = host, flags
            put(store, [message])
    columns = "queueId,queueOffset,storeTimestamp,bornHost,storeHost,reconsumeTimes"
    heads = spark_store.rows(path=str(tmp_path / "s"), columns=columns)
    whole = spark_store.rows(path=str(tmp_path / "s"), columns=columns + ",keys")
    assert len(heads) == 30
    assert [{**row, "keys": None} for row in heads] == whole
    assert {row["bornHost"] for row in heads} == {"[2001:db8::7]:5000", "127.0.0.1:10911"}


def test_times_of_messages_with_ipv6_hosts_are_found(tmp_path: Path) -> None:
    host = pack_host("2001:db8::7", 5000)
    with open_store(tmp_path / "s") as store:
        for _ in range(30):
            message = stored(b"x", queue_id=0)
            message.born_host, message.sys_flag = host, int(MessageSysFlag.BORN_HOST_V6)
            put(store, [message])
    columns = "queueOffset,storeTimestamp"
    rows = spark_store.rows(path=str(tmp_path / "s"), columns=columns)
    time_ms = rows[0]["storeTimestamp"]
    since = datetime.fromtimestamp(time_ms / 1000, UTC)
    wanted = [GreaterThanOrEqual(("storeTimestamp",), since)]
    assert spark_store.rows(wanted, path=str(tmp_path / "s"), columns=columns) == rows
    [mark] = stored_marks(place_of(str(tmp_path / "s")), {MessageQueue("T", "s", 0): 0}).values()
    assert mark == Mark(time_ms, 0)


def test_the_last_file_of_a_store_in_use_is_not_mapped(
    copy: Path, expected: list[dict[str, Any]], maps: list[tuple[int, int]]
) -> None:
    """Its broker may cut it, and a mapping answers to that with SIGBUS."""
    (copy / "abort").touch()
    files = log_files(copy)
    found = by_place(spark_store.rows(path=str(copy), columns=HEADS))
    assert found == projected(expected)
    per_file: dict[int, int] = {}
    for row in expected:
        of = max(int(path.name) for path in files if int(path.name) <= row["physicalOffset"])
        per_file[of] = per_file.get(of, 0) + 1
    assert sum(size for _, size in maps) < int(files[-1].name)
    assert len(per_file) == len(files), "the last file has messages, too"


def test_what_cannot_be_mapped_is_read(
    store: Path, expected: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalBytes, "mapped", lambda *_: None)
    assert by_place(spark_store.rows(path=str(store), columns=HEADS)) == projected(expected)


@pytest.mark.parametrize("at", [1, 5, 15, 27, 35, 86])
def test_a_broken_head_is_named_or_skipped(
    at: int, copy: Path, expected: list[dict[str, Any]]
) -> None:
    row = expected[100]
    file = [path for path in log_files(copy) if int(path.name) <= row["physicalOffset"]][-1]
    position = row["physicalOffset"] - int(file.name)
    data = bytearray(file.read_bytes())
    data[position + at] ^= 0xFF
    file.write_bytes(data)
    options = {"path": str(copy), "columns": HEADS}
    with pytest.raises(CorruptRecordError, match=f"no valid record at byte {position}: "):
        spark_store.rows(**options)
    found = by_place(spark_store.rows(**options, mode="PERMISSIVE"))
    assert found == projected(expected[:100] + expected[101:])


def test_one_queue_of_several_is_read_from_a_mapping(
    store: Path, expected: list[dict[str, Any]], maps: list[tuple[int, int]]
) -> None:
    conditions = [EqualTo(("queueId",), 1)]
    found = by_place(spark_store.rows(conditions, path=str(store), brokerName="b"))
    assert found == [{**row, "brokerName": "b"} for row in expected if row["queueId"] == 1]
    assert maps
    table = read_store(str(store), topic="U", columns="topic,queueId,body").read_all()
    assert len(table) == sum(row["topic"] == "U" for row in expected)


ENTRY = "topic,brokerName,queueId,queueOffset,physicalOffset"


def test_columns_that_queues_know_are_those_of_the_records_which_are_not_read(
    store: Path, expected: list[dict[str, Any]], log_bytes: list[int]
) -> None:
    found = by_place(spark_store.rows(path=str(store), columns=ENTRY, brokerName="broker-a"))
    assert found == [{**row, "brokerName": "broker-a"} for row in projected(expected, ENTRY)]
    conditions = [EqualTo(("topic",), "U"), GreaterThan(("queueOffset",), 2)]
    found = by_place(spark_store.rows(conditions, path=str(store), columns=ENTRY))
    wanted = [row for row in expected if row["topic"] == "U" and row["queueOffset"] > 2]
    assert wanted
    assert found == [{**row, "brokerName": str(store)} for row in projected(wanted, ENTRY)]
    assert log_bytes == [0, 0]
    read = read_store(str(store), columns="queueOffset").read_all()
    assert sorted(read.column(0).to_pylist()) == sorted(row["queueOffset"] for row in expected)


def test_conditions_that_queues_do_not_know_read_the_records(
    store: Path, log_bytes: list[int]
) -> None:
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    for condition in (GreaterThan(("storeTimestamp",), long_ago), EqualTo(("tags",), "TagA")):
        spark_store.rows([condition], path=str(store), columns=ENTRY)
        assert log_bytes[-1] > 0


def test_one_broken_head_among_thousands_is_named_or_skipped(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", mapped_file_size_commit_log=4 << 20) as store:
        put(store, [stored(b"x" * (number % 90), queue_id=number % 3) for number in range(9000)])
    columns = "queueId,queueOffset,storeTimestamp,physicalOffset"
    options = {"path": str(tmp_path / "s"), "columns": columns}
    whole = spark_store.rows(**options)
    assert len(whole) == 9000
    assert by_place([{**row, "keys": None} for row in whole]) == by_place(
        spark_store.rows(path=str(tmp_path / "s"), columns=columns + ",keys")
    )
    (file,) = log_files(tmp_path / "s")
    broken = by_place(whole)[7777]["physicalOffset"]
    data = bytearray(file.read_bytes())
    data[broken + 30] ^= 0x01
    file.write_bytes(data)
    with pytest.raises(CorruptRecordError, match=f"no valid record at byte {broken}: "):
        spark_store.rows(**options)
    found = spark_store.rows(**options, mode="PERMISSIVE")
    assert by_place(found) == [row for row in by_place(whole) if row["physicalOffset"] != broken]


def test_what_a_file_has_not_is_not_mapped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 << 20))
    file = LocalBytes(path)
    try:
        assert file.mapped((2 << 20) + 5, 1 << 20) is None
        view = file.mapped((2 << 20) + 5, 100)
        assert view is None or len(view) == 100
    finally:
        file.close()

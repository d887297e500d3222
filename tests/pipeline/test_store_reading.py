"""Reading store directories: what a consumer would see, however split, filtered or damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pocketmq.pipeline.errors import CorruptRecordError, OptionError
from support import spark_store
from support.golden import unpack_store
from support.spark_store import mixed, open_store, planned, pulled, put, read_rows, row_of, stored

MESSAGES = 700


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store whose log and queues have rolled."""
    root = tmp_path_factory.mktemp("spark") / "store"
    with open_store(root) as store:
        put(store, mixed(MESSAGES))
    return root


@pytest.fixture(scope="module")
def expected(store: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    copy = tmp_path_factory.mktemp("oracle") / "store"
    shutil.copytree(store, copy)
    with open_store(copy) as opened:
        return [row_of(message, str(store)) for message in pulled(opened)]


def by_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["physicalOffset"])


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def copied(store: Path, target: Path) -> Path:
    shutil.copytree(store, target)
    return target


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    return copied(store, tmp_path / "copy")


# -- what is read -------------------------------------------------------------------------------


def test_rows_are_what_a_consumer_gets(store: Path, expected: list[dict[str, Any]]) -> None:
    assert len(expected) == MESSAGES
    assert len(log_files(store)) > 3
    assert by_place(spark_store.rows(path=str(store))) == expected


def test_a_walk_of_the_log_finds_the_same(store: Path, expected: list[dict[str, Any]]) -> None:
    assert spark_store.rows(path=str(store), scan="commitlog") == expected


def test_a_log_without_queues_is_walked_by_itself(
    copy: Path, expected: list[dict[str, Any]]
) -> None:
    shutil.rmtree(copy / "consumequeue")
    found = spark_store.rows(path=str(copy), brokerName=expected[0]["brokerName"])
    assert found == expected


@given(parts=st.integers(1, 40), part_bytes=st.integers(1_000, 200_000))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_split_gives_each_row_once(
    store: Path, expected: list[dict[str, Any]], parts: int, part_bytes: int
) -> None:
    reader, partitions = planned(
        path=str(store),
        minPartitions=str(parts),
        partitionBytes=str(part_bytes),
        columns="topic,queueId,queueOffset,physicalOffset",
    )
    assert len(partitions) <= max(parts, MESSAGES)
    found = by_place(read_rows(reader, partitions))
    assert found == [{name: row[name] for name in reader.columns} for row in expected]


def test_only_the_columns_that_were_asked_for_are_made(store: Path) -> None:
    reader, partitions = planned(path=str(store), columns="body, QUEUEOFFSET")
    batch = next(reader.read(partitions[0]))
    assert batch.schema.names == ["body", "queueOffset"]
    assert "properties" not in planned(path=str(store), includeProperties="false")[0].columns


def test_several_stores_are_one_table(store: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "other") as other:
        put(other, [stored(b"from b", topic="Only")])
    rows = spark_store.rows(path=f"{store},{tmp_path / 'other'}", brokerName="a,b")
    assert [row["body"] for row in rows if row["brokerName"] == "b"] == [b"from b"]
    assert sum(row["brokerName"] == "a" for row in rows) == MESSAGES


def test_an_empty_store_has_no_rows(tmp_path: Path) -> None:
    with open_store(tmp_path / "empty"):
        pass
    (tmp_path / "empty" / "commitlog").mkdir(exist_ok=True)
    for table in ("messages", "consumequeue", "index", "offsets"):
        assert spark_store.rows(path=str(tmp_path / "empty"), table=table) == []


@pytest.mark.parametrize("name", ["clean", "killed"])
@pytest.mark.parametrize("scan", ["consumequeue", "commitlog"])
def test_a_store_of_real_rocketmq_reads_as_its_client_read_it(
    name: str, scan: str, tmp_path: Path
) -> None:
    root = unpack_store(name, tmp_path)
    lines = (root / "expected.jsonl").read_text().splitlines()
    rows = spark_store.rows(path=str(root / "store"), scan=scan)
    found = {row["physicalOffset"]: row for row in rows}
    for line in map(json.loads, lines):
        row = spark_store.as_java_says(found[line["commitLogOffset"]])
        assert row == {name: line[name] for name in row}
    topics = {json.loads(line)["topic"] for line in lines}
    assert sum(row["topic"] in topics for row in rows) == len(lines)


def test_the_offsets_of_real_rocketmq_are_read(tmp_path: Path) -> None:
    root = unpack_store("clean", tmp_path)
    rows = spark_store.rows(path=str(root / "store"), table="offsets")
    groups = {row["consumerGroup"] for row in rows}
    assert {"golden-tags", "golden-group"} <= groups
    assert all(row["maxOffset"] >= row["consumerOffset"] - row["lag"] for row in rows)
    assert {row["topic"] for row in rows} >= {"GoldenPlain"}


# -- the other tables ---------------------------------------------------------------------------


def test_the_queues_as_a_table(store: Path, expected: list[dict[str, Any]]) -> None:
    rows = spark_store.rows(path=str(store), table="consumequeue")
    keys = ("topic", "queueId", "queueOffset", "physicalOffset")
    assert sorted(tuple(row[key] for key in keys) for row in rows) == sorted(
        tuple(row[key] for key in keys) for row in expected
    )
    assert all(row["size"] > 91 for row in rows)


def test_the_index_as_a_table_leads_to_the_messages(
    store: Path, expected: list[dict[str, Any]]
) -> None:
    rows = spark_store.rows(path=str(store), table="index")
    places = {row["physicalOffset"] for row in expected}
    assert {row["physicalOffset"] for row in rows} == places
    keyed = sum(1 + len((row["keys"] or "").split()) for row in expected)
    assert len(rows) == keyed
    assert len({row["file"] for row in rows}) > 1


def test_an_index_of_other_proportions_asks_for_its_slots(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", max_hash_slot_num=50, max_index_num=100) as store:
        put(store, [stored(b"x", keys="k")])
    with pytest.raises(CorruptRecordError, match="indexSlots"):
        planned(path=str(tmp_path / "s"), table="index")
    assert len(spark_store.rows(path=str(tmp_path / "s"), table="index", indexSlots="50")) == 2


def test_committed_offsets_stand_beside_the_bounds_of_their_queues(copy: Path) -> None:
    (copy / "config").mkdir(exist_ok=True)
    (copy / "config" / "consumerOffset.json").write_text(
        '{"dataVersion":{"counter":1},"offsetTable":{"T@g":{0:3,1:99999},"Gone@g":{0:5}}}'
    )
    rows = spark_store.rows(path=str(copy), table="offsets", brokerName="b")
    found = {(row["topic"], row["queueId"]): row for row in rows}
    assert found["T", 0]["lag"] == found["T", 0]["maxOffset"] - 3 > 0
    assert found["T", 1]["lag"] == 0
    assert found["Gone", 0] == {
        "brokerName": "b",
        "consumerGroup": "g",
        "topic": "Gone",
        "queueId": 0,
        "consumerOffset": 5,
        "minOffset": 0,
        "maxOffset": 0,
        "lag": 0,
    }


# -- filters ------------------------------------------------------------------------------------


def conditions() -> Iterator[tuple[list[Any], Any]]:
    """Spark's filters, and the same in Python."""
    yield [EqualTo(("topic",), "T"), IsNotNull(("topic",))], lambda row: row["topic"] == "T"
    yield [In(("topic",), ("U", "none", None))], lambda row: row["topic"] == "U"
    yield [EqualTo(("queueId",), 1)], lambda row: row["queueId"] == 1
    yield (
        [GreaterThan(("queueOffset",), 3), LessThanOrEqual(("queueOffset",), 90)],
        lambda row: 3 < row["queueOffset"] <= 90,
    )
    yield (
        [GreaterThanOrEqual(("physicalOffset",), 70_000), LessThan(("physicalOffset",), 90_000)],
        lambda row: 70_000 <= row["physicalOffset"] < 90_000,
    )
    yield [EqualTo(("tags",), "Aa")], lambda row: row["tags"] == "Aa"  # BB has the same hash
    yield [In(("tags",), ("TagA", "TagB"))], lambda row: row["tags"] in ("TagA", "TagB")


@pytest.mark.parametrize(("filters", "keeps"), list(conditions()))
@pytest.mark.parametrize("scan", ["consumequeue", "commitlog"])
def test_filters_are_taken_in_full_and_keep_the_right_rows(
    filters: list[Any], keeps: Any, scan: str, store: Path, expected: list[dict[str, Any]]
) -> None:
    reader, _ = planned(path=str(store), scan=scan)
    assert list(reader.pushFilters(filters)) == []
    found = by_place(read_rows(reader, reader.partitions()))
    assert found == [row for row in expected if keeps(row)]
    assert 0 < len(found) < MESSAGES


def test_times_narrow_the_read_and_are_tested_by_spark_as_well(store: Path) -> None:
    born = datetime.fromtimestamp(spark_store.START_MS / 1000, UTC) - timedelta(milliseconds=5)
    for filters, count in (
        ([GreaterThanOrEqual(("bornTimestamp",), born)], MESSAGES),
        ([EqualTo(("bornTimestamp",), born)], MESSAGES),
        ([GreaterThan(("bornTimestamp",), born + timedelta(milliseconds=1))], 0),
        ([LessThan(("storeTimestamp",), born)], 0),
        ([LessThanOrEqual(("storeTimestamp",), born + timedelta(days=1))], MESSAGES),
    ):
        reader, _ = planned(path=str(store), columns="queueOffset")
        assert list(reader.pushFilters(filters)) == filters
        assert len(read_rows(reader, reader.partitions())) == count


def test_options_choose_topics_and_tags(store: Path, expected: list[dict[str, Any]]) -> None:
    found = spark_store.rows(path=str(store), topic="T", tags="TagA || BB")
    assert by_place(found) == [
        row for row in expected if row["topic"] == "T" and row["tags"] in ("TagA", "BB")
    ]


# -- a store in use (row 57) --------------------------------------------------------------------


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
        root = copied(store, tmp_path / str(number))
        with (root / "commitlog" / last.name).open("r+b") as file:
            file.truncate(cut)
        whole = [row["physicalOffset"] for row in expected if row["physicalOffset"] < start + cut]
        for scan in ("consumequeue", "commitlog"):
            rows = spark_store.rows(path=str(root), scan=scan, columns="physicalOffset,body")
            found = sorted(row["physicalOffset"] for row in rows)
            assert found in (whole, whole[:-1]), (cut, scan)


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
    with pytest.raises(CorruptRecordError, match=r"gone.*mode=PERMISSIVE"):
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
    assert f"{file}: no sound record at byte {position}: " in str(caught.value)
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
    with pytest.raises(CorruptRecordError, match="another than the queue says"):
        spark_store.rows(path=str(copy))
    assert len(spark_store.rows(path=str(copy), mode="PERMISSIVE")) == MESSAGES - 1


def test_an_entry_that_claims_a_giant_takes_no_memory(copy: Path) -> None:
    queue = copy / "consumequeue" / "T" / "0" / f"{0:020d}"
    data = bytearray(queue.read_bytes())
    data[28:32] = (0x7FFFFF00).to_bytes(4, "big")
    queue.write_bytes(data)
    assert len(spark_store.rows(path=str(copy), mode="PERMISSIVE")) == MESSAGES - 1


def test_a_record_longer_than_what_is_read_at_once_is_read(tmp_path: Path) -> None:
    big = b"0123456789abcdef" * 400_000
    with open_store(
        tmp_path / "s", mapped_file_size_commit_log=32 << 20, max_message_size=8 << 20
    ) as store:
        put(store, [stored(b"before"), stored(big), stored(b"behind"), stored(big)])
    for scan in ("consumequeue", "commitlog"):
        rows = spark_store.rows(path=str(tmp_path / "s"), scan=scan, columns="body")
        assert [row["body"] for row in rows] == [b"before", big, b"behind", big]


def test_fillers_are_no_messages(tmp_path: Path) -> None:  # S-33
    with open_store(tmp_path / "s") as store:
        put(store, [stored(str(number).encode()) for number in range(5)])
    queue = tmp_path / "s" / "consumequeue" / "T" / "0" / f"{0:020d}"
    data = bytearray(queue.read_bytes())
    data[0:40] = (bytes(8) + (0x7FFFFFFF).to_bytes(4, "big") + bytes(8)) * 2
    queue.write_bytes(data)
    rows = spark_store.rows(path=str(tmp_path / "s"))
    assert [row["queueOffset"] for row in rows] == [2, 3, 4]
    assert len(spark_store.rows(path=str(tmp_path / "s"), table="consumequeue")) == 3


# -- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tabel": "messages"}, "option 'tabel': there is no such option; did you mean 'table'?"),
        ({"table": "mesages"}, "'mesages' is not one of .* did you mean 'messages'?"),
        ({"mode": "DROPMALFORMED"}, "option 'mode': 'DROPMALFORMED' is not one of FAILFAST"),
        ({"columns": "queueID,queueOfset"}, "no column 'queueOfset'; did you mean 'queueOffset'"),
        ({"minPartitions": "0"}, "option 'minPartitions': 0 is less than 1"),
        ({"verifyCrc": "maybe"}, "'maybe' is neither true nor false"),
        ({"topic": "t"}, "no store has a queue of topic 't'; did you mean 'T'"),
        ({"brokerName": "a,b"}, "2 names for 1 paths"),
        ({"subExpression": "A", "tags": "B"}, "contradicts"),
    ],
)
def test_a_wrong_option_is_named_with_what_was_perhaps_meant(
    options: dict[str, str], says: str, store: Path
) -> None:
    with pytest.raises(OptionError, match=says):
        planned(**{"path": str(store), **options})


def test_a_path_that_is_no_store_names_the_stores_below_or_beside_it(store: Path) -> None:
    with pytest.raises(OptionError, match=r"did you mean .*store'"):
        planned(path=str(store.parent))
    with pytest.raises(OptionError, match=r"no directory .*; did you mean .*store'"):
        planned(path=str(store.parent / "stroe"))
    with pytest.raises(OptionError, match="'path': must be given"):
        planned()

"""Reading store directories: what a consumer would see, however split; and the other tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pocketmq.pipeline.errors import CorruptRecordError
from support import spark_store
from support.golden import unpack_store
from support.spark_store import (
    MESSAGES,
    by_place,
    log_files,
    open_store,
    planned,
    put,
    read_rows,
    stored,
)

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
@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
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


@pytest.mark.parametrize("name", ["clean", "killed", "dledger"])
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
    # The client's id, each key, and in profile 5.5 the tag.
    keyed = sum(
        1 + len((row["keys"] or "").split()) + (1 if row["tags"] else 0) for row in expected
    )
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


def test_the_offsets_of_real_rocketmq_are_read(tmp_path: Path) -> None:
    root = unpack_store("clean", tmp_path)
    rows = spark_store.rows(path=str(root / "store"), table="offsets")
    groups = {row["consumerGroup"] for row in rows}
    assert {"golden-tags", "golden-group"} <= groups
    assert all(row["maxOffset"] >= row["consumerOffset"] - row["lag"] for row in rows)
    assert {row["topic"] for row in rows} >= {"GoldenPlain"}

"""Conditions on stores are answered from consume queue and index: little of the log is read."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThan,
)

from pocketmq.pipeline.stores import store_index
from pocketmq.pipeline.workers.read_counts import ReadCounts
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support import spark_store
from support.spark_store import START_MS, by_place, open_store, planned, put, read_rows, stored

MESSAGES = 4000
EVERY = 1000
"""One of so many has the key, the tag: selectivity 0.1 %."""
SECONDS_APART = 60


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4 MB of log; a minute lies between one hundred messages and the next."""
    root = tmp_path_factory.mktemp("big") / "store"
    clock = ManualClock(START_MS)
    with open_store(root, clock, mapped_file_size_commit_log=512 * 1024) as store:
        for start in range(0, MESSAGES, 10):
            put(store, [message(number) for number in range(start, start + 10)])
            clock.skip_to(clock.time_ms() + SECONDS_APART * 1000)
    return root


def message(number: int) -> Any:
    rare = number % EVERY == 17
    return stored(
        b"x" * 1000,
        queue_id=number % 4,
        tags="rare" if rare else "common",
        keys=f"rare key-{number}" if rare else f"key-{number}",
    )


def read(big: Path, monkeypatch: pytest.MonkeyPatch, *filters: Any, **options: str) -> Any:
    """The rows, and how many bytes of the log were read for them."""
    told: list[ReadCounts] = []
    monkeypatch.setattr(ReadCounts, "tell", lambda each: told.append(each))
    reader, _ = planned(path=str(big), columns="queueId,queueOffset,keys,storeTimestamp", **options)
    kept = list(reader.pushFilters(list(filters)))
    rows = read_rows(reader, reader.partitions())
    assert sum(each.rows for each in told) == len(rows)
    return rows, sum(each.bytes for each in told), kept


def log_bytes(big: Path) -> int:
    return sum(path.stat().st_size for path in (big / "commitlog").iterdir())


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("keys",), "key-2017"),
        In(("keys",), ("rare key-17", "rare key-1017", "rare key-2017", "none")),
        EqualTo(("tags",), "rare"),
    ],
)
def test_a_rare_key_or_tag_reads_one_percent_of_the_log_at_most(
    condition: Any, big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, size, kept = read(big, monkeypatch, condition)
    assert kept == []
    every = spark_store.rows(path=str(big), columns="queueId,queueOffset,keys,tags,storeTimestamp")
    values = getattr(condition, "value", ())
    values = {values} if isinstance(values, str) else set(values)
    name = condition.attribute[0]
    assert sorted(row["keys"] for row in rows) == sorted(
        row["keys"] for row in every if row[name] in values
    )
    assert size <= log_bytes(big) / 100


def test_offsets_times_and_queues_read_what_they_leave(
    big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(hours=3)
    in_time = [
        GreaterThanOrEqual(("storeTimestamp",), hour),
        LessThan(("storeTimestamp",), hour + timedelta(minutes=1)),
    ]
    rows, size, kept = read(big, monkeypatch, *in_time)
    assert kept == in_time  # Spark tests them as well
    inside = [row for row in rows if 0 <= row["storeTimestamp"] / 1000 - hour.timestamp() < 60]
    assert len(inside) == 10
    assert size <= log_bytes(big) / 50  # with the minute before and the minute behind

    rows, size, kept = read(
        big, monkeypatch, EqualTo(("queueId",), 2), EqualTo(("queueOffset",), 7)
    )
    assert (len(rows), kept) == (1, [])
    assert size <= log_bytes(big) / 100


class SetBack(ManualClock):
    """A clock that can be set to any time."""

    now_ms = START_MS

    def time_ms(self) -> int:
        return self.now_ms


def test_a_clock_that_was_set_back_a_little_hides_nothing(tmp_path: Path) -> None:
    moments = [0, 100, 50, 101, 160, 110, 170]
    with open_store(tmp_path / "s", clock := SetBack(START_MS)) as store:
        for at in moments:
            clock.now_ms = START_MS + at * 1000
            put(store, [stored()])
    for at in moments:
        when = datetime.fromtimestamp((START_MS + at * 1000) / 1000, UTC)
        rows = spark_store.rows(
            [EqualTo(("storeTimestamp",), when)], path=str(tmp_path / "s"), columns="queueOffset"
        )
        assert moments.index(at) in [row["queueOffset"] for row in rows]


# -- an index that does not have everything -------------------------------------------------------


@pytest.mark.parametrize("keys", [("key-2 other",), ("key-3 other", "key-600 other"), ("nothing",)])
@pytest.mark.parametrize("left", ["all", "first", "last", "none"])
def test_what_the_index_does_not_cover_is_read(
    keys: tuple[str, ...], left: str, copy: Path, expected: list[dict[str, Any]]
) -> None:
    files = sorted((copy / "index").iterdir())
    assert len(files) > 2
    gone = {"all": [], "first": files[1:], "last": files[:-1], "none": files}[left]
    for path in gone:
        path.unlink()
    found = by_place(spark_store.rows([In(("keys",), keys)], path=str(copy), brokerName="b"))
    wanted = [{**row, "brokerName": "b"} for row in expected if row["keys"] in keys]
    assert found == wanted


def test_an_index_that_leads_elsewhere_is_not_trusted(
    copy: Path, expected: list[dict[str, Any]]
) -> None:
    for path in (copy / "index").iterdir():
        data = bytearray(path.read_bytes())
        first = 40 + 100 * 4 + 20
        for at in range(first, len(data), 20):
            place = int.from_bytes(data[at + 4 : at + 12], "big")
            data[at + 4 : at + 12] = (place + 1 if place else 0).to_bytes(8, "big")
        path.write_bytes(data)
    keys = expected[300]["keys"] or expected[301]["keys"] or expected[302]["keys"]
    found = spark_store.rows([EqualTo(("keys",), keys)], path=str(copy), columns="keys")
    assert [row["keys"] for row in found] == [keys]


def test_unique_keys_are_found_too(store: Path, expected: list[dict[str, Any]]) -> None:
    wanted = [expected[number] for number in (5, 400, 699)]
    for row in wanted:
        condition = EqualTo(("uniqKey",), row["uniqKey"])
        assert spark_store.rows([condition], path=str(store)) == [row]


def test_very_frequent_keys_are_read_in_the_logs_order(
    copy: Path, monkeypatch: pytest.MonkeyPatch, expected: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(store_index, "MOST_FOUND", 0)
    condition = In(("keys",), tuple({row["keys"] for row in expected} - {None}))
    found = spark_store.rows([condition], path=str(copy), columns="keys")
    assert len(found) == sum(row["keys"] is not None for row in expected)


def test_a_store_that_an_executor_lacks_is_named(copy: Path, tmp_path: Path) -> None:
    reader, partitions = planned(path=str(copy))
    shutil.move(copy, tmp_path / "elsewhere")
    with pytest.raises(Exception, match=r"copy does not exist on .*must be on every executor"):
        read_rows(reader, partitions)


def test_a_query_that_stops_early_says_what_it_has_read(
    big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[ReadCounts] = []
    monkeypatch.setattr(ReadCounts, "tell", lambda each: told.append(each))
    reader, partitions = planned(path=str(big), columns="queueOffset,keys")
    batches = reader.read(partitions[0])
    first = next(batches)
    batches.close()
    (counts,) = told
    assert counts.rows == len(first) < MESSAGES / 10
    assert 0 < counts.bytes < log_bytes(big) / 10

"""Reading a part of a store directory: Spark's filters, and options."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pocketmq.pipeline.errors import OptionError
from support import spark_store
from support.spark_store import (
    MESSAGES,
    by_place,
    planned,
    read_rows,
)

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


# -- options ------------------------------------------------------------------------------------


def test_options_choose_topics_and_tags(store: Path, expected: list[dict[str, Any]]) -> None:
    found = spark_store.rows(path=str(store), topic="T", tags="TagA || BB")
    assert by_place(found) == [
        row for row in expected if row["topic"] == "T" and row["tags"] in ("TagA", "BB")
    ]


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

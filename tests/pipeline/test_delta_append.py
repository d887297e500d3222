"""Which batches `DeltaAppend` takes for repeats, without Spark; test_spark.py has real queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from pocketmq.pipeline.errors import OtherCheckpointError
from pocketmq.pipeline.lake import DeltaAppend
from pocketmq.runtime.errors import CallerError

FIRST = "11111111-1111-1111-1111-111111111111"
SECOND = "22222222-2222-2222-2222-222222222222"


class Batch:
    """A batch's data frame, as far as `DeltaAppend` asks it.

    Args:
        row: The one row that it has.
        query: Id of the query, which Spark keeps in the checkpoint; None outside of `foreachBatch`,
            and "" where the session cannot tell, as with Spark Connect.
    """

    def __init__(self, row: str, query: str | None) -> None:
        self._row = row
        self._query = query

    def toArrow(self) -> Any:
        return pa.table({"row": [self._row]})

    @property
    def sparkSession(self) -> Any:
        return self

    @property
    def sparkContext(self) -> Any:
        if self._query == "":
            raise NotImplementedError("sparkContext() is not implemented")
        return self

    def getLocalProperty(self, key: str) -> str | None:
        assert key == "sql.streaming.queryId"
        return self._query


def write(append: DeltaAppend, number: int, row: str, query: str | None = FIRST) -> None:
    append(cast("Any", Batch(row, query)), number)


def rows(table: Path) -> list[str]:
    from deltalake import DeltaTable

    found = DeltaTable(table).to_pyarrow_dataset().to_table()["row"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("query", [FIRST, None, ""])
def test_a_new_checkpoint_with_an_old_app_id_is_refused_and_no_row_is_dropped(
    tmp_path: Path, query: str | None
) -> None:
    append = DeltaAppend(tmp_path / "table", app_id="orders")
    for number in range(5):
        write(append, number, f"old {number}", query)
    with pytest.raises(OtherCheckpointError) as caught:
        write(append, 0, "new 0", SECOND if query else query)
    assert str(caught.value) == (
        f"{tmp_path}/table: it has batch 4 of app_id 'orders' already, and now comes batch 0; "
        "a new checkpoint needs a new app_id"
    )
    assert rows(tmp_path / "table") == [f"old {number}" for number in range(5)]
    write(DeltaAppend(tmp_path / "table", app_id="orders-2"), 0, "new 0", SECOND)
    assert len(rows(tmp_path / "table")) == 6


@pytest.mark.parametrize("query", [FIRST, None, ""])
@pytest.mark.parametrize("app_id", ["orders", ""])
def test_the_last_batch_of_the_same_checkpoint_is_a_repeat(
    tmp_path: Path, query: str | None, app_id: str
) -> None:
    append = DeltaAppend(tmp_path / "table", app_id=app_id)
    if not app_id and not query:
        with pytest.raises(CallerError, match="give app_id"):
            write(append, 0, "a", query)
        return
    for number in (0, 1, 1, 2):
        write(append, number, f"{number}", query)
    write(DeltaAppend(tmp_path / "table", app_id=app_id), 2, "2", query)
    assert rows(tmp_path / "table") == ["0", "1", "2"]


def test_another_checkpoints_batch_with_the_number_of_the_last_is_told_from_a_repeat(
    tmp_path: Path,
) -> None:
    append = DeltaAppend(tmp_path / "table", app_id="orders")
    write(append, 0, "old")
    with pytest.raises(OtherCheckpointError, match="has batch 0 of app_id 'orders' already, from"):
        write(append, 0, "new", SECOND)
    write(append, 0, "old")
    assert rows(tmp_path / "table") == ["old"]


def test_a_table_that_does_not_say_which_checkpoint_wrote_it_goes_on_as_before(
    tmp_path: Path,
) -> None:
    # Written by an earlier PocketMQ, or through Spark Connect.
    append = DeltaAppend(tmp_path / "table", app_id="orders")
    write(append, 0, "old", query="")
    write(append, 0, "old", query=FIRST)
    write(append, 1, "next", query=FIRST)
    assert rows(tmp_path / "table") == ["next", "old"]
    with pytest.raises(OtherCheckpointError):
        write(append, 1, "other", query=SECOND)


def test_without_app_id_each_checkpoint_has_batches_of_its_own(tmp_path: Path) -> None:
    append = DeltaAppend(tmp_path / "table")
    for query in (FIRST, SECOND):
        for number in (0, 1, 1):
            write(append, number, f"{query[0]}.{number}", query)
    assert rows(tmp_path / "table") == ["1.0", "1.1", "2.0", "2.1"]


def test_two_queries_in_one_table_do_not_disturb_each_other(tmp_path: Path) -> None:
    ours = DeltaAppend(tmp_path / "table", app_id="ours")
    others = DeltaAppend(tmp_path / "table", app_id="theirs")
    for number in range(3):
        write(ours, number, f"a{number}", FIRST)
        write(others, number, f"b{number}", SECOND)
        write(ours, number, f"a{number}", FIRST)
    assert len(rows(tmp_path / "table")) == 6

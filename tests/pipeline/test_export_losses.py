"""An export stops, or counts, when what it stands on is gone: topics, queues, retention.

From stores, for each kind of table; `test_export.py` has the same with brokers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.lake import Exported, ParquetTarget, export, target_of
from support.remade_store import remake, retain, write
from support.spark_store import START_MS, open_store, put, stored

KINDS = ("parquet", "delta", "iceberg")
QUEUE = "MessageQueue [topic=T, brokerName=broker-a, queueId=0]"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "broker-a"


def where(kind: str, folder: Path) -> str:
    return f"{kind}:{folder}/" + ("lake.orders" if kind == "iceberg" else "table")


def read(kind: str, folder: Path) -> pa.Table:
    """The table, as another program reads it."""
    if kind == "parquet":
        return ds.dataset(folder / "table", format="parquet").to_table()
    if kind == "delta":
        return DeltaTable(folder / "table").to_pyarrow_dataset().to_table()
    target: Any = target_of(where(kind, folder))
    found: pa.Table = target.catalog.load_table("lake.orders").scan().to_arrow()
    return found


def numbers(kind: str, folder: Path) -> list[int]:
    return sorted(int(body) for body in read(kind, folder).column("body").to_pylist())


@pytest.mark.parametrize("key", ["", "uniqKey"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_made_anew_that_is_longer_already_stops_an_export(
    kind: str, key: str, root: Path, tmp_path: Path
) -> None:
    def run(**options: str) -> Exported:
        target = target_of(where(kind, tmp_path), key=key)
        return export("T", target, stores=str(root), rows_per_commit=8, **options)

    write(root, range(20))
    assert run().rows == 20
    remake(root, range(100, 130))
    with pytest.raises(DataLossError) as caught:
        run()
    assert str(caught.value).startswith(QUEUE)
    assert "offset 19 has another message" in str(caught.value)
    assert f"stored at {START_MS + 3_600_000} ms and not at {START_MS} ms" in str(caught.value)
    assert "failOnDataLoss=false" in str(caught.value)
    assert numbers(kind, tmp_path) == list(range(20))

    assert run(failOnDataLoss="false").rows == 30
    assert numbers(kind, tmp_path) == [*range(20), *range(100, 130)]
    write(root, range(130, 135), hours=2)
    assert run().rows == 5
    assert numbers(kind, tmp_path) == [*range(20), *range(100, 135)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_made_anew_that_is_shorter_is_added_beside_what_was_exported(
    kind: str, root: Path, tmp_path: Path
) -> None:
    target = target_of(where(kind, tmp_path))
    write(root, range(20))
    export("T", target, stores=str(root))
    remake(root, range(100, 105))
    with pytest.raises(DataLossError, match="offset 20 does not exist; the queue now ends at 5"):
        export("T", target, stores=str(root))
    assert export("T", target, stores=str(root), failOnDataLoss="false").rows == 5
    assert export("T", target, stores=str(root)) == Exported()
    write(root, range(105, 120), hours=2)
    assert export("T", target, stores=str(root)).rows == 15
    assert numbers(kind, tmp_path) == [*range(20), *range(100, 120)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_retention_removed_before_it_was_exported_is_told_or_counted(
    kind: str, root: Path, tmp_path: Path
) -> None:
    target = target_of(where(kind, tmp_path))
    write(root, range(10), size=1000)
    export("T", target, stores=str(root))
    write(root, range(10, 200), size=1000)
    retain(root, 2)
    with pytest.raises(DataLossError, match=r"offsets 10 to \d+ \(\d+ messages\)") as caught:
        export("T", target, stores=str(root))
    said = re.search(r"\((\d+) messages\).* begins at (\d+)", str(caught.value))
    assert said is not None
    count, begin = int(said[1]), int(said[2])
    assert (count, 10 < begin < 200) == (begin - 10, True)
    done = export("T", target, stores=str(root), failOnDataLoss="false")
    assert (done.rows, done.lost) == (200 - begin, count)
    assert numbers(kind, tmp_path) == [*range(10), *range(begin, 200)]
    assert export("T", target, stores=str(root)) == Exported()


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_that_was_empty_and_is_cut_before_the_next_export_is_a_loss(
    kind: str, root: Path, tmp_path: Path
) -> None:
    target = target_of(where(kind, tmp_path))
    with open_store(root) as store:
        put(store, [stored(b"0")])
    (root / "consumequeue/T/1").mkdir()
    export("T", target, stores=str(root))
    with open_store(root) as store:
        for number in range(200):
            put(store, [stored(b"%d" % number + b" " * 1000, queue_id=1)])
    retain(root, 2)
    with pytest.raises(DataLossError, match=r"queueId=1\]: offsets 0 to \d+ "):
        export("T", target, stores=str(root))


def test_a_queue_that_is_new_and_does_not_begin_at_0_is_a_loss(root: Path, tmp_path: Path) -> None:
    target = target_of(where("delta", tmp_path))
    write(root, range(3))
    export("T", target, stores=str(root))
    with open_store(root) as store:
        for number in range(200):
            put(store, [stored(b"%d" % number + b" " * 1000, queue_id=1)])
    retain(root, 2)
    with pytest.raises(DataLossError, match=r"queueId=1\]: is new and begins at \d+"):
        export("T", target, stores=str(root))


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_made_anew_while_it_is_exported_is_noticed(
    kind: str, root: Path, tmp_path: Path
) -> None:
    write(root, range(20))

    def after_commit(done: Exported) -> None:
        if done.commits == 1:
            remake(root, range(100, 130))

    target = target_of(where(kind, tmp_path))
    with pytest.raises(DataLossError, match="offset 7 has another message"):
        export("T", target, stores=str(root), rows_per_commit=8, on_commit=after_commit)
    assert numbers(kind, tmp_path) == list(range(8))


class Killed(ParquetTarget):
    """Ends after so many files."""

    def __init__(self, folder: Path, files: int) -> None:
        super().__init__(folder)
        self.left = files

    def _write(self, rows: pa.Table, name: str) -> Path:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super()._write(rows, name)


@pytest.mark.parametrize("files", range(1, 6))
def test_a_first_export_killed_between_its_files_is_continued_where_queues_do_not_begin_at_0(
    files: int, root: Path, tmp_path: Path
) -> None:
    with open_store(root) as store:
        for number in range(200):
            text = b"%d" % number + b" " * 1000
            put(store, [stored(text, queue_id=number % 3)])
    retain(root, 2)
    with pytest.raises(KeyboardInterrupt):
        export("T", Killed(tmp_path / "table", files), stores=str(root))
    export("T", target_of(f"parquet:{tmp_path / 'table'}"), stores=str(root))
    found = numbers("parquet", tmp_path)
    assert found == list(range(found[0], 200))
    names = [path.name for path in (tmp_path / "table").glob("*.parquet")]
    assert all(re.fullmatch(r"T~broker-a~\d~\d\d~\d\d\.parquet", name) for name in names)


def unmarked(kind: str, folder: Path, rows: pa.Table) -> None:
    """A table as it was exported before there were marks: 20 rows of a queue."""
    if kind == "parquet":
        (folder / "table").mkdir()
        pq.write_table(rows, folder / "table/T~broker-a~0~0~20.parquet")
    elif kind == "delta":
        told = CommitProperties(app_transactions=[Transaction("pocketmq.offset:T/broker-a/0", 20)])
        write_deltalake(folder / "table", rows, commit_properties=told)
    else:
        target: Any = target_of(where(kind, folder))
        target.catalog.create_namespace("lake")
        table = target.catalog.create_table("lake.orders", rows.schema)
        with table.transaction() as transaction:
            transaction.append(rows)
            transaction.set_properties({"pocketmq.offset:T/broker-a/0": "20"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_marks_is_continued_and_has_them_from_then_on(
    kind: str, root: Path, tmp_path: Path
) -> None:
    write(root, range(20))
    made = tmp_path / "made"
    export("T", target_of(f"parquet:{made}"), stores=str(root))
    (file,) = made.glob("*~20.parquet")
    unmarked(kind, tmp_path, pq.read_table(file).replace_schema_metadata(None))
    write(root, range(20, 25))
    target = target_of(where(kind, tmp_path))
    assert export("T", target, stores=str(root)).rows == 5
    assert numbers(kind, tmp_path) == list(range(25))
    remake(root, range(100, 140))
    with pytest.raises(DataLossError, match="offset 24 has another message"):
        export("T", target, stores=str(root))


def fill(root: Path, numbers: Iterable[int], queue_id: int) -> None:
    with open_store(root) as store:
        for number in numbers:
            put(store, [stored(b"%d" % number, queue_id=queue_id)])


@pytest.mark.parametrize("key", ["", "uniqKey"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_that_a_store_does_not_have_any_more_stops_an_export_and_is_told_once(
    kind: str, key: str, root: Path, tmp_path: Path
) -> None:
    def run(**options: str) -> Exported:
        return export("T", target_of(where(kind, tmp_path), key=key), stores=str(root), **options)

    fill(root, range(4), 0)
    fill(root, range(4, 11), 2)
    assert run().rows == 11
    fill(root, range(11, 13), 0)
    shutil.rmtree(root / "consumequeue/T/2")
    with pytest.raises(DataLossError) as caught:
        run()
    assert str(caught.value).startswith(
        "MessageQueue [topic=T, brokerName=broker-a, queueId=2]: there is no such queue any more; "
        "it was read up to offset 7; set failOnDataLoss=false (--no-fail-on-data-loss)"
    )
    assert numbers(kind, tmp_path) == list(range(11))
    assert run(failOnDataLoss="false").rows == 2
    fill(root, range(13, 15), 0)
    shutil.rmtree(root / "consumequeue/T/2")  # which the store had made again from its log
    assert run().rows == 2
    assert run() == Exported()
    assert numbers(kind, tmp_path) == list(range(15))


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_that_comes_back_is_read_on_and_missed_again_when_it_goes_again(
    kind: str, root: Path, tmp_path: Path
) -> None:
    target = target_of(where(kind, tmp_path))
    queue, aside = root / "consumequeue/T/1", tmp_path / "aside"
    fill(root, range(3), 0)
    fill(root, range(3, 8), 1)
    export("T", target, stores=str(root))
    queue.rename(aside)
    assert export("T", target, stores=str(root), failOnDataLoss="false").commits == 1
    assert export("T", target, stores=str(root)) == Exported()
    aside.rename(queue)
    assert export("T", target, stores=str(root)).rows == 0
    queue.rename(aside)
    with pytest.raises(
        DataLossError, match=r"queueId=1\]: there is no such queue any more; it was"
    ):
        export("T", target, stores=str(root))
    aside.rename(queue)
    fill(root, range(8, 10), 1)
    assert export("T", target, stores=str(root)).rows == 2
    assert numbers(kind, tmp_path) == list(range(10))


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_that_comes_back_as_another_one_is_noticed(
    kind: str, root: Path, tmp_path: Path
) -> None:
    target = target_of(where(kind, tmp_path))
    queue, aside = root / "consumequeue/T/1", tmp_path / "aside"
    fill(root, range(3), 0)
    fill(root, range(3, 8), 1)
    export("T", target, stores=str(root))
    queue.rename(aside)
    export("T", target, stores=str(root), failOnDataLoss="false")
    aside.rename(queue)
    export("T", target, stores=str(root))
    shutil.rmtree(root)
    fill(root, range(100, 103), 2)
    fill(root, range(103, 110), 1)
    fill(root, range(103, 104), 0)
    with pytest.raises(DataLossError, match=r"\(and 1 more queue like it\)"):
        export("T", target, stores=str(root))


@pytest.mark.parametrize("kind", KINDS)
def test_stores_that_are_exported_one_after_the_other_do_not_miss_each_other(
    kind: str, root: Path, tmp_path: Path
) -> None:
    other = tmp_path / "broker-b"
    target = target_of(where(kind, tmp_path))
    fill(root, range(3), 0)
    fill(other, range(3, 8), 1)
    for store, rows in ((root, 3), (other, 5)):
        assert export("T", target, stores=str(store)).rows == rows
    assert export("T", target, stores=str(root)) == Exported()
    fill(other, range(8, 10), 0)
    shutil.rmtree(other / "consumequeue/T/1")
    with pytest.raises(DataLossError, match=r"broker-b, queueId=1\]: there is no such queue"):
        export("T", target, stores=f"{root},{other}")


def test_a_delta_table_of_an_earlier_version_misses_a_queue_too(root: Path, tmp_path: Path) -> None:
    fill(root, range(20), 0)
    made = tmp_path / "made"
    export("T", target_of(f"parquet:{made}"), stores=str(root))
    rows = ds.dataset(made, format="parquet").to_table()
    noted = [Transaction(f"pocketmq.offset:T/broker-a/{number}", 20) for number in range(2)]
    write_deltalake(
        tmp_path / "table", rows, commit_properties=CommitProperties(app_transactions=noted)
    )
    with pytest.raises(DataLossError, match=r"queueId=1\]: there is no such queue any more"):
        export("T", target_of(where("delta", tmp_path)), stores=str(root))


def test_the_command_says_how_to_go_on_and_does(root: Path, tmp_path: Path) -> None:
    def run(*more: str) -> subprocess.CompletedProcess[str]:
        words = ["pipeline", "export", "T", "--to", f"delta:{tmp_path / 'table'}"]
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "pocketmq.cluster.cli.main",
                *words,
                "--store",
                str(root),
                *more,
            ],
            capture_output=True,
            text=True,
            check=False,
        )

    write(root, range(20))
    assert run().returncode == 0
    remake(root, range(100, 130))
    stopped = run()
    assert stopped.returncode != 0
    said = " ".join(stopped.stderr.split())
    assert "to go on with what there is, or export to another table" in said
    assert "--no-fail-on-data-loss" in said
    assert run("--no-fail-on-data-loss").returncode == 0
    assert numbers("delta", tmp_path) == [*range(20), *range(100, 130)]

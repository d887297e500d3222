"""Topics into tables by Spark, incrementally and each message once, whoever is killed.

What a stream tells of losses is in `test_store_queues.py` and `test_spark_losses.py`.
"""

from __future__ import annotations

import base64
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.streaming.query import StreamingQuery

from pocketmq.client import Message
from pocketmq.cluster.cli.main import main
from pocketmq.pipeline.errors import ColumnsError, JobError
from pocketmq.pipeline.jobs import Exported, export
from pocketmq.pipeline.lake import FilesTarget, IcebergTarget, target_of
from pocketmq.pipeline.lake.hadoop_folder import HadoopFolder
from pocketmq.runtime.errors import CallerError
from support.remade_store import remake, write
from support.spark_cluster import SparkCluster
from support.spark_store import open_store, put, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = ("parquet", "delta", pytest.param("iceberg", marks=pytest.mark.nightly))

KILLED = """
import os, signal, sys
from pocketmq.pipeline.jobs import export
table, stores, kind = sys.argv[1:]
if kind == "parquet":
    from pocketmq.pipeline.lake.targets import FilesTarget as Target
else:
    from pocketmq.pipeline.lake.targets import DeltaTarget as Target
append = Target.append
def die(target, frame, batch):
    rows = append(target, frame, batch)
    if batch == 2:
        os.kill(os.getpid(), signal.SIGKILL)  # written, and Spark has not noted it yet
    return rows
Target.append = die
export("T", table, stores=stores, rows_per_commit=70)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "broker-a"


def where(kind: str, folder: Path) -> str:
    return f"{kind}:{folder}/" + ("lake.orders" if kind == "iceberg" else "table")


def read(kind: str, folder: Path) -> list[dict[str, Any]]:
    """The table, as another program reads it."""
    table: Any
    if kind == "delta":
        table = DeltaTable(folder / "table").to_pyarrow_dataset().to_table()
    elif kind == "iceberg":
        target = target_of(where(kind, folder))
        assert isinstance(target, IcebergTarget)
        table = target.catalog.load_table("lake.orders").scan().to_arrow()
    else:
        table = ds.dataset(folder / "table", format="parquet").to_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def numbers(kind: str, folder: Path) -> list[int]:
    return sorted(int(row["body"]) for row in read(kind, folder))


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_goes_on_where_it_was_from_brokers_and_from_their_stores(
    spark: SparkSession, spark_brokers: SparkCluster, tmp_path: Path, kind: str
) -> None:
    topic = f"Export-{kind}"
    spark_brokers.create_topic(topic)

    def fill(start: int, end: int) -> None:
        spark_brokers.send(
            [
                Message(topic, b"%d" % number, properties={"n": str(number)})
                for number in range(start, end)
            ]
        )

    def run(**options: Any) -> Exported:
        return export(topic, where(kind, tmp_path), spark=spark, **options)

    cluster = {"nameServer": spark_brokers.nameservers}
    stores = ",".join(str(spark_brokers.store(name)) for name in ("broker-a", "broker-b"))
    fill(0, 100)
    seen: list[Exported] = []
    done = run(rows_per_commit=40, on_commit=seen.append, **cluster)
    assert (done.rows, done.commits, done.lost) == (100, 3, 0)
    assert seen[-1] == done
    assert run(**cluster) == Exported()
    fill(100, 120)
    assert run(stores=stores).rows == 20
    assert run(stores=stores) == Exported()
    fill(120, 125)
    assert run(**cluster).rows == 5
    assert numbers(kind, tmp_path) == list(range(125))
    (row,) = [row for row in read(kind, tmp_path) if row["body"] == b"7"]
    assert dict(row["properties"])["n"] == "7"
    assert row["brokerName"] in ("broker-a", "broker-b")


@pytest.mark.java
@pytest.mark.cluster
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["parquet", pytest.param("delta", marks=pytest.mark.nightly)])
def test_an_export_that_was_killed_between_two_notes_makes_the_same_table(
    spark_programs: None, root: Path, tmp_path: Path, kind: str
) -> None:
    write(root, range(400))
    words = (where(kind, tmp_path), str(root), kind)
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], check=False, timeout=300)
    assert killed.returncode == -9
    assert numbers(kind, tmp_path) == list(range(210))
    command = [
        *(sys.executable, "-m", "pocketmq.cluster.cli.main", "pipeline", "export", "T"),
        *("--store", str(root), "--to", where(kind, tmp_path)),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "190\t1\t0\n"), ran.stderr
    assert numbers(kind, tmp_path) == list(range(400))


def test_the_command_writes_into_a_file_what_it_did(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    write(root, range(3))
    out = tmp_path / "export.json"
    words = ["--store", str(root), "--to", where("parquet", tmp_path), "--out", str(out)]
    for rows, commits in ((3, 1), (0, 0)):
        assert main(["pipeline", "export", "T", *words]) == 0
        assert json.loads(out.read_text()) == [{"rows": rows, "commits": commits, "lost": 0}]


def test_batches_whose_checkpoint_is_gone_are_refused(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    write(root, range(3))
    table = where("parquet", tmp_path)
    assert export("T", table, stores=str(root), spark=spark).rows == 3
    write(root, range(3, 8))
    shutil.rmtree(tmp_path / "table/_checkpoint")
    with pytest.raises(CallerError, match="the table exists, but its checkpoint"):
        export("T", table, stores=str(root), spark=spark)


def keyed(spark: SparkSession, *bodies: str) -> DataFrame:
    """A batch of messages of one key each."""
    rows = [("T", body, number, 7, body) for number, body in enumerate(bodies)]
    names = "topic string, keys string, queueOffset long, storeTimestamp long, body string"
    return spark.createDataFrame(rows, names)


def test_a_folder_is_complete_when_it_is_lasting_and_not_when_spark_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = FilesTarget(tmp_path)
    assert target.append(keyed(spark, "a", "b"), 0) == 2
    assert target.append(keyed(spark, "a", "b"), 0) == 0
    (tmp_path / "batch=0/_complete").unlink()
    for path in (tmp_path / "batch=0").glob("*.parquet"):
        path.write_bytes(b"")  # as a power cut may leave it beside Spark's _SUCCESS
    assert (tmp_path / "batch=0/_SUCCESS").exists()
    assert target.append(keyed(spark, "a", "b"), 0) == 2
    assert ds.dataset(tmp_path, format="parquet").count_rows() == 2


def test_the_last_rows_are_kept_where_spark_does_not_say_that_a_folder_is_complete(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = FilesTarget(tmp_path, key="keys")
    marks = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
    spark.conf.set(marks, "false")
    try:
        target.append(keyed(spark, "a", "b"), 0)
        target.append(keyed(spark, "b", "c"), 1)
    finally:
        spark.conf.unset(marks)
    assert not (tmp_path / "batch=0").exists()
    assert ds.dataset(tmp_path, format="parquet").count_rows() == 3
    (tmp_path / "batch=1/_complete").unlink()
    with pytest.raises(CallerError, match="batch=1, which has all earlier rows, is not complete"):
        target.append(keyed(spark, "d"), 2)
    assert ds.dataset(tmp_path, format="parquet").count_rows() == 3


@pytest.mark.parametrize(("kind", "key"), [("parquet", ""), ("parquet", "keys"), ("csv", "")])
def test_a_batch_that_executors_have_written_elsewhere_is_not_complete(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, key: str
) -> None:
    """As on a cluster whose machines have a folder each: the driver does not see the files."""

    def lose(folder: HadoopFolder, name: str) -> None:
        for path in (tmp_path / name).glob(f"part-*.{kind}"):
            path.unlink()

    monkeypatch.setattr(HadoopFolder, "make_lasting", lose)
    with pytest.raises(CallerError, match=r"batch=0 lacks 2 rows: .* all machines share"):
        FilesTarget(tmp_path, kind, key=key).append(keyed(spark, "a", "b"), 0)
    assert not (tmp_path / "batch=0/_complete").exists()


def test_a_commit_of_the_last_rows_may_have_none(spark: SparkSession, tmp_path: Path) -> None:
    target = FilesTarget(tmp_path, key="keys")
    assert target.append(keyed(spark), 0) == 0
    assert target.append(keyed(spark), 1) == 0
    assert target.append(keyed(spark, "a", "b"), 2) == 2
    assert target.append(keyed(spark), 3) == 0
    assert ds.dataset(tmp_path, format="parquet").count_rows() == 2


def test_csv_is_as_other_programs_read_it(spark: SparkSession, tmp_path: Path) -> None:
    bodies = ['a "quoted" word', "ends with \\", '\\"', " spaces ", "a,b", "two\nlines", "\t", ""]
    FilesTarget(tmp_path, "csv").append(keyed(spark, *bodies).coalesce(1), 0)
    (path,) = (tmp_path / "batch=0").glob("*.csv")
    with path.open(newline="") as file:
        assert [row["body"] for row in csv.DictReader(file)] == bodies
    read = spark.read.csv(str(path), header=True, escape='"', multiLine=True)
    assert [row.body or "" for row in read.sort("queueOffset").collect()] == bodies


def test_an_export_that_is_interrupted_says_so(
    spark: SparkSession, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, range(3))
    stopped = []

    def interrupt(query: StreamingQuery) -> None:
        stopped.append(query)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StreamingQuery, "awaitTermination", interrupt)
        with pytest.raises(KeyboardInterrupt):
            export("T", where("parquet", tmp_path), stores=str(root), spark=spark)
    (query,) = stopped
    assert not query.isActive
    export("T", where("parquet", tmp_path), stores=str(root), spark=spark)
    assert numbers("parquet", tmp_path) == [0, 1, 2]


def test_text_files_have_bodies_as_base64_and_properties_as_json(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    write(root, range(3))
    columns = "queueOffset,body,properties"
    for kind in ("csv", "json"):
        export("T", f"{kind}:{tmp_path / kind}", stores=str(root), spark=spark, columns=columns)
    table = spark.read.csv(str(tmp_path / "csv"), header=True, escape='"')
    as_csv = table.sort("queueOffset").collect()
    as_json = spark.read.json(str(tmp_path / "json")).sort("queueOffset").collect()
    for rows in (as_csv, as_json):
        assert [base64.b64decode(row.body) for row in rows] == [b"0", b"1", b"2"]
        assert {row.batch for row in rows} == {0}
    assert as_csv[0].properties.startswith('{"')
    with pytest.raises(
        CallerError, match="csv files cannot keep only the last row of each keys; use parquet"
    ):
        export("T", f"csv:{tmp_path / 'c'}", stores=str(root), spark=spark, key="keys")


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_keeps_the_last_row_of_each_key(
    spark: SparkSession, root: Path, tmp_path: Path, kind: str
) -> None:
    def add(key: str, *bodies: bytes, gone: bool = False) -> None:
        with open_store(root) as store:
            more = {"gone": "1"} if gone else {}
            put(store, [stored(body, keys=key, properties=more) for body in bodies])

    def run(**options: Any) -> int:
        options = {"tombstone": "gone", **options}
        return export(
            "T", where(kind, tmp_path), stores=str(root), spark=spark, key="keys",
            rows_per_commit=3, **options,
        ).rows  # fmt: skip

    add("a", b"1", b"2")
    add("b", b"3", b"4")
    add("", b"5", b"6")
    assert run() == 6
    assert numbers(kind, tmp_path) == [2, 4, 5, 6]
    add("a", b"7")
    add("b", b"8", gone=True)
    add("c", b"9")
    assert run() == 3
    assert numbers(kind, tmp_path) == [5, 6, 7, 9]
    assert run() == 0
    with pytest.raises(CallerError, match="the table has no column storeTimestamp"):
        run(columns="topic,queueOffset,keys,body,properties")


def test_a_loss_stops_an_export_or_is_counted(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    def run(**options: Any) -> Exported:
        return export("T", where("parquet", tmp_path), stores=str(root), spark=spark, **options)

    write(root, range(20))
    assert run().rows == 20
    remake(root, range(100, 105))
    with pytest.raises(JobError, match="offset 20 does not exist; the queue now ends at 5"):
        run()
    done = run(failOnDataLoss="false")
    assert done.rows == 5
    assert numbers("parquet", tmp_path) == [*range(20), *range(100, 105)]
    with open_store(root) as store:  # a topic without any queue is another fault
        put(store, [stored(b"105", topic="T", queue_id=1)])
    (root / "consumequeue/T/0").rename(tmp_path / "aside")
    with pytest.raises(JobError, match="there is no such queue any more"):
        run()
    assert run(failOnDataLoss="false").rows == 1
    assert run() == Exported()  # told, and noted


def test_a_folder_that_another_program_or_other_columns_began_is_refused(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    write(root, range(3))

    def run(target: str, **options: Any) -> Exported:
        return export("T", target, stores=str(root), spark=spark, **options)

    former, other = tmp_path / "former", tmp_path / "other"
    for path in (former / "T~broker-a~0~0~3.parquet", other / "mine.txt"):
        path.parent.mkdir()
        path.touch()
    with pytest.raises(CallerError, match="an export without Spark wrote these files"):
        run(f"parquet:{former}")
    with pytest.raises(CallerError, match="the folder has files that no export wrote"):
        run(f"parquet:{other}")
    write_deltalake(tmp_path / "delta", pa.table({"body": [b"mine"]}))
    with pytest.raises(CallerError, match="the table exists, but its checkpoint"):
        run(f"delta:{tmp_path / 'delta'}")
    table = f"parquet:{tmp_path / 'table'}"
    assert run(table, columns="queueOffset,body").rows == 3
    with pytest.raises(ColumnsError, match="have body binary and have not tags string; export"):
        run(table, columns="queueOffset,tags")
    with pytest.raises(ColumnsError, match="in another order"):
        run(table, columns="body,queueOffset")
    with pytest.raises(
        CallerError, match="the earlier export to this folder wrote all rows as parquet"
    ):
        run(f"json:{tmp_path / 'table'}", columns="queueOffset,body")
    with pytest.raises(CallerError, match="say which column"):
        run(table, tombstone="gone")
    with pytest.raises(CallerError, match="is not a table; write parquet:FOLDER, csv:FOLDER"):
        run("excel:orders")


@pytest.mark.parametrize("name", ["export", "Exported", "ParquetTarget"])
def test_a_name_of_an_earlier_version_says_what_to_use(name: str) -> None:
    from pocketmq.pipeline import lake

    with pytest.raises(AttributeError, match=f"{name} was removed; use `"):
        getattr(lake, name)

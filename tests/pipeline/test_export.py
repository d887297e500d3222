"""Topics into tables, incrementally and each message once, whoever is killed; and without Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pocketmq.client import Message, MessageQueue
from pocketmq.pipeline import read_store, read_topic
from pocketmq.pipeline.errors import ColumnsError, DataLossError
from pocketmq.pipeline.lake import DeltaTarget, Exported, IcebergTarget, ParquetTarget, export
from pocketmq.pipeline.lake import target_of as lake_target
from pocketmq.pipeline.lake.notes import Move, Scope
from pocketmq.pipeline.topics.partition_numbers import partition_numbers
from pocketmq.runtime.errors import CallerError
from support.spark_cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

KILLED = """
import os, signal, sys
from pocketmq.pipeline.lake import DeltaTarget, IcebergTarget, ParquetTarget, export
kind, folder, nameservers, topic, commits = sys.argv[1:]
targets = {
    "parquet": lambda: ParquetTarget(folder + "/table"),
    "delta": lambda: DeltaTarget(folder + "/table"),
    "iceberg": lambda: IcebergTarget.local(folder, "lake.orders"),
}
def die(done):
    if done.commits == int(commits):
        os.kill(os.getpid(), signal.SIGKILL)
export(topic, targets[kind](), nameServer=nameservers, rows_per_commit=70, on_commit=die)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def fill(cluster: SparkCluster, topic: str, start: int, end: int) -> None:
    cluster.send(
        [
            Message(topic, str(number).encode(), keys=f"k{number}", properties={"n": str(number)})
            for number in range(start, end)
        ]
    )


def numbers(table: Any) -> list[int]:
    return sorted(int(body) for body in table.column("body").to_pylist())


def target_of(kind: str, folder: Path) -> tuple[Any, Callable[[], pa.Table]]:
    """A target, and how another program reads it."""
    if kind == "parquet":
        return ParquetTarget(folder / "table"), lambda: pq.read_table(folder / "table")
    if kind == "delta":
        return DeltaTarget(
            folder / "table"
        ), lambda: DeltaTable(folder / "table").to_pyarrow_dataset().to_table()
    target = IcebergTarget.local(folder, "lake.orders")
    return target, lambda: target.catalog.load_table("lake.orders").scan().to_arrow()


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_an_export_goes_on_where_it_was_and_a_killed_one_makes_the_same_table(
    cluster: SparkCluster, tmp_path: Path, kind: str
) -> None:
    topic = f"Export-{kind}"
    cluster.create_topic(topic)
    fill(cluster, topic, 0, 400)
    for commits in (1, 3):
        killed = subprocess.run(
            [
                *(sys.executable, "-c", KILLED, kind, str(tmp_path), cluster.nameservers),
                *(topic, str(commits)),
            ],
            check=False,
        )
        assert killed.returncode == -9
    target, read = target_of(kind, tmp_path)
    seen: list[Exported] = []
    options = {"nameServer": cluster.nameservers}
    done = export(topic, target, rows_per_commit=70, on_commit=seen.append, **options)
    assert seen[-1] == done
    assert (done.rows, done.commits) == (400 - 4 * 70, 2)
    assert export(topic, target, **options) == Exported()
    fill(cluster, topic, 400, 450)
    assert export(topic, target, **options).rows == 50
    table = read()
    assert numbers(table) == list(range(450))
    row = table.slice(0, 1).to_pylist()[0]
    assert dict(row["properties"])["n"] == row["body"].decode()


KILLED_AT_STORES = """
import os, signal, sys
from pocketmq.pipeline.lake import export, target_of
table, stores, topic, commits = sys.argv[1:]
def die(done):
    if done.commits == int(commits):
        os.kill(os.getpid(), signal.SIGKILL)
target = target_of(table, key="keys", tombstone="gone")
export(topic, target, stores=stores, rows_per_commit=70, on_commit=die)
"""


def test_an_export_from_stores_goes_on_where_one_from_brokers_was(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Stores")
    fill(cluster, "Stores", 0, 120)
    stores = ",".join(str(cluster.store(name)) for name in ("broker-a", "broker-b"))
    target = ParquetTarget(tmp_path / "table")
    assert export("Stores", target, nameServer=cluster.nameservers).rows == 120
    assert export("Stores", target, stores=stores) == Exported()
    fill(cluster, "Stores", 120, 200)
    assert export("Stores", target, stores=stores, rows_per_commit=30).rows == 80
    assert export("Stores", target, nameServer=cluster.nameservers) == Exported()
    assert numbers(pq.read_table(tmp_path / "table")) == list(range(200))
    cluster.remake_topic("Stores", queues=1)
    fill(cluster, "Stores", 0, 4)
    with pytest.raises(DataLossError, match="does not exist"):
        export("Stores", target, stores=stores)


@pytest.fixture(scope="module")
def latest(cluster: SparkCluster) -> list[MessageQueue]:
    """A topic of eight keys; a key's messages are in one queue, and two keys are deleted."""
    cluster.create_topic("Latest")
    queues = cluster.queues("Latest")
    for key in range(8):
        gone = [{}] * 49 + [{"gone": "1"} if key > 5 else {}]
        cluster.send(
            [
                Message(
                    "Latest", f"{key}:{number}".encode(), keys=f"k{key}", properties=gone[number]
                )
                for number in range(50)
            ],
            queue=queues[key % 4],
        )
    cluster.send([Message("Latest", b"no key %d" % number) for number in range(3)])
    return queues


@pytest.mark.parametrize("kind", ["delta", "parquet", "iceberg"])
def test_a_table_of_the_last_row_of_each_key_is_the_same_whoever_is_killed(
    cluster: SparkCluster, latest: list[MessageQueue], kind: str, tmp_path: Path
) -> None:
    stores = ",".join(str(cluster.store(name)) for name in ("broker-a", "broker-b"))
    where = f"{kind}:{tmp_path}" + ("/lake.orders" if kind == "iceberg" else "/table")
    for commits in (1, 2):
        killed = subprocess.run(
            [*(sys.executable, "-c", KILLED_AT_STORES, where, stores, "Latest", str(commits))],
            check=False,
        )
        assert killed.returncode == -9
    target = lake_target(where, key="keys", tombstone="gone")
    export("Latest", target, stores=stores, rows_per_commit=70)
    newest = sorted(
        [
            *(f"{key}:49" for key in range(6) if key != 2),
            *(f"no key {n}" for n in range(3)),
            *LAST_OF_KEY_2,
        ]
    )
    _, read = target_of(kind, tmp_path)

    def bodies() -> list[str]:
        return sorted(body.decode() for body in read().column("body").to_pylist())

    assert bodies() == newest
    assert export("Latest", target, stores=stores) == Exported()
    cluster.send([Message("Latest", f"2:{kind}".encode(), keys="k2")], queue=latest[2])
    assert export("Latest", target, nameServer=cluster.nameservers).rows == 1
    assert bodies() == sorted([f"2:{kind}", *(each for each in newest if each[:2] != "2:")])
    LAST_OF_KEY_2[:] = [f"2:{kind}"]


LAST_OF_KEY_2 = ["2:49"]
"""Each kind of table adds another."""


def test_a_folder_of_another_export_is_refused(tmp_path: Path) -> None:
    (tmp_path / "T~b~0~0~9.parquet").touch()
    with pytest.raises(CallerError, match="no file of such an export"):
        ParquetTarget(tmp_path, key="keys").stand(Scope(["T"], ["b"], []))
    with pytest.raises(CallerError, match="say which column"):
        lake_target("parquet:x", tombstone="gone")


@pytest.mark.parametrize("key", ["", "keys"])
def test_a_folder_takes_no_rows_with_other_columns_than_it_has(tmp_path: Path, key: str) -> None:
    queue = MessageQueue("T", "b", 0)
    place = {"topic": ["T"], "queueOffset": [0], "storeTimestamp": [0], "keys": ["k"]}
    rows = pa.table({**place, "body": [b"1"]})

    def write(table: pa.Table, start: int) -> None:
        ParquetTarget(tmp_path, key=key).append(table, {queue: Move(start, start + 1, None)})

    write(rows, 0)
    other = pa.table({**place, "flag": [1]})
    with pytest.raises(ColumnsError, match="have body binary and have not flag int64; export"):
        write(other, 1)
    with pytest.raises(ColumnsError, match="have body binary and have not body string"):
        write(pa.table({**place, "body": ["2"]}), 1)
    with pytest.raises(ColumnsError, match="have body binary; export"):
        write(rows.drop_columns(["body"]), 1)
    with pytest.raises(ColumnsError, match="in another order"):
        write(rows.select(["body", *place]), 1)
    write(rows, 1)
    assert pq.read_table(tmp_path).schema.names == [*place, "body"]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_topic_made_anew_stops_an_export_however_long_it_is_or_is_added(
    cluster: SparkCluster, tmp_path: Path, kind: str
) -> None:
    topic = f"Remade-{kind}"
    cluster.create_topic(topic, queues=1)
    queue = MessageQueue(topic, "broker-a", 0)
    target, read = target_of(kind, tmp_path)

    def send(start: int, end: int) -> None:
        cluster.send([Message(topic, b"%d" % each) for each in range(start, end)], queue=queue)

    def run(**options: str) -> Exported:
        return export(topic, target, nameServer=cluster.nameservers, **options)

    send(0, 20)
    assert run().rows == 20
    cluster.remake_topic(topic, queues=1)
    send(100, 105)
    with pytest.raises(DataLossError, match="offset 20 does not exist; the queue now ends at 5"):
        run()
    send(105, 130)
    with pytest.raises(DataLossError, match="offset 19 has another message than the one that was"):
        run()
    assert numbers(read()) == list(range(20))
    assert run(failOnDataLoss="false").rows == 30
    send(130, 140)
    assert run().rows == 10
    assert numbers(read()) == [*range(20), *range(100, 140)]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_queues_that_go_away_are_named_if_they_have_messages_that_were_not_exported(
    cluster: SparkCluster, tmp_path: Path, kind: str
) -> None:
    topic = f"Shrunk-{kind}"
    cluster.create_topic(topic)
    target, read = target_of(kind, tmp_path)

    def send(start: int, end: int, queue_id: int) -> None:
        queue = MessageQueue(topic, "broker-b", queue_id)
        cluster.send([Message(topic, b"%d" % each) for each in range(start, end)], queue=queue)

    def run(**options: str) -> Exported:
        return export(topic, target, nameServer=cluster.nameservers, **options)

    send(0, 5, queue_id=3)
    assert run().rows == 5
    cluster.shape_topic(topic, 2)
    assert run() == Exported()  # all of it was read
    cluster.shape_topic(topic, 4)
    send(5, 12, queue_id=3)
    cluster.shape_topic(topic, 2)
    send(12, 14, queue_id=0)
    with pytest.raises(DataLossError) as caught:
        run()
    assert str(caught.value) == (
        f"MessageQueue [topic={topic}, brokerName=broker-b, queueId=3]: cannot be read any more, "
        f"and 7 messages from offset 5 on not read; give the topic its queues back (pocketmq topic "
        f"create {topic} --queues 4) until all is; set failOnDataLoss=false "
        "(--no-fail-on-data-loss) to go on with what there is, or export to another table"
    )
    assert numbers(read()) == list(range(5))
    done = run(failOnDataLoss="false")
    assert (done.rows, done.lost) == (2, 7)
    assert numbers(read()) == [*range(5), 12, 13]
    stores = ",".join(str(cluster.store(name)) for name in ("broker-a", "broker-b"))
    at_stores = ParquetTarget(tmp_path / "stores")
    assert export(topic, at_stores, stores=stores).rows == 14  # the files still have the queue
    cluster.shape_topic(topic, 4)
    assert run().rows == 7
    assert numbers(read()) == list(range(14))


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_topic_made_anew_with_fewer_queues_names_those_that_are_gone_once(
    cluster: SparkCluster, tmp_path: Path, kind: str
) -> None:
    topic = f"Fewer-{kind}"
    cluster.create_topic(topic)
    target, read = target_of(kind, tmp_path)

    def send(start: int, end: int, queue_id: int) -> None:
        queue = MessageQueue(topic, "broker-a", queue_id)
        cluster.send([Message(topic, b"%d" % each) for each in range(start, end)], queue=queue)

    def run(**options: str) -> Exported:
        return export(topic, target, nameServer=cluster.nameservers, **options)

    send(0, 5, queue_id=3)
    assert run().rows == 5
    cluster.remake_topic(topic, queues=2)
    with pytest.raises(
        DataLossError, match=r"queueId=3\]: there is no such queue any more; it was"
    ):
        run()
    assert run(failOnDataLoss="false").rows == 0
    send(5, 8, queue_id=1)
    assert run().rows == 3
    assert numbers(read()) == list(range(8))


def test_topics_and_stores_are_read_without_spark(cluster: SparkCluster) -> None:
    """By Polars, DuckDB and pandas, through Arrow."""
    import duckdb
    import polars

    cluster.create_topic("Plain")
    fill(cluster, "Plain", 0, 300)
    options = {"nameServer": cluster.nameservers, "columns": "queueId,keys,body"}
    assert numbers(read_topic("Plain", **options).read_all()) == list(range(300))
    frame: Any = polars.from_arrow(read_topic("Plain", **options))
    assert frame.height == 300
    rows = read_topic("Plain", **options)
    found = duckdb.sql("select count(distinct keys), min(queueId) from rows").fetchall()
    assert (found, rows.schema.names) == ([(300, 0)], ["queueId", "keys", "body"])
    assert len(read_topic("Plain", **options).read_pandas()) == 300
    stores = ",".join(str(cluster.store(name)) for name in ("broker-a", "broker-b"))
    assert numbers(read_store(stores, topic="Plain").read_all()) == list(range(300))


def test_kafkas_columns_have_the_partition_numbers_of_streams_in_exports_too(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Numbered", queues=2)
    fill(cluster, "Numbered", 0, 40)
    options = {"nameServer": cluster.nameservers, "kafkaCompatible": "true"}
    target, read = target_of("delta", tmp_path)
    export("Numbered", target, **options)
    wanted = set(partition_numbers(cluster.queues("Numbered")).values())
    for table in (read(), read_topic("Numbered", **options).read_all()):
        assert set(table.column("partition").to_pylist()) == wanted


def test_reading_without_spark_imports_no_spark(cluster: SparkCluster) -> None:
    code = (
        "import sys\nfrom pocketmq.pipeline import read_topic\n"
        f"print(read_topic('Plain', nameServer={cluster.nameservers!r}).read_all().num_rows)\n"
        "print('pyspark' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["300", "False"], ran.stdout + ran.stderr

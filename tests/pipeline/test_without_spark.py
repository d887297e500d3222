"""Topics and stores through Arrow, where there is no Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pocketmq.client import Message
from pocketmq.pipeline import read_store, read_topic
from pocketmq.pipeline.topics.partition_numbers import partition_numbers
from support.spark_cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def fill(cluster: SparkCluster, topic: str, start: int, end: int) -> None:
    cluster.send(
        [Message(topic, str(number).encode(), keys=f"k{number}") for number in range(start, end)]
    )


def numbers(table: Any) -> list[int]:
    return sorted(int(body) for body in table.column("body").to_pylist())


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


def test_kafkas_columns_have_the_partition_numbers_of_streams_here_too(
    cluster: SparkCluster,
) -> None:
    cluster.create_topic("Numbered", queues=2)
    fill(cluster, "Numbered", 0, 40)
    options = {"nameServer": cluster.nameservers, "kafkaCompatible": "true"}
    wanted = set(partition_numbers(cluster.queues("Numbered")).values())
    table = read_topic("Numbered", **options).read_all()
    assert set(table.column("partition").to_pylist()) == wanted


def test_reading_without_spark_imports_no_spark(cluster: SparkCluster) -> None:
    code = (
        "import sys\nfrom pocketmq.pipeline import read_topic\n"
        f"print(read_topic('Plain', nameServer={cluster.nameservers!r}).read_all().num_rows)\n"
        "print('pyspark' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["300", "False"], ran.stdout + ran.stderr

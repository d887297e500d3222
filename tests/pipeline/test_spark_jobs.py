"""Jobs over messages in a session of Spark: what they read, from stores, topics and tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pocketmq.client import Message
from pocketmq.pipeline.errors import OptionError
from pocketmq.pipeline.jobs import export
from pocketmq.pipeline.jobs.on_spark import job_session, messages, plain_errors
from pocketmq.pipeline.jobs.replay_job import replay
from pocketmq.pipeline.jobs.trace_job import trace
from pocketmq.runtime.errors import CallerError, PocketMQError
from support.remade_store import write
from support.spark_cluster import SparkCluster
from support.spark_store import open_store, put, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ["topic", "brokerName", "body"]


def test_every_kind_of_source_is_a_data_frame_of_the_columns_that_a_job_needs(
    spark: SparkSession, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    assert job_session("test") is spark
    root = tmp_path / "broker-a"
    write(root, range(5))
    write(root, range(5, 8), topic="U")
    of_store = messages(spark, f"store:{root}", columns=COLUMNS, topics=["T"])
    rows = sorted(of_store.collect())
    assert [(row.topic, row.brokerName, int(row.body)) for row in rows] == [
        ("T", "broker-a", number) for number in range(5)
    ]
    messages(spark, str(root), columns=COLUMNS).write.parquet(str(tmp_path / "table"))
    of_table = messages(spark, f"parquet:{tmp_path / 'table'}", columns=COLUMNS, topics=["T"])
    assert sorted(of_table.collect()) == rows
    spark_brokers.create_topic("JobSource")
    spark_brokers.send([Message("JobSource", b"%d" % number) for number in range(7)])
    of_topic = messages(
        spark, "topic:JobSource", columns=COLUMNS, nameservers=spark_brokers.nameservers
    )
    assert sorted(int(row.body) for row in of_topic.collect()) == list(range(7))


def test_a_source_that_is_none_is_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="there is no table"):
        messages(spark, f"parquet:{tmp_path / 'none'}", columns=COLUMNS)
    with pytest.raises(OptionError, match="there is no directory"):
        messages(spark, f"store:{tmp_path / 'none'}", columns=COLUMNS)
    write(tmp_path / "broker-a", range(3))
    messages(spark, str(tmp_path / "broker-a"), columns=["body"]).write.parquet(
        str(tmp_path / "bodies")
    )
    with pytest.raises(
        CallerError, match="the table has no column 'topic'; export the table again"
    ):
        messages(spark, f"parquet:{tmp_path / 'bodies'}", columns=COLUMNS)
    with (
        pytest.raises(PocketMQError, match="no name server answers"),
        plain_errors(),
    ):
        messages(spark, "topic:T", columns=COLUMNS, nameservers="127.0.0.1:1").count()


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_jobs_read_what_an_export_wrote_into_a_folder_with_a_space(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    with open_store(tmp_path / "broker-a") as store:
        put(store, [stored(b"%d" % number, keys=f"order-{number}") for number in range(5)])
    table = f"{kind}:{tmp_path / 'my tables 50%'}"
    stores = str(tmp_path / "broker-a")
    assert export("T", table, stores=stores, rows_per_commit=3, spark=spark).rows == 5
    (step,) = trace("order-4", [table])
    assert (step.what, step.broker, step.offset) == ("was stored", "broker-a", 4)
    assert replay(table, "Again", nameservers="127.0.0.1:1", dry_run=True).messages == 5

"""Jobs over messages in a session of Spark: what they read, from stores, topics and tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pocketmq.client import Message
from pocketmq.pipeline.errors import OptionError
from pocketmq.pipeline.jobs.on_spark import job_session, messages, plain_errors
from pocketmq.runtime.errors import CallerError, PocketMQError
from support.remade_store import write
from support.spark_cluster import SparkCluster

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
    with pytest.raises(CallerError, match="the table has no column 'topic'; export it with it"):
        messages(spark, f"parquet:{tmp_path / 'bodies'}", columns=COLUMNS)
    with (
        pytest.raises(PocketMQError, match="no name server answers"),
        plain_errors(),
    ):
        messages(spark, "topic:T", columns=COLUMNS, nameservers="127.0.0.1:1").count()

"""Exactly once into tables, whatever is killed; `scripts/spark_crashes.py` does it at full size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pocketmq.pipeline.lake import DeltaAppend
from pocketmq.runtime.errors import CallerError
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_crashes import Crashes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path / "cluster") as cluster:
        yield cluster


def test_tables_have_every_message_once_after_a_killed_driver_and_broker_and_with_more_queues(
    spark: SparkSession, mortal: SparkCluster, tmp_path: Path
) -> None:
    Crashes(mortal, tmp_path, 2_000, ["grow", "driver", "broker"]).run()


def test_a_batch_that_delta_has_is_not_appended_again(spark: SparkSession, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    append = DeltaAppend(tmp_path / "table", app_id="query")
    for batch in (0, 1, 1, 0, 2):
        append(spark.range(10), batch)
    assert DeltaTable(tmp_path / "table").to_pyarrow_dataset().count_rows() == 30
    DeltaAppend(tmp_path / "table", app_id="other")(spark.range(10), 0)
    assert DeltaTable(tmp_path / "table").to_pyarrow_dataset().count_rows() == 40
    with pytest.raises(CallerError, match="give app_id"):
        DeltaAppend(tmp_path / "table")(spark.range(10), 0)

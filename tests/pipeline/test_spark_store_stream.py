"""A store on S3 as a stream through Spark, file by file as they are copied there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pocketmq.pipeline import read_counts, read_store
from support.object_store import object_store
from support.spark_store import log_files, mixed, open_store, put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_log_files_on_s3_are_followed_as_they_close(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "broker-a"
    with open_store(root) as store:
        put(store, mixed(600))
    files = log_files(root)
    with object_store() as s3:
        rest = tmp_path / "rest"
        shutil.copytree(root, rest)
        for path in log_files(rest)[2:]:
            path.unlink()
        address = s3.put(rest, "broker-a")

        def run() -> int:
            query = (
                spark.readStream.format("pocketmq-store")
                .options(storageOptions=s3.storage_options, maxFilesPerTrigger="2")
                .load(address)
                .writeStream.format("parquet")
                .option("path", str(tmp_path / "rows"))
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            return spark.read.parquet(str(tmp_path / "rows")).count()

        numbers = [run()]
        for path in files[2:]:
            s3.put(path, f"broker-a/commitlog/{path.name}")
        numbers.append(run())
        numbers.append(run())  # nothing new
        found = spark.read.parquet(str(tmp_path / "rows")).select("physicalOffset").collect()
        keyed = {"path": address, "storageOptions": s3.storage_options}
        row = spark.read.format("pocketmq-store").options(**keyed).load()
        assert row.where("keys = 'key-300 other'").count() == 1
        with pytest.raises(Exception, match="no directory 's3://pocketmq/none'"):
            read_store("s3://pocketmq/none", storageOptions=s3.storage_options).read_all()
    assert 0 < numbers[0] < numbers[1] == numbers[2]
    by_queue = spark.read.format("pocketmq-store").load(str(root))
    last = int(files[-1].name)
    expected = by_queue.where(f"physicalOffset < {last}").select("physicalOffset").collect()
    assert sorted(row[0] for row in found) == sorted(row[0] for row in expected)
    counted = (
        read_counts(spark).where(f"place = '{address}'").groupBy().sum("rows", "bytes").first()
    )
    assert counted is not None
    assert counted["sum(rows)"] == len(found)
    assert counted["sum(bytes)"] >= last

"""Stores through Spark: as a stream, file by file as they close; and from S3 (moto)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import EqualTo
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pocketmq.pipeline import StreamFigures, read_counts, read_store
from pocketmq.pipeline.errors import OptionError
from pocketmq.pipeline.spark.store_stream import StoreStreamReader
from pocketmq.pipeline.spark.stream_figures import BatchFigures
from pocketmq.pipeline.stores.store_read import StoreSettings
from support import spark_store
from support.eventually import eventually
from support.object_store import object_store
from support.spark_store import log_files, mixed, open_store, put, read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_log_files_are_followed_as_they_close_each_message_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    root, copied = tmp_path / "broker-a", tmp_path / "copied"
    with open_store(root) as store:
        put(store, mixed(600))
    files = log_files(root)
    (copied / "commitlog").mkdir(parents=True)

    def run(number: int) -> int:
        """With one more file in the folder."""
        shutil.copy(files[number], copied / "commitlog")
        query = (
            spark.readStream.format("pocketmq-store")
            .options(maxFilesPerTrigger="1")
            .load(str(copied))
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return spark.read.parquet(str(tmp_path / "rows")).count() if number else 0

    counts = [run(number) for number in range(len(files))]
    assert counts == sorted(set(counts))
    rows = spark.read.parquet(str(tmp_path / "rows")).select("physicalOffset").collect()
    by_queue = spark.read.format("pocketmq-store").load(str(root))
    expected = by_queue.where(f"physicalOffset < {int(files[-1].name)}").select("physicalOffset")
    assert sorted(row[0] for row in rows) == sorted(row[0] for row in expected.collect())


def test_a_listener_is_told_of_a_stores_stream_and_of_the_files_that_it_lost(
    spark: SparkSession, copy: Path, tmp_path: Path
) -> None:
    files = log_files(copy)
    sizes = [path.stat().st_size for path in files]
    frame = spark.readStream.format("pocketmq-store").options(failOnDataLoss="false")
    listener = StreamFigures()
    spark.streams.addListener(listener)

    def run(**options: str) -> BatchFigures:
        writer = frame.options(**options).load(str(copy)).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.queryName("log").trigger(availableNow=True).start()
        query.awaitTermination()
        last = query.lastProgress["batchId"]

        def is_told() -> bool:
            return "log" in listener.last and listener.last["log"].batch == last

        asyncio.run(eventually(is_told, "the listener was told"))
        return listener.last["log"]

    try:
        for path in files[1:]:
            path.rename(path.with_suffix(".later"))
        files[1].with_suffix(".later").rename(files[1])
        now = run()
        assert (now.log_bytes, now.log_lag_bytes, now.lost_files) == (sizes[0], 0, 0)
        assert now.rows > 0
        for path in files[2:]:
            path.with_suffix(".later").rename(path)
        for path in files[:2]:
            path.unlink()
        now = run()
    finally:
        spark.streams.removeListener(listener)
    assert (now.log_bytes, now.log_lag_bytes) == (sum(sizes[2:-1]), 0)
    assert (now.lost_files, now.remade) == (1, 0)


def test_a_store_on_s3_has_the_rows_of_the_directory(
    spark: SparkSession, store: Path, expected: list[dict[str, Any]]
) -> None:
    with object_store() as s3:
        address = s3.put(store, "broker-a")
        options = {"storageOptions": s3.storage_options, "brokerName": str(store)}
        for table in ("messages", "consumequeue", "offsets"):
            found = read_store(address, table=table, **options).read_all().to_pylist()
            assert found == read_store(str(store), table=table).read_all().to_pylist()
        key = EqualTo(("keys",), "key-300 other")
        assert [row["keys"] for row in spark_store.rows([key], path=address, **options)] == [
            "key-300 other"
        ]
        with pytest.raises(OptionError, match="no directory 's3://pocketmq/none'"):
            read_store("s3://pocketmq/none", **options).read_all()

        settings = StoreSettings({"path": address, **options})
        reader = StoreStreamReader(settings, settings.columns)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        followed = read_rows(reader, reader.partitions(start, end))
        last = int(log_files(store)[-1].name)
        assert followed == [row for row in expected if row["physicalOffset"] < last]

        table = spark.read.format("pocketmq-store").options(**options).load(address)
        assert table.where("topic = 'T'").count() == sum(row["topic"] == "T" for row in expected)
        (counted,) = read_counts(spark).where(f"place = '{address}'").collect()
    assert counted.rows == sum(row["topic"] == "T" for row in expected)
    assert counted.bytes > 0

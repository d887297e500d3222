"""The 336,776 flights through topic, stream and store: three equal tables, known figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pocketmq.cluster.demo.data import TOTAL_FLIGHTS, Summary, find_csv, flights, summarise
from pocketmq.pipeline.jobs import FlightsJob
from pocketmq.pipeline.jobs.carriers import FLIGHT, CarrierDelay, table
from pocketmq.pipeline.spark.sink import WriteSettings, send_rows
from support.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEAN_DELAY = 12.63907
"""Of all flights that left, as published for this data set."""
ROWS_OF_A_BATCH = 20_000
SOME = 40_000
"""Flights of the job that computes with event times."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summarise(find_csv())


@pytest.fixture(scope="module")
def flights_topic(spark: SparkSession, spark_brokers: SparkCluster) -> str:
    """Every flight, sent by our sink from outside Spark; one aircraft's in one queue."""
    assert send_flights(spark_brokers, "flights") == TOTAL_FLIGHTS
    return "flights"


def send_flights(cluster: SparkCluster, topic: str, limit: int | None = None) -> int:
    """How many there are."""
    from pyspark.sql.types import StructType

    cluster.create_topic(topic)
    names = ["body", "tags", "keys", "shardingKey"]
    schema = StructType.fromDDL("body binary, tags string, keys string, shardingKey string")
    settings = WriteSettings({"nameServer": cluster.nameservers, "topic": topic}, schema)

    def batches() -> Iterator[pa.RecordBatch]:
        rows: list[tuple[Any, ...]] = []
        for flight in flights(find_csv(), limit):
            rows.append((flight.body, flight.carrier, flight.key, flight.key))
            if len(rows) == ROWS_OF_A_BATCH:
                yield pa.RecordBatch.from_arrays(
                    list(map(pa.array, zip(*rows, strict=True))), names
                )
                rows.clear()
        if rows:
            yield pa.RecordBatch.from_arrays(list(map(pa.array, zip(*rows, strict=True))), names)

    return send_rows(settings, batches(), topic, 0, 0).rows


def fingerprint(frame: DataFrame) -> dict[str, Any]:
    """Equal for equal tables, whatever their rows' order."""
    from pyspark.sql import functions as f

    columns = [name for name in frame.columns if name != "properties"]
    properties = f.array_sort(f.map_entries("properties"))
    key = f.xxhash64(*columns, f.to_json(properties))
    row = frame.agg(
        f.count("*").alias("rows"),
        f.sum(key.cast("decimal(38,0)")).alias("sum"),
        f.bit_xor(key).alias("xor"),
    ).first()
    assert row is not None
    return row.asDict()


def figures(frame: DataFrame) -> tuple[dict[str, int], float]:
    """Flights per carrier, and the mean departure delay."""
    from pyspark.sql import functions as f

    flight = frame.select(f.from_json(f.col("body").cast("string"), FLIGHT).alias("flight"))
    rows = (
        flight.groupBy("flight.carrier")
        .agg(
            f.count("*").alias("flights"),
            f.sum("flight.dep_delay").alias("minutes"),
            f.count("flight.dep_delay").alias("departed"),
        )
        .collect()
    )
    mean = sum(row.minutes or 0 for row in rows) / sum(row.departed for row in rows)
    return {row.carrier: row.flights for row in rows}, mean


def per_carrier(summary: Summary) -> dict[str, int]:
    found: dict[str, int] = {}
    for flight, count in summary.flights.items():
        found[flight.carrier] = found.get(flight.carrier, 0) + count
    return found


def test_topic_stream_and_store_give_identical_tables_with_the_known_figures(
    spark: SparkSession,
    spark_brokers: SparkCluster,
    flights_topic: str,
    summary: Summary,
    tmp_path: Path,
) -> None:
    options = {"nameServer": spark_brokers.nameservers, "topic": flights_topic}
    batch = spark.read.format("pocketmq").options(**options).load()
    query = (
        spark.readStream.format("pocketmq")
        .options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="150000")
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    stream = spark.read.parquet(str(tmp_path / "rows"))
    roots = [str(spark_brokers.store(name)) for name in ("broker-a", "broker-b")]
    store = (
        spark.read.format("pocketmq-store")
        .options(topic=flights_topic, brokerName="broker-a,broker-b", verifyCrc="true")
        .load(",".join(roots))
    )
    prints = [fingerprint(frame) for frame in (batch, stream, store)]
    assert prints[0] == prints[1] == prints[2]
    assert prints[0]["rows"] == TOTAL_FLIGHTS
    counts, mean = figures(stream)  # the tables are identical, and Parquet is read quickest
    assert counts == per_carrier(summary)
    assert round(mean, 5) == MEAN_DELAY


def test_the_demos_table_is_that_of_the_csv(
    spark: SparkSession, spark_brokers: SparkCluster, flights_topic: str, summary: Summary
) -> None:
    rows = table(spark_brokers.nameservers, flights_topic)
    assert {row.carrier: row.mean for row in rows} == summary.delays.means()
    assert {row.carrier: row.flights for row in rows} == per_carrier(summary)


def test_a_body_that_is_no_flight_is_left_out_of_the_demos_table(
    spark: SparkSession, spark_brokers: SparkCluster
) -> None:
    assert send_flights(spark_brokers, "odd-flights", 10) == 10
    frame = spark.createDataFrame([(b"no flight",)], "body binary")
    (
        frame.write.format("pocketmq")
        .options(nameServer=spark_brokers.nameservers, topic="odd-flights")
        .mode("append")
        .save()
    )
    rows = table(spark_brokers.nameservers, "odd-flights")
    assert {row.carrier: row.flights for row in rows} == per_carrier(summarise(find_csv(), 10))


def test_the_flights_job_adds_up_while_the_flights_come_in(
    spark: SparkSession,
    spark_brokers: SparkCluster,
    tmp_path: Path,
) -> None:
    flights_topic = "some-flights"
    assert send_flights(spark_brokers, flights_topic, SOME) == SOME
    summary = summarise(find_csv(), SOME)
    spark_brokers.create_topic("flight-delays")
    seen: list[tuple[int, int]] = []

    def on_batch(batch: int, totals: Any) -> None:
        seen.append((batch, sum(row.flights for row in totals.values())))

    job = FlightsJob(
        spark_brokers.nameservers,
        tmp_path,
        topic=flights_topic,
        rows_per_batch=15_000,
        on_batch=on_batch,
    )
    totals = job.run(spark=spark)
    assert seen[:3] == [(0, 15_000), (1, 30_000), (2, SOME)]
    assert {total for _, total in seen[2:]} == {SOME}  # Spark may add a batch without data
    assert {carrier: row.mean for carrier, row in totals.items()} == summary.delays.means()

    windows = spark.read.parquet(str(tmp_path / "delays"))
    assert windows.count() == windows.select("carrier", "hour").distinct().count()
    assert windows.groupBy().sum("flights").first()[0] == SOME  # type: ignore[index]
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")

    updates = spark.read.parquet(str(tmp_path / "updates"))
    sent = spark.read.format("pocketmq").options(
        nameServer=spark_brokers.nameservers, topic="flight-delays"
    )
    messages = sent.load()
    assert messages.count() == updates.count()
    last = _last_windows(messages)
    assert last == {
        (row.carrier, row.hour): (row.flights, row.departed, row.minutes)
        for row in windows.collect()
    }

    again = FlightsJob(spark_brokers.nameservers, tmp_path, topic=flights_topic)
    assert again.run(spark=spark) == totals  # nothing new, nothing counted twice


def _last_windows(messages: DataFrame) -> dict[tuple[str, Any], tuple[int, int, int]]:
    """What who reads the topic in order ends up with: a carrier's messages share a queue."""
    from pyspark.sql import functions as f

    window = "carrier string, hour timestamp, flights int, departed int, minutes int"
    rows = (
        messages.select("queueOffset", f.from_json(f.col("body").cast("string"), window).alias("w"))
        .groupBy("w.carrier", "w.hour")
        .agg(f.max_by("w", "queueOffset").alias("w"))
        .select("w.*")
        .collect()
    )
    return {(row.carrier, row.hour): (row.flights, row.departed, row.minutes) for row in rows}


def test_a_row_without_known_delays_has_no_mean() -> None:
    assert CarrierDelay("XX", 2, 0, 0).mean is None

"""The sources and the sink inside Spark: what Spark makes of them, and they of Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pocketmq.client import Message
from pocketmq.pipeline import StreamFigures, measured
from pocketmq.pipeline import figures as figures_of_session
from pocketmq.pipeline.lake import DeltaAppend
from pocketmq.pipeline.spark.stream_figures import BatchFigures
from pocketmq.runtime.errors import CallerError
from support import spark_store
from support.eventually import eventually
from support.golden import unpack_store
from support.spark_cluster import SparkCluster
from support.spark_store import mixed, open_store, put

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 1_000
CLI = (sys.executable, "-m", "pocketmq.cluster.cli.main")


class Frames:
    """Data frames of one cluster."""

    def __init__(self, spark: SparkSession, cluster: SparkCluster) -> None:
        self.spark = spark
        self.cluster = cluster

    def topic(self, topic: str, **options: str) -> DataFrame:
        return self._reader(self.spark.read, topic, options).load()

    def stream(self, topic: str, **options: str) -> DataFrame:
        given = {"startingOffsets": "earliest", **options}
        return self._reader(self.spark.readStream, topic, given).load()

    def _reader(self, reader: Any, topic: str, options: dict[str, str]) -> Any:
        options = {"nameServer": self.cluster.nameservers, "topic": topic, **options}
        return reader.format("pocketmq").options(**options)

    def write(self, frame: DataFrame, topic: str = "", **options: str) -> None:
        writer = frame.write.format("pocketmq").option("nameServer", self.cluster.nameservers)
        writer = writer.option("topic", topic) if topic else writer
        writer.options(**options).mode("append").save()


@pytest.fixture(scope="module")
def frames(spark: SparkSession, spark_brokers: SparkCluster) -> Frames:
    return Frames(spark, spark_brokers)


@pytest.fixture(scope="module")
def orders(frames: Frames) -> str:
    """A topic with messages number 0 to 999."""
    frames.cluster.create_topic("Orders")
    frames.cluster.send(
        [
            Message("Orders", str(number).encode(), tags=f"Tag{number % 2}", keys=f"k{number}")
            for number in range(COUNT)
        ]
    )
    return "Orders"


def bodies(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


def skips(spark: SparkSession, event: str) -> list[str]:
    """What workers have logged of an event."""
    logs = spark.tvf.python_worker_logs().select("msg").collect()
    return [row.msg for row in logs if f"event='{event}'" in row.msg]


# -- reading ------------------------------------------------------------------------------------


def test_spark_finds_the_topic_source_by_itself(frames: Frames, orders: str) -> None:
    frame = frames.topic(orders)
    assert bodies(frame) == list(range(COUNT))
    assert frame.schema.simpleString() == (
        "struct<topic:string,brokerName:string,queueId:int,queueOffset:bigint,body:binary,"
        "keys:string,tags:string,bornTimestamp:timestamp,storeTimestamp:timestamp,flag:int,"
        "sysFlag:int,properties:map<string,string>,msgId:string,uniqKey:string,"
        "reconsumeTimes:int,physicalOffset:bigint,offsetMsgId:string,bornHost:string,"
        "storeHost:string>"
    )


def test_the_second_compiler_of_java_waits_for_methods_that_are_called_often(
    spark: SparkSession,
) -> None:
    java = spark.sparkContext._jvm.java.lang.management  # type: ignore[union-attr]
    given = list(java.ManagementFactory.getRuntimeMXBean().getInputArguments())
    assert "-XX:Tier4InvocationThreshold=50000" in given


def test_conditions_reach_the_source(frames: Frames, orders: str) -> None:
    # Which tags a queue has goes by where the producer began.
    some = frames.topic(orders).where("queueId = 1 and queueOffset >= 3").first()
    assert some is not None
    place = (some.brokerName, 1, some.tags)
    frame = frames.topic(orders).where(
        f"queueId = 1 and queueOffset >= 3 and tags = '{some.tags}'"
        f" and brokerName = '{some.brokerName}'"
    )
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "(queueId" not in plan.partition("BatchScan")[0].replace("queueId#", "")
    rows = frame.collect()
    assert rows
    assert {(row.brokerName, row.queueId, row.tags) for row in rows} == {place}


def test_a_session_without_pushdown_reads_the_same(frames: Frames, orders: str) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    frames.spark.conf.set(setting, "false")
    try:
        found = bodies(frames.topic(orders).where("tags = 'Tag0' and queueId < 2"))
    finally:
        frames.spark.conf.set(setting, "true")
    assert found == bodies(frames.topic(orders).where("tags = 'Tag0' and queueId < 2"))


def test_no_messages_are_an_empty_table(frames: Frames, orders: str) -> None:
    assert frames.topic(orders, startingOffsets="latest").count() == 0


def test_one_clear_error_for_a_wrong_option(frames: Frames, orders: str) -> None:
    for options, says in (
        ({"minPartition": "4"}, "there is no such option; did you mean 'minPartitions' or"),
        ({"topic": "Ordres"}, "no name server knows topic 'Ordres'; did you mean 'Orders'?"),
        ({"nameServer": "127.0.0.1:1"}, "option 'nameServer': no name server answers"),
        ({"startingOffsets": '{"Orders":'}, "is not valid JSON"),
    ):
        with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
            frames.topic(options.pop("topic", orders), **options).count()
        message = str(caught.value)
        assert says in message
        assert message.count('File "') <= 3, message


def test_registering_by_hand_does_no_harm(frames: Frames, orders: str) -> None:
    from pocketmq.pipeline import register

    register(frames.spark)
    assert frames.topic(orders).count() == COUNT


# -- the store ----------------------------------------------------------------------------------


def test_a_store_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        put(store, mixed(500))
    frame = (
        spark.read.format("pocketmq-store").option("minPartitions", "3").load(str(tmp_path / "s"))
    )
    rows = spark_store.plain([row.asDict() for row in frame.orderBy("physicalOffset").collect()])
    expected = spark_store.rows(path=str(tmp_path / "s"))
    assert [row["body"] for row in rows] == [row["body"] for row in expected]
    assert [row["properties"] for row in rows] == [row["properties"] for row in expected]
    assert frame.where("topic = 'T' and queueOffset < 5").count() == len(
        [row for row in expected if row["topic"] == "T" and row["queueOffset"] < 5]
    )


def test_a_store_of_real_rocketmq_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    root = unpack_store("clean", tmp_path)
    lines = (root / "expected.jsonl").read_text().splitlines()
    frame = spark.read.format("pocketmq-store").load(str(root / "store"))
    counts = {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()}
    assert counts["GoldenPlain"] == 900
    assert sum(counts[topic] for topic in counts if topic.startswith("Golden")) <= len(lines)
    groups = spark.read.format("pocketmq-store").option("table", "offsets")
    assert groups.load(str(root / "store")).where("consumerGroup = 'golden-tags'").count() > 0


def test_broken_records_are_skipped_and_counted_where_people_can_ask(
    spark: SparkSession, tmp_path: Path
) -> None:
    with open_store(tmp_path / "s") as store:
        put(store, mixed(300))
    file = min((tmp_path / "s" / "commitlog").iterdir())
    data = bytearray(file.read_bytes())
    data[5] ^= 0xFF
    file.write_bytes(data)
    reader = spark.read.format("pocketmq-store")
    with pytest.raises(Exception, match=rf"{file.name}: no valid record at byte 0"):
        reader.load(str(tmp_path / "s")).select("body").collect()
    assert reader.option("mode", "PERMISSIVE").load(str(tmp_path / "s")).count() == 299
    assert any("count=1 " in line for line in skips(spark, "records.skipped"))


# -- writing ------------------------------------------------------------------------------------


def test_a_data_frame_becomes_messages(frames: Frames, orders: str) -> None:
    frames.cluster.create_topic("Copy")
    frames.write(frames.topic(orders).select("body", "tags", "keys"), "Copy")
    copy = frames.topic("Copy")
    assert bodies(copy) == list(range(COUNT))
    pairs = {(int(row.body), row.tags, row.keys) for row in copy.collect()}
    assert pairs == {(number, f"Tag{number % 2}", f"k{number}") for number in range(COUNT)}


def test_a_repeated_task_is_seen_once_with_dedupe(frames: Frames) -> None:
    """The same rows of the same write twice, as after a task that failed late."""
    from pocketmq.pipeline.spark.sink import WriteSettings, send_rows

    frames.cluster.create_topic("Twice")
    frame = frames.spark.range(500).selectExpr("cast(id as string) as body")
    options = {"nameServer": frames.cluster.nameservers, "topic": "Twice"}
    settings = WriteSettings(options, frame.schema)
    batches = frame.toArrow().to_batches()
    for _ in range(2):
        assert send_rows(settings, iter(batches), "write", 0, 3).rows == 500
    assert frames.topic("Twice").count() == 1000
    assert bodies(frames.topic("Twice", dedupe="true")) == list(range(500))


def test_a_second_attempt_in_another_order_loses_nothing(frames: Frames) -> None:
    """The same rows of the same task, as after a shuffle that brings them otherwise."""
    from pocketmq.pipeline.spark.sink import WriteSettings, send_rows

    frames.cluster.create_topic("Shuffled", queues=1)
    frame = frames.spark.range(500).selectExpr("cast(id as string) as body")
    options = {"nameServer": frames.cluster.nameservers, "topic": "Shuffled"}
    settings = WriteSettings(options, frame.schema)
    once, again = frame.collect(), frame.orderBy("body").toArrow()
    assert [row.body for row in once] != again.column("body").to_pylist()
    # The first attempt was cut off after 300 rows.
    for table in (frame.limit(300).toArrow(), again):
        send_rows(settings, iter(table.to_batches()), "write", 0, 3)
    assert set(bodies(frames.topic("Shuffled", dedupe="true"))) == set(range(500))


def test_a_table_that_was_read_can_be_written_as_it_is(frames: Frames, orders: str) -> None:
    frames.cluster.create_topic("Whole", queues=3)
    frames.write(frames.topic(orders), "Whole")
    rows = frames.topic("Whole").select("body", "tags", "keys", "properties").collect()
    found = sorted((int(row.body), row.tags, row.keys) for row in rows)
    assert found == [(number, f"Tag{number % 2}", f"k{number}") for number in range(COUNT)]
    frames.write(frames.topic(orders, kafkaCompatible="true", includeHeaders="true"), "Whole")
    assert bodies(frames.topic("Whole")) == sorted([*range(COUNT), *range(COUNT)])


def test_rows_may_choose_topic_and_queue(frames: Frames) -> None:
    for topic in ("Even", "Odd"):
        frames.cluster.create_topic(topic)
    frame = frames.spark.range(40).selectExpr(
        "cast(id as string) as body",
        "if(id % 2 = 0, 'Even', 'Odd') as topic",
        "cast(id % 4 as int) as queueId",
        "map('half', cast(id div 2 as string)) as properties",
    )
    frames.write(frame)
    assert bodies(frames.topic("Even")) == list(range(0, 40, 2))
    for row in frames.topic("Odd").collect():
        assert row.queueId == int(row.body) % 4
        assert row.properties["half"] == str(int(row.body) // 2)


def test_writing_tells_what_does_not_fit(frames: Frames) -> None:
    frame = frames.spark.range(3).selectExpr("cast(id as string) as body", "id as nonsense")
    with pytest.raises(Exception, match="the sink knows no column 'nonsense'"):
        frames.write(frame, "Copy")
    with pytest.raises(Exception, match="no name server knows topic 'Nowhere'"):
        frames.write(frame.select("body"), "Nowhere")
    writer = frame.select("body").write.format("pocketmq").mode("overwrite")
    with pytest.raises(Exception, match="messages cannot be overwritten"):
        writer.options(nameServer=frames.cluster.nameservers, topic="Copy").save()


# -- streams ------------------------------------------------------------------------------------


def available_now(frame: DataFrame, target: Path, **options: str) -> Any:
    """Run a stream over what there is, into Parquet; the finished query."""
    writer = frame.writeStream.format("parquet").option("path", str(target / "rows"))
    writer = writer.option("checkpointLocation", str(target / "checkpoint")).options(**options)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_a_stream_reads_what_there_is_in_limited_batches_and_goes_on_where_it_was(
    frames: Frames, tmp_path: Path
) -> None:
    frames.cluster.create_topic("Stream")
    frames.cluster.send([Message("Stream", str(number).encode()) for number in range(500)])
    stream = frames.stream("Stream", maxOffsetsPerTrigger="200", commitGroup="lag-of-spark")
    told: list[BatchFigures] = []
    listener = StreamFigures(told.append)
    frames.spark.streams.addListener(listener)
    try:
        query = available_now(measured(stream), tmp_path)
        last = query.lastProgress["batchId"]
        is_told = eventually(lambda: told and told[-1].batch == last, "the listener was told")
        frames.cluster.run(is_told)
        own, name = figures_of_session(frames.spark).last, str(query.id)  # of `session()`
        is_told = eventually(lambda: name in own and own[name].batch == last, "its own, too")
        frames.cluster.run(is_told)
    finally:
        frames.spark.streams.removeListener(listener)
    read = [progress["numInputRows"] for progress in query.recentProgress]
    assert [rows for rows in read if rows] == [200, 200, 100]
    figures = [each for each in told if each.rows]
    assert [(each.rows, each.lag) for each in figures] == [(200, 300), (200, 100), (100, 0)]
    assert sum(each.bytes or 0 for each in figures) == sum(len(str(n)) for n in range(500))
    assert sum(figures[0].lags.values()) == 300
    assert (figures[-1].lost, listener.last[str(query.id)]) == (0, told[-1])
    source = query.lastProgress["sources"][0]
    stored = json.loads(source["endOffset"])
    assert stored.pop("@marks").keys() == stored.pop("@early").keys() == {"Stream"}
    latest = json.loads(source["latestOffset"])
    assert latest.pop("@counts") == {
        "repeated": 0,
        "lost": 0,
        "remade": 0,
        "cut": 0,
        "planned": 100,
    }
    assert latest == stored
    frames.cluster.send([Message("Stream", str(number).encode()) for number in range(500, 600)])
    available_now(stream, tmp_path)
    rows = frames.spark.read.parquet(str(tmp_path / "rows"))
    assert bodies(rows) == list(range(600))
    shown = subprocess.run(
        [*CLI, "group", "show", "lag-of-spark", "-o", "json"],
        env={**os.environ, "NAMESRV_ADDR": frames.cluster.nameservers},
        capture_output=True,
        text=True,
        check=False,
    )
    queues = json.loads(shown.stdout)["queues"]
    assert len(queues) == 8
    assert sum(each["consumer_offset"] for each in queues) == 600, shown


def test_a_stream_into_a_topic_and_a_new_queue_on_the_way(frames: Frames, tmp_path: Path) -> None:
    frames.cluster.create_topic("In", queues=1)
    frames.cluster.create_topic("Out")
    frames.cluster.send([Message("In", str(number).encode()) for number in range(50)])
    query = (
        frames.stream("In")
        .select("body")
        .writeStream.format("pocketmq")
        .option("nameServer", frames.cluster.nameservers)
        .option("topic", "Out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert bodies(frames.topic("Out")) == list(range(50))
        frames.cluster.shape_topic("In", 3)
        sent = frames.cluster.send(
            [Message("In", str(number).encode()) for number in range(50, 90)]
        )
        assert len(set(sent)) == 6
        query.processAllAvailable()
        assert bodies(frames.topic("Out", dedupe="true")) == list(range(90))
    finally:
        query.stop()


def test_a_streams_error_names_the_option(frames: Frames, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no name server knows topic 'Steam'"):
        available_now(frames.stream("Steam", retries="0"), tmp_path)


def test_delta_has_each_batch_once_and_tells_a_new_checkpoint_from_a_repeat(
    spark: SparkSession, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    def lines(folder: str, rows: list[str]) -> None:
        (tmp_path / folder).mkdir()
        for number, row in enumerate(rows):
            (tmp_path / folder / f"{number}.txt").write_text(row)

    def run(folder: str, checkpoint: str, app_id: str = "lines") -> None:
        query = (
            spark.readStream.format("text")
            .option("maxFilesPerTrigger", "1")
            .load(str(tmp_path / folder))
            .writeStream.foreachBatch(DeltaAppend(tmp_path / "table", app_id=app_id))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def table() -> list[str]:
        found = DeltaTable(tmp_path / "table").to_pyarrow_dataset().to_table()
        return sorted(found["value"].to_pylist())

    lines("first", ["a", "b", "c"])
    lines("second", ["d", "e", "f"])
    run("first", "one")
    for noted in (tmp_path / "one" / "commits").glob("*2*"):
        noted.unlink()  # as if the driver had been killed between Delta's commit and this note
    run("first", "one")
    assert table() == ["a", "b", "c"]
    with pytest.raises(Exception, match=r"OtherCheckpointError: .* a new checkpoint needs a new"):
        run("second", "two")
    run("second", "three", app_id="")
    lines("single", ["g"])
    run("single", "four", app_id="single")
    with pytest.raises(Exception, match="has batch 0 of app_id 'single' already, from another"):
        run("single", "five", app_id="single")
    run("single", "four", app_id="single")
    assert table() == ["a", "b", "c", "d", "e", "f", "g"]
    with pytest.raises(CallerError, match="give app_id"):
        DeltaAppend(tmp_path / "table")(spark.range(10), 0)

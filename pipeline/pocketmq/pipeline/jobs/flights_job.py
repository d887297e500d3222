"""Delay per carrier and hour while the flights arrive: structured streaming on their topic.

    topic flights -> JSON -> windows of an hour by event time, per carrier -> every batch:
        Parquet     updates/batch=N        the windows that changed
        topic       flight-delays          the same, a JSON message per window, with it as key
        a callback  on_batch               totals per carrier, for a live table

At the end `delays/` holds each window's last state, and `delays.png` shows them.

The flights are not in the order of their times: in the demo's file October follows January. The
watermark says how late a flight may be; with less than a year the job would drop most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketmq.pipeline.jobs.carriers import FLIGHT, CarrierDelay
from pocketmq.pipeline.jobs.on_spark import Starting, job_session
from pocketmq.pipeline.spark.plainly import told_by_spark
from pocketmq.pipeline.spark.session import check_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WATERMARK = "400 days"

Totals = Mapping[str, CarrierDelay]


def flights(
    nameservers: str,
    folder: str | Path,
    *,
    topic: str = "flights",
    to_topic: str = "flight-delays",
    window: str = "1 hour",
    watermark: str = WATERMARK,
    follow: bool = False,
    master: str = "",
    starting: Starting | None = None,
    on_batch: Callable[[int, Totals], None] | None = None,
) -> Totals:
    """Run a `FlightsJob`: on the topic's flights up to now, with `follow` until Ctrl-C.

    Args:
        nameservers: As for `FlightsJob`, and so are the others.
        folder: For Parquet, the picture and Spark's checkpoint.
        topic: The flights are read from it.
        to_topic: The windows are sent to it; empty to send nothing.
        window: Length of a window.
        watermark: How late a flight may be.
        follow: Whether to go on when the topic's end is reached.
        master: Where Spark runs; two cores of this machine if nothing else is said. Executors of a
            cluster write into the folder, so it must be the same on all machines.
        starting: Told where Spark runs before it is started.
        on_batch: Called after each batch with its number and the totals so far.

    Returns:
        Carrier -> its delays.

    Raises:
        MissingToolError: PySpark, Java 17 or later, or matplotlib is not installed.
        OptionError: A topic does not exist, or no name server answers.
        JobError: Spark has ended the query.
    """
    job = FlightsJob(
        nameservers, Path(folder), topic, to_topic, window, watermark, on_batch=on_batch
    )
    return job.run(follow=follow, master=master, starting=starting)


@dataclass(slots=True)
class FlightsJob:
    """One run of the job.

    Args:
        nameservers: `host:port;host:port`.
        folder: For Parquet, the picture and Spark's checkpoint, from which a second run goes on.
        topic: The flights are read from it.
        to_topic: The windows are sent to it; it must exist. Empty to send nothing.
        window: Length of a window, as Spark writes it.
        watermark: How late a flight may be, as Spark writes it.
        rows_per_batch: Maximum number of flights in a micro-batch.
        on_batch: Called after each batch with its number and the totals so far.
    """

    nameservers: str
    folder: Path
    topic: str = "flights"
    to_topic: str = "flight-delays"
    window: str = "1 hour"
    watermark: str = WATERMARK
    rows_per_batch: int = 50_000
    on_batch: Callable[[int, Totals], None] | None = None
    _windows: dict[tuple[str, Any], tuple[int, int, int]] = field(default_factory=dict)

    def run(
        self,
        *,
        follow: bool = False,
        spark: SparkSession | None = None,
        master: str = "",
        starting: Starting | None = None,
    ) -> Totals:
        """Process the topic's flights, with `follow` until the query is stopped; the final totals.

        In the session that is given, or as `job_session` says.

        Raises:
            MissingToolError: PySpark, Java 17 or later, or matplotlib is not installed.
            OptionError: A topic does not exist, or no name server answers.
            JobError: Spark has ended the query.
        """
        from pocketmq.pipeline.jobs.chart import check_matplotlib

        # All that may be missing is reported before Spark starts, which takes seconds.
        if spark is None:
            check_spark()
        check_matplotlib()
        # The target topic is checked too: otherwise the first batch would fail after its
        # computation.
        self.check_topics()
        if spark is None:
            quiet = {"spark.ui.showConsoleProgress": "false"}  # whoever calls counts the flights
            spark = job_session("flights", master=master, settings=quiet, starting=starting)
        query = self.start(spark, follow=follow)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
        except Exception as exc:
            raise told_by_spark(exc) from exc
        return self.finish(spark)

    def check_topics(self) -> None:
        """Check that both topics exist; takes no Spark, which is slow to start.

        Raises:
            OptionError: One does not exist, or no name server answers.
        """
        from pocketmq.pipeline.topics.settings import NAME, access_of_text
        from pocketmq.pipeline.workers.loop import shared_loop

        access = access_of_text(NAME, self.nameservers)
        client = access.client()
        for topic in filter(None, (self.topic, self.to_topic)):
            shared_loop().result(client.route(topic))

    def start(self, spark: SparkSession, *, follow: bool) -> StreamingQuery:
        """Start the query; the caller waits for its end, and then calls `finish`."""
        # Batches bring only changes, so a run that continues first loads the earlier totals.
        self._recall(spark)
        writer = (
            self.delays(spark)
            .writeStream.outputMode("update")
            .foreachBatch(self._write)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .queryName("flights")
        )
        if follow:
            return writer.trigger(processingTime="2 seconds").start()
        return writer.trigger(availableNow=True).start()

    def delays(self, spark: SparkSession) -> DataFrame:
        """The windows, as a streaming data frame."""
        from pyspark.sql import functions as f

        body = spark.readStream.format("pocketmq").options(
            nameServer=self.nameservers,
            topic=self.topic,
            columns="body",
            startingOffsets="earliest",
            maxOffsetsPerTrigger=str(self.rows_per_batch),
        )
        flight = f.from_json(f.col("body").cast("string"), FLIGHT)
        return (
            body.load()
            .select(flight.alias("flight"))
            .select("flight.*")
            .where("carrier is not null")
            .withWatermark("time_hour", self.watermark)
            .groupBy(f.window("time_hour", self.window), "carrier")
            .agg(
                f.count("*").alias("flights"),
                f.count("dep_delay").alias("departed"),
                f.coalesce(f.sum("dep_delay"), f.lit(0)).alias("minutes"),
            )
            .selectExpr("carrier", "window.start as hour", "flights", "departed", "minutes")
        )

    def _write(self, windows: DataFrame, batch: int) -> None:
        # Three steps below use the batch: without `persist` Spark would compute it three times.
        windows = windows.persist()
        try:
            # Overwritten when Spark runs a batch again, so none of its windows is stored twice.
            # Stored before it is sent, since a batch that runs again may send its windows twice.
            windows.write.mode("overwrite").parquet(str(self.folder / f"updates/batch={batch}"))
            if self.to_topic:
                self._send(windows)
            self._remember(windows)
        finally:
            windows.unpersist()
        if self.on_batch is not None:
            self.on_batch(batch, self.totals())

    def _send(self, windows: DataFrame) -> None:
        messages = windows.selectExpr(
            "to_json(struct(*)) as body",
            "carrier as tags",
            "concat(carrier, '-', date_format(hour, \"yyyyMMdd'T'HH\")) as keys",
            "carrier as shardingKey",
        )
        # The sharding key is the carrier, so a carrier's windows stay in order in one queue.
        writer = messages.write.format("pocketmq").mode("append")
        writer.options(nameServer=self.nameservers, topic=self.to_topic).save()

    def _remember(self, windows: DataFrame) -> None:
        for row in windows.toLocalIterator():
            self._windows[row.carrier, row.hour] = (row.flights, row.departed, row.minutes)

    def _recall(self, spark: SparkSession) -> None:
        """Read the windows that earlier runs wrote."""
        if any(self.folder.glob("updates/batch=*/*.parquet")):
            self._remember(self.latest(spark))

    def totals(self) -> Totals:
        """All windows so far, added up per carrier."""
        sums: dict[str, list[int]] = {}
        for (carrier, _), numbers in self._windows.items():
            total = sums.setdefault(carrier, [0, 0, 0])
            for index, number in enumerate(numbers):
                total[index] += number
        return {carrier: CarrierDelay(carrier, *sums[carrier]) for carrier in sorted(sums)}

    def latest(self, spark: SparkSession) -> DataFrame:
        """Each window's last state, out of all updates."""
        # A window appears in each batch that changed it; the highest batch has its last state.
        updates = spark.read.parquet(str(self.folder / "updates"))
        return updates.groupBy("carrier", "hour").agg(
            *(_last(name) for name in ("flights", "departed", "minutes"))
        )

    def finish(self, spark: SparkSession) -> Totals:
        """Write `delays/` and `delays.png`; the totals."""
        from pocketmq.pipeline.jobs.chart import draw

        # Without any window there is no Parquet file to read.
        if self._windows:
            target = self.folder / "delays"
            self.latest(spark).coalesce(1).sortWithinPartitions("hour", "carrier").write.mode(
                "overwrite"
            ).parquet(str(target))
            draw(spark.read.parquet(str(target)), self.folder / "delays.png")
        return self.totals()


def _last(name: str) -> Any:
    from pyspark.sql import functions as f

    return f.max_by(name, "batch").alias(name)

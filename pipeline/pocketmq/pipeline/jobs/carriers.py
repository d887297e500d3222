"""Flights and mean departure delay per carrier, straight from the brokers: the demo's last step.

    python -m pocketmq.pipeline.jobs.carriers --nameservers 127.0.0.1:9876 --topic flights

prints one JSON object per carrier. The sums are integers, so the means are exact.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

from pocketmq.pipeline.spark.plainly import told_by_spark
from pocketmq.pipeline.spark.session import session
from pocketmq.runtime import logs
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.process import report

FLIGHT = "carrier string, dep_delay int, time_hour timestamp"
"""The fields of a flight's JSON that the jobs use, as a Spark schema."""


@dataclass(frozen=True, slots=True)
class CarrierDelay:
    """Flights and delays of one carrier."""

    carrier: str
    flights: int
    departed: int
    """Flights whose departure delay is known."""
    minutes: int
    """Sum of their delays in minutes; an early departure counts as negative."""

    @property
    def mean(self) -> Fraction | None:
        """Mean departure delay in minutes, exact; None when no delay is known."""
        return Fraction(self.minutes, self.departed) if self.departed else None


def table(
    nameservers: str, topic: str = "flights", *, master: str = "local[2]"
) -> list[CarrierDelay]:
    """One row per carrier, sorted by carrier; every message of the topic counts.

    Args:
        nameservers: `host:port;host:port`.
        topic: Its messages have a flight as JSON each.
        master: Where Spark runs.

    Raises:
        MissingToolError: PySpark, or Java 17 or later, is not installed.
        OptionError: The topic does not exist, or no name server answers.
        JobError: Spark has failed.
    """
    from pyspark.sql import functions as f

    spark = session("carriers", master=master, settings={"spark.driver.memory": "1g"})
    body = spark.read.format("pocketmq").options(
        nameServer=nameservers, topic=topic, columns="body"
    )
    flight = f.from_json(f.col("body").cast("string"), FLIGHT).alias("flight")
    try:
        rows = (
            body.load()
            .select(flight)
            .where("flight.carrier is not null")  # bodies that are no flight
            .groupBy("flight.carrier")
            .agg(
                f.count("*").alias("flights"),
                f.count("flight.dep_delay").alias("departed"),
                f.coalesce(f.sum("flight.dep_delay"), f.lit(0)).alias("minutes"),
            )
            .collect()
        )
    except Exception as exc:
        raise told_by_spark(exc) from exc
    found = [CarrierDelay(row.carrier, row.flights, row.departed, row.minutes) for row in rows]
    return sorted(found, key=lambda each: each.carrier)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as JSON lines; the exit status."""
    parser = argparse.ArgumentParser(description="Flights and mean delay per carrier, by Spark.")
    parser.add_argument("--nameservers", default="127.0.0.1:9876")
    parser.add_argument("--topic", default="flights")
    chosen = parser.parse_args(arguments)
    logs.configure("error")
    try:
        rows = table(chosen.nameservers, chosen.topic)
    except PocketMQError as exc:
        return report(exc, "carriers")
    for row in rows:
        print(json.dumps(asdict(row)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

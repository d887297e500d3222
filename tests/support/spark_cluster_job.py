"""Submitted by a test: reads and writes a topic on executors that lack the package.

python spark_cluster_job.py NAMESERVERS TOPIC COPY
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def where(_: Any) -> str:
    """On an executor: where our code and a compiled dependency come from."""
    import msgspec

    import pocketmq.client

    return f"{pocketmq.client.__file__} {msgspec.__file__}"


def main() -> None:
    nameservers, topic, copy = sys.argv[1:]
    spark = SparkSession.builder.appName("package").getOrCreate()
    read = spark.read.format("pocketmq").options(nameServer=nameservers)
    frame = read.options(topic=topic, minPartitions="4").load()
    frame.select("body", "keys").write.format("pocketmq").options(
        nameServer=nameservers, topic=copy
    ).mode("append").save()
    written = read.options(topic=copy).load()
    context = spark.sparkContext
    print(
        "FOUND",
        json.dumps(
            {
                "topic": sorted(int(row.body) for row in frame.select("body").collect()),
                "copy": sorted(int(row.body) for row in written.select("body").collect()),
                "places": context.parallelize(range(4), 4).map(where).collect(),
            }
        ),
    )
    spark.stop()


if __name__ == "__main__":
    main()

"""Run by a test: a client of Spark Connect, in a process without Java.

python spark_connect_job.py PORT NAMESERVERS TOPIC COPY FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> None:
    port, nameservers, topic, copy, folder = sys.argv[1:]
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    options = {"nameServer": nameservers}
    read = spark.read.format("pocketmq").options(**options)
    frame = read.options(topic=topic).load()
    frame.write.format("pocketmq").options(**options, topic=copy).mode("append").save()
    stream = spark.readStream.format("pocketmq").options(
        **options, topic=copy, startingOffsets="earliest", maxOffsetsPerTrigger="150"
    )
    query = (
        stream.load()
        .writeStream.format("parquet")
        .option("path", str(Path(folder) / "rows"))
        .option("checkpointLocation", str(Path(folder) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = spark.read.parquet(str(Path(folder) / "rows")).select("body").collect()
    found = {
        "topic": frame.where("queueId < 2").count() + frame.where("queueId >= 2").count(),
        "rows": sorted(int(row.body) for row in rows),
        "session": type(spark).__module__,
    }
    print("FOUND", json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()

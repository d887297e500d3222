"""Run by a test: reads and writes with two executors in processes of their own.

python spark_two_executors.py NAMESERVERS STORE_ROOT
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pyspark

from pocketmq.pipeline import session


def main() -> None:
    nameservers, root = sys.argv[1:]
    spark = session(
        "two-executors",
        master="local-cluster[2,1,1024]",
        settings={"spark.executor.memory": "512m", "spark.driver.memory": "512m"},
    )
    base = {"nameServer": nameservers, "topic": "Apart"}
    frame = spark.read.format("pocketmq").options(**base, minPartitions="8").load()
    frame.select("body", "keys").write.format("pocketmq").options(
        nameServer=nameservers, topic="ApartCopy"
    ).mode("append").save()
    copy = spark.read.format("pocketmq").options(nameServer=nameservers, topic="ApartCopy").load()
    store = spark.read.format("pocketmq-store").options(topic="Apart", minPartitions="4").load(root)
    found = {
        "topic": sorted(int(row.body) for row in frame.select("body").collect()),
        "copy": sorted(int(row.body) for row in copy.select("body").collect()),
        "store": store.count(),
        "executors": len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1,
    }
    print("FOUND " + json.dumps(found))
    work = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)  # Spark keeps its executors' logs in the package


if __name__ == "__main__":
    main()

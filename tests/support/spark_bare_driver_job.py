"""Submitted by a test as in cluster mode: the driver finds the package only in `--py-files`, too.

python spark_bare_driver_job.py NAMESERVERS TOPIC
"""

from __future__ import annotations

import json
import sys

import msgspec

import pocketmq.client
from pocketmq.pipeline import register, session


def main() -> None:
    nameservers, topic = sys.argv[1:]
    spark = session("bare driver")
    register(spark)
    read = spark.read.format("pocketmq").options(nameServer=nameservers)
    rows = read.options(topic=topic, minPartitions="4").load().select("body").collect()
    found = {
        "master": spark.sparkContext.master,
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "topic": sorted(int(row.body) for row in rows),
        "driver": [pocketmq.client.__file__, msgspec.__file__],
    }
    print("FOUND", json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()

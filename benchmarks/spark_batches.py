"""Processor time of a stream's micro-batches, by process: a topic into a topic, batch after batch.

python spark_batches.py [--option minRecordsPerPartition=1000] [--java=-XX:TieredStopAtLevel=1]

Batches have a fixed size, so the figures say what one costs however busy the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
from processes import cluster
from spark_topic import create_topic, fill

from pocketmq.pipeline import session
from pocketmq.runtime import logs

KINDS = {
    "java": "JVM",
    "spark_daemon": "Python workers of tasks",
    "python_streaming_source_runner": "Python: offsets",
    "write_into_data_source": "Python: planning of writes",
    "python_streaming_sink_runner": "Python: commits of writes",
}


def used_s() -> Counter[str]:
    """Processor seconds so far, by what the processes are for."""
    found: Counter[str] = Counter()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            command, times = " ".join(process.cmdline()), process.cpu_times()
            kind = next((each for name, each in KINDS.items() if name in command), "")
            if kind:
                found[kind] += times.user + times.system
            if kind == "JVM":
                found["processes that the JVM starts"] += times.children_user
                found["processes that the JVM starts"] += times.children_system
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1500, help="of a batch")
    parser.add_argument("--skip", type=int, default=15, help="batches before the first counted one")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--option", action="append", default=[], help="of the source: NAME=VALUE")
    parser.add_argument("--java", default="", help="options of Spark's JVM")
    given = parser.parse_args()
    logs.configure("error")
    settings = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": given.java}
    spark = session("batches", master="local[2]", settings=settings)
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder), 1) as (nameserver, _):
        for topic in ("bench", "copy"):
            asyncio.run(create_topic(nameserver, topic))
        messages = (given.skip + given.batches + 5) * given.rows
        fill(nameserver, messages // 10_000 * 10_000 + 10_000)
        query = (
            spark.readStream.format("pocketmq")
            .options(nameServer=nameserver, topic="bench", columns="body")
            .options(startingOffsets="earliest", maxOffsetsPerTrigger=str(given.rows))
            .options(**dict(each.split("=", 1) for each in given.option))
            .load()
            .writeStream.format("pocketmq")
            .options(nameServer=nameserver, topic="copy")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .start()
        )

        def reached(batch: int) -> int:
            while query.isActive:
                progress = query.lastProgress
                if progress is not None and progress["batchId"] >= batch:
                    return int(progress["batchId"])
                time.sleep(0.05)
            raise RuntimeError(str(query.exception()))

        first, before = reached(given.skip), used_s()
        last, after = reached(given.skip + given.batches), used_s()
        query.stop()
    spark.stop()
    spent = {kind: 1000 * (after[kind] - before[kind]) / (last - first) for kind in after}
    for kind, ms in spent.items():
        print(f"{ms:7.1f} ms of a batch  {kind}")
    print(f"{sum(spent.values()):7.1f} ms of a batch  in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())

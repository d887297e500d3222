"""Run by `spark_crash_process`: a topic into one table, until told to end.

python spark_crash_driver.py TABLE NAMESERVERS TOPIC FOLDER MASTER ROWS_PER_BATCH FAIL_ON_DATA_LOSS

As it goes it prints `AT`, and after it how far the query's finished batches have come (the sum of
offsets) and how many lost messages it has counted. If the query ends it prints `DIED <why>` and
ends too. A line on standard input says how many rows there are to be; when they are read, it
prints `READ` and what Spark reads back of Parquet, and ends.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pocketmq.pipeline import session
from pocketmq.pipeline.lake import DeltaAppend
from pocketmq.pipeline.progress.checkpoint import Checkpoint
from pocketmq.pipeline.spark.stream_figures import figures_of


def at(query: Any) -> int:
    """How far the query's finished batches have come: the sum of all queues' offsets."""
    progress = query.lastProgress
    if progress is None or not progress["sources"] or not progress["sources"][0]["endOffset"]:
        return 0
    end = Checkpoint.of_tree(json.loads(progress["sources"][0]["endOffset"]))
    return sum(end.offsets.values())


def lost(query: Any) -> int:
    """How many lost messages it has counted since this process began."""
    progress = query.lastProgress
    figures = None if progress is None else figures_of(json.loads(progress.json))
    return 0 if figures is None else figures.lost


def start(spark: Any, table: str, arguments: Sequence[str]) -> Any:
    """The query, on its way."""
    nameservers, topic, folder, _, rows, fails = arguments
    frame = (
        spark.readStream.format("pocketmq")
        .options(
            nameServer=nameservers,
            topic=topic,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=rows,
            retries="100",
            failOnDataLoss=fails,
            columns="brokerName,queueId,queueOffset,body",
        )
        .load()
    )
    writer = frame.writeStream.option("checkpointLocation", f"{folder}/{table}-checkpoint")
    if table == "delta":
        return writer.foreachBatch(DeltaAppend(Path(folder) / table)).start()
    return writer.format("parquet").option("path", f"{folder}/{table}").start()


def main() -> None:
    table, *arguments = sys.argv[1:]
    faulthandler.register(signal.SIGUSR1)  # where it hangs, if it does
    spark = session(
        f"crashes: {table}",
        master=arguments[3],
        settings={
            "spark.driver.memory": "700m",
            "spark.executor.memory": "512m",
            "spark.task.maxFailures": "8",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    query = start(spark, table, arguments)
    wanted: list[int] = []
    pause = threading.Event()
    threading.Thread(target=lambda: wanted.append(int(input())), daemon=True).start()
    while not wanted or at(query) < wanted[0]:
        print("AT", at(query), lost(query), flush=True)
        if not query.isActive:
            print("DIED", str(query.exception()).replace("\n", " | ")[:20_000], flush=True)
            spark.stop()
            os._exit(1)  # the thread above holds standard input, which an orderly end would take
        pause.wait(0.2)
    query.processAllAvailable()
    query.stop()
    found: list[int] = []
    if table == "parquet":
        rows = spark.read.parquet(f"{arguments[2]}/{table}").select("body").collect()
        found = sorted(int(row.body) for row in rows)
    print("READ", json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

"""Run by `spark_crashes`: a topic into Parquet and into Delta, until told to end.

python spark_crash_driver.py NAMESERVERS TOPIC FOLDER MASTER ROWS_PER_BATCH

Prints `AT <rows in Parquet's checkpoint> <rows in Delta's>` as it goes. A line on standard input
says how many rows there are to be; when both have them, it prints what Spark reads back, and ends.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pocketmq.pipeline import session
from pocketmq.pipeline.checkpoint import Checkpoint
from pocketmq.pipeline.lake import DeltaAppend

SPARKS_RACE = "Task serialization failed: java.lang.IllegalStateException: Illegal size"
"""Two queries of one session: Spark serializes a collection that the other one's thread changes.
The query ends and is started again, as its user would do: one more crash to survive."""


def main() -> None:
    nameservers, topic, folder_text, master, rows = sys.argv[1:]
    folder = Path(folder_text)
    spark = session(
        "crashes",
        master=master,
        settings={
            "spark.driver.memory": "700m",
            "spark.executor.memory": "512m",
            "spark.task.maxFailures": "8",
            "spark.sql.shuffle.partitions": "2",
        },
    )

    def frame() -> Any:
        return (
            spark.readStream.format("pocketmq")
            .options(
                nameServer=nameservers,
                topic=topic,
                startingOffsets="earliest",
                maxOffsetsPerTrigger=rows,
                retries="100",
                columns="brokerName,queueId,queueOffset,body",
            )
            .load()
        )

    def parquet() -> Any:
        return (
            frame()
            .writeStream.format("parquet")
            .option("path", str(folder / "parquet"))
            .option("checkpointLocation", str(folder / "parquet-checkpoint"))
            .start()
        )

    def delta() -> Any:
        return (
            frame()
            .writeStream.foreachBatch(DeltaAppend(folder / "delta"))
            .option("checkpointLocation", str(folder / "delta-checkpoint"))
            .start()
        )

    starts = (parquet, delta)
    queries = [start() for start in starts]
    wanted: list[int] = []
    pause = threading.Event()
    threading.Thread(target=lambda: wanted.append(int(input())), daemon=True).start()
    while not wanted or min(map(done, queries)) < wanted[0]:
        print("AT", *map(done, queries), flush=True)
        for at, query in enumerate(queries):
            if query.isActive:
                continue
            died = str(query.exception())
            if SPARKS_RACE not in died:
                print("DIED", died.replace("\n", " | ")[:2000], flush=True)
                sys.exit(1)
            queries[at] = starts[at]()
        pause.wait(0.2)
    for query in queries:
        query.processAllAvailable()
        query.stop()
    table = spark.read.parquet(str(folder / "parquet"))
    bodies = sorted(int(row.body) for row in table.select("body").collect())
    print("READ", json.dumps(bodies), flush=True)
    spark.stop()


def done(query: Any) -> int:
    """How many rows the query's finished batches have reached."""
    progress = query.lastProgress
    if progress is None or not progress["sources"] or not progress["sources"][0]["endOffset"]:
        return 0
    end = Checkpoint.of_tree(json.loads(progress["sources"][0]["endOffset"]))
    return sum(end.offsets.values())


if __name__ == "__main__":
    main()

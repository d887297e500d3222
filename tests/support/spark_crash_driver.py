"""Run by `spark_crash_process`: a topic into Parquet and into Delta, until told to end.

python spark_crash_driver.py NAMESERVERS TOPIC FOLDER MASTER ROWS_PER_BATCH FAIL_ON_DATA_LOSS

As it goes it prints `AT`, and after it how far Parquet's finished batches have come (the sum of
offsets) and Delta's, and how many lost messages Parquet's query has counted and Delta's. Of a query
that has ended it prints `DIED <table> <why>`; it ends when both have. A line on standard input says
how many rows there are to be; when both have them, it prints what Spark reads back, and ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pocketmq.pipeline import session
from pocketmq.pipeline.checkpoint import Checkpoint
from pocketmq.pipeline.lake import DeltaAppend
from pocketmq.pipeline.stream_figures import figures_of

SPARKS_RACE = "Task serialization failed: java.lang.IllegalStateException: Illegal size"
"""Two queries of one session: Spark serializes a collection that the other one's thread changes.
The query ends and is started again, as its user would do: one more crash to survive."""


class Table:
    """One of the two queries; it is started again after Spark's own race."""

    def __init__(self, name: str, start: Callable[[], Any]) -> None:
        self.name = name
        self._start = start
        self._lost_before = 0
        self.query = start()
        self.has_died = False

    def look(self) -> None:
        """Start it again, or tell that it has died."""
        if self.query.isActive or self.has_died:
            return
        why = str(self.query.exception())
        if SPARKS_RACE in why:
            self._lost_before = self.lost
            self.query = self._start()
            return
        self.has_died = True
        print("DIED", self.name, why.replace("\n", " | ")[:20_000], flush=True)

    @property
    def at(self) -> int:
        """How far the query's finished batches have come: the sum of all queues' offsets."""
        progress = self.query.lastProgress
        if progress is None or not progress["sources"] or not progress["sources"][0]["endOffset"]:
            return 0
        end = Checkpoint.of_tree(json.loads(progress["sources"][0]["endOffset"]))
        return sum(end.offsets.values())

    @property
    def lost(self) -> int:
        """How many lost messages have been counted since this process began."""
        progress = self.query.lastProgress
        figures = None if progress is None else figures_of(json.loads(progress.json))
        return self._lost_before + (0 if figures is None else figures.lost)


def main() -> None:
    nameservers, topic, folder_text, master, rows, fails = sys.argv[1:]
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
                failOnDataLoss=fails,
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

    tables = [Table("parquet", parquet), Table("delta", delta)]
    wanted: list[int] = []
    pause = threading.Event()
    threading.Thread(target=lambda: wanted.append(int(input())), daemon=True).start()
    while not wanted or min(each.at for each in tables) < wanted[0]:
        print("AT", *(each.at for each in tables), *(each.lost for each in tables), flush=True)
        for each in tables:
            each.look()
        if all(each.has_died for each in tables):
            spark.stop()
            os._exit(1)  # the thread above holds standard input, which an orderly end would take
        pause.wait(0.2)
    for each in tables:
        each.query.processAllAvailable()
        each.query.stop()
    table = spark.read.parquet(str(folder / "parquet"))
    bodies = sorted(int(row.body) for row in table.select("body").collect())
    print("READ", json.dumps(bodies), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

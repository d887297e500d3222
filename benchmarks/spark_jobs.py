"""`export` and `audit`, and few columns of a store, beside what they are measured against.

    export      a store into Parquet          against reading the same rows into nothing
    audit       every check of a store        against reading the same rows into nothing
    columns     two columns of the log        against pyarrow on the same rows as Parquet
    queues      two columns of the queues     against pyarrow on the same rows as Parquet
    known       the same two of messages      against pyarrow on the same rows as Parquet

All in one process, in turn, by processor time: of all threads, whatever else the machine does.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from spark_loads import HEADERS, Figures, log_bytes, median_s

from pocketmq.pipeline import read_store
from pocketmq.pipeline.jobs.audit import audit
from pocketmq.pipeline.lake import ParquetTarget, export

QUEUES = "queueOffset,physicalOffset"


def job_rows(root: Path, folder: Path, rounds: int) -> Figures:
    """The jobs over a closed store of topic `Bench`."""
    size = log_bytes(root)
    exported = folder / "exported"

    def read(columns: str = "", table: str = "messages") -> Callable[[], Any]:
        def work() -> None:
            for _ in read_store(str(root), topic="Bench", columns=columns, table=table):
                pass

        return work

    def run_export() -> None:
        shutil.rmtree(exported, ignore_errors=True)
        export("Bench", ParquetTarget(exported), stores=str(root))

    def run_audit() -> None:
        assert audit([root]).count == 0

    def parquet(columns: str) -> Callable[[], Any]:
        def work() -> None:
            for _ in ds.dataset(exported).to_batches(columns=columns.split(",")):
                pass

        return work

    run_export()
    reading, exporting, auditing, few, few_of_parquet, queues, known, queues_of_parquet = median_s(
        rounds,
        read(),
        run_export,
        run_audit,
        read(HEADERS),
        parquet(HEADERS),
        read(QUEUES, "consumequeue"),
        read(QUEUES),
        parquet(QUEUES),
        clock=time.process_time,
    )
    return {
        "MB of the log": size / 1e6,
        "MB per second of a processor, read into nothing": size / reading / 1e6,
        "export into Parquet": size / exporting / 1e6,
        "audit": size / auditing / 1e6,
        "ratio of export to reading (0.5)": reading / exporting,
        "ratio of audit to reading (0.5)": reading / auditing,
        "ratio of two columns of the log to pyarrow on Parquet (0.8)": few_of_parquet / few,
        "ratio of two columns of the queues to the same (0.8)": queues_of_parquet / queues,
        "ratio of two columns of messages that queues know (0.8)": queues_of_parquet / known,
    }

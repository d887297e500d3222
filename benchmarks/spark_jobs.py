"""`export` and `audit`, and few columns of a store, beside what they are measured against.

    export      a store into Parquet          against reading the same rows into nothing
    audit       every check of a store        against reading the same rows into nothing
    columns     two columns of a store        against pyarrow on the same rows as Parquet

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


def job_rows(root: Path, folder: Path, rounds: int) -> Figures:
    """The jobs over a closed store of topic `Bench`."""
    size = log_bytes(root)
    exported = folder / "exported"

    def read(columns: str = "") -> Callable[[], Any]:
        def work() -> None:
            for _ in read_store(str(root), topic="Bench", columns=columns):
                pass

        return work

    def run_export() -> None:
        shutil.rmtree(exported, ignore_errors=True)
        export("Bench", ParquetTarget(exported), stores=str(root))

    def run_audit() -> None:
        assert audit([root]).count == 0

    def parquet() -> None:
        for _ in ds.dataset(exported).to_batches(columns=HEADERS.split(",")):
            pass

    run_export()
    reading, exporting, auditing, few, pyarrow = median_s(
        rounds, read(), run_export, run_audit, read(HEADERS), parquet, clock=time.process_time
    )
    return {
        "MB of the log": size / 1e6,
        "MB per second of a processor, read into nothing": size / reading / 1e6,
        "export into Parquet": size / exporting / 1e6,
        "audit": size / auditing / 1e6,
        "ratio of export to reading (0.5)": reading / exporting,
        "ratio of audit to reading (0.5)": reading / auditing,
        "ratio of two columns to pyarrow on Parquet (0.8)": pyarrow / few,
    }

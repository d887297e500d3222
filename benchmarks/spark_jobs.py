"""`audit`, and few columns of a store, beside what they are measured against.

    audit       every check of a store        against reading the same rows into nothing
    columns     two columns of the log        against pyarrow on the same rows as Parquet
    queues      two columns of the queues     against pyarrow on the same rows as Parquet
    known       the same two of messages      against pyarrow on the same rows as Parquet
    bound       mapping a log's pages and touching the heads of its records, nothing else

All in one process, in turn, by processor time: of all threads, whatever else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from spark_loads import HEADERS, Figures, log_bytes, median_s

from pocketmq.pipeline import read_store
from pocketmq.pipeline.columns.record_columns import ROWS
from pocketmq.pipeline.jobs import audit
from pocketmq.pipeline.stores.places import LocalBytes
from pocketmq.protocol.store_layout import BODY_AT

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

    def run_audit() -> None:
        assert audit([root]).count == 0

    def parquet(columns: str) -> Callable[[], Any]:
        def work() -> None:
            for _ in ds.dataset(exported).to_batches(columns=columns.split(",")):
                pass

        return work

    exported.mkdir(parents=True, exist_ok=True)
    rows = read_store(str(root), topic="Bench")
    with pq.ParquetWriter(exported / "rows.parquet", rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
    (
        reading,
        auditing,
        few,
        few_of_parquet,
        touching,
        queues,
        known,
        queues_of_parquet,
    ) = median_s(
        rounds,
        read(),
        run_audit,
        read(HEADERS),
        parquet(HEADERS),
        heads_touched(root),
        read(QUEUES, "consumequeue"),
        read(QUEUES),
        parquet(QUEUES),
        clock=time.process_time,
    )
    return {
        "MB of the log": size / 1e6,
        "MB per second of a processor, read into nothing": size / reading / 1e6,
        "audit": size / auditing / 1e6,
        "ratio of audit to reading (0.5)": reading / auditing,
        "ratio of two columns of the log to pyarrow on Parquet (0.8)": few_of_parquet / few,
        "ratio of touching the heads, nothing more, to the same": few_of_parquet / touching,
        "ratio of two columns of the queues to the same (0.8)": queues_of_parquet / queues,
        "ratio of two columns of messages that queues know (0.8)": queues_of_parquet / known,
    }


def heads_touched(root: Path) -> Callable[[], None]:
    """What no reader of the log's heads can do without: no field is read, nothing is checked."""
    batches = read_store(str(root), topic="Bench", columns="physicalOffset")
    offsets = np.concatenate([batch.column(0).to_numpy() for batch in batches])
    files = sorted((root / "commitlog").iterdir())
    cuts = [*np.searchsorted(offsets, [int(file.name) for file in files]), len(offsets)]

    def work() -> None:
        for number, file in enumerate(files):
            opened = LocalBytes(file)
            mine = offsets[cuts[number] : cuts[number + 1]] - int(file.name)
            for at in range(0, len(mine), ROWS):
                some = mine[at : at + ROWS]
                low = int(some[0])
                view = opened.mapped(low, int(some[-1]) + BODY_AT - low)
                assert view is not None
                data = np.frombuffer(view, np.uint8)
                for distance in (0, 64, BODY_AT - 1):
                    np.take(data, some - low + distance, mode="clip")
                del data, view
            opened.close()

    return work

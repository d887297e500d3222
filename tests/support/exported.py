"""A folder of Parquet files as `pocketmq pipeline export` makes it, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def as_exported(folder: Path, rows: pa.Table, batch: int = 0) -> None:
    """Write one batch of an export."""
    where = folder / f"batch={batch}"
    where.mkdir(parents=True)
    (folder / "_checkpoint").mkdir(exist_ok=True)
    pq.write_table(rows, where / "part-0.parquet")
    (where / "_SUCCESS").touch()

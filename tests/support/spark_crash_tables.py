"""What the tables and checkpoints of `spark_crashes` have, read without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from deltalake import DeltaTable

from pocketmq.pipeline.progress.checkpoint import Checkpoint

TABLES = ("parquet", "delta")


def bodies(folder: Path, table: str) -> list[int]:
    """The numbers in a table's bodies, in order: those of finished batches."""
    if table == "delta":
        whole = DeltaTable(folder / table).to_pyarrow_dataset().to_table(columns=["body"])
        return sorted(map(int, whole.column("body").to_pylist()))
    return sorted(
        int(body)
        for file in _parquet_files(folder / table)
        for body in pq.read_table(file, columns=["body"]).column("body").to_pylist()
    )


def _parquet_files(table: Path) -> set[Path]:
    """The files that Spark's sink says it has written; others are of batches that broke off.

    It keeps a list for each batch, and each tenth one repeats those before it.
    """
    files = set()
    for listing in (table / "_spark_metadata").glob("[0-9]*"):
        for line in listing.read_text().splitlines()[1:]:
            files.add(Path(unquote(urlsplit(json.loads(line)["path"]).path)))
    return files


def stand(folder: Path, table: str) -> Checkpoint:
    """Where a query goes on: behind the last batch that it knows it has finished."""
    checkpoint = folder / f"{table}-checkpoint"
    numbers = [int(each.name) for each in (checkpoint / "commits").glob("[0-9]*")]
    if not numbers:
        return Checkpoint({})
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()
    return Checkpoint.of_tree(json.loads(lines[-1]))


def check(table: str, found: Sequence[int], messages: int, lost: Set[int] = frozenset()) -> None:
    """Every number once, but for those that the stream could not read any more.

    Raises:
        AssertionError: One is missing, or there twice, or there although it was removed.
    """
    wanted = set(range(messages)) - lost
    missing = sorted(wanted - set(found))
    assert not missing, f"{table}: {len(missing)} messages are missing, such as {missing[:5]}"
    more = sorted(set(found) - wanted)
    assert not more, (
        f"{table}: {len(more)} messages are there that were removed, such as {more[:5]}"
    )
    twice = len(found) - len(wanted)
    assert not twice, f"{table}: {twice} messages are there twice"

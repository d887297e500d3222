"""Rows of a job's result as files: Parquet, JSON or JSON lines, by the file's name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pocketmq.runtime.errors import CallerError

SUFFIXES: Final = (".parquet", ".json", ".jsonl")


def as_dicts(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Dataclass instances as dictionaries."""
    return [dataclasses.asdict(row) for row in rows]


def check_path(path: Path) -> None:
    """Raise `CallerError` unless the name tells the format; call it before a long job."""
    if path.suffix not in SUFFIXES:
        raise CallerError(f"{path}: write a name that ends with {', '.join(SUFFIXES)}")


def write_rows(rows: Sequence[Any], path: Path, kind: type[Any]) -> None:
    """Write dataclass instances; the file appears complete or not at all.

    Args:
        rows: Instances of `kind`.
        path: Its suffix tells the format.
        kind: Names the columns where there are no rows.

    Raises:
        CallerError: The suffix means no format.
    """
    check_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    listed = as_dicts(rows)
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        if listed:
            table = pa.Table.from_pylist(listed)
        else:
            names = [field.name for field in dataclasses.fields(kind)]
            table = pa.table({name: pa.array([], pa.null()) for name in names})
        pq.write_table(table, part)
    elif path.suffix == ".json":
        part.write_text(json.dumps(listed, ensure_ascii=False, indent=1) + "\n")
    else:
        part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in listed))
    part.rename(path)

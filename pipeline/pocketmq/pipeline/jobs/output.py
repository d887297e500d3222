"""Rows of a job's result as files: Parquet, JSON or JSON lines, by the file's name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from pocketmq.pipeline.installed import check_arrow
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.files.new_folders import make_lasting
from pocketmq.runtime.files.replaced_folder import rename, sync

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES: Final = (".parquet", ".json", ".jsonl")


@dataclasses.dataclass(frozen=True, slots=True)
class ResultTable:
    """One of the tables of a job's result.

    Args:
        name: Empty for the first one, which has the file that was named; others stand beside it.
        rows: Instances of `kind`.
        kind: A dataclass; its fields are the columns.
        without: Fields that are no columns.
    """

    name: str
    rows: Sequence[Any]
    kind: type[Any]
    without: tuple[str, ...] = ()

    def path(self, out: Path) -> Path:
        """The table's file: `latency.json`, then `latency-groups.json`."""
        return out.with_stem(f"{out.stem}-{self.name}") if self.name else out


def as_dicts(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Dataclass instances as dictionaries."""
    return [dataclasses.asdict(row) for row in rows]


def check_path(path: Path) -> None:
    """Check that rows can be written to a file; call it before a long job.

    Raises:
        CallerError: The suffix means no format.
        MissingToolError: It means Parquet, and PyArrow is not installed.
    """
    if path.suffix not in SUFFIXES:
        raise CallerError(f"{path}: the file's name must end with one of {', '.join(SUFFIXES)}")
    if path.suffix == ".parquet":
        check_arrow(str(path))


def write_rows(rows: Sequence[Any], path: Path, kind: type[Any]) -> None:
    """Write dataclass instances; the file appears complete or not at all.

    Args:
        rows: Instances of `kind`.
        path: Its suffix tells the format.
        kind: Names the columns where there are no rows.

    Raises:
        CallerError: The suffix means no format.
        MissingToolError: It means Parquet, and PyArrow is not installed.
    """
    write_tables(path, ResultTable("", rows, kind))


def write_tables(out: Path, *tables: ResultTable) -> None:
    """Write the tables of a result, each into a file of its own; errors are those of `write_rows`.

    Args:
        out: Where the first one goes.
        tables: The first has no name.
    """
    check_path(out)
    make_lasting(out.parent)
    for table in tables:
        _write(table, table.path(out))


def _write(table: ResultTable, path: Path) -> None:
    # In the same folder: a rename works only within one file system.
    part = path.with_name(f".{path.name}.part")
    listed = as_dicts(table.rows)
    for row in listed:
        for name in table.without:
            del row[name]
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(listed, _schema(table)), part)
    elif path.suffix == ".json":
        part.write_text(json.dumps(listed, ensure_ascii=False, indent=1) + "\n")
    else:
        part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in listed))
    # On the disk before the rename: after a power cut there is the old file or the whole new one.
    sync(part)
    rename(part, path)


def _schema(table: ResultTable) -> pa.Schema:
    import pyarrow as pa

    # Declared and not inferred, so that an empty table or one of nulls has the same columns.
    known = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        list[str]: pa.list_(pa.string()),
    }
    hints = get_type_hints(table.kind)
    fields = [field.name for field in dataclasses.fields(table.kind)]
    return pa.schema([(name, known[hints[name]]) for name in fields if name not in table.without])

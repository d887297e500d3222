"""Rows that cannot be sent, kept instead of failing the job: in a table, or in a topic.

    option badRowsPath=DIR       one Parquet file for a task with such rows
    option badRowsTopic=TOPIC    a message for each: JSON, with the body in base64

Both name the row, why it cannot be sent, and what it was to be. A task that runs again writes its
file again, and sends the same messages with the same `SPARK_ROW`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_BODY_BYTES: Final = 1024 * 1024
"""How much of a body a message shows; a table has all of it."""
BEGIN: Final = b'{"reason":'
"""Of a message that tells of a row."""
_ROWS_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be sent."""

    row: int
    """Its number in the task."""
    reason: str
    topic: str | None
    body: bytes | None
    properties: Mapping[str, str]
    """With its tag and keys."""


class BadRows(Protocol):
    """Where such rows go, for one task."""

    count: int
    """How many there have been."""

    def add(self, row: BadRow) -> None:
        """Keep a row."""

    def finish(self) -> None:
        """All of them are there."""

    def cancel(self) -> None:
        """The task has failed."""


class BadRowTable:
    """A Parquet file in a folder that every worker can write to.

    Args:
        folder: A path, or an address that Arrow knows (`s3://...`, `hdfs://...`).
        write: The write, which the file is named after.
        batch: The micro-batch.
        task: The task.
    """

    def __init__(self, folder: str, write: str, batch: int, task: int) -> None:
        self.count = 0
        self._folder = folder
        self._place = (write, batch, task)
        self._rows: list[BadRow] = []
        self._writer: Any = None
        self._sink: Any = None
        self._files: Any = None
        self._path = ""

    def add(self, row: BadRow) -> None:
        """Keep a row."""
        self.count += 1
        self._rows.append(row)
        # Written in portions: a task of bad rows only must not hold them all in memory.
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._flush()

    def finish(self) -> None:
        """The file appears under its name; without bad rows there is none."""
        if self._rows:
            self._flush()
        if self._writer is not None:
            self._close()
            # Renamed only when the task is done: a killed task leaves a partial file, which nobody
            # reads.
            self._files.move(self._path + ".part", self._path)

    def cancel(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._close()
            self._files.delete_file(self._path + ".part")

    def _close(self) -> None:
        self._writer.close()
        self._sink.close()
        self._writer = None

    def _flush(self) -> None:
        import pyarrow.fs
        import pyarrow.parquet

        write, batch, task = self._place
        # Created with the first bad row, as most tasks have none.
        if self._writer is None:
            self._files, folder = pyarrow.fs.FileSystem.from_uri(_address(self._folder))
            self._files.create_dir(folder, recursive=True)
            # A task that runs again uses the same name, and so replaces its file.
            self._path = f"{folder}/{write}-{batch:08d}-{task:05d}.parquet"
            self._sink = self._files.open_output_stream(self._path + ".part")
            self._writer = pyarrow.parquet.ParquetWriter(self._sink, table_schema())
        rows, self._rows = self._rows, []
        self._writer.write_table(
            pyarrow.Table.from_pylist(
                [
                    {
                        "write": write,
                        "batch": batch,
                        "task": task,
                        "row": row.row,
                        "reason": row.reason,
                        "topic": row.topic,
                        "body": row.body,
                        "properties": list(row.properties.items()),
                    }
                    for row in rows
                ],
                table_schema(),
            )
        )


def table_schema() -> pa.Schema:
    """The columns of a table of bad rows."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("write", pa.string()),
            pa.field("batch", pa.int64()),
            pa.field("task", pa.int32()),
            pa.field("row", pa.int64()),
            pa.field("reason", pa.string()),
            pa.field("topic", pa.string()),
            pa.field("body", pa.binary()),
            pa.field("properties", pa.map_(pa.string(), pa.string())),
        ]
    )


def as_message(row: BadRow) -> bytes:
    """Body of the message that tells of a row."""
    told: dict[str, Any] = {
        "reason": row.reason,
        "row": row.row,
        "topic": row.topic,
        "properties": dict(row.properties),
        "bodyBytes": None if row.body is None else len(row.body),
        "body": None
        if row.body is None
        # Cut, so that this message itself does not become too long to send.
        else base64.b64encode(row.body[:SHOWN_BODY_BYTES]).decode("ascii"),
    }
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


def without_body(message: bytes) -> bytes | None:
    """The same message without the row's body, for a broker to which it was too long."""
    told = json.loads(message)
    if told["body"] is None:
        return None
    return json.dumps({**told, "body": None}, ensure_ascii=False, separators=(",", ":")).encode()


def _address(folder: str) -> str:
    from pathlib import Path

    return folder if "://" in folder else Path(folder).absolute().as_uri()

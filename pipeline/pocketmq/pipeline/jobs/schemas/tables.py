"""Decoded bodies as Parquet files: one series for each topic, and one for what does not fit."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError, Body
from pocketmq.pipeline.jobs.schemas.columns import (
    BAD,
    CHANGE,
    Column,
    arrow_schema,
    columns,
    fitting,
    json_text,
    unicode_of,
)
from pocketmq.pipeline.jobs.schemas.decoded import Decoded
from pocketmq.pipeline.jobs.schemas.decoders import TopicDecoder
from pocketmq.pipeline.jobs.schemas.envelopes import changes
from pocketmq.pipeline.jobs.schemas.json_schema import object_of
from pocketmq.pipeline.jobs.schemas.registry import Registry
from pocketmq.protocol.messages.validation import is_dlq, is_retry, is_system_topic
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.files.replaced_folder import rename, sync

COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "keys", "storeTimestamp", "body"),
)
ROWS_PER_FILE: Final = 100_000


def is_internal(topic: str) -> bool:
    """Retries, dead letters and system topics have no schema."""
    return is_retry(topic) or is_dlq(topic) or is_system_topic(topic)


class _Table:
    """Rows that become files."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self.schema = schema
        self.columns = columns(schema)
        """Those that bodies fill."""
        self._folder, self._name = folder, name
        self._rows: list[dict[str, Any]] = []
        self._files = 0

    def add(self, row: dict[str, Any]) -> Iterator[str]:
        self._rows.append(row)
        if len(self._rows) >= ROWS_PER_FILE:
            yield self.write()

    def write(self) -> str:
        """Write what is there; the file's name."""
        if not self._rows:
            return ""
        name = f"{self._name}-{self._files}.parquet"
        part = self._folder / f".{name}.part"
        pq.write_table(pa.Table.from_pylist(self._rows, self.schema), part)
        # On the disk before the rename, so that readers of the folder find only complete files.
        sync(part)
        rename(part, self._folder / name)
        self._rows.clear()
        self._files += 1
        return name


class Tables:
    """The tables of all topics, and that of bad rows."""

    def __init__(
        self,
        folder: Path,
        done: Decoded,
        registry: Registry | None,
        framed: bool,
        envelope: bool,
        keys: tuple[str, ...],
    ) -> None:
        self.done = done
        self._folder, self._registry = folder, registry
        self._framed, self._envelope, self._keys = framed, envelope, keys
        self._decoders: dict[str, Callable[[bytes], Body]] = {}
        self._topics: dict[str, TopicDecoder] = {}
        self._tables: dict[tuple[str, str], _Table] = {}
        """By topic and, of a Protobuf message that is not its own, the message."""
        self._bad = _Table(folder, "bad", BAD)

    def add(self, row: dict[str, Any]) -> None:
        """Decode one message."""
        # The body is taken out: the rest of the row is the message's place, and stays.
        topic, body = row["topic"], row.pop("body") or b""
        # On the first message, since topics without messages need no schema.
        if topic not in self._decoders:
            self._open(topic)
        # Such a body is a tombstone after a deleted key, and has no row.
        if self._envelope and body.strip() in (b"", b"null"):
            self.done.empty += 1
            return
        try:
            fields, message = self._decoders[topic](body)
            table = self._table(topic, message)
            # All rows of a body are made before any is kept, since one bad row makes the whole body
            # bad.
            made = list(self._rows(row, fields, table.columns))
        except BadBodyError as exc:
            self.done.bad += 1
            reason = str(exc).encode(errors="backslashreplace").decode()
            # Only up to the first colon: what follows may quote the body.
            short = reason.split(":")[0][:80]
            # Bounded: the reasons of hostile bodies may all differ.
            if short in self.done.reasons or len(self.done.reasons) < 100:
                self.done.reasons[short] = self.done.reasons.get(short, 0) + 1
            self._put(self._bad, {**row, "reason": reason, "body": body})
            return
        for each in made:
            self.done.rows += 1
            self._put(table, each)

    def _table(self, topic: str, message: str) -> _Table:
        """Change events of a topic make one table, messages of Protobuf one each."""
        # could be better: file names have `_` for `%`, so two topics may clash, and a topic `bad`
        # clashes with the bad rows.
        place = (topic, "" if self._envelope else message)
        if place not in self._tables:
            schema = arrow_schema(self._topics[topic].schema_of(message))
            name = f"{topic.replace('%', '_')}~{message}"
            self._tables[place] = _Table(self._folder, name, schema)
        return self._tables[place]

    def _open(self, topic: str) -> None:
        if self._registry is None:
            # Only change events describe themselves.
            if not self._envelope:
                raise CallerError("name a registry of schemas, or read change events")
            self._decoders[topic] = _plain_json
            schema = CHANGE
        else:
            decoder = TopicDecoder(topic, self._registry, is_framed=self._framed)
            self._decoders[topic] = self._topics[topic] = decoder
            schema = CHANGE if self._envelope else arrow_schema(decoder.newest)
        self._tables[topic, ""] = _Table(self._folder, topic.replace("%", "_"), schema)

    def _rows(
        self, row: dict[str, Any], fields: dict[str, Any], places: list[Column]
    ) -> Iterator[dict[str, Any]]:
        if not self._envelope:
            yield {**row, **_values(places, fields)}
            return
        for change in changes(fields, self._keys):
            when = _time(change.time_ms)
            yield {
                **row,
                "operation": change.operation,
                "table": unicode_of("table", change.table),
                "key": json_text(list(change.key)),
                "before": None if change.before is None else json_text(change.before),
                "after": None if change.after is None else json_text(change.after),
                "changeTimestamp": when,
            }

    def _put(self, table: _Table, row: dict[str, Any]) -> None:
        self.done.files += table.add(row)

    def finish(self) -> None:
        """Write what is left."""
        for table in (*self._tables.values(), self._bad):
            name = table.write()
            if name:
                self.done.files.append(name)


def _values(places: list[Column], fields: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for column in places:
        value = fields.get(column.field)
        # A missing field is null in the table.
        if value is not None:
            found[column.name] = fitting(column, value)
    return found


def _time(time_ms: int) -> datetime.datetime:
    try:
        return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    except (OSError, OverflowError, ValueError) as exc:
        raise BadBodyError(f"its time in ms is in no calendar: {time_ms!r:.60}") from exc


def _plain_json(body: bytes) -> Body:
    return Body(object_of(body))

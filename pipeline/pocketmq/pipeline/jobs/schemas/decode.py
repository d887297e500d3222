"""Bodies of topics into tables by their schemas, and those that do not fit into a bad-row table.

    decode("store:cluster/broker-a", "schemas.json", "tables/orders", topics=["orders"])

Each topic becomes Parquet files `<topic>-<n>.parquet` with the place of each message (topic,
broker, queue, offset, keys, store time), and a column for each field of its schema: texts, numbers
and truth values as such, everything else as JSON text. `bad-<n>.parquet` has the place, the reason
and the body of what could not be decoded.

With `envelope` bodies are change events of a database (`envelopes.py`): a row for each change.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pocketmq.pipeline.arrow import TIMESTAMP
from pocketmq.pipeline.jobs.schemas.decoders import BadBodyError, TopicDecoder
from pocketmq.pipeline.jobs.schemas.envelopes import changes
from pocketmq.pipeline.jobs.schemas.registry import Registry, Schema, registry_of
from pocketmq.pipeline.jobs.sources import source_of
from pocketmq.protocol.validation import is_dlq, is_retry, is_system_topic
from pocketmq.runtime.errors import CallerError

COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "keys", "storeTimestamp", "body"),
)
PLACE: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("brokerName", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("keys", pa.string()),
        ("storeTimestamp", TIMESTAMP),
    ]
)
BAD: Final = pa.schema([*PLACE, ("reason", pa.string()), ("body", pa.binary())])
CHANGE: Final = pa.schema(
    [
        *PLACE,
        ("operation", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("changeTimestamp", TIMESTAMP),
    ]
)
ROWS_PER_FILE: Final = 100_000

_NAMES: Final = frozenset(PLACE.names)


@dataclass(slots=True)
class Decoded:
    """What was done."""

    rows: int = 0
    bad: int = 0
    empty: int = 0
    """Bodies `null`, by which a change stream says that a deleted key is over."""
    files: list[str] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    """The most frequent reasons, without what differs from body to body."""


def decode(
    source: str,
    registry: str | Registry,
    out: str | Path,
    *,
    topics: Sequence[str] = (),
    framed: bool = False,
    envelope: bool = False,
    keys: Sequence[str] = (),
    nameservers: str = "",
    on_batch: Callable[[Decoded], None] | None = None,
) -> Decoded:
    """Decode all messages of a source.

    Args:
        source: As `source_of` takes it.
        registry: A file, an address, or a registry; empty for change events in plain JSON.
        out: Folder for the tables; it must be empty or not be there.
        topics: Only these.
        framed: Whether bodies begin with the id of their schema (Confluent's wire format).
        envelope: Whether they are change events.
        keys: Columns of the primary key, for change events that do not say it.
        nameservers: For topics.
        on_batch: Told what was done so far.

    Raises:
        CallerError: A topic has no schema, or the folder is not empty.
        RegistryError: The registry does not answer.
    """
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()):
        raise CallerError(f"{folder} is not empty; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    known = registry_of(registry) if isinstance(registry, str) and registry else registry
    work = _Work(folder, known or None, framed, envelope, tuple(keys))
    for batch in source_of(source, topics=topics, nameservers=nameservers).batches(COLUMNS):
        for row in batch.to_pylist():
            if not _is_internal(row["topic"]):
                work.add(row)
        if on_batch is not None:
            on_batch(work.done)
    work.finish()
    return work.done


def _is_internal(topic: str) -> bool:
    return is_retry(topic) or is_dlq(topic) or is_system_topic(topic)


class _Table:
    """Rows that become files."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self.schema = schema
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
        part.rename(self._folder / name)
        self._rows.clear()
        self._files += 1
        return name


class _Work:
    def __init__(
        self,
        folder: Path,
        registry: Any,
        framed: bool,
        envelope: bool,
        keys: tuple[str, ...],
    ) -> None:
        self.done = Decoded()
        self._folder, self._registry = folder, registry
        self._framed, self._envelope, self._keys = framed, envelope, keys
        self._decoders: dict[str, Callable[[bytes], dict[str, Any]]] = {}
        self._tables: dict[str, _Table] = {}
        self._bad = _Table(folder, "bad", BAD)

    def add(self, row: dict[str, Any]) -> None:
        """Decode one message."""
        topic, body = row["topic"], row.pop("body") or b""
        if topic not in self._decoders:
            self._open(topic)
        if self._envelope and body.strip() in (b"", b"null"):
            self.done.empty += 1
            return
        try:
            fields = self._decoders[topic](body)
            made = list(self._rows(row, fields))
        except BadBodyError as exc:
            self.done.bad += 1
            reason = str(exc)
            short = reason.split(":")[0][:80]
            if short in self.done.reasons or len(self.done.reasons) < 100:
                self.done.reasons[short] = self.done.reasons.get(short, 0) + 1
            self._put(self._bad, {**row, "reason": reason, "body": body})
            return
        for each in made:
            self.done.rows += 1
            self._put(self._tables[topic], each)

    def _open(self, topic: str) -> None:
        if self._registry is None:
            if not self._envelope:
                raise CallerError("name a registry of schemas, or read change events")
            self._decoders[topic] = _plain_json
            schema = CHANGE
        else:
            decoder = TopicDecoder(topic, self._registry, is_framed=self._framed)
            self._decoders[topic] = decoder
            schema = CHANGE if self._envelope else arrow_schema(decoder.newest)
        self._tables[topic] = _Table(self._folder, topic.replace("%", "_"), schema)

    def _rows(self, row: dict[str, Any], fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not self._envelope:
            yield {**row, **self._columns(row["topic"], fields)}
            return
        for change in changes(fields, self._keys):
            when = datetime.datetime.fromtimestamp(change.time_ms / 1000, datetime.UTC)
            yield {
                **row,
                "operation": change.operation,
                "table": change.table,
                "key": _json_text(list(change.key)),
                "before": None if change.before is None else _json_text(change.before),
                "after": None if change.after is None else _json_text(change.after),
                "changeTimestamp": when,
            }

    def _columns(self, topic: str, fields: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for column in self._tables[topic].schema:
            if column.name in _NAMES:
                continue
            name = column.name.removesuffix("_")
            value = fields.get(column.name, fields.get(name))
            if value is not None:
                found[column.name] = _fitting(column, value)
        return found

    def _put(self, table: _Table, row: dict[str, Any]) -> None:
        self.done.files += table.add(row)

    def finish(self) -> None:
        """Write what is left."""
        for table in (*self._tables.values(), self._bad):
            name = table.write()
            if name:
                self.done.files.append(name)


def _plain_json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as exc:
        raise BadBodyError(f"no JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise BadBodyError(f"it is {type(found).__name__} and no object")
    return found


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """Values that Avro has and JSON has not."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    raise BadBodyError(f"a value of type {type(value).__name__}")


def _fitting(column: pa.Field, value: Any) -> Any:
    """A value for a column; an error if the column has another type."""
    if pa.types.is_string(column.type):
        return value if isinstance(value, str) else _json_text(value)
    if pa.types.is_binary(column.type):
        return base64.b64decode(value) if isinstance(value, str) else value
    if pa.types.is_boolean(column.type) and not isinstance(value, bool):
        raise BadBodyError(f"{column.name} is {value!r} and not true or false")
    try:
        if pa.types.is_integer(column.type):
            return int(value)  # Protobuf's JSON has 64 bits as text
        if pa.types.is_floating(column.type):
            return float(value)
    except (TypeError, ValueError) as exc:
        raise BadBodyError(f"{column.name} is {value!r} and no number") from exc
    return value


# -- columns --------------------------------------------------------------------------------------

_AVRO: Final = {
    "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "boolean": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
}  # fmt: skip
_JSON: Final = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_PROTOBUF: Final = {
    **dict.fromkeys((1,), pa.float64()), 2: pa.float32(), 8: pa.bool_(), 9: pa.string(),
    12: pa.binary(), **dict.fromkeys((5, 15, 17), pa.int32()),
    **dict.fromkeys((3, 16, 18), pa.int64()), 13: pa.uint32(), 7: pa.uint32(),
    **dict.fromkeys((4, 6), pa.uint64()),
}  # fmt: skip


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of a table: the message's place, and the fields of a schema.

    A field that is called as one of those has a `_` behind its name.
    """
    if schema.kind == "PROTOBUF":
        pairs = list(_protobuf_columns(schema))
    else:
        said = json.loads(schema.text)
        pairs = list(_avro_columns(said) if schema.kind == "AVRO" else _json_columns(said))
    fields = [pa.field(f"{name}_" if name in _NAMES else name, kind) for name, kind in pairs]
    return pa.schema([*PLACE, *fields])


def _avro_columns(schema: Any) -> Iterator[tuple[str, pa.DataType]]:
    for each in schema.get("fields", ()) if isinstance(schema, dict) else ():
        kinds = each["type"] if isinstance(each["type"], list) else [each["type"]]
        kinds = [kind for kind in kinds if kind != "null"]
        kind = kinds[0] if len(kinds) == 1 else ""
        yield each["name"], _AVRO.get(kind, pa.string()) if isinstance(kind, str) else pa.string()


def _json_columns(schema: Any) -> Iterator[tuple[str, pa.DataType]]:
    for name, each in schema.get("properties", {}).items() if isinstance(schema, dict) else ():
        kinds = each.get("type", "") if isinstance(each, dict) else ""
        kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
        yield name, _JSON.get(kinds[0], pa.string()) if len(kinds) == 1 else pa.string()


def _protobuf_columns(schema: Schema) -> Iterator[tuple[str, pa.DataType]]:
    from pocketmq.pipeline.jobs.schemas.protobuf import file_descriptor

    file = file_descriptor(schema.text)
    for message in file.message_type:
        if not schema.message or message.name == schema.message.rpartition(".")[2]:
            for each in message.field:
                is_plain = each.label != 3
                yield each.name, _PROTOBUF.get(each.type, pa.string()) if is_plain else pa.string()
            return

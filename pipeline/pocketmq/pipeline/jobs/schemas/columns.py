"""The columns of decoded bodies, and their values in them."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from pocketmq.pipeline.arrow import TIMESTAMP
from pocketmq.pipeline.jobs.schemas.decoders import BadBodyError
from pocketmq.pipeline.jobs.schemas.json_schema import Part, json_schema
from pocketmq.pipeline.jobs.schemas.registry import Schema

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
NAMES: Final = frozenset(PLACE.names)

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
    elif schema.kind == "AVRO":
        pairs = list(_avro_columns(json.loads(schema.text)))
    else:
        pairs = list(_json_columns(schema))
    fields = [pa.field(f"{name}_" if name in NAMES else name, kind) for name, kind in pairs]
    return pa.schema([*PLACE, *fields])


def _avro_columns(schema: Any) -> Iterator[tuple[str, pa.DataType]]:
    for each in schema.get("fields", ()) if isinstance(schema, dict) else ():
        kinds = each["type"] if isinstance(each["type"], list) else [each["type"]]
        kinds = [kind for kind in kinds if kind != "null"]
        kind = kinds[0] if len(kinds) == 1 else ""
        yield each["name"], _AVRO.get(kind, pa.string()) if isinstance(kind, str) else pa.string()


def _json_columns(schema: Schema) -> Iterator[tuple[str, pa.DataType]]:
    for name, each in json_schema(schema).root.properties():
        kinds = _json_kinds(each)
        yield name, _JSON.get(kinds.pop(), pa.string()) if len(kinds) == 1 else pa.string()


def _json_kinds(part: Part) -> set[str]:
    """The types that a field's values have, but for null; none if that is not simply said."""
    said = part.word("type")
    if said is not None:
        return set([said] if isinstance(said, str) else said) - {"null"}
    for word in ("oneOf", "anyOf"):
        inner = [part.inner(each) for each in part.word(word) or ()]
        some = [each for each in inner if each.word("type") != "null"]
        if len(some) == 1:
            return _json_kinds(some[0])
    return set()


def _protobuf_columns(schema: Schema) -> Iterator[tuple[str, pa.DataType]]:
    from pocketmq.pipeline.jobs.schemas.protobuf import proto_file

    for each in proto_file(schema).descriptor(schema.message).field:
        is_plain = each.label != 3
        yield each.name, _PROTOBUF.get(each.type, pa.string()) if is_plain else pa.string()


# -- values ---------------------------------------------------------------------------------------


def json_text(value: Any) -> str:
    """A value as JSON, also one that Avro has and JSON has not."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except RecursionError as exc:
        raise BadBodyError("it is nested too deeply") from exc


def _plain(value: Any) -> Any:
    """Values that Avro has and JSON has not."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    raise BadBodyError(f"a value of type {type(value).__name__}")


def fitting(column: pa.Field, value: Any) -> Any:
    """A value for a column; an error if the column has another type."""
    if pa.types.is_string(column.type):
        return value if isinstance(value, str) else json_text(value)
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

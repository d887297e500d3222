"""The columns of decoded bodies, and their values in them."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from pocketmq.pipeline.columns.arrow import TIMESTAMP
from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError
from pocketmq.pipeline.jobs.schemas.json_columns import json_fields
from pocketmq.pipeline.jobs.schemas.json_schema import json_schema
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
        ("change", pa.int32()),  # an event may have several, in this order
        ("operation", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("changeTimestamp", TIMESTAMP),
    ]
)
NAMES: Final = frozenset(PLACE.names)
_FIELD: Final = b"field"
"""Metadata of a column that is not called as the field."""

_AVRO: Final = {
    "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "boolean": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
}  # fmt: skip
_JSON: Final = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_PROTOBUF: Final = {
    **dict.fromkeys((1,), pa.float64()), 2: pa.float32(), 8: pa.bool_(), 9: pa.string(),
    12: pa.binary(), **dict.fromkeys((5, 15, 17), pa.int32()),
    **dict.fromkeys((3, 7, 13, 16, 18), pa.int64()),
    **dict.fromkeys((4, 6), pa.decimal128(20)),
}  # fmt: skip
"""Spark has no unsigned integers: those of 32 bits fit its `bigint`, those of 64 do not."""
_RANGES: Final = {
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.decimal128(20): (0, 2**64 - 1),
}


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of a table: the message's place, and the fields of a schema.

    A field that is called as one of those has a `_` behind its name, or more where another field
    is called so. Spark makes no difference between `id` and `ID`.
    """
    if schema.kind == "PROTOBUF":
        pairs = list(_protobuf_columns(schema))
    elif schema.kind == "AVRO":
        pairs = list(_avro_columns(json.loads(schema.text)))
    else:
        pairs = list(_json_columns(schema))
    used, own = {name.lower() for name in NAMES}, {name.lower() for name, _ in pairs}
    fields = []
    for field, kind in pairs:
        name = field
        # A name that got a suffix must not clash with another field.
        while name.lower() in used or (name != field and name.lower() in own):
            name += "_"
        used.add(name.lower())
        meta = {} if name == field else {_FIELD: field.encode()}
        fields.append(pa.field(name, kind, metadata=meta))
    return pa.schema([*PLACE, *fields])


def _avro_columns(schema: Any) -> Iterator[tuple[str, pa.DataType]]:
    for each in schema.get("fields", ()) if isinstance(schema, dict) else ():
        kinds = each["type"] if isinstance(each["type"], list) else [each["type"]]
        kinds = [kind for kind in kinds if kind != "null"]
        # A union of several types becomes JSON text.
        kind = kinds[0] if len(kinds) == 1 else ""
        yield each["name"], _AVRO.get(kind, pa.string()) if isinstance(kind, str) else pa.string()


def _json_columns(schema: Schema) -> Iterator[tuple[str, pa.DataType]]:
    for name, types in json_fields(json_schema(schema).whole).items():
        kinds = (types or set()) - {"null"}
        # A number column holds integers as well.
        if "number" in kinds:
            kinds.discard("integer")
        yield name, _JSON.get(kinds.pop(), pa.string()) if len(kinds) == 1 else pa.string()


def _protobuf_columns(schema: Schema) -> Iterator[tuple[str, pa.DataType]]:
    from pocketmq.pipeline.jobs.schemas.protobuf import proto_file

    for each in proto_file(schema).descriptor(schema.message).field:
        is_plain = each.label != 3
        yield each.name, _PROTOBUF.get(each.type, pa.string()) if is_plain else pa.string()


# -- values ---------------------------------------------------------------------------------------


class Column(NamedTuple):
    """A column of a table."""

    field: str
    """What the schema calls it."""
    name: str
    """What the table does."""
    kind: pa.DataType


def columns(schema: pa.Schema) -> list[Column]:
    """The columns that a body fills, of what `arrow_schema` gave."""
    return [
        Column((each.metadata or {}).get(_FIELD, each.name.encode()).decode(), each.name, each.type)
        for each in schema
        if each.name not in NAMES
    ]


def json_text(value: Any) -> str:
    """A value as JSON, also one that Avro has and JSON has not."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_plain)
        # Half a surrogate pair cannot be UTF-8, so the text is escaped instead.
        return text if _is_unicode(text) else json.dumps(value, default=_plain)
    except RecursionError as exc:
        raise BadBodyError("it is nested too deeply") from exc


def unicode_of(name: str, text: str) -> str:
    """A text for the column of that name.

    Raises:
        BadBodyError: A column cannot hold it.
    """
    if not _is_unicode(text):
        raise BadBodyError(f"{name} has an incomplete character of UTF-16: {text[:60]!r}")
    return text


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can say it: half a pair of surrogates, which JSON can, is no character."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _plain(value: Any) -> Any:
    """Values that Avro has and JSON has not."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    raise BadBodyError(f"a value of type {type(value).__name__} cannot be written to the table")


def fitting(column: Column, value: Any) -> Any:
    """A value for a column.

    Raises:
        BadBodyError: The column has another type, or does not hold a number as large.
    """
    kind = column.kind
    if pa.types.is_string(kind):
        return unicode_of(column.name, value if isinstance(value, str) else json_text(value))
    if pa.types.is_binary(kind):
        return _binary(column, value)
    if pa.types.is_boolean(kind):
        if not isinstance(value, bool):
            raise BadBodyError(f"{column.name} must be true or false, but is {value!r:.60}")
        return value
    # In Python True is an int, but for a schema it is no number.
    if isinstance(value, bool):
        raise BadBodyError(f"{column.name} must be a number, but is {value}")
    try:
        number = float(value) if pa.types.is_floating(kind) else int(value)
    except (OverflowError, TypeError, ValueError) as exc:  # Protobuf's JSON has 64 bits as text
        raise BadBodyError(
            f"{column.name} must be a number for {kind}, but is {value!r:.60}"
        ) from exc
    if isinstance(number, int):
        # In JSON 1.0 is a whole number, 1.5 is not.
        if isinstance(value, float) and value != number:
            raise BadBodyError(f"{column.name} must be a whole number, but is {value}")
        low, high = _RANGES[kind]
        if not low <= number <= high:
            raise BadBodyError(
                f"{column.name} is {number!r:.60}, but {kind} has only numbers from {low} to {high}"
            )
    return number


def _binary(column: Column, value: Any) -> bytes:
    try:
        # Protobuf's JSON has bytes as base64; Avro has them raw.
        found = base64.b64decode(value) if isinstance(value, str) else value
    except ValueError as exc:
        raise BadBodyError(f"{column.name} is no bytes: {value!r:.60}") from exc
    if not isinstance(found, bytes):
        raise BadBodyError(f"{column.name} is no bytes: {value!r:.60}")
    return found

"""Whether the versions of a schema fit each other.

    backward    who has the newer schema reads what was written with the older one
    forward     who has the older schema reads what was written with the newer one
    full        both

Each check gives the reasons why not, with the field. Of JSON schemas some things cannot be told
(`json_evolution.py`); those are given, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final, Literal, NamedTuple

from pocketmq.pipeline.jobs.schemas.json_evolution import Comparison
from pocketmq.pipeline.jobs.schemas.json_schema import json_schema
from pocketmq.pipeline.jobs.schemas.registry import Schema
from pocketmq.runtime.errors import CallerError

MOST_REASONS: Final = 1000
"""So many are given of two schemas: a type may stand in very many places."""

MISFIT: Final = "does not fit"
UNTOLD: Final = "cannot tell"

Mode = Literal["backward", "forward", "full"]

_PROMOTES: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_WIRE: Final = (
    frozenset({3, 4, 5, 8, 13, 14}),  # varints: int64, uint64, int32, bool, uint32, enum
    frozenset({17, 18}),
    frozenset({9, 12}),
    frozenset({7, 15}),
    frozenset({6, 16}),
)
"""Protobuf's types by descriptor number that can be read as each other."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why one version cannot read another."""

    reader: int
    """Version of the schema that is read with."""
    writer: int
    what: str
    verdict: str = MISFIT
    """Or `cannot tell`."""


class Told(NamedTuple):
    """A reason why one schema cannot read what was written with another, or may not."""

    what: str
    verdict: str = MISFIT


def pairs(versions: Sequence[Schema], mode: Mode = "backward") -> Iterator[tuple[Schema, Schema]]:
    """Who must read what: (reader, writer) of neighbouring versions, oldest first."""
    for older, newer in pairwise(versions):
        if mode in ("backward", "full"):
            yield newer, older
        if mode in ("forward", "full"):
            yield older, newer


def misfits(reader: Schema, writer: Schema) -> list[Misfit]:
    """Every reason why one version does not read another or may not, by the rules here."""
    return [Misfit(reader.version, writer.version, *each) for each in cannot_read(reader, writer)]


def cannot_read(reader: Schema, writer: Schema) -> list[Told]:
    """Why bodies written with one schema cannot be read with another; nothing if they can.

    Raises:
        CallerError: A schema cannot be read, or is nested too deeply.
    """
    try:
        return list(islice(_reasons(reader, writer), MOST_REASONS))
    except RecursionError as exc:
        raise CallerError("the schemas are nested too deeply") from exc


def _reasons(reader: Schema, writer: Schema) -> Iterator[Told]:
    if reader.kind != writer.kind:
        yield Told(f"one is {reader.kind}, the other {writer.kind}")
    elif reader.kind == "PROTOBUF":
        yield from map(Told, _protobuf(reader, writer))
    elif reader.kind == "AVRO":
        yield from map(Told, _Avro(reader, writer).problems())
    else:
        one, other = json_schema(reader), json_schema(writer)
        if one is other:  # then it reads also what no rule compares
            return
        same_behind = one.behind == other.behind
        for each in Comparison(one.whole, other.whole, same_behind=same_behind).reasons():
            yield Told(str(each), MISFIT if each.is_certain else UNTOLD)


# -- Avro -----------------------------------------------------------------------------------------


class _Avro:
    """Avro's rules of schema resolution."""

    def __init__(self, reader: Schema, writer: Schema) -> None:
        self._reader, self._writer = json.loads(reader.text), json.loads(writer.text)
        self._names: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for schema, names in zip((reader, writer), self._names, strict=True):
            for text in (*schema.needed().values(), schema.text):
                _collect(json.loads(text), names)
        self._seen: set[tuple[str, str]] = set()

    def problems(self) -> Iterator[str]:
        """All of them."""
        return self._compare(self._reader, self._writer, "$")

    def _compare(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        reader, writer = self._named(reader, 0), self._named(writer, 1)
        # The reader must read every type of the writer's union.
        if isinstance(writer, list):
            for each in writer:
                yield from self._compare(reader, each, at)
            return
        # One type of the reader's union that fits is enough.
        if isinstance(reader, list):
            if not any(self._fits(each, writer, at) for each in reader):
                yield f"{at}: no type of the union reads {_kind(writer)}"
            return
        one, other = _kind(reader), _kind(writer)
        if one != other:
            if one not in _PROMOTES.get(other, ()):
                yield f"{at}: {one} cannot read {other}"
        elif one == "record":
            yield from self._records(reader, writer, at)
        elif one == "enum":
            missing = set(writer["symbols"]) - set(reader["symbols"])
            if missing and "default" not in reader:
                yield f"{at}: the enum lacks {', '.join(sorted(missing))} and has no default"
        elif one == "array":
            yield from self._compare(reader["items"], writer["items"], f"{at}[]")
        elif one == "map":
            yield from self._compare(reader["values"], writer["values"], f"{at}{{}}")
        elif one == "fixed" and reader["size"] != writer["size"]:
            yield f"{at}: fixed of {reader['size']} bytes cannot read {writer['size']}"

    def _fits(self, reader: Any, writer: Any, at: str) -> bool:
        """Whether one type reads another; nothing counts as compared if it does not."""
        before = set(self._seen)
        if not any(self._compare(reader, writer, at)):
            return True
        self._seen = before
        return False

    def _records(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        names = str(reader.get("name")), str(writer.get("name"))
        # Records that contain themselves were compared before, which ends the recursion.
        if names in self._seen:
            return
        self._seen.add(names)
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            place = f"{at}.{field['name']}"
            found = next(
                (
                    written[name]
                    for name in (field["name"], *field.get("aliases", ()))
                    if name in written
                ),
                None,
            )
            if found is not None:
                yield from self._compare(field["type"], found["type"], place)
            # Avro fills in a missing field only from its default.
            elif "default" not in field:
                yield f"{place}: was not written, and has no default"

    def _named(self, schema: Any, side: int) -> Any:
        if isinstance(schema, str) and schema in self._names[side]:
            return self._names[side][schema]
        if isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
            return self._named(schema["type"], side)
        return schema


def _collect(schema: Any, names: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for each in schema:
            _collect(each, names)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "enum", "fixed") and "name" in schema:
            names[schema["name"]] = schema
            if "namespace" in schema:
                names[f"{schema['namespace']}.{schema['name']}"] = schema
        for name in ("type", "items", "values"):
            if isinstance(schema.get(name), dict | list):
                _collect(schema[name], names)
        for field in schema.get("fields", ()):
            _collect(field["type"], names)


def _kind(schema: Any) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


# -- Protobuf -------------------------------------------------------------------------------------


def _protobuf(reader: Schema, writer: Schema) -> Iterator[str]:
    from pocketmq.pipeline.jobs.schemas.protobuf import proto_file

    one, other = (
        {message.name: message for message in proto_file(each).file.message_type}
        | proto_file(each).referred
        for each in (reader, writer)
    )
    for name, message in one.items():
        if name in other:
            yield from _messages(message, other[name], name)
    # The reader lacks this message, so it cannot read its bodies.
    for name in other.keys() - one.keys():
        yield f"{name}: the message is gone"


def _messages(reader: Any, writer: Any, at: str) -> Iterator[str]:
    written = {field.number: field for field in writer.field}
    for field in reader.field:
        place = f"{at}.{field.name} = {field.number}"
        found = written.get(field.number)
        if found is None:
            # Only proto2 has required fields.
            if field.label == 2:
                yield f"{place}: is required, and was not written"
            continue
        same = field.type == found.type or any({field.type, found.type} <= group for group in _WIRE)
        if not same:
            yield f"{place}: another type was written under this number"
        elif field.type == 11 and field.type_name != found.type_name:
            yield f"{place}: another message was written under this number"
    inner = {message.name: message for message in writer.nested_type}
    for message in reader.nested_type:
        if message.name in inner:
            yield from _messages(message, inner[message.name], f"{at}.{message.name}")

"""Whether the versions of a schema fit each other.

    backward    who has the newer schema reads what was written with the older one
    forward     who has the older schema reads what was written with the newer one
    full        both

Each check gives the reasons why not, with the field, and what cannot be told. Avro schemas are
compared by Apache's `avro` (`avro_evolution.py`), JSON schemas by a few rules of our own
(`json_evolution.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final, Literal, NamedTuple

from pocketmq.pipeline.installed import check_installed
from pocketmq.pipeline.jobs.schemas.json_evolution import Comparison, Reason
from pocketmq.pipeline.jobs.schemas.json_schema import json_schema
from pocketmq.pipeline.jobs.schemas.registry import Schema
from pocketmq.runtime.errors import CallerError

MOST_REASONS: Final = 1000
"""So many are given of two schemas: a type may stand in very many places."""

MISFIT: Final = "does not fit"
UNTOLD: Final = "cannot tell"

Mode = Literal["backward", "forward", "full"]

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
        MissingToolError: What reads Avro's or Protobuf's schemas is not installed.
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
    else:
        for each in (_avro if reader.kind == "AVRO" else _json)(reader, writer):
            yield Told(str(each), MISFIT if each.is_certain else UNTOLD)


def _avro(reader: Schema, writer: Schema) -> Iterator[Reason]:
    check_installed("Comparing Avro schemas", "schema", "avro")
    from pocketmq.pipeline.jobs.schemas.avro_evolution import avro_reasons

    return avro_reasons(reader, writer)


def _json(reader: Schema, writer: Schema) -> Iterator[Reason]:
    one, other = json_schema(reader), json_schema(writer)
    if one is other:  # then it reads also what no rule compares
        return iter(())
    same_behind = one.behind == other.behind
    return Comparison(one.whole, other.whole, same_behind=same_behind).reasons()


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

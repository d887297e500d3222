"""Avro bodies: records, and unions of records, whose bodies begin with the number of their type."""

from __future__ import annotations

import io
import json
from functools import lru_cache
from typing import Any

from pocketmq.pipeline.installed import check_installed
from pocketmq.pipeline.jobs.schemas.avro_bounds import check_items, depth_of, with_bounds
from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError, Decoder
from pocketmq.pipeline.jobs.schemas.registry import Schema
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.words import counted


def avro_schema(schema: Schema) -> AvroSchema:
    """A schema with those that it refers to.

    Raises:
        CallerError: It is none.
        MissingToolError: `fastavro` is not installed.
    """
    return _avro_schema(schema.text, tuple(schema.needed().values()))


@lru_cache(maxsize=64)
def _avro_schema(text: str, needed: tuple[str, ...]) -> AvroSchema:
    check_installed("Avro bodies", "schema", "fastavro")
    import fastavro

    known: dict[str, Any] = {}
    checked: dict[str, Any] = {}

    def parsed(said: Any) -> Any:
        fastavro.parse_schema(said, named_schemas=checked)  # knows what a decimal may say
        return fastavro.parse_schema(with_bounds(said), named_schemas=known)

    try:
        for each in needed:
            parsed(json.loads(each))
        said = json.loads(text)
        is_union = isinstance(said, list)
        # Parsed in order: each type may refer to those before it.
        types = [parsed(each) for each in (said if is_union else [said])]
        # Before any body is read: an array of items of zero bytes could ask for endless memory.
        check_items([*types, *known.values()], known)
        return AvroSchema(types, known, is_union=is_union)
    # `fastavro` raises all kinds of errors for a malformed schema.
    except Exception as exc:
        raise CallerError(f"no Avro schema: {exc}") from exc


class AvroSchema:
    """A type, or the types of a union.

    Args:
        types: As `fastavro` has parsed them.
        known: All named types, by full name.
        is_union: Whether a body begins with the number of its type.
    """

    def __init__(self, types: list[Any], known: dict[str, Any], *, is_union: bool) -> None:
        self.is_union = is_union
        self._types = types
        self._known = known

    def name(self, index: int | None = None) -> str:
        """Full name of a type of the union, or of the record; none for a union without a number."""
        if self.is_union and index is None:
            return ""
        one = self._type(index)
        return str(one.get("name", "") if isinstance(one, dict) else one)

    def record(self, name: str) -> Any:
        """The named type; None if there is none."""
        return self._known.get(name)

    def decoder(self, index: int | None = None) -> Decoder:
        """Decodes bodies, of a union those of one type without its number.

        Raises:
            BadBodyError: The union has no such type.
        """
        # Without a number a body is tried as the whole union.
        one: Any = self._types if self.is_union and index is None else self._type(index)
        if isinstance(one, str):
            one = self._known.get(one, one)
        # With this mark `fastavro` does not parse the schema again for each body.
        if isinstance(one, dict):
            one = {**one, "__fastavro_parsed": True, "__named_schemas": self._known}

        read = _reader(one, self._known)

        def decode(body: bytes) -> dict[str, Any]:
            stream = io.BytesIO(body)
            try:
                found = read(stream, one, None)
            # The pure Python reader stops at the recursion limit, and the process lives on.
            except RecursionError as exc:
                raise BadBodyError("it is nested too deeply") from exc
            except Exception as exc:
                raise BadBodyError(
                    f"the body cannot be read as an Avro record of this schema: {exc!r}"
                ) from exc
            # Avro has no end mark: a body of another schema often decodes well up to some byte.
            if stream.tell() != len(body):
                raise BadBodyError(
                    f"the body has {counted(len(body) - stream.tell(), 'more byte')} after its "
                    "Avro record, so it probably has another schema"
                )
            if not isinstance(found, dict):
                raise BadBodyError(
                    f"the body must be an Avro record, but is of type {type(found).__name__}"
                )
            return found

        return decode

    def _type(self, index: int | None) -> Any:
        if index is not None and not 0 <= index < len(self._types):
            raise BadBodyError(
                f"the body chooses type {index} of a union, but the union has only "
                f"{counted(len(self._types), 'type')}, counted from 0"
            )
        return self._types[index or 0]


def _reader(schema: Any, known: dict[str, Any]) -> Any:
    """What reads a body: in Python where a body may be nested deeply.

    The compiled one has no bound: a body of five thousand bytes that holds itself as often
    overflows its stack, which ends the process.
    """
    if depth_of(schema, known) is not None:
        from fastavro import schemaless_reader

        return schemaless_reader
    from fastavro import _read_py

    return _read_py.schemaless_reader

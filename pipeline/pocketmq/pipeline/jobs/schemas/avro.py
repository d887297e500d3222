"""Avro bodies: records, and unions of records, whose bodies begin with the number of their type."""

from __future__ import annotations

import io
import json
from functools import lru_cache
from typing import Any

from pocketmq.pipeline.installed import check_installed
from pocketmq.pipeline.jobs.schemas.decoders import BadBodyError, Decoder
from pocketmq.pipeline.jobs.schemas.registry import Schema
from pocketmq.runtime.errors import CallerError


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
    try:
        for each in needed:
            fastavro.parse_schema(json.loads(each), named_schemas=known)
        said = json.loads(text)
        if isinstance(said, list):
            types = [fastavro.parse_schema(each, named_schemas=known) for each in said]
            return AvroSchema(types, known, is_union=True)
        return AvroSchema([fastavro.parse_schema(said, named_schemas=known)], known, is_union=False)
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
        import fastavro

        one: Any = self._types if self.is_union and index is None else self._type(index)
        if isinstance(one, str):
            one = self._known.get(one, one)
        if isinstance(one, dict):
            one = {**one, "__fastavro_parsed": True, "__named_schemas": self._known}

        def decode(body: bytes) -> dict[str, Any]:
            stream = io.BytesIO(body)
            try:
                found = fastavro.schemaless_reader(stream, one, None)
            except Exception as exc:
                raise BadBodyError(f"no Avro record of this schema: {exc!r}") from exc
            if stream.tell() != len(body):
                raise BadBodyError(f"{len(body) - stream.tell()} bytes follow the Avro record")
            if not isinstance(found, dict):
                raise BadBodyError(f"it is {type(found).__name__} and no record")
            return found

        return decode

    def _type(self, index: int | None) -> Any:
        if index is not None and not 0 <= index < len(self._types):
            raise BadBodyError(f"it is type {index} of its union, which has none there")
        return self._types[index or 0]

"""Bodies into dictionaries by a schema; what does not fit is an error that says where."""

from __future__ import annotations

import importlib.util
import io
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from pocketmq.pipeline.jobs.schemas.registry import Registry, Schema
from pocketmq.runtime.errors import CallerError, MissingToolError

MAGIC: Final = 0
"""First byte of a body whose next four are the id of its schema (Confluent's wire format)."""

_HEAD: Final = struct.Struct(">BI")


class BadBodyError(CallerError):
    """A body does not fit its schema."""


class Decoder(Protocol):
    """Decodes bodies of one schema."""

    def __call__(self, body: bytes) -> dict[str, Any]:
        """The body's fields.

        Raises:
            BadBodyError: It does not fit.
        """


class TopicDecoder:
    """Decodes a topic's bodies: with the schema that a body names, else with the newest.

    Args:
        topic: Whose bodies.
        registry: Where the schemas are.
        is_framed: Whether bodies begin with the id of their schema.

    Raises:
        CallerError: The topic has no schema, or one that cannot be used.
    """

    def __init__(self, topic: str, registry: Registry, *, is_framed: bool) -> None:
        versions = registry.versions(topic)
        if not versions:
            raise CallerError(f"the registry has no schema of topic {topic!r}")
        self.newest = versions[-1]
        self._registry = registry
        self._is_framed = is_framed
        self._decoders: dict[int, tuple[str, Decoder]] = {}
        self._default = decoder_of(self.newest)

    def __call__(self, body: bytes) -> dict[str, Any]:
        """The body's fields."""
        if not self._is_framed:
            return self._default(body)
        if len(body) < _HEAD.size or body[0] != MAGIC:
            raise BadBodyError("it does not begin with the id of a schema")
        _, schema_id = _HEAD.unpack_from(body)
        if schema_id not in self._decoders:
            schema = self._registry.by_id(schema_id)
            self._decoders[schema_id] = schema.kind, decoder_of(schema)
        kind, decode = self._decoders[schema_id]
        rest = body[_HEAD.size :]
        return decode(_without_indexes(rest) if kind == "PROTOBUF" else rest)


def _without_indexes(body: bytes) -> bytes:
    """Without the list that says which message of the file it is; a lone 0 is the first."""
    count, at = _zigzag(body, 0)
    indexes = []
    for _ in range(count):
        index, at = _zigzag(body, at)
        indexes.append(index)
    if indexes not in ([], [0]):  # a path: the second one leads to a message within the first
        path = ".".join(map(str, indexes))
        raise BadBodyError(f"it is message {path} of its file; only the first is read")
    return body[at:]


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body) or shift > 63:
            raise BadBodyError("it ends in the list of message indexes")
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def decoder_of(schema: Schema) -> Decoder:
    """The decoder of a schema.

    Raises:
        CallerError: The schema cannot be read.
        MissingToolError: Its library is not installed.
    """
    if schema.kind == "AVRO":
        return _avro(schema.text)
    if schema.kind == "PROTOBUF":
        from pocketmq.pipeline.jobs.schemas.protobuf import protobuf_decoder

        return protobuf_decoder(schema.text, schema.message)
    if schema.kind == "JSON":
        return _json(schema.text)
    raise CallerError(f"schemas of type {schema.kind} are not known")


def _avro(text: str) -> Decoder:
    if importlib.util.find_spec("fastavro") is None:
        raise MissingToolError("fastavro", "Avro bodies", "pip install 'pocketmq[schema]'")
    import fastavro

    try:
        parsed = fastavro.parse_schema(json.loads(text))
    except Exception as exc:
        raise CallerError(f"no Avro schema: {exc}") from exc

    def decode(body: bytes) -> dict[str, Any]:
        stream = io.BytesIO(body)
        try:
            found = fastavro.schemaless_reader(stream, parsed, None)
        except Exception as exc:
            raise BadBodyError(f"no Avro record of this schema: {exc!r}") from exc
        if stream.tell() != len(body):
            raise BadBodyError(f"{len(body) - stream.tell()} bytes follow the Avro record")
        if not isinstance(found, dict):
            raise BadBodyError(f"it is {type(found).__name__} and no record")
        return found

    return decode


def _json(text: str) -> Decoder:
    try:
        schema = json.loads(text)
    except ValueError as exc:
        raise CallerError(f"no JSON schema: {exc}") from exc
    check = json_check(schema)

    def decode(body: bytes) -> dict[str, Any]:
        try:
            found = json.loads(body)
        except ValueError as exc:
            raise BadBodyError(f"no JSON: {exc}") from exc
        if not isinstance(found, dict):
            raise BadBodyError(f"it is {type(found).__name__} and no object")
        problem = check(found)
        if problem:
            raise BadBodyError(problem)
        return found

    return decode


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def json_check(schema: Any) -> Callable[[Any], str]:
    """Checks values by a JSON schema: type, enum, properties, required, items and
    additionalProperties; other words are not looked at. Gives the first problem, or nothing."""

    def check(value: Any) -> str:
        return _json_problem(schema, value, "$")

    return check


def _json_problem(schema: Any, value: Any, at: str) -> str:
    if schema is True or not isinstance(schema, dict):
        return "" if schema is not False else f"{at} must not be there"
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES.get(kind, lambda _: True)(value) for kind in kinds):
        return f"{at} is {json.dumps(value)[:60]} and not {' or '.join(kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at} is {json.dumps(value)[:60]}, which is none of its values"
    if isinstance(value, list):
        for number, each in enumerate(value):
            if problem := _json_problem(schema.get("items", True), each, f"{at}[{number}]"):
                return problem
    if isinstance(value, dict):
        return _object_problem(schema, value, at)
    return ""


def _object_problem(schema: dict[str, Any], value: dict[str, Any], at: str) -> str:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{at}.{name} is missing"
    known = schema.get("properties", {})
    for name, each in value.items():
        inner = known.get(name, schema.get("additionalProperties", True))
        if problem := _json_problem(inner, each, f"{at}.{name}"):
            return problem
    return ""

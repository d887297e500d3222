"""Bodies into dictionaries by a schema; what does not fit is an error that says where."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError, Body, Decoder
from pocketmq.pipeline.jobs.schemas.registry import Registry, Schema
from pocketmq.runtime.errors import CallerError

T = TypeVar("T")

MAGIC: Final = 0
"""First byte of a body whose next four are the id of its schema (Confluent's wire format)."""

UNFRAMED: Final = -1
"""In place of the id of a schema, that of bodies which do not say theirs: the newest."""

_HEAD: Final = struct.Struct(">BI")
_LIST: Final = "the list of message indexes"
_MOST_INDEXES: Final = 100
"""So deep Protobuf messages stand within each other at most; protoc takes 32."""


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
        self._versions = versions
        self._registry = registry
        self._is_framed = is_framed
        self._schemas: dict[int, tuple[Schema, bool]] = {}
        """By id; and whether it is a union of Avro."""
        self._decoders: dict[tuple[int, tuple[int, ...]], tuple[str, Decoder]] = {}
        self._of_message: dict[str, Schema] = {}
        self._schemas[UNFRAMED] = self.newest, _is_union(self.newest)
        self._decoders[UNFRAMED, ()] = "", decoder_of(self.newest)

    def __call__(self, body: bytes) -> Body:
        """The body's fields, and which message it is."""
        schema_id, at = UNFRAMED, 0
        if self._is_framed:
            # A producer may write without the frame: such a body is bad, as its schema is unknown.
            if len(body) < _HEAD.size or body[0] != MAGIC:
                raise BadBodyError(
                    "the body does not begin with the id of a schema, so its schema is unknown"
                )
            (_, schema_id), at = _HEAD.unpack_from(body), _HEAD.size
        # A registry is asked once for each id.
        if schema_id not in self._schemas:
            found = self._registry.by_id(schema_id)
            self._schemas[schema_id] = found, _is_union(found)
        schema, is_union = self._schemas[schema_id]
        indexes: tuple[int, ...] = ()
        if is_union:
            index, at = _zigzag(body, at, "the number of its type")
            indexes = (index,)
        elif self._is_framed and schema.kind == "PROTOBUF":
            indexes, at = _indexes(body, at)
        if (schema_id, indexes) not in self._decoders:
            self._decoders[schema_id, indexes] = self._decoder(schema, indexes)
        message, decode = self._decoders[schema_id, indexes]
        return Body(decode(body[at:]), message)

    def schema_of(self, message: str) -> Schema:
        """With which schema the rows of a message become columns: the newest that has it."""
        return self._of_message[message] if message else self.newest

    def _decoder(self, schema: Schema, indexes: tuple[int, ...]) -> tuple[str, Decoder]:
        if schema.kind == "AVRO":
            return self._avro(schema, indexes)
        if schema.kind != "PROTOBUF":
            return "", decoder_of(schema)
        from pocketmq.pipeline.jobs.schemas.protobuf import proto_file

        file = proto_file(schema)
        message = name = file.name_at(indexes)
        newest = self.newest
        if newest.kind == "PROTOBUF":
            own = proto_file(newest)
            if name == own.full_name(newest.message):
                message = ""
        if message:
            has_it = self._newer(schema, lambda each: each if proto_file(each).has(name) else None)
            self._of_message[message] = replace(has_it or schema, message=message)
        return message, file.decoder(name)

    def _avro(self, schema: Schema, indexes: tuple[int, ...]) -> tuple[str, Decoder]:
        from pocketmq.pipeline.jobs.schemas.avro import avro_schema

        found = avro_schema(schema)
        decode = found.decoder(*indexes)
        name = found.name(*indexes)
        newest = avro_schema(self.newest) if self.newest.kind == "AVRO" else None
        if newest is None or name == newest.name() or not (indexes or newest.is_union):
            return "", decode
        record = self._newer(schema, lambda each: avro_schema(each).record(name))
        record = found.record(name) if record is None else record
        self._of_message[name] = replace(schema, text=json.dumps(record))
        return name, decode

    def _newer(self, schema: Schema, look: Callable[[Schema], T | None]) -> T | None:
        """What the newest version of the topic has that is newer than a body's own, if any.

        The newest version that has a message decides its columns, whichever body is read first.
        """
        for each in reversed(self._versions):
            # The body's own version has what is looked for, so none before it can be the newest.
            if each.schema_id == schema.schema_id:
                return None
            if each.kind != schema.kind:
                continue
            try:
                found = look(each)
            except CallerError:
                # No body here was written by it. One that was says what is wrong with it.
                continue
            if found is not None:
                return found
        return None


def _is_union(schema: Schema) -> bool:
    if schema.kind != "AVRO":
        return False
    from pocketmq.pipeline.jobs.schemas.avro import avro_schema

    return avro_schema(schema).is_union


def _indexes(body: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Which message of its file a body is, and where it begins: a path, whose second number leads
    to a message within the first one. No numbers stand for the first message."""
    count, at = _zigzag(body, at, _LIST)
    # Bounded, since a body may claim any number of indexes.
    if not 0 <= count <= _MOST_INDEXES:
        raise BadBodyError(
            f"the body has {count} message indexes, but may have only 0 to {_MOST_INDEXES}"
        )
    indexes = []
    for _ in range(count):
        index, at = _zigzag(body, at, _LIST)
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _zigzag(body: bytes, at: int, what: str) -> tuple[int, int]:
    value = shift = 0
    while True:
        # Ten bytes are enough for 64 bits.
        if at >= len(body) or shift > 63:
            raise BadBodyError(f"it ends in {what}")
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
        from pocketmq.pipeline.jobs.schemas.avro import avro_schema

        return avro_schema(schema).decoder()
    if schema.kind == "PROTOBUF":
        from pocketmq.pipeline.jobs.schemas.protobuf import proto_file

        file = proto_file(schema)
        return file.decoder(file.full_name(schema.message))
    if schema.kind == "JSON":
        from pocketmq.pipeline.jobs.schemas.json_schema import json_schema

        return json_schema(schema).decoder()
    raise CallerError(f"schema type {schema.kind} is unknown; it must be AVRO, PROTOBUF or JSON")

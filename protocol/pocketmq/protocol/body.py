"""Structured bodies as bytes: JSON for encodings 0 and 1, msgpack for 77.

Bodies are declared in `bodies/` as `BodyStruct`s. JSON maps with integer keys are written with
quoted keys, which every peer reads; reading also takes what fastjson writes and no strict parser
accepts: raw integer keys, objects as keys and `$ref` (E-60). A map keyed by a message queue
is keyed by `mq_key(queue)`, the JSON text of the queue, in all encodings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import msgpack
import msgspec

from pocketmq.protocol.command import Buffer, Command, Encoding
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.fastjson import FastjsonError, dump, parse, quote_integer_keys
from pocketmq.protocol.messages.message import MessageQueue


class BodyStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base of structured bodies; Python names become RocketMQ's camelCase."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset()
    """Names of the fields that came with 5.x."""


def always(factory: Callable[[], Any]) -> Any:
    """A field with a default that is written all the same, because peers rely on the key."""
    # msgspec leaves out an empty list or dict only when it knows the factory.
    return msgspec.field(default_factory=lambda: factory())


BodyT = TypeVar("BodyT")

MAX_DIALECT_BYTES = 2 * 1024 * 1024
"""Largest body that the reader of the whole dialect gets: it takes about 1 us a byte."""

REQUEST_DIALECT_BYTES = 32 * 1024
"""The same for what a peer asks of a server, where everybody waits meanwhile."""


QUOTED_PER_DIALECT = 8
"""Raw integer keys, which need no such reader, are understood in so much longer bodies."""


def encode_body(body: msgspec.Struct, encoding: Encoding, *, has_5x: bool = True) -> bytes:
    """The body for a frame in `encoding`; without `has_5x` it lacks what came with 5.x."""
    if not has_5x:
        return _encode_as_4_9(body, encoding)
    if encoding is Encoding.MSGPACK:
        return msgspec.msgpack.encode(body)
    return encode_json(body)


def _encode_as_4_9(body: msgspec.Struct, encoding: Encoding) -> bytes:
    fields = msgspec.to_builtins(body, str_keys=encoding is not Encoding.MSGPACK)
    _leave_out(body, fields)
    return (
        msgspec.msgpack.encode(fields) if encoding is Encoding.MSGPACK else _SORTED.encode(fields)
    )


def _leave_out(body: Any, fields: Any) -> None:
    """Take the fields that came with 5.x out of `fields`, which `body` was turned into."""
    if isinstance(body, msgspec.Struct):
        since_5 = body.SINCE_5 if isinstance(body, BodyStruct) else frozenset()
        for each in msgspec.structs.fields(body):
            if each.name in since_5:
                fields.pop(each.encode_name, None)
            elif each.encode_name in fields:  # else it is a default that is not written
                _leave_out(getattr(body, each.name), fields[each.encode_name])
    elif isinstance(body, dict):
        for value, plain in zip(body.values(), fields.values(), strict=True):
            _leave_out(value, plain)
    elif isinstance(body, list):
        for value, plain in zip(body, fields, strict=True):
            _leave_out(value, plain)


def encode_json(body: msgspec.Struct) -> bytes:
    """Standard JSON with sorted keys and quoted integer keys (N-27)."""
    try:
        return _SORTED.encode(body)
    except TypeError:  # msgspec sorts text keys only
        return _SORTED.encode(msgspec.to_builtins(body, str_keys=True))


def encode_large(body: BodyStruct, encoding: Encoding, *, has_5x: bool = True) -> bytes:
    """As `encode_body`, with keys as they come: a tenth of the time where some are integers.

    Without `has_5x` the body's own fields that came with 5.x are left out, not those inside.
    """
    told = body if has_5x else _own_fields_of_4_9(body)
    if encoding is Encoding.MSGPACK:
        return msgspec.msgpack.encode(told)
    return msgspec.json.encode(told)


def _own_fields_of_4_9(body: BodyStruct) -> dict[str, object]:
    return {
        each.encode_name: getattr(body, each.name)
        for each in msgspec.structs.fields(body)
        if each.name not in body.SINCE_5
    }


def encode_fastjson(body: msgspec.Struct) -> bytes:
    """JSON with raw integer keys, which clients before 4.9.4 get as routes (N-27)."""
    return dump(msgspec.to_builtins(body)).encode()


def decode_request_body(request: Command, cls: type[BodyT]) -> BodyT:
    """Read the structured body of a request that a peer sent.

    Raises:
        BadRequestError: as `decode_body`.
    """
    return decode_body(
        request.body_view, cls, request.encoding, dialect_bytes=REQUEST_DIALECT_BYTES
    )


def decode_body(
    data: Buffer,
    cls: type[BodyT],
    encoding: Encoding,
    *,
    dialect_bytes: int = MAX_DIALECT_BYTES,
) -> BodyT:
    """Read a structured body.

    Args:
        data: the body.
        cls: its type.
        encoding: of the frame that it came in.
        dialect_bytes: up to this length fastjson's own dialect is understood.

    Raises:
        BadRequestError: it is broken or does not fit `cls`; the message names the field.
    """
    if encoding is not Encoding.MSGPACK:
        return decode_json(data, cls, dialect_bytes=dialect_bytes)
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        return msgspec.msgpack.decode(data, type=cls)
    try:  # in three times the time, it takes a little more and can say which field is wrong
        fields = msgpack.unpackb(data, strict_map_key=False)
        return msgspec.convert(fields, cls)
    except (msgspec.ValidationError, ValueError, TypeError, RecursionError) as exc:
        # Everything msgpack raises on bad input is a ValueError, but unhashable keys.
        raise BadRequestError(f"body is no {_name(cls)}: {exc}") from exc


def decode_json(data: Buffer, cls: type[BodyT], *, dialect_bytes: int = MAX_DIALECT_BYTES) -> BodyT:
    """Read JSON as strict peers and as fastjson write it.

    Raises:
        BadRequestError: it is neither, or does not fit `cls`; the message names the field.
    """
    try:
        return _decode_strict(data, cls)
    except BadRequestError as exc:
        # The text is nested too deeply: the lenient reader below would fail, too.
        if isinstance(exc.__cause__, RecursionError):
            raise
        error = exc
    text = bytes(data)
    has_references = b'"$ref"' in text
    if isinstance(error.__cause__, msgspec.ValidationError) and not has_references:
        raise error  # JSON it is up to here, but not of this type
    # fastjson's dialect, or really broken: raw integer keys cost 0.05 us a byte, the rest 1 us.
    if len(text) > QUOTED_PER_DIALECT * dialect_bytes:
        raise error
    try:
        return _decode_strict(quote_integer_keys(text), cls)
    except BadRequestError as exc:
        if isinstance(exc.__cause__, msgspec.ValidationError) and not has_references:
            raise  # JSON it is, but not of this type
        if len(text) > dialect_bytes:
            raise error from None
    try:
        return msgspec.convert(parse(text.decode()), cls, strict=False, str_keys=True)
    except (msgspec.ValidationError, FastjsonError, UnicodeDecodeError, RecursionError) as exc:
        raise BadRequestError(f"body is no {_name(cls)}: {exc}") from exc


def _decode_strict(data: Buffer, cls: type[BodyT]) -> BodyT:
    try:
        return msgspec.json.decode(data, type=cls, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise BadRequestError(f"body is no {_name(cls)}: {exc}") from exc


def _name(cls: type) -> str:
    return getattr(cls, "__name__", str(cls))


_SORTED = msgspec.json.Encoder(order="sorted")


def mq_key(queue: MessageQueue) -> str:
    """`{"brokerName":"b","queueId":0,"topic":"T"}`: a queue as the key of a map."""
    return _SORTED.encode(queue).decode()


def parse_mq_key(text: str) -> MessageQueue:
    """The queue of a key that `mq_key` or fastjson wrote.

    Raises:
        BadRequestError: it is none.
    """
    try:
        return msgspec.convert(parse(text), MessageQueue)
    except (FastjsonError, msgspec.ValidationError) as exc:
        raise BadRequestError(f"not a message queue: {text[:200]!r}") from exc

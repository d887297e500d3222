"""Structured bodies as bytes: JSON for encodings 0 and 1, msgpack for 77.

Bodies are declared in `bodies/` as `BodyStruct`s. JSON maps with integer keys are written with
quoted keys, which every peer reads; reading also takes what fastjson writes and no strict parser
accepts: raw integer keys, objects as keys and `$ref` (wire sheet 6). A map keyed by a message queue
is keyed by `mq_key(queue)`, the JSON text of the queue, in all encodings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgpack
import msgspec

from pocketmq.protocol.command import Buffer, Encoding
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.fastjson import FastjsonError, dump, parse
from pocketmq.protocol.message import MessageQueue


class BodyStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base of structured bodies; Python names become RocketMQ's camelCase."""


def always(factory: Callable[[], Any]) -> Any:
    """A field with a default that is written all the same, because peers rely on the key."""
    # msgspec leaves out an empty list or dict only when it knows the factory.
    return msgspec.field(default_factory=lambda: factory())


BodyT = TypeVar("BodyT")


def encode_body(body: msgspec.Struct, encoding: Encoding) -> bytes:
    """The body for a frame in `encoding`."""
    if encoding is Encoding.MSGPACK:
        packed: bytes = msgpack.packb(msgspec.to_builtins(body, enc_hook=_encode_other))
        return packed
    return encode_json(body)


def encode_json(body: msgspec.Struct) -> bytes:
    """Standard JSON with sorted keys and quoted integer keys (N-27)."""
    try:
        return msgspec.json.encode(body, order="sorted", enc_hook=_encode_other)
    except TypeError:  # msgspec sorts text keys only
        fields = msgspec.to_builtins(body, str_keys=True, enc_hook=_encode_other)
        return msgspec.json.encode(fields, order="sorted")


def encode_fastjson(body: msgspec.Struct) -> bytes:
    """JSON with raw integer keys, which clients before 4.9.4 get as routes (N-27)."""
    return dump(msgspec.to_builtins(body, enc_hook=_encode_other)).encode()


def decode_body(data: Buffer, cls: type[BodyT], encoding: Encoding) -> BodyT:
    """Read a structured body.

    Raises:
        BadRequestError: it is broken or does not fit `cls`; the message names the field.
    """
    if encoding is not Encoding.MSGPACK:
        return decode_json(data, cls)
    try:
        fields = msgpack.unpackb(data, strict_map_key=False)
        return msgspec.convert(fields, cls, dec_hook=_decode_other)
    except (msgspec.ValidationError, ValueError, TypeError, RecursionError) as exc:
        # Everything msgpack raises on bad input is a ValueError, but unhashable keys.
        raise BadRequestError(f"body is no {cls.__name__}: {exc}") from exc


def decode_json(data: Buffer, cls: type[BodyT]) -> BodyT:
    """Read JSON as strict peers and as fastjson write it; `BadRequestError` when it is neither."""
    try:
        return msgspec.json.decode(data, type=cls, strict=False, dec_hook=_decode_other)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # fastjson's dialect, or really broken: the tolerant reader tells
    try:
        return msgspec.convert(
            parse(str(data, "utf-8")), cls, strict=False, str_keys=True, dec_hook=_decode_other
        )
    except (msgspec.ValidationError, FastjsonError, UnicodeDecodeError, RecursionError) as exc:
        raise BadRequestError(f"body is no {cls.__name__}: {exc}") from exc


_QUEUE_ENCODER = msgspec.json.Encoder(order="sorted")


def mq_key(queue: MessageQueue) -> str:
    """`{"brokerName":"b","queueId":0,"topic":"T"}`: a queue as the key of a map."""
    return _QUEUE_ENCODER.encode(_queue_fields(queue)).decode()


def parse_mq_key(text: str) -> MessageQueue:
    """The queue of a key that `mq_key` or fastjson wrote."""
    try:
        return _queue(parse(text))
    except FastjsonError as exc:
        raise BadRequestError(f"not a message queue: {text[:200]!r}") from exc


def _queue_fields(queue: MessageQueue) -> dict[str, object]:
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def _encode_other(value: Any) -> object:
    if isinstance(value, MessageQueue):
        return _queue_fields(value)
    raise NotImplementedError(f"no wire form for {type(value).__name__}")


def _queue(fields: object) -> MessageQueue:
    if isinstance(fields, dict):
        topic, broker_name = fields.get("topic"), fields.get("brokerName")
        queue_id = fields.get("queueId")
        if isinstance(topic, str) and isinstance(broker_name, str) and isinstance(queue_id, int):
            return MessageQueue(topic, broker_name, queue_id)
    raise BadRequestError(f"not a message queue: {fields!r:.200}")


def _decode_other(cls: type, value: object) -> object:
    if cls is MessageQueue:
        try:
            return _queue(value)
        except BadRequestError as exc:
            raise ValueError(str(exc)) from exc
    raise NotImplementedError(f"no wire form for {cls.__name__}")

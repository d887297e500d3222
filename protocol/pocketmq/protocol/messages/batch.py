"""Body of SEND_BATCH_MESSAGE: messages one after the other (E-47, P-49).

    at  size
     0    4   whole entry, in bytes
     4    4   magic, 0
     8    4   CRC, 0; the broker computes it
    12    4   flag
    16  4+n   body
        2+n   properties

Topic, queue and the rest come from the request's header. Big endian.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pocketmq.protocol.errors import BatchError, IllegalMessageError
from pocketmq.protocol.messages.message import Buffer, Message
from pocketmq.protocol.messages.properties import MAX_PROPERTIES_BYTES, encode_properties

_HEAD: Final = struct.Struct(">iiiii")
_HEAD_BYTES: Final = _HEAD.size
_LENGTH: Final = struct.Struct(">h")
_LENGTH_BYTES: Final = _LENGTH.size
_LEAST_BYTES: Final = _HEAD_BYTES + _LENGTH_BYTES
_ALIKE_BYTES: Final = 65536
"""Batches up to this length are read in one step when their messages have equal lengths; of longer
ones the copying of bodies is what counts."""
_ALIKE_MESSAGES: Final = 512


class BatchEntry(NamedTuple):
    """One message of a batch, as the broker stores it."""

    flag: int
    body: Buffer
    """Of the same type as the batch: a slice of bytes is a copy, of a memoryview a view."""
    properties: bytes
    """As they travel; UTF-8."""


class KeyedEntries(NamedTuple):
    """Messages of a batch that differ in body and in one value of their properties, if at all."""

    flag: int
    """Of all of them."""
    bodies: list[Buffer]
    before: bytes
    """The properties up to that value."""
    values: list[bytes]
    behind: bytes
    """The properties behind it."""


def encode_batch(messages: Sequence[Message]) -> bytes:
    """The body that carries them all; `validation.check_batch` says which may travel together.

    Bodies are never compressed in a batch (P-44).

    Raises:
        IllegalMessageError: properties are too long, or hold a separator.
    """
    parts: list[Buffer] = []
    for message in messages:
        properties = encode_properties(message.properties).encode()
        properties_len = len(properties)
        # The properties' length must fit a 16-bit field.
        if properties_len > MAX_PROPERTIES_BYTES:
            raise IllegalMessageError(
                f"the properties have {properties_len} bytes, but may have at most "
                f"{MAX_PROPERTIES_BYTES} bytes",
                topic=message.topic,
            )
        body = message.body
        total = _LEAST_BYTES + len(body) + properties_len
        parts += (
            _HEAD.pack(total, 0, 0, message.flag, len(body)),
            body,
            _LENGTH.pack(properties_len),
            properties,
        )
    return b"".join(parts)


def decode_batch(body: Buffer) -> list[BatchEntry]:
    """All messages of a batch, or none: the first wrong length refuses the whole.

    The caller limits `len(body)`; the result takes memory in proportion to it.

    Raises:
        BatchError: it is empty, a message in it is empty, or lengths contradict each other.
    """
    return [BatchEntry(*entry) for entry in zip(*batch_columns(body), strict=True)]


def batch_columns(body: Buffer) -> tuple[list[int], list[Buffer], list[bytes]]:
    """`decode_batch` in columns: flags, bodies, properties. A third of the time a message.

    Raises:
        BatchError: as `decode_batch`.
    """
    end = len(body)
    if end == 0:
        raise BatchError("it holds no message", at=0)
    flags: list[int] = []
    bodies: list[Buffer] = []
    properties: list[bytes] = []
    read_head, read_length = _HEAD.unpack_from, _LENGTH.unpack_from
    at = 0
    while at < end:
        # Check every length before using it: it comes from the peer.
        if end - at < _LEAST_BYTES:
            raise BatchError(
                f"only {end - at} bytes of the batch are left, but a message has at least "
                f"{_LEAST_BYTES} bytes",
                at=at,
            )
        total, _magic, _crc, flag, body_len = read_head(body, at)
        if not _LEAST_BYTES <= total <= end - at:
            raise BatchError(
                f"the length of a message must be from {_LEAST_BYTES} to {end - at} bytes, but is "
                f"{total}",
                at=at,
            )
        # A message without a body makes the whole batch invalid (S-10).
        if not 0 < body_len <= total - _LEAST_BYTES:
            raise BatchError(
                f"the body of a message has {body_len} bytes, but must have at least 1 byte and "
                f"fit into its message of {total} bytes",
                at=at,
            )
        body_at = at + _HEAD_BYTES
        body_end = body_at + body_len
        (properties_len,) = read_length(body, body_end)
        properties_at = body_end + _LENGTH_BYTES
        at += total
        # A negative length cannot equal what is left, so this one comparison is enough.
        if properties_len != at - properties_at:
            raise BatchError(
                f"the properties of a message have {properties_len} bytes, but the message has "
                f"{at - properties_at} bytes left for them",
                at=at - total,
            )
        flags.append(flag)
        bodies.append(body[body_at:body_end])
        # Copy the properties: they outlive the request.
        properties.append(bytes(body[properties_at:at]))
    return flags, bodies, properties


def first_entry(body: Buffer) -> BatchEntry | None:
    """A batch's first message, read by itself; None if it is broken."""
    end = len(body)
    # Report no errors here: the full reader does that.
    if end < _LEAST_BYTES:
        return None
    total, _, _, flag, body_len = _HEAD.unpack_from(body)
    properties_at = _LEAST_BYTES + body_len
    if not 0 < body_len <= total - _LEAST_BYTES or total > end:
        return None
    if _LENGTH.unpack_from(body, properties_at - _LENGTH_BYTES)[0] != total - properties_at:
        return None
    message, properties = body[_HEAD_BYTES : _HEAD_BYTES + body_len], body[properties_at:total]
    return BatchEntry(flag, message, bytes(properties))


def keyed_entries(body: Buffer, first: BatchEntry, at: int, length: int) -> KeyedEntries | None:
    """A batch whose messages differ in a value of the properties only; None if others do not.

    The quickest way to read a batch: one call of a `struct` cuts it all.

    Args:
        body: a batch of at most 65,536 bytes.
        first: `first_entry` of it.
        at: where the value is in its properties.
        length: bytes of the value.
    """
    body_len, properties_len = len(first.body), len(first.properties)
    # One layout can cut the batch only if all messages have the same length.
    count, rest = divmod(len(body), _LEAST_BYTES + body_len + properties_len)
    # A layout of thousands of fields takes longer to build than to use, and stays cached.
    if rest or count > _ALIKE_MESSAGES or len(body) > _ALIKE_BYTES:
        return None
    end_len = properties_len - at - length
    parts = _keyed(count, body_len, _LENGTH_BYTES + at, length, end_len).unpack(body)
    before, behind = parts[2], parts[-1]
    # The bytes around the value must be equal in all messages; `count` compares them in C.
    if parts[2::4].count(before) != count or parts[4:-1:4].count(behind + parts[0]) != count - 1:
        return None
    bodies, values = list(parts[1::4]), list(parts[3::4])
    return KeyedEntries(first.flag, bodies, before[_LENGTH_BYTES:], values, behind)


@lru_cache(maxsize=64)
def _keyed(count: int, body_len: int, before_len: int, length: int, end_len: int) -> struct.Struct:
    """So many messages: a head, and of each the body, length and properties up to a value, that,
    and what is behind together with the next one's head."""
    one = f"{body_len}s{before_len}s{length}s"
    others = f"{one}{end_len + _HEAD_BYTES}s" * (count - 1)
    return struct.Struct(f"{_HEAD_BYTES}s{others}{one}{end_len}s")

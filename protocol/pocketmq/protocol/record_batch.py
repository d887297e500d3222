"""The records of a batch: messages of one queue in columns, written in one pass.

What `record.record_parts` does for one message; the bytes are the same. Messages of equal lengths,
which most batches hold, are packed by one call of one `struct` that has the fields of them all. Of
a head that is then given for each record what differs; the rest is packed once:

    size magic | crc | queue id | flag | queue offset, physical offset | system flag ... length
    --start----|     |--queue---|      |                               |--rest-----------------
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, overload
from zlib import crc32

from pocketmq.protocol.errors import RecordError
from pocketmq.protocol.message import Buffer
from pocketmq.protocol.record import (
    TOPIC_FIELD_V1,
    WITHOUT_TOPIC_FIELD,
    WRITE_HEAD,
    host_bits,
    pack_length,
)
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import MAGIC_V1, MAGIC_V2, RECORD, V6_EXTRA

_CRC_AT = RECORD.offset_of("BODYCRC")
_QUEUE_AT = RECORD.offset_of("QUEUEID")
_FLAG_AT = RECORD.offset_of("FLAG")
_REST_AT = RECORD.offset_of("SYSFLAG")

_ALIKE_MESSAGES = 512
"""Larger batches are packed record by record: a `struct` takes 320 bytes a message, and is kept."""


class RecordBatch(Protocol):
    """Messages that go into one queue together; lists go by message."""

    @property
    def queue_id(self) -> int: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def born_timestamp_ms(self) -> int: ...
    @property
    def born_host(self) -> bytes: ...
    @property
    def store_host(self) -> bytes: ...
    @property
    def reconsume_times(self) -> int: ...
    @property
    def flags(self) -> list[int]: ...
    @property
    def bodies(self) -> list[Buffer]: ...
    @property
    def properties(self) -> Sequence[bytes]: ...


class KeyedProperties(Sequence[bytes]):
    """The properties of messages that differ in one value: each is put together when it is asked
    for, and in `batch_records` not even then.

    Args:
        before: what they begin with.
        values: of each message; `batch_records` is quick when these are equally long.
        behind: what they end with.
    """

    __slots__ = ("before", "behind", "values")

    def __init__(self, before: bytes, values: Sequence[bytes], behind: bytes) -> None:
        self.before = before
        self.values = values
        self.behind = behind

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self.before + value + self.behind for value in self.values[index]]
        return self.before + self.values[index] + self.behind

    @property
    def fixed_bytes(self) -> int:
        """Bytes of each beside its value."""
        return len(self.before) + len(self.behind)


class BatchLengths(NamedTuple):
    """How long the parts of a batch's records are."""

    total: int
    """Bytes of all records."""
    fixed: int
    """Bytes of a record beside body and properties."""
    longest_body: int
    longest_properties: int
    are_alike: bool
    """Whether all bodies are equally long, and all properties too."""


def batch_lengths(messages: RecordBatch, topic: bytes) -> BatchLengths:
    """What the records of all of them take; `topic` is a `topic_field`."""
    texts = _keyed(messages.properties)
    bodies, values = set(map(len, messages.bodies)), set(map(len, texts.values))
    bits = host_bits(messages.born_host, messages.store_host)
    fixed = WITHOUT_TOPIC_FIELD + len(topic) + V6_EXTRA * bits.bit_count()
    longest_body, longest_properties = max(bodies), max(values) + texts.fixed_bytes
    are_alike = len(bodies) == len(values) == 1
    if are_alike:
        total = (fixed + longest_body + longest_properties) * len(messages.bodies)
    else:
        total = (fixed + texts.fixed_bytes) * len(messages.bodies)
        total += sum(map(len, messages.bodies)) + sum(map(len, texts.values))
    return BatchLengths(total, fixed, longest_body, longest_properties, are_alike)


def _keyed(properties: Sequence[bytes]) -> KeyedProperties:
    """Any properties as a value with nothing before and behind."""
    if isinstance(properties, KeyedProperties):
        return properties
    return KeyedProperties(b"", properties, b"")


def batch_records(
    messages: RecordBatch,
    lengths: BatchLengths,
    topic: bytes,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
) -> tuple[list[int], bytes]:
    """`record_parts` for all of them: where each record begins, and the records.

    Args:
        messages: what is stored.
        lengths: of these messages.
        topic: `topic_field(...)`.
        queue_offset: of the first one; the others follow it.
        physical_offset: log offset of the first record's first byte; the others follow it.
        store_timestamp_ms: the broker's clock.

    Raises:
        RecordError: a value does not fit its field.
    """
    place = (topic, queue_offset, physical_offset, store_timestamp_ms)
    try:
        if lengths.are_alike and len(messages.bodies) <= _ALIKE_MESSAGES:
            try:
                return _pack_alike(messages, lengths, *place)
            except struct.error:
                pass  # a body is a view, or a value does not fit: packed one by one it is told
        return _pack_each(messages, lengths.fixed, *place)
    except struct.error as exc:
        raise RecordError(f"a value does not fit its field: {exc}") from exc


def _pack_alike(
    messages: RecordBatch,
    lengths: BatchLengths,
    topic: bytes,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
) -> tuple[list[int], bytes]:
    """The records of messages that are equally long in all parts; their bodies are `bytes`."""
    count, body_len = len(messages.bodies), lengths.longest_body
    properties_len = lengths.longest_properties
    texts = _keyed(messages.properties)
    size = lengths.fixed + body_len + properties_len
    bits = host_bits(messages.born_host, messages.store_host)
    head = WRITE_HEAD[bits].pack(
        size,
        MAGIC_V1 if len(topic) <= TOPIC_FIELD_V1 else MAGIC_V2,
        0,
        messages.queue_id,
        0,
        0,
        0,
        messages.sys_flag & ~MessageSysFlag.HOSTS_V6_MASK | bits,
        messages.born_timestamp_ms,
        messages.born_host,
        store_timestamp_ms,
        messages.store_host,
        messages.reconsume_times,
        0,
        body_len,
    )
    behind = topic + pack_length(properties_len) + texts.before
    offsets = list(range(physical_offset, physical_offset + size * count, size))
    one: list[object] = [head[:_CRC_AT], None, head[_QUEUE_AT:_FLAG_AT], None, None, None]
    one += [head[_REST_AT:], None, behind, None, texts.behind]
    values = one * count
    values[1::11] = [crc & 0x7FFFFFFF for crc in map(crc32, messages.bodies)]
    values[3::11] = messages.flags
    values[4::11] = range(queue_offset, queue_offset + count)
    values[5::11] = offsets
    values[7::11] = messages.bodies
    values[9::11] = texts.values
    layout = _alike(
        *(count, len(head) - _REST_AT, body_len, len(behind)),
        *(properties_len - texts.fixed_bytes, len(texts.behind)),
    )
    return offsets, layout.pack(*values)


@lru_cache(maxsize=64)
def _alike(
    count: int, rest_len: int, body_len: int, behind_len: int, value_len: int, end_len: int
) -> struct.Struct:
    start, queue = _CRC_AT, _FLAG_AT - _QUEUE_AT
    one = f"{start}si{queue}siqq{rest_len}s{body_len}s{behind_len}s{value_len}s{end_len}s"
    return struct.Struct(">" + one * count)


def _pack_each(
    messages: RecordBatch,
    fixed: int,
    topic: bytes,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
) -> tuple[list[int], bytes]:
    """The records of any messages."""
    born_host, store_host = messages.born_host, messages.store_host
    bits = host_bits(born_host, store_host)
    pack = WRITE_HEAD[bits].pack
    sys_flag = messages.sys_flag & ~MessageSysFlag.HOSTS_V6_MASK | bits
    magic = MAGIC_V1 if len(topic) <= TOPIC_FIELD_V1 else MAGIC_V2
    queue_id, born_ms = messages.queue_id, messages.born_timestamp_ms
    reconsume_times = messages.reconsume_times
    at = physical_offset
    offsets: list[int] = []
    parts: list[Buffer] = []
    for body, properties, flag in zip(
        messages.bodies, messages.properties, messages.flags, strict=True
    ):
        body_len, properties_len = len(body), len(properties)
        size = fixed + body_len + properties_len
        head = pack(
            size,
            magic,
            crc32(body) & 0x7FFFFFFF,
            queue_id,
            flag,
            queue_offset,
            at,
            sys_flag,
            born_ms,
            born_host,
            store_timestamp_ms,
            store_host,
            reconsume_times,
            0,
            body_len,
        )
        parts += (head, body, topic, pack_length(properties_len), properties)
        offsets.append(at)
        queue_offset += 1
        at += size
    return offsets, b"".join(parts)

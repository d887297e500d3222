"""The records of a batch: messages of one queue in columns, written in one pass.

What `record.record_parts` does for one message; the bytes are the same. Messages of equal lengths,
which most batches hold, are packed by one call of one `struct` that has the fields of them all. For
each record it is given what differs; the rest is packed once, and a record's end together with the
start of the next:

    size magic | crc | queue id, flag | offsets | system flag ... length | body | ... | value | end
    --start----|     |--queue---------|         |--rest-----------------|
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, overload
from zlib import crc32

from pocketmq.protocol.errors import RecordError
from pocketmq.protocol.messages.message import Buffer
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import MAGIC_V1, MAGIC_V2, RECORD, V6_EXTRA
from pocketmq.protocol.stored.record import (
    TOPIC_FIELD_V1,
    WITHOUT_TOPIC_FIELD,
    WRITE_HEAD,
    Origin,
    host_bits,
    pack_length,
)

_CRC_AT = RECORD.offset_of("BODYCRC")
_QUEUE_AT = RECORD.offset_of("QUEUEID")
_OFFSETS_AT = RECORD.offset_of("QUEUEOFFSET")
_REST_AT = RECORD.offset_of("SYSFLAG")

_ALIKE_MESSAGES = 512
"""Larger batches are packed record by record: a `struct` takes 320 bytes a message, and is kept."""


class RecordBatch(Origin, Protocol):
    """Messages that go into one queue together; lists go by message."""

    @property
    def flags(self) -> list[int]: ...
    @property
    def bodies(self) -> list[Buffer]: ...
    @property
    def properties(self) -> Sequence[bytes]: ...
    @property
    def is_uniform(self) -> bool:
        """Whether they are known to differ in body and in one value of their properties only, each
        equally long in all of them; the properties are `KeyedProperties`."""
        ...


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
    host_bits: int
    """`record.host_bits` of their hosts."""


def batch_lengths(messages: RecordBatch, topic: bytes) -> BatchLengths:
    """What the records of all of them take; `topic` is a `topic_field`."""
    texts = _keyed(messages.properties)
    bits = host_bits(messages.born_host, messages.store_host)
    fixed = WITHOUT_TOPIC_FIELD + len(topic) + V6_EXTRA * bits.bit_count()
    # All messages of a uniform batch have the lengths of the first one.
    if messages.is_uniform:
        longest_body, longest_value, are_alike = len(messages.bodies[0]), len(texts.values[0]), True
    else:
        bodies, values = set(map(len, messages.bodies)), set(map(len, texts.values))
        longest_body, longest_value = max(bodies), max(values)
        are_alike = len(bodies) == len(values) == 1
    longest_properties = longest_value + texts.fixed_bytes
    if are_alike:
        total = (fixed + longest_body + longest_properties) * len(messages.bodies)
    else:
        total = (fixed + texts.fixed_bytes) * len(messages.bodies)
        total += sum(map(len, messages.bodies)) + sum(map(len, texts.values))
    return BatchLengths(total, fixed, longest_body, longest_properties, are_alike, bits)


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
        # The quick way needs messages that are alike, and few enough for a single `struct`.
        if lengths.are_alike and len(messages.bodies) <= _ALIKE_MESSAGES and _flags_agree(messages):
            try:
                return _pack_alike(messages, lengths, *place)
            except struct.error:
                pass  # a body is a view, or a value does not fit: packed one by one it is told
        return _pack_each(messages, lengths, *place)
    except struct.error as exc:
        raise RecordError(f"a value does not fit into its field of the record: {exc}") from exc


def _flags_agree(messages: RecordBatch) -> bool:
    flags = messages.flags
    return messages.is_uniform or flags.count(flags[0]) == len(flags)


def _pack_alike(
    messages: RecordBatch,
    lengths: BatchLengths,
    topic: bytes,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
) -> tuple[list[int], bytes]:
    """The records of messages that are equally long in all parts and have one flag; their bodies
    are `bytes`."""
    count, body_len = len(messages.bodies), lengths.longest_body
    properties_len = lengths.longest_properties
    texts = _keyed(messages.properties)
    size = lengths.fixed + body_len + properties_len
    bits = lengths.host_bits
    head = WRITE_HEAD[bits].pack(
        size,
        MAGIC_V1 if len(topic) <= TOPIC_FIELD_V1 else MAGIC_V2,
        # CRC and offsets differ between records and are filled in below.
        0,
        messages.queue_id,
        messages.flags[0],
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
    # Cut the head at the fields that differ; the pieces between are the same for all records.
    start, queue, rest = head[:_CRC_AT], head[_QUEUE_AT:_OFFSETS_AT], head[_REST_AT:]
    # One record's parts, with None where it differs from the others.
    one: list[object] = [None, queue, None, None, rest, None, behind, None, texts.behind + start]
    values = one * count
    # Fill by column: nine slices instead of a loop over the messages.
    values[0::9] = [crc & 0x7FFFFFFF for crc in map(crc32, messages.bodies)]
    values[2::9] = range(queue_offset, queue_offset + count)
    values[3::9] = offsets
    values[5::9] = messages.bodies
    values[7::9] = texts.values
    # No further record begins after the last one.
    values[-1] = texts.behind
    layout = _alike(
        *(count, len(rest), body_len, len(behind)),
        *(properties_len - texts.fixed_bytes, len(texts.behind)),
    )
    return offsets, layout.pack(start, *values)


@lru_cache(maxsize=64)
def _alike(
    count: int, rest_len: int, body_len: int, behind_len: int, value_len: int, end_len: int
) -> struct.Struct:
    start, queue = _CRC_AT, _OFFSETS_AT - _QUEUE_AT
    one = f"i{queue}sqq{rest_len}s{body_len}s{behind_len}s{value_len}s"
    return struct.Struct(
        f">{start}s" + f"{one}{end_len + start}s" * (count - 1) + f"{one}{end_len}s"
    )


def _pack_each(
    messages: RecordBatch,
    lengths: BatchLengths,
    topic: bytes,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
) -> tuple[list[int], bytes]:
    """The records of any messages."""
    born_host, store_host, bits = messages.born_host, messages.store_host, lengths.host_bits
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
        size = lengths.fixed + body_len + properties_len
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
            # A batch never begins a transaction, so no prepared one is named (B-19).
            0,
            body_len,
        )
        parts += (head, body, topic, pack_length(properties_len), properties)
        offsets.append(at)
        queue_offset += 1
        at += size
    return offsets, b"".join(parts)

"""The records of a batch: messages of one queue in columns, written in one pass.

What `record.record_parts` does for one message; the bytes are the same.
"""

from __future__ import annotations

import struct
from typing import Protocol
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
from pocketmq.protocol.store_layout import MAGIC_V1, MAGIC_V2, V6_EXTRA


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
    def properties(self) -> list[bytes]: ...


def batch_size(messages: RecordBatch, topic: bytes) -> int:
    """Bytes that the records of all of them take; `topic` is a `topic_field`."""
    bits = host_bits(messages.born_host, messages.store_host)
    return (
        (WITHOUT_TOPIC_FIELD + len(topic) + V6_EXTRA * bits.bit_count()) * len(messages.bodies)
        + sum(map(len, messages.bodies))
        + sum(map(len, messages.properties))
    )


def batch_parts(
    messages: RecordBatch,
    topic: bytes,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
) -> tuple[list[int], list[Buffer]]:
    """`record_parts` for all of them: where each record begins, and their bytes in parts.

    Args:
        messages: what is stored.
        topic: `topic_field(...)`.
        queue_offset: of the first one; the others follow it.
        physical_offset: log offset of the first record's first byte; the others follow it.
        store_timestamp_ms: the broker's clock.

    Raises:
        RecordError: a value does not fit its field.
    """
    born_host, store_host = messages.born_host, messages.store_host
    bits = host_bits(born_host, store_host)
    pack = WRITE_HEAD[bits].pack
    sys_flag = messages.sys_flag & ~MessageSysFlag.HOSTS_V6_MASK | bits
    magic = MAGIC_V1 if len(topic) <= TOPIC_FIELD_V1 else MAGIC_V2
    fixed = WITHOUT_TOPIC_FIELD + len(topic) + V6_EXTRA * bits.bit_count()
    queue_id, born_ms = messages.queue_id, messages.born_timestamp_ms
    reconsume_times = messages.reconsume_times
    at = physical_offset
    offsets: list[int] = []
    parts: list[Buffer] = []
    try:
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
    except struct.error as exc:
        raise RecordError(f"a value does not fit its field: {exc}") from exc
    return offsets, parts

"""The stored record: one message in the commit log, and in pull, view and query replies (S-5, S-6).

A broker writes each message once, as one record at the end of the commit log, and sends the same
bytes to every consumer. `RECORD` below is the layout, drawn in docs/store-files.md. An example, 106
bytes: message 2 of queue 1 of TopicA, at log offset 3.

    0000006a daa320a7         106 bytes; magic of V1
    3610a686                  CRC32 of the body
    00000001 00000000         queue 1; flag 0, the application's own
    0000000000000002          queue offset 2
    0000000000000003          physical offset 3
    00000000                  system flag: not compressed, no transaction, IPv4 hosts
    0000000000000004          born at 4 ms, by the producer's clock
    7f000001 00000001         at 127.0.0.1, port 1
    0000000000000005          stored at 5 ms, by the broker's clock
    7f000001 00002a9f         by 127.0.0.1, port 10911
    00000000                  not sent back for a retry so far
    0000000000000000          does not end a transaction
    00000005 68656c6c6f       body of 5 bytes: hello
    06 546f70696341           topic of 6 bytes: TopicA
    0004 6b017602             properties of 4 bytes: k=v

An IPv6 host has 20 bytes in place of 8. In V2 (5.x, topics over 127 bytes; Go, Node and 4.9 clients
cannot read it) the topic's length takes two bytes.

A file of the log ends with a blank: int32 bytes left in the file, int32 MAGIC_BLANK, anything.

`encode_record` writes a record, `decode_records` reads those of a reply. Each length is checked
against the bytes at hand before anything of that size is made.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from pocketmq.protocol.compression import DEFAULT_MAX_BODY_BYTES
from pocketmq.protocol.errors import RecordError
from pocketmq.protocol.hosts import HOST_V4_BYTES, HOST_V6_BYTES
from pocketmq.protocol.hosts import pack_host as pack_host
from pocketmq.protocol.hosts import unpack_host as unpack_host
from pocketmq.protocol.messages.message import Buffer, MessageExt
from pocketmq.protocol.messages.properties import MAX_PROPERTIES_BYTES
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import (
    BLANK,
    BODY_AT,
    FIXED_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD,
    V6_EXTRA,
)

MAX_TOPIC_BYTES_V1: Final = 127
WITHOUT_TOPIC_FIELD: Final = FIXED_SIZE - 1
TOPIC_FIELD_V1: Final = MAX_TOPIC_BYTES_V1 + 1
"""Bytes of the longest `topic_field` of V1."""

_V6: Final = MessageSysFlag.HOSTS_V6_MASK
_BORN_V6: Final = MessageSysFlag.BORN_HOST_V6
_STORE_V6: Final = MessageSysFlag.STORE_HOST_V6


def _head(born: int, store: int, *, hosts: bool) -> struct.Struct:
    code = "s" if hosts else "x"
    return RECORD.struct_with({"BORNHOST": f"{born}{code}", "STOREHOST": f"{store}{code}"})


_SIZES: Final = {
    0: (HOST_V4_BYTES, HOST_V4_BYTES),
    _BORN_V6: (HOST_V6_BYTES, HOST_V4_BYTES),
    _STORE_V6: (HOST_V4_BYTES, HOST_V6_BYTES),
    _V6: (HOST_V6_BYTES, HOST_V6_BYTES),
}
WRITE_HEAD: Final = {bits: _head(*sizes, hosts=True) for bits, sizes in _SIZES.items()}
_READ_HEAD: Final = {bits: _head(*sizes, hosts=False) for bits, sizes in _SIZES.items()}

_pack_v4: Final = WRITE_HEAD[0].pack
_unpack_v4: Final = RECORD.picking(
    "TOTALSIZE",
    "MAGICCODE",
    "QUEUEID",
    "QUEUEOFFSET",
    "SYSFLAG",
    "RECONSUMETIMES",
    "body length",
).unpack_from
"""What every reader asks for; `MessageExt` reads the other fields when they are asked for."""
pack_length: Final = struct.Struct(">H").pack
_SIZE_AND_QUEUE_OFFSET: Final = struct.Struct(f">i{RECORD.offset_of('QUEUEOFFSET') - 4}xq")
_pack_blank: Final = BLANK.struct.pack


def crc(body: Buffer) -> int:
    """CRC32 without its top bit, so that Java never sees it negative (S-16)."""
    return crc32(body) & 0x7FFFFFFF


class Origin(Protocol):
    """What the messages of a batch have in common."""

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


class Recordable(Origin, Protocol):
    """A message as a record holds it: everything but topic, offsets and store time."""

    @property
    def flag(self) -> int: ...
    @property
    def prepared_transaction_offset(self) -> int: ...
    @property
    def body(self) -> Buffer: ...
    @property
    def properties(self) -> bytes: ...


class _Recordable(NamedTuple):
    queue_id: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: Buffer
    properties: bytes


def encode_record(
    *,
    topic: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: bytes,
    store_timestamp_ms: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: Buffer,
    properties: bytes,
) -> bytes:
    """One record's bytes; the body is copied once.

    Args:
        topic: UTF-8; over 127 bytes it makes a V2 record.
        sys_flag: the V6 bits are corrected to fit the hosts.
        born_host: 8 or 20 bytes from `pack_host`, as is `store_host`.
        body: as it is stored, maybe compressed.
        properties: `encode_properties(...)` as UTF-8.

    Raises:
        RecordError: a value does not fit its field; the store checks messages before it comes here.
    """
    message = _Recordable(
        queue_id,
        flag,
        sys_flag,
        born_timestamp_ms,
        born_host,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body,
        properties,
    )
    _, parts = record_parts(
        message, topic_field(topic), queue_offset, physical_offset, store_timestamp_ms
    )
    return b"".join(parts)


def topic_field(topic: bytes) -> bytes:
    """A topic as records hold it, its length before it; the same for every message of a queue.

    Raises:
        RecordError: it is longer than a length field can tell.
    """
    length = len(topic)
    if length > 0xFFFF:
        raise RecordError(f"a topic of {length} bytes, 65535 fit")
    return (bytes((length,)) if length <= MAX_TOPIC_BYTES_V1 else pack_length(length)) + topic


def record_parts(
    message: Recordable,
    topic: bytes,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
) -> tuple[int, tuple[Buffer, ...]]:
    """`encode_record` for the log: a record's size, and its bytes in parts.

    The parts of a whole batch are joined once; the body is not copied before.

    Args:
        message: what is stored.
        topic: `topic_field(...)`.
        queue_offset: number of the message in its queue.
        physical_offset: log offset of the record's first byte.
        store_timestamp_ms: the broker's clock.

    Raises:
        RecordError: a value does not fit its field.
    """
    body, properties = message.body, message.properties
    born_host, store_host = message.born_host, message.store_host
    topic_len, body_len, properties_len = len(topic), len(body), len(properties)
    # RocketMQ reads this length as a signed short, so a longer one would be negative.
    if properties_len > MAX_PROPERTIES_BYTES:
        raise RecordError(
            f"the properties have {properties_len} bytes, but may have at most "
            f"{MAX_PROPERTIES_BYTES} bytes"
        )
    size = WITHOUT_TOPIC_FIELD + topic_len + body_len + properties_len
    # The V6 bits depend on the hosts, whatever the message's own flag says.
    sys_flag = message.sys_flag & ~_V6
    if len(born_host) == HOST_V4_BYTES == len(store_host):
        pack = _pack_v4
    else:
        bits = host_bits(born_host, store_host)
        sys_flag |= bits
        size += V6_EXTRA * bits.bit_count()
        pack = WRITE_HEAD[bits].pack
    # Packing fails for any other value that is out of range.
    try:
        head = pack(
            size,
            MAGIC_V1 if topic_len <= TOPIC_FIELD_V1 else MAGIC_V2,
            crc32(body) & 0x7FFFFFFF,
            message.queue_id,
            message.flag,
            queue_offset,
            physical_offset,
            sys_flag,
            message.born_timestamp_ms,
            born_host,
            store_timestamp_ms,
            store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
            body_len,
        )
    except struct.error as exc:
        raise RecordError(f"a value does not fit into its field of the record: {exc}") from exc
    return size, (head, body, topic, pack_length(properties_len), properties)


def host_bits(born_host: bytes, store_host: bytes) -> int:
    """Bits of the system flag that say which of the two hosts is IPv6.

    Raises:
        RecordError: a host has neither 8 nor 20 bytes.
    """
    sizes = (len(born_host), len(store_host))
    if sizes == _SIZES[0]:
        return 0
    for bits, expected in _SIZES.items():
        if sizes == expected:
            return bits
    raise RecordError(
        f"the born host has {sizes[0]} bytes and the store host has {sizes[1]} bytes, but each "
        "must have 8 or 20 bytes (see pack_host)"
    )


def encode_blank(size: int) -> bytes:
    """The first 8 bytes of the blank that fills a file's last `size` bytes (S-14)."""
    return _pack_blank(size, MAGIC_BLANK)


def queue_offsets(buffer: Buffer) -> list[int]:
    """The queue offsets of whole records back to back; a tenth of what `decode_records` costs.

    Raises:
        RecordError: a length is wrong; nothing else is checked.
    """
    offsets: list[int] = []
    at, end = 0, len(buffer)
    while at < end:
        if end - at < FIXED_SIZE:
            raise RecordError(
                f"a record must have at least {FIXED_SIZE} bytes, but only {end - at} bytes are "
                "left",
                at=at,
            )
        size, offset = _SIZE_AND_QUEUE_OFFSET.unpack_from(buffer, at)
        if size < FIXED_SIZE:
            raise RecordError(f"TOTALSIZE {size}", at=at)
        offsets.append(offset)
        at += size
    return offsets


def decode_record(
    buffer: Buffer,
    at: int = 0,
    *,
    broker_name: str = "",
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
) -> MessageExt:
    """The message whose record begins at byte `at`; a view into `buffer`, see `MessageExt`.

    The body's CRC is not computed: `check_record` does that.

    Raises:
        RecordError: there is no whole record, or its lengths contradict each other.
    """
    if not 0 <= at < len(buffer):
        raise RecordError(f"the buffer has {len(buffer)} bytes", at=at)
    return decode_some(buffer, at, len(buffer), broker_name, max_body_bytes, 1)[0]


def decode_records(
    buffer: Buffer,
    *,
    broker_name: str = "",
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
    notes: dict[str, object] | None = None,
) -> list[MessageExt]:
    """All messages of a pull, query or view reply; each is a view into `buffer`.

    Half a microsecond a message: bodies, properties and times wait until they are asked for.

    Args:
        buffer: Records back to back.
        broker_name: Where they come from.
        max_body_bytes: How far a compressed body may grow.
        notes: Noted on each of them, as by `MessageExt.note_all`.

    Raises:
        RecordError: a record is broken, or bytes are left over.
    """
    return decode_some(buffer, 0, len(buffer), broker_name, max_body_bytes, -1, notes)


def decode_some(
    buffer: Buffer,
    at: int,
    limit: int,
    broker_name: str,
    max_body_bytes: int,
    count: int,
    notes: dict[str, object] | None = None,
) -> list[MessageExt]:
    """Up to `count` messages from `at` on; a negative count means all up to `limit`.

    One flat loop, because a call per record would cost as much as its topic.
    """
    messages: list[MessageExt] = []
    last_topic: Buffer = b""
    topic = ""
    while at < limit and len(messages) != count:
        left = limit - at
        if left < FIXED_SIZE:
            raise RecordError(
                f"a record must have at least {FIXED_SIZE} bytes, but only {left} bytes are left",
                at=at,
            )
        # Read with the layout of IPv4 hosts: the fields up to the system flag are the same in both.
        head_size = BODY_AT
        (
            size,
            magic,
            queue_id,
            queue_offset,
            sys_flag,
            reconsume_times,
            body_size,
        ) = _unpack_v4(buffer, at)
        # IPv6 hosts are longer and shift all fields after the system flag.
        if sys_flag & _V6:
            read_head = _READ_HEAD[sys_flag & _V6]
            head_size = read_head.size
            if left < head_size:
                raise RecordError(
                    f"only {left} bytes are left, so the record ends inside its fixed fields", at=at
                )
            *_, reconsume_times, _, body_size = read_head.unpack_from(buffer, at)
        if not FIXED_SIZE <= size <= left:
            raise RecordError(
                f"TOTALSIZE must be from {FIXED_SIZE} to {left}, but is {size}", at=at
            )
        end = at + size
        body_at = at + head_size
        topic_at = body_at + body_size + 1
        if body_size < 0 or topic_at > end:
            raise RecordError(
                f"the body has {body_size} bytes and does not fit into the record, which has "
                f"{size} bytes",
                at=at,
            )
        topic_size = buffer[topic_at - 1]
        if magic != MAGIC_V1:
            if magic != MAGIC_V2:
                raise RecordError(f"MAGICCODE {magic & 0xFFFFFFFF:#010x} is no message's", at=at)
            topic_at += 1
            if topic_at > end:
                raise RecordError(
                    "the record ends inside the field that contains the topic's length", at=at
                )
            topic_size = topic_size << 8 | buffer[topic_at - 1]
        elif topic_size > MAX_TOPIC_BYTES_V1:
            # Nobody writes a V1 record with a longer topic: this one is damaged.
            raise RecordError(f"a V1 topic of {topic_size} bytes", at=at)
        properties_at = topic_at + topic_size + 2
        # The lengths must use the record up to its last byte.
        if (
            not 0 <= end - properties_at <= MAX_PROPERTIES_BYTES
            or buffer[properties_at - 2] << 8 | buffer[properties_at - 1] != end - properties_at
        ):
            raise RecordError(
                f"the topic ({topic_size} bytes) and the properties do not end where the record "
                f"of {size} bytes ends",
                at=at,
            )
        raw_topic = buffer[topic_at : properties_at - 2]
        if raw_topic != last_topic:  # mostly one topic per reply: one string for all
            last_topic = raw_topic
            try:
                topic = str(raw_topic, "utf-8")
            except UnicodeDecodeError as exc:
                raise RecordError(f"the topic is not UTF-8: {exc}", at=at) from exc
        messages.append(
            MessageExt(
                buffer,
                at,
                body_at,
                properties_at,
                topic,
                broker_name,
                size,
                queue_id,
                queue_offset,
                sys_flag,
                reconsume_times,
                body_size,
                max_body_bytes,
                None,
                notes,
            )
        )
        at = end
    return messages

"""What applications send and receive: `Message`, `MessageExt` and the queue between them.

A message is a body of bytes with properties, which are texts with names. Its tag and its keys are
properties too. A `Message` has what the producer decides; a `MessageExt` adds where the message is
stored, when, and how often it has been tried:

    sent = Message("orders", b"hello", tags="new", keys=["order-17", "ann"])
    sent.properties          {'KEYS': 'order-17 ann', 'TAGS': 'new', 'WAIT': 'true'}

    received.body            b'hello'
    received.tags            'new'
    received.broker_name     'broker-a', with queue_id 2 and queue_offset 40: its place
    received.msg_id          the id that the producer gave it (UNIQ_KEY, ids.py)

Cheap to make: a consumer gets 32 `MessageExt` per pull and may read only two fields of each, so the
body is inflated and the properties are split on first use.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from re import Pattern
from typing import Any

import msgspec

from pocketmq.protocol.compression import DEFAULT_MAX_BODY_BYTES, decompress
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.hosts import HOST_V4_BYTES, HOST_V6_BYTES, host_text
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.messages.properties import (
    KEY_SEPARATOR,
    decode_properties,
    encode_properties,
)
from pocketmq.protocol.messages.property_views import PropertyViews
from pocketmq.protocol.scalars import Int32, MessageSysFlag
from pocketmq.protocol.store_layout import BODY_AT, RECORD, V6_EXTRA

Buffer = bytes | bytearray | memoryview

_COMPRESSED = MessageSysFlag.COMPRESSED
_i32 = struct.Struct(">i").unpack_from
_i64 = struct.Struct(">q").unpack_from
_BODY_CRC_AT = RECORD.offset_of("BODYCRC")
_FLAG_AT = RECORD.offset_of("FLAG")
_PHYSICAL_OFFSET_AT = RECORD.offset_of("PHYSICALOFFSET")
_BORN_TIMESTAMP_AT = RECORD.offset_of("BORNTIMESTAMP")
_STORE_TIMESTAMP_AT = RECORD.offset_of("STORETIMESTAMP")
_PREPARED_BEFORE_BODY = BODY_AT - RECORD.offset_of("PREPAREDTRANSACTIONOFFSET")
_BORN_HOST_AT = RECORD.offset_of("BORNHOST")
_STORE_HOST_AT = RECORD.offset_of("STOREHOST")


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel", gc=False):
    """One queue of a topic on one broker; sorts by topic, broker name and queue id (A-1).

    Hashable, and a wire body by itself: `{"topic":s,"brokerName":s,"queueId":i}`.
    """

    topic: str
    broker_name: str
    queue_id: Int32

    def __str__(self) -> str:
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, "
            f"queueId={self.queue_id}]"
        )


class Message(PropertyViews):
    """What a producer sends.

    Args:
        topic: where to.
        body: 1 byte to 4 MiB; not copied.
        tags: the message's one tag.
        keys: words to find the message by: one string, or several.
        delay_level: 1..18 for 1 s, 5 s, 10 s, 30 s, 1-10 m, 20 m, 30 m, 1 h, 2 h; 0 for at once.
        delay_ms: deliver so many milliseconds after the broker got it, 3 days at most (5.x).
        deliver_at: deliver at this time, epoch milliseconds, 3 days ahead at most (5.x).
        priority: 0, the lowest, and up; for topics whose `message.type` is PRIORITY (5.4).
        flag: a number that only applications understand.
        properties: more names and values; the arguments above win over it.
        wait_store_ok: whether the answer waits for what the broker's flush mode promises.
    """

    __slots__ = ("body", "flag", "properties", "topic")

    topic: str
    body: bytes
    flag: int
    properties: dict[str, str]

    def __init__(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = None,
        delay_level: int = 0,
        delay_ms: int | None = None,
        deliver_at: int | None = None,
        priority: int | None = None,
        flag: int = 0,
        properties: Mapping[str, str] | None = None,
        wait_store_ok: bool = True,
    ) -> None:
        self.topic = topic
        self.body = body
        self.flag = flag
        merged = dict(properties) if properties else {}
        if keys:
            merged[names.KEYS] = keys if isinstance(keys, str) else KEY_SEPARATOR.join(keys)
        if tags:
            merged[names.TAGS] = tags
        self.properties = merged
        # Most messages are delivered at once and have no priority: nothing to check for them.
        if delay_level or not (delay_ms is None and deliver_at is None and priority is None):
            self._put_order(delay_level, delay_ms, deliver_at, priority)
        if not wait_store_ok:
            merged[names.WAIT] = "false"
        elif names.WAIT not in merged:
            merged[names.WAIT] = "true"  # Java clients always say so, and batches compare it

    def _put_order(
        self,
        delay_level: int,
        delay_ms: int | None,
        deliver_at: int | None,
        priority: int | None,
    ) -> None:
        """Note when the message is delivered, and before which others."""
        topic, merged = self.topic, self.properties
        if delay_level:
            merged[names.DELAY] = str(delay_level)
        # Several of them would contradict each other, and a broker would silently use one (T-105).
        if (delay_ms is not None) + (deliver_at is not None) + (delay_level > 0) > 1:
            raise IllegalMessageError(
                "give only one of delay_level, delay_ms and deliver_at", topic=topic
            )
        if delay_ms is not None:
            merged[names.TIMER_DELAY_MS] = str(delay_ms)
        if deliver_at is not None:
            merged[names.TIMER_DELIVER_MS] = str(deliver_at)
        if priority is not None:
            if priority < 0:
                raise IllegalMessageError(
                    f"the priority must be 0 or more, but is {priority}", topic=topic
                )
            merged[names.PRIORITY] = str(priority)

    def put_user_property(self, name: str, value: str) -> None:
        """Add an application's property.

        Raises:
            IllegalMessageError: the name has a meaning of its own, or name or value is empty.
        """
        if name in names.RESERVED:
            raise IllegalMessageError(
                f"the property name {name!r} is reserved for RocketMQ; use another name",
                topic=self.topic,
            )
        if not name or not value:
            # Readers drop such entries, so refuse them instead of losing them silently (S-6).
            raise IllegalMessageError(
                f"property {name!r} = {value!r}: neither the name nor the value may be empty, "
                "because readers drop such a property",
                topic=self.topic,
            )
        self.properties[name] = value

    def properties_text(self) -> str:
        """The properties as a send header carries them."""
        return encode_properties(self.properties)

    def __repr__(self) -> str:
        return (
            f"Message(topic={self.topic!r}, {len(self.body)} bytes, flag={self.flag}, "
            f"properties={self.properties!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (
            self.topic == other.topic
            and self.body == other.body
            and self.flag == other.flag
            and self.properties == other.properties
        )

    __hash__ = None  # type: ignore[assignment]  # it changes


class SharedNote:
    """A value for `MessageExt.note_all` that is another property for each message that has it."""

    __slots__ = ()

    def text_of(self, message: MessageExt) -> str:
        """The property of this message."""
        raise NotImplementedError


class MessageExt(PropertyViews, msgspec.Struct, eq=False, gc=False):
    """A message as a consumer sees it: what was sent, and where and when it is stored.

    Made by `record.decode_record`. It is a view: it keeps the whole buffer it was decoded from
    alive (a pull reply of up to 32 records), not a copy of its own bytes. `body` is copied out,
    inflated and cached on first use, as is `properties`. To keep one message of a large reply for
    long, or when the buffer is a mapped file that will be closed, call `detach()`.

    `topic`, `reconsume_times` and `properties` may be changed by the client: it shows a retried
    message under its original topic (C-54), counts orderly tries (C-60) and adds MIN_OFFSET and
    MAX_OFFSET (C-41). None of that reaches the stored record.

    A msgspec struct because one is made per message: a third of the cost of a slots class, and
    nothing for the garbage collector to walk through while a thousand of them wait.
    """

    # In the order in which the decoder has them: keywords would cost half as much again.
    _buffer: Buffer
    _at: int
    _body_at: int
    _properties_at: int
    topic: str
    broker_name: str
    store_size: int
    """Bytes of the whole record."""
    queue_id: int
    queue_offset: int
    sys_flag: int
    reconsume_times: int
    body_size: int
    """Bytes of the body as stored, which may be compressed."""
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    """How far a compressed body may grow."""
    _body: bytes | None = None
    _notes: dict[str, object] | None = None
    """Never changed, because other messages may have the same."""
    _properties: dict[str, str] | None = None
    _consume_start_ms: int = 0

    @property
    def body_crc(self) -> int:
        """CRC32 of the body as stored, without its top bit."""
        value: int = _i32(self._buffer, self._at + _BODY_CRC_AT)[0]
        return value

    @property
    def flag(self) -> int:
        """The application's own number."""
        value: int = _i32(self._buffer, self._at + _FLAG_AT)[0]
        return value

    @property
    def commit_log_offset(self) -> int:
        """Where in its broker's log the record begins."""
        value: int = _i64(self._buffer, self._at + _PHYSICAL_OFFSET_AT)[0]
        return value

    @property
    def born_timestamp_ms(self) -> int:
        """When it was sent, by the producer's clock."""
        value: int = _i64(self._buffer, self._at + _BORN_TIMESTAMP_AT)[0]
        return value

    @property
    def store_timestamp_ms(self) -> int:
        """When it was stored, by the broker's clock."""
        at = self._at + _STORE_TIMESTAMP_AT
        # An IPv6 born host is longer and shifts this field (S-5).
        if self.sys_flag & MessageSysFlag.BORN_HOST_V6:
            at += V6_EXTRA
        value: int = _i64(self._buffer, at)[0]
        return value

    @property
    def prepared_transaction_offset(self) -> int:
        """Log offset of the half message that it ends; 0: it ends none."""
        value: int = _i64(self._buffer, self._body_at - _PREPARED_BEFORE_BODY)[0]
        return value

    @property
    def raw_body(self) -> memoryview:
        """The body as stored, maybe compressed; a view, no copy."""
        return memoryview(self._buffer)[self._body_at : self._body_at + self.body_size]

    @property
    def body(self) -> bytes:
        """What the producer sent; copied out of the buffer, and inflated if need be, on first use.

        Raises:
            BodyError: the body says it is compressed and cannot be inflated, or not within
                `max_body_bytes`.
            CompressionUnavailableError: it is lz4 or zstd, and the library is not installed.
        """
        body = self._body
        # Copy the body once: a view would keep the whole reply in memory.
        if body is None:
            start = self._body_at
            cut = self._buffer[start : start + self.body_size]
            stored = cut.tobytes() if type(cut) is memoryview else bytes(cut)
            # Decompress on first use: some consumers never read the body.
            if self.sys_flag & _COMPRESSED:
                stored = decompress(stored, self.sys_flag, self.max_body_bytes)
            self._body = body = stored
        return body

    @property
    def properties(self) -> dict[str, str]:
        """Names and values; split on first use. Bytes that are no UTF-8 read as U+FFFD."""
        found = self._properties
        if found is None:
            start, end = self._properties_at, self._at + self.store_size
            found = decode_properties(str(self._buffer[start:end], "utf-8", "replace"))
            if self._notes is not None:
                # Noted values are newer than the stored ones.
                found.update([(name, self._text(value)) for name, value in self._notes.items()])
            if self._consume_start_ms:
                found[names.CONSUME_START_TIME] = str(self._consume_start_ms)
            self._properties = found
        return found

    def note(self, name: str, value: object) -> None:
        """Set a property on this side; unlike an assignment it does not split the others yet.

        Args:
            name: Of the property.
            value: `str(value)` is its value, made when the properties are read.
        """
        # The properties were read already, so the note goes into that dict.
        if self._properties is not None:
            self._properties[name] = str(value)
        else:
            self._notes = {name: value} if self._notes is None else {**self._notes, name: value}

    def note_all(self, values: dict[str, object]) -> None:
        """`note` for several; the message keeps the mapping, which several messages may share.

        What is a `SharedNote` among them has a text for each.
        """
        if self._properties is not None:
            self._properties.update([(name, self._text(value)) for name, value in values.items()])
        else:
            self._notes = values if self._notes is None else self._notes | values

    def _text(self, value: object) -> str:
        return value.text_of(self) if isinstance(value, SharedNote) else str(value)

    def note_consume_start(self, now_ms: int) -> None:
        """`note` for CONSUME_START_TIME, of every message; epoch ms (C-54)."""
        if self._properties is None:
            self._consume_start_ms = now_ms
        else:
            self._properties[names.CONSUME_START_TIME] = str(now_ms)

    def noted(self, name: str) -> object:
        """What `note` was given; None when it was not, or the properties were read since."""
        if self._notes is None or self._properties is not None:
            # An application that read the properties may have changed this one.
            return None
        return self._notes.get(name)

    def stores(self, pattern: Pattern[bytes]) -> bool:
        """Whether the stored properties match anywhere; splits nothing, and copies nothing."""
        end = self._at + self.store_size
        return pattern.search(self._buffer, self._properties_at, end) is not None

    @property
    def raw_properties(self) -> memoryview:
        """The property string as stored; a view, no copy."""
        return memoryview(self._buffer)[self._properties_at : self._at + self.store_size]

    @property
    def properties_size(self) -> int:
        """Bytes that the properties take in the record."""
        return self._at + self.store_size - self._properties_at

    @property
    def queue(self) -> MessageQueue:
        """The queue it was stored in; of a retried message that is one of `%RETRY%group`'s.

        Take it before the client puts the original topic back.
        """
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    @property
    def msg_id(self) -> str:
        """The id its producer knows: UNIQ_KEY, or the offset id when it has none."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        """The id that says where it is stored: broker address and commit log offset (S-7)."""
        return offset_msg_id(self.packed_store_host, self.commit_log_offset)

    @property
    def packed_born_host(self) -> bytes:
        """Address of the producer: 4 or 16 bytes of ip and a port as int32."""
        start = self._at + _BORN_HOST_AT
        size = HOST_V6_BYTES if self.sys_flag & MessageSysFlag.BORN_HOST_V6 else HOST_V4_BYTES
        return bytes(self._buffer[start : start + size])

    @property
    def packed_store_host(self) -> bytes:
        """Address of the broker: 4 or 16 bytes of ip and a port as int32."""
        start = self._at + _STORE_HOST_AT
        # The born host comes before this field and may be longer.
        if self.sys_flag & MessageSysFlag.BORN_HOST_V6:
            start += V6_EXTRA
        size = HOST_V6_BYTES if self.sys_flag & MessageSysFlag.STORE_HOST_V6 else HOST_V4_BYTES
        return bytes(self._buffer[start : start + size])

    @property
    def born_host(self) -> str:
        """`ip:port` of the producer."""
        return host_text(self.packed_born_host)

    @property
    def store_host(self) -> str:
        """`ip:port` of the broker."""
        return host_text(self.packed_store_host)

    @property
    def record(self) -> memoryview:
        """The whole stored record; a view, no copy."""
        return memoryview(self._buffer)[self._at : self._at + self.store_size]

    def detach(self) -> None:
        """Copy the record out of the buffer, so that nothing else of the buffer is kept alive."""
        # From here on this record is the whole buffer, and the positions count from its start.
        self._buffer = bytes(self._buffer[self._at : self._at + self.store_size])
        self._body_at -= self._at
        self._properties_at -= self._at
        self._at = 0

    def to_message(self, topic: str | None = None) -> Message:
        """A message to send on, with the same body, flag and properties."""
        return Message(
            self.topic if topic is None else topic,
            self.body,
            flag=self.flag,
            properties=self.properties,
            wait_store_ok=self.wait_store_ok,
        )

    def __reduce__(self) -> str | tuple[Any, ...]:
        # Pickled for another process: its own record, not the reply it came in.
        self.detach()
        return super().__reduce__()

    def __repr__(self) -> str:
        return (
            f"MessageExt(topic={self.topic!r}, broker_name={self.broker_name!r}, "
            f"queue_id={self.queue_id}, queue_offset={self.queue_offset}, "
            f"commit_log_offset={self.commit_log_offset}, {self.body_size} bytes, "
            f"reconsume_times={self.reconsume_times}, properties={self.properties!r})"
        )

"""A popped record as the SDK's message: which field comes from where (G-86 to G-89). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from pocketmq.protocol.compression import decompress
from pocketmq.protocol.errors import BodyError, CompressionUnavailableError
from pocketmq.protocol.hosts import unpack_host
from pocketmq.protocol.java import java_split
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import DLQ_PREFIX, RETRY_PREFIX
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import DigestType, Encoding, MessageType

HIDDEN: Final = frozenset(
    {
        names.TRACE_SWITCH, names.MSG_REGION, names.KEYS, names.TAGS, names.WAIT, names.DELAY,
        names.RETRY_TOPIC, names.REAL_TOPIC, names.REAL_QUEUE_ID, names.TRANSACTION_PREPARED,
        names.PRODUCER_GROUP, names.MIN_OFFSET, names.MAX_OFFSET, names.BUYER_ID,
        names.ORIGIN_MESSAGE_ID, names.TRANSFER_FLAG, names.CORRECTION_FLAG, names.MQ2_FLAG,
        names.RECONSUME_TIME, names.UNIQ_KEY, names.MAX_RECONSUME_TIMES, names.CONSUME_START_TIME,
        names.POP_CK, names.POP_CK_OFFSET, names.FIRST_POP_TIME,
        names.TRANSACTION_PREPARED_QUEUE_OFFSET, names.DUP_INFO, names.EXTEND_UNIQ_INFO,
        names.INSTANCE_ID, names.CORRELATION_ID, names.MESSAGE_REPLY_TO_CLIENT, names.MESSAGE_TTL,
        names.REPLY_MESSAGE_ARRIVE_TIME, names.PUSH_REPLY_TIME, names.CLUSTER, names.MESSAGE_TYPE,
        names.INNER_MULTI_QUEUE_OFFSET, names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC,
        names.TIMER_DELIVER_MS, names.TIMER_ENQUEUE_MS, names.TIMER_DEQUEUE_MS,
        names.TIMER_ROLL_TIMES, names.TIMER_OUT_MS, names.TIMER_DEL_UNIQKEY,
        names.TIMER_DELAY_LEVEL, names.BORN_HOST, names.BORN_TIMESTAMP, names.DLQ_ORIGIN_TOPIC,
        names.DLQ_ORIGIN_MESSAGE_ID, names.CRC32, names.PRIORITY,
    }
)  # fmt: skip
"""Properties that no SDK shows among the user's: 5.3.3's `MessageConst.STRING_HASH_SET`, and the
priority, which 5.5's has too. The group of a FIFO message is not one of them, so it stands in both
places."""

_END_OF_TIME_MS: Final = 253_402_300_800_000
"""The year 10000, which a proto's timestamp cannot express."""


def delivered(message: MessageExt, now_ms: int, receipt_handle: str | None) -> Any:
    """What a client gets: a `Message`.

    Args:
        message: As its broker answered it, under the topic that the client knows.
        now_ms: Epoch ms; a delay in seconds counts from here.
        receipt_handle: Of this delivery.
    """
    properties = message.properties
    namespace, topic = split_namespace(message.topic)
    body, encoding = _body(message)
    made = pb.Message(body=body)
    made.topic.resource_namespace = namespace
    made.topic.name = topic
    made.user_properties.update(
        {name: value for name, value in properties.items() if name not in HIDDEN}
    )
    system = made.system_properties
    keys = properties.get(names.KEYS)
    if keys is not None:
        system.keys.extend(java_split(keys, " "))
    system.message_id = message.msg_id
    system.body_digest.type = DigestType.MD5
    system.body_digest.checksum = md5_text(body)
    system.body_encoding = encoding
    system.message_type = type_of(properties)
    _set_time(system.born_timestamp, message.born_timestamp_ms)
    born_host = properties.get(names.BORN_HOST, "")
    # The proxy notes an SDK's host in a property: the record's own field has the proxy's address.
    system.born_host = born_host if born_host.strip() else unpack_host(message.packed_born_host)[0]
    _set_time(system.store_timestamp, message.store_timestamp_ms)
    system.store_host = message.store_host
    system.queue_id = message.queue_id
    system.queue_offset = message.queue_offset
    # SDKs count from one, brokers count the failures before.
    system.delivery_attempt = message.reconsume_times + 1
    _set_optional(system, properties, now_ms, receipt_handle)
    return made


def _set_optional(
    system: Any, properties: Mapping[str, str], now_ms: int, receipt_handle: str | None
) -> None:
    for field, value in (
        ("tag", properties.get(names.TAGS)),
        ("message_group", properties.get(names.SHARDING_KEY)),
        ("trace_context", properties.get(names.TRACE_CONTEXT)),
        ("receipt_handle", receipt_handle),
    ):
        if value is not None:
            setattr(system, field, value)
    due_ms = _delivery_ms(properties, now_ms)
    if due_ms is not None:
        _set_time(system.delivery_timestamp, due_ms)
    priority = names.priority_of(properties)
    if priority >= 0:
        system.priority = priority
    topic = properties.get(names.DLQ_ORIGIN_TOPIC)
    message_id = properties.get(names.DLQ_ORIGIN_MESSAGE_ID)
    if topic is not None and message_id is not None:
        system.dead_letter_queue.topic = topic
        system.dead_letter_queue.message_id = message_id


def type_of(properties: Mapping[str, str]) -> MessageType:
    """What kind of message it is that has these properties (G-86)."""
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if (
        names.DELAY in properties
        or names.TIMER_DELIVER_MS in properties
        or names.TIMER_DELAY_SEC in properties
    ):
        return MessageType.DELAY
    if names.SHARDING_KEY in properties:
        return MessageType.FIFO
    # Priorities came with 5.4; older proxies take their messages for NORMAL ones.
    return MessageType.PRIORITY if names.PRIORITY in properties else MessageType.NORMAL


def split_namespace(topic: str) -> tuple[str, str]:
    """`ns%orders` as ("ns", "orders"); a retry or dead letter topic keeps its prefix (G-50)."""
    prefix = next((known for known in (RETRY_PREFIX, DLQ_PREFIX) if topic.startswith(known)), "")
    namespace, found, name = topic[len(prefix) :].partition("%")
    if not found or not namespace:
        return "", topic
    return namespace, prefix + name


def md5_text(body: bytes) -> str:
    """A body's digest as SDKs compare it: upper-case hex (G-89)."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest().upper()


def _body(message: MessageExt) -> tuple[bytes, Encoding]:
    """The body as it is sent, and how it is encoded.

    RocketMQ's proxy sends what is stored and calls it GZIP, whatever it is; but remoting producers
    write zlib, lz4 or zstd, which half of the SDKs cannot read (G-88). So it is inflated here, and
    only what cannot be is sent as RocketMQ does.
    """
    raw = bytes(message.raw_body)
    if not message.sys_flag & MessageSysFlag.COMPRESSED:
        return raw, Encoding.IDENTITY
    try:
        return decompress(raw, message.sys_flag, message.max_body_bytes), Encoding.IDENTITY
    except (BodyError, CompressionUnavailableError):
        return raw, Encoding.GZIP


def _delivery_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    delay = properties.get(names.TIMER_DELAY_SEC)
    # Seconds count from the delivery here, and not from the send.
    if delay is not None:
        seconds = _number(delay)
        return None if seconds is None else now_ms + seconds * 1_000
    due = properties.get(names.TIMER_DELIVER_MS)
    return None if due is None else _number(due)


def _number(text: str) -> int | None:
    """What the text says; None for what is no number, which any producer may have written."""
    try:
        # Twenty characters hold every 64-bit number; a longer text takes Python long to read.
        return int(text[:20])
    except ValueError:
        return None


def _set_time(field: Any, time_ms: int) -> None:
    """Set a `Timestamp`; what a producer wrote may lie outside of what one can hold."""
    inside = max(0, min(time_ms, _END_OF_TIME_MS - 1))
    field.seconds, field.nanos = inside // 1_000, inside % 1_000 * 1_000_000

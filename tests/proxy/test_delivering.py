"""A popped record as an SDK's message: each field from where `GrpcConverter` takes it (G-86)."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.stored.record import decode_record, encode_record
from pocketmq.proxy.conversion.delivering import HIDDEN, delivered, split_namespace, type_of
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import DigestType, Encoding, MessageType

NOW = 1_700_000_000_000
BORN, STORED = 1_699_999_999_001, 1_699_999_999_999


def popped(
    properties: dict[str, str] | None = None,
    body: bytes = b"hello",
    *,
    topic: str = "T",
    sys_flag: int = 0,
    tries: int = 0,
    born_ms: int = BORN,
) -> MessageExt:
    return decode_record(
        encode_record(
            topic=topic.encode(),
            queue_id=3,
            flag=0,
            queue_offset=9,
            physical_offset=884_736,
            sys_flag=sys_flag,
            born_timestamp_ms=born_ms,
            born_host=pack_host("10.1.2.3", 50_000),
            store_timestamp_ms=STORED,
            store_host=pack_host("10.1.2.4", 10_911),
            reconsume_times=tries,
            prepared_transaction_offset=0,
            body=body,
            properties=encode_properties(properties or {}).encode(),
        ),
        broker_name="broker-a",
    )


def test_a_plain_message_has_these_fields_and_no_others() -> None:
    message = delivered(popped({names.UNIQ_KEY: "01AC"}), NOW, "handle")
    expected = pb.Message(topic=pb.Resource(name="T"), body=b"hello")
    system = expected.system_properties
    system.message_id = "01AC"
    system.body_digest.type = DigestType.MD5
    system.body_digest.checksum = "5D41402ABC4B2A76B9719D911017C592"  # G-89
    system.body_encoding = Encoding.IDENTITY
    system.message_type = MessageType.NORMAL
    system.born_timestamp.FromMilliseconds(BORN)
    system.born_host = "10.1.2.3"
    system.store_timestamp.FromMilliseconds(STORED)
    system.store_host = "10.1.2.4:10911"
    system.receipt_handle = "handle"
    system.queue_id = 3
    system.queue_offset = 9
    system.delivery_attempt = 1
    assert message == expected
    assert not message.system_properties.HasField("tag")


def test_properties_become_fields_and_the_users_own_stay() -> None:
    message = delivered(
        popped(
            {
                names.UNIQ_KEY: "01AC",
                names.TAGS: "new",
                names.KEYS: "order-17 ann ",
                names.SHARDING_KEY: "customer-3",
                names.TRACE_CONTEXT: "trace",
                names.BORN_HOST: "laptop",
                names.BORN_TIMESTAMP: "5",
                names.DLQ_ORIGIN_TOPIC: "orders",
                names.DLQ_ORIGIN_MESSAGE_ID: "01AB",
                names.PRODUCER_GROUP: "T",
                names.WAIT: "true",
                "colour": "red",
            },
            tries=16,
        ),
        NOW,
        None,
    )
    system = message.system_properties
    assert dict(message.user_properties) == {
        "colour": "red", "__SHARDINGKEY": "customer-3", "TRACE_CONTEXT": "trace",
    }  # fmt: skip
    assert (system.tag, list(system.keys)) == ("new", ["order-17", "ann"])
    assert (system.message_group, system.message_type) == ("customer-3", MessageType.FIFO)
    assert (system.trace_context, system.born_host) == ("trace", "laptop")
    assert system.dead_letter_queue == pb.DeadLetterQueue(topic="orders", message_id="01AB")
    assert system.delivery_attempt == 17
    assert not system.HasField("receipt_handle")
    assert not system.HasField("delivery_timestamp")


@pytest.mark.parametrize(
    ("value", "priority"), [("0", 0), ("7", 7), ("-1", None), ("high", None), (None, None)]
)
def test_a_priority_becomes_a_field(value: str | None, priority: int | None) -> None:
    message = delivered(popped({} if value is None else {names.PRIORITY: value}), NOW, None)
    system = message.system_properties
    assert (system.priority if system.HasField("priority") else None) == priority
    assert not message.user_properties


def test_a_message_without_an_id_of_its_own_has_that_of_its_place() -> None:
    message = delivered(popped(), NOW, None)
    assert message.system_properties.message_id == "0A01020400002A9F00000000000D8000"


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, MessageType.NORMAL),
        ({names.TRANSACTION_PREPARED: "true", names.DELAY: "1"}, MessageType.TRANSACTION),
        ({names.TRANSACTION_PREPARED: "false"}, MessageType.NORMAL),
        ({names.DELAY: "3", names.SHARDING_KEY: "g"}, MessageType.DELAY),
        ({names.TIMER_DELIVER_MS: "1"}, MessageType.DELAY),
        ({names.TIMER_DELAY_SEC: "1"}, MessageType.DELAY),
        ({names.TIMER_DELAY_MS: "1"}, MessageType.NORMAL),  # as the real one, which forgot it
        ({names.SHARDING_KEY: "g", names.PRIORITY: "1"}, MessageType.FIFO),
        ({names.PRIORITY: "1"}, MessageType.PRIORITY),
    ],
)
def test_the_kind_of_a_message_is_seen_by_its_properties(
    properties: dict[str, str], kind: MessageType
) -> None:
    assert type_of(properties) is kind


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [
        ({names.TIMER_DELIVER_MS: "1700000001234"}, 1_700_000_001_234),
        ({names.TIMER_DELAY_SEC: "7", names.TIMER_DELIVER_MS: "5"}, NOW + 7_000),
        ({names.TIMER_DELIVER_MS: "soon"}, None),
        ({names.TIMER_DELAY_SEC: "1e9"}, None),
        ({names.TIMER_DELIVER_MS: "9" * 400}, 253_402_300_799_999),
        ({names.TIMER_DELIVER_MS: "-5"}, 0),
    ],
)
def test_when_it_was_to_be_delivered(properties: dict[str, str], due_ms: int | None) -> None:
    system = delivered(popped(properties), NOW, None).system_properties
    assert (due_ms is not None) == system.HasField("delivery_timestamp")
    if due_ms is not None:
        assert system.delivery_timestamp.ToMilliseconds() == due_ms


@pytest.mark.parametrize(
    ("topic", "split"),
    [
        ("orders", ("", "orders")),
        ("ns%orders", ("ns", "orders")),
        ("%RETRY%group", ("", "%RETRY%group")),
        ("%RETRY%ns%group", ("ns", "%RETRY%group")),
        ("%DLQ%ns%group", ("ns", "%DLQ%group")),
        ("%orders", ("", "%orders")),
        ("a%b%c", ("a", "b%c")),
    ],
)
def test_a_topic_is_split_at_its_namespace(topic: str, split: tuple[str, str]) -> None:
    assert split_namespace(topic) == split
    resource = delivered(popped(topic=topic), NOW, None).topic
    assert (resource.resource_namespace, resource.name) == split


def test_what_a_remoting_producer_compressed_is_inflated_for_every_sdk() -> None:
    message = delivered(popped(body=zlib.compress(b"hello"), sys_flag=1), NOW, None)
    assert message.body == b"hello"
    system = message.system_properties
    assert system.body_encoding == Encoding.IDENTITY
    assert system.body_digest.checksum == "5D41402ABC4B2A76B9719D911017C592"


def test_what_cannot_be_inflated_is_sent_as_the_real_proxy_does() -> None:
    stored = gzip.compress(b"hello", mtime=0)
    message = delivered(popped(body=stored, sys_flag=1), NOW, None)
    assert message.body == stored
    system = message.system_properties
    assert system.body_encoding == Encoding.GZIP
    assert system.body_digest.checksum == hashlib.md5(stored).hexdigest().upper()


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x01\x02\x00"), min_size=1, max_size=20
)


@given(
    st.dictionaries(TEXTS | st.sampled_from(sorted(names.RESERVED)), TEXTS, max_size=12),
    st.binary(max_size=50),
    st.sampled_from([0, 1, 0x101, 0x701, 4, 8, 12]),
    st.integers(-(2**63), 2**63 - 1),
)
def test_any_record_becomes_a_message(
    properties: dict[str, str], body: bytes, sys_flag: int, born_ms: int
) -> None:
    message = delivered(popped(properties, body, sys_flag=sys_flag, born_ms=born_ms), NOW, "handle")
    read: Any = pb.Message.FromString(message.SerializeToString())
    assert not HIDDEN & set(read.user_properties)
    digest = hashlib.md5(read.body).hexdigest().upper()
    assert read.system_properties.body_digest.checksum == digest

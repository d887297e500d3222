"""Hypothesis strategies that speak PocketMQ: names, messages, records.

    from support.strategies import messages, record_fields, topics

Everything drawn is legal: it passes `pocketmq.protocol.messages.validation` and fits its
field on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.messages.properties import RESERVED
from pocketmq.protocol.scalars import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, MessageSysFlag
from pocketmq.protocol.stored.record import encode_record

NAME_ALPHABET = "ABCXYZabcxyz0189_-%|"

int32s = st.integers(INT32_MIN, INT32_MAX)
"""Any Java int."""
int64s = st.integers(INT64_MIN, INT64_MAX)
"""Any Java long."""
queue_ids = st.integers(0, 15)
offsets = st.integers(0, INT64_MAX)
"""Queue or commit log offsets."""
timestamps_ms = st.integers(0, 4_102_444_800_000)
"""Epoch ms until the year 2100."""


def names(max_chars: int) -> st.SearchStrategy[str]:
    """Legal topic and group names, short ones mostly."""
    return st.text(NAME_ALPHABET, min_size=1, max_size=max_chars).filter(
        lambda name: not name.startswith(("%RETRY%", "%DLQ%"))
    )


topics = names(127)
groups = names(120).filter(lambda name: not name.startswith("DEFAULT_"))
broker_names = st.sampled_from(["broker-a", "broker-b", "broker-c"])
tags = st.sampled_from(["TagA", "TagB", "TagC", "Aa", "BB", "\u822a\u73ed"])
"""Some tags; Aa and BB share their Java hash."""
unicode_texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20
)
"""Text that a property may hold: UTF-8 can write it, and it holds no separator."""
property_maps = st.dictionaries(
    unicode_texts.filter(lambda name: name not in RESERVED), unicode_texts, max_size=6
)
"""Application properties."""
bodies = st.binary(min_size=1, max_size=300)

ipv4_hosts = st.tuples(st.ip_addresses(v=4).map(str), st.integers(0, 65535))
ipv6_hosts = st.tuples(
    st.ip_addresses(v=6).map(str).filter(lambda ip: not ip.startswith("::ffff:")),
    st.integers(0, 65535),
)
hosts = ipv4_hosts | ipv6_hosts
"""(ip, port), either family."""
packed_hosts = hosts.map(lambda host: pack_host(*host))
"""8 or 20 bytes, as records hold them."""

queues = st.builds(MessageQueue, topics, broker_names, queue_ids)


@st.composite
def messages(draw: st.DrawFn, *, topic: str | None = None, max_body_bytes: int = 300) -> Message:
    """Messages that a producer may send, to any topic or to the one named."""
    return Message(
        draw(topics) if topic is None else topic,
        draw(st.binary(min_size=1, max_size=max_body_bytes)),
        tags=draw(st.none() | tags),
        keys=draw(st.none() | st.lists(names(12), min_size=1, max_size=3)),
        delay_level=draw(st.sampled_from([0, 0, 0, 1, 3, 18])),
        flag=draw(int32s),
        properties=draw(property_maps),
        wait_store_ok=draw(st.booleans()),
    )


@st.composite
def batches(draw: st.DrawFn, *, max_messages: int = 5) -> list[Message]:
    """Messages that may travel in one batch: one topic, one WAIT, no delay."""
    topic, wait = draw(topics), draw(st.booleans())
    one = st.builds(
        lambda body, flag, tag, properties: Message(
            topic, body, flag=flag, tags=tag, properties=properties, wait_store_ok=wait
        ),
        bodies,
        int32s,
        st.none() | tags,
        property_maps,
    )
    return draw(st.lists(one, min_size=1, max_size=max_messages))


_any_topics = topics | names(255)


@dataclass(frozen=True)
class RecordFields:
    """What `encode_record` takes, under the same names; `encode()` makes the record."""

    topic: bytes = b"TopicA"
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 1_700_000_000_000
    born_host: bytes = pack_host("127.0.0.1", 50000)
    store_timestamp_ms: int = 1_700_000_000_001
    store_host: bytes = pack_host("127.0.0.1", 10911)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body: bytes = b"body"
    properties: bytes = b""

    def encode(self, **changes: Any) -> bytes:
        """The record's bytes, with some fields changed."""
        fields = replace(self, **changes) if changes else self
        return encode_record(**vars(fields))


def record_fields(
    *, topic: st.SearchStrategy[str] = _any_topics
) -> st.SearchStrategy[RecordFields]:
    """Fields of any legal record: V1 and V2 topics, IPv4 and IPv6 hosts, bodies as stored."""
    return st.builds(
        RecordFields,
        topic=topic.map(str.encode),
        queue_id=queue_ids,
        flag=int32s,
        queue_offset=offsets,
        physical_offset=offsets,
        sys_flag=st.sampled_from(
            [
                MessageSysFlag.TRANSACTION_NONE,
                MessageSysFlag.MULTI_TAGS,
                MessageSysFlag.TRANSACTION_PREPARED,
                MessageSysFlag.TRANSACTION_COMMIT,
                MessageSysFlag.TRANSACTION_ROLLBACK,
            ]
        ),
        born_timestamp_ms=timestamps_ms,
        born_host=packed_hosts,
        store_timestamp_ms=timestamps_ms,
        store_host=packed_hosts,
        reconsume_times=st.integers(0, 20),
        prepared_transaction_offset=offsets,
        body=st.binary(max_size=300),
        properties=property_maps.map(
            lambda found: "".join(f"{k}\x01{v}\x02" for k, v in found.items()).encode()
        ),
    )


@st.composite
def mutated(draw: st.DrawFn, original: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were sound once: some overwritten, cut out or put in."""
    data = bytearray(draw(original))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        size = draw(st.integers(0, 8))
        data[at : at + size] = draw(
            st.binary(min_size=size, max_size=size)
            | st.binary(max_size=8)
            | st.sampled_from(
                [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"]
            )
        )
    return bytes(data)

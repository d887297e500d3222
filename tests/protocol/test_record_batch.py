"""Records of a batch are those of single messages, byte for byte (S-5, S-14)."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.store import QueueBatch, StoredMessage
from pocketmq.protocol.errors import RecordError
from pocketmq.protocol.stored.record import record_parts, topic_field
from pocketmq.protocol.stored.record_batch import KeyedProperties, batch_lengths, batch_records
from support.batches import batch_of

NOW_MS = 1_700_000_000_000
V4, V6 = b"\x7f\0\0\1\0\0\x2a\x9f", bytes(range(20))


def stored(body: bytes, properties: bytes, host: bytes, flag: int) -> StoredMessage:
    return StoredMessage("T", 3, body, properties, flag, 0, NOW_MS - 5, host, V4, 2)


@st.composite
def batches(draw: st.DrawFn) -> list[StoredMessage]:
    """Messages of equal lengths, or of any."""
    are_alike = draw(st.booleans())
    size = draw(st.integers(1, 40))
    lengths = st.just(size) if are_alike else st.integers(1, 40)
    host, count = draw(st.sampled_from((V4, V6))), draw(st.integers(1, 8))
    flag = st.integers(-(2**31), 2**31 - 1)
    flags = st.just(draw(flag)) if draw(st.booleans()) else flag
    return [
        stored(
            draw(st.binary(min_size=(n := draw(lengths)), max_size=n)),
            draw(st.binary(min_size=n, max_size=n)),
            host,
            draw(flags),
        )
        for _ in range(count)
    ]


def records_of(batch: QueueBatch, topic: bytes) -> tuple[list[int], bytes]:
    lengths = batch_lengths(batch, topic)
    offsets, records = batch_records(batch, lengths, topic, 7, 1 << 40, NOW_MS)
    assert lengths.total == len(records)
    return offsets, records


def one_by_one(messages: list[StoredMessage], topic: bytes) -> tuple[list[int], bytes]:
    """What `records_of` is to give, from the records of single messages."""
    offset, expected, sizes = 1 << 40, b"", []
    for number, message in enumerate(messages):
        size, parts = record_parts(message, topic, 7 + number, offset, NOW_MS)
        expected += b"".join(parts)
        sizes.append(size)
        offset += size
    return list(accumulate(sizes[:-1], initial=1 << 40)), expected


@given(batches(), st.sampled_from((b"T", b"t" * 200)))
def test_each_record_is_that_of_a_single_message(
    messages: list[StoredMessage], topic: bytes
) -> None:
    topic = topic_field(topic)
    assert records_of(batch_of(messages), topic) == one_by_one(messages, topic)


@pytest.mark.parametrize("topic", [b"T", b"t" * 127, b"t" * 128])
@pytest.mark.parametrize("texts", [(b"p", b"q"), (b"p", b"qr")])
@pytest.mark.parametrize("bodies", [(b"a", b"b"), (b"a", b"bc")])
def test_bodies_and_properties_may_each_be_equally_long(
    bodies: tuple[bytes, ...], texts: tuple[bytes, ...], topic: bytes
) -> None:
    messages = [stored(*parts, V4, 0) for parts in zip(bodies, texts, strict=True)]
    topic = topic_field(topic)
    assert records_of(batch_of(messages), topic) == one_by_one(messages, topic)


@given(batches(), st.binary(max_size=5), st.binary(max_size=5))
def test_properties_that_differ_in_one_value_make_the_same_records(
    messages: list[StoredMessage], before: bytes, behind: bytes
) -> None:
    keyed, whole, topic = batch_of(messages), batch_of(messages), topic_field(b"T")
    keyed.properties = KeyedProperties(before, keyed.properties, behind)
    whole.properties = list(keyed.properties)
    assert keyed.properties[1:] == whole.properties[1:]
    assert len(keyed.properties) == len(messages)
    assert batch_lengths(keyed, topic) == batch_lengths(whole, topic)
    assert records_of(keyed, topic) == records_of(whole, topic)
    alike = batch_lengths(whole, topic).are_alike and len(set(whole.flags)) == 1
    if alike:
        keyed.is_uniform = True
        assert batch_lengths(keyed, topic) == batch_lengths(whole, topic)
        assert records_of(keyed, topic) == records_of(whole, topic)


def test_many_messages_with_long_shared_properties_make_the_same_records() -> None:
    before, behind, topic = b"a" * 30, b"b" * 30, topic_field(b"T")
    bodies = [b"body %02d" % n for n in range(12)]
    keys = [b"key %02d" % n for n in range(12)]
    keyed = batch_of([stored(*parts, V4, 0) for parts in zip(bodies, keys, strict=True)])
    keyed.properties = KeyedProperties(before, keys, behind)
    texts = [before + key + behind for key in keys]
    messages = [stored(*parts, V4, 0) for parts in zip(bodies, texts, strict=True)]
    assert records_of(keyed, topic) == one_by_one(messages, topic)


def test_bodies_that_are_views_make_the_same_records() -> None:
    messages = [stored(b"body", b"k\1v\2", V4, 0)] * 3
    views = batch_of(messages)
    views.bodies = [memoryview(message.body) for message in messages]
    topic = topic_field(b"T")
    assert records_of(views, topic) == records_of(batch_of(messages), topic)


@pytest.mark.parametrize("bodies", [(b"a", b"b"), (b"a", b"bc")])
def test_a_value_that_does_not_fit_is_told(bodies: tuple[bytes, bytes]) -> None:
    batch = batch_of([stored(body, b"", V4, 0) for body in bodies])
    batch.flags[1] = 1 << 31
    with pytest.raises(RecordError, match="does not fit into its field"):
        records_of(batch, topic_field(b"T"))

"""The body of SEND_BATCH_MESSAGE (E-47; fault 31)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import BatchError, IllegalMessageError
from pocketmq.protocol.messages.batch import decode_batch, encode_batch, first_entry, keyed_entries
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.properties import decode_properties, encode_properties
from support.strategies import batches, mutated

JAVA_BATCH = bytes.fromhex(
    "00000021 00000000 00000000 00000000 00000001 78 000a 57414954 01 74727565 02" * 2
)


def test_a_batch_is_javas_byte_for_byte():
    assert encode_batch([Message("T", b"x"), Message("T", b"x")]) == JAVA_BATCH


def test_a_batch_that_java_wrote_is_split():
    assert decode_batch(JAVA_BATCH) == [(0, b"x", b"WAIT\x01true\x02")] * 2


@given(batches())
def test_messages_come_back_from_a_batch(batch):
    body = encode_batch(batch)
    for data in (body, memoryview(body)):
        entries = decode_batch(data)
        assert len(entries) == len(batch)
        for entry, message in zip(entries, batch, strict=True):
            assert entry.flag == message.flag
            assert bytes(entry.body) == message.body
            assert type(entry.properties) is bytes
            assert decode_properties(entry.properties.decode()) == message.properties


@given(
    st.integers(1, 9).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n), min_size=1)),
    st.integers(0, 1),
)
def test_messages_of_equal_lengths_are_read_as_others_are(bodies, extra):
    alike = encode_batch([Message("T", body) for body in bodies])
    mixed = alike + encode_batch([Message("T", b"x" * (10 + extra))])
    expected = [(0, body, b"WAIT\x01true\x02") for body in bodies]
    assert decode_batch(alike) == expected
    assert decode_batch(mixed)[:-1] == expected


@given(
    st.integers(1, 9).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n), min_size=1)),
    st.sampled_from(("", "more")),
    st.booleans(),
)
def test_messages_that_differ_in_one_value_are_cut_at_once(bodies, more, is_mixed):
    value_at = len("k\x01")
    values = [f"{n:03d}" for n in range(len(bodies))]
    messages = [
        Message("T", body, properties={"k": value, "other": more})
        for body, value in zip(bodies, values, strict=True)
    ]
    if is_mixed:
        messages.append(Message("T", bodies[0], properties={"k": "000", "other": more[1:] + "x"}))
    body = encode_batch(messages)
    first = first_entry(memoryview(body))
    assert first == decode_batch(body)[0]
    entries = keyed_entries(memoryview(body), first, value_at, 3)
    if is_mixed:
        assert entries is None
        return
    cut = [entries.before + value + entries.behind for value in entries.values]
    assert [(0, *each) for each in zip(entries.bodies, cut, strict=True)] == decode_batch(body)
    assert entries.values == [value.encode() for value in values]


@given(st.binary(max_size=60) | mutated(batches().map(encode_batch)))
def test_the_first_message_of_arbitrary_bytes_is_read_or_not_there(data):
    first = first_entry(data)
    try:
        entries = decode_batch(data)
    except BatchError:
        return
    assert first == entries[0]


@given(batches(), st.data())
def test_a_batch_cut_inside_a_message_is_refused_whole(batch, data):
    body = encode_batch(batch)
    ends = {len(encode_batch(batch[:count])) for count in range(1, len(batch) + 1)}
    cut = data.draw(st.integers(0, len(body)).filter(lambda at: at not in ends))
    with pytest.raises(BatchError) as caught:
        decode_batch(body[:cut])
    assert caught.value.code == 13
    assert 0 <= caught.value.at <= cut


@given(st.binary(max_size=200) | mutated(batches().map(encode_batch)))
def test_arbitrary_bytes_raise_only_batch_errors(data):
    try:
        entries = decode_batch(data)
    except BatchError:
        return
    assert sum(22 + len(entry.body) + len(entry.properties) for entry in entries) == len(data)


def entry(total: int, body_len: int, properties_len: int, rest: bytes) -> bytes:
    head = b"".join(n.to_bytes(4, "big", signed=True) for n in (total, 0, 0, 0, body_len))
    return head + rest[:1] + properties_len.to_bytes(2, "big", signed=True) + rest[1:]


@pytest.mark.parametrize(
    "bad",
    [
        entry(24, 1, 2, b"xp"),
        entry(23, 1, 1, b"x"),
        entry(2**31 - 1, 1, 0, b"x"),
        entry(-1, 1, 0, b"x"),
        entry(0, 1, 0, b"x"),
        entry(21, 1, 0, b"x"),
        entry(23, 2**31 - 1, 0, b"x"),
        entry(23, -1, 0, b"x"),
        entry(23, 0, 0, b"x"),
        entry(23, 1, -1, b"x"),
        entry(23, 1, 32767, b"x"),
        b"\0",
    ],
)
def test_one_wrong_length_refuses_the_whole_batch(bad):  # fault 31: all or none
    with pytest.raises(BatchError):
        decode_batch(bad)
    with pytest.raises(BatchError) as caught:
        decode_batch(JAVA_BATCH + bad)
    assert caught.value.at == len(JAVA_BATCH)


def test_empty_messages_are_refused():  # fault 31: a million of them costs one look
    nothing = bytes.fromhex("00000016" + "00" * 18)
    with pytest.raises(BatchError, match="has 0 bytes, but must have at least 1 byte"):
        decode_batch(nothing * 190_000)


def test_properties_too_long_for_an_entry_are_refused():
    text = encode_properties({"k": "v" * 32766})
    message = Message("T", b"x", properties=decode_properties(text))
    with pytest.raises(IllegalMessageError, match="at most 32767 bytes"):
        encode_batch([message])


def test_a_batch_of_nothing_is_refused():
    for nothing in (b"", memoryview(b"")):
        with pytest.raises(BatchError, match="it holds no message") as caught:
            decode_batch(nothing)
        assert caught.value.at == 0


def test_the_longest_properties_fit():  # S-6
    message = Message("T", b"x", properties={"WAIT": "true", "k": "v" * (32767 - 10 - 3)})
    [entry] = decode_batch(encode_batch([message]))
    assert len(entry.properties) == 32767


@pytest.mark.parametrize("count", [1, 511, 512, 513, 600])
def test_any_number_of_messages_comes_back(count):
    batch = [Message("T", b"%03d" % number, flag=number) for number in range(count)]
    entries = decode_batch(encode_batch(batch))
    assert [(entry.flag, entry.body) for entry in entries] == [
        (message.flag, message.body) for message in batch
    ]

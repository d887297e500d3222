"""The stored record, byte for byte (S-5, S-6)."""

import gc
import mmap
import pickle
import re
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.protocol.errors import RecordError
from pocketmq.protocol.hosts import host_text
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import FIXED_SIZE, MAGIC_V1, MAGIC_V2, store_time_ms
from pocketmq.protocol.stored.record import (
    crc,
    decode_record,
    decode_records,
    encode_blank,
    encode_record,
    pack_host,
    queue_offsets,
)
from pocketmq.protocol.stored.record_check import RecordKind, check_record
from support.cost import peak_bytes
from support.strategies import RecordFields, mutated, packed_hosts, record_fields

JAVA_RECORD = bytes.fromhex(
    "0000006a daa320a7 3610a686 00000001 00000000 0000000000000002 0000000000000003 00000000"
    "0000000000000004 7f00000100000001 0000000000000005 7f00000100002a9f 00000000"
    "0000000000000000 00000005 68656c6c6f 06 546f70696341 0004 6b017602"
)
""": topic=TopicA body=hello q=1 qoff=2 phy=3 born=4@127.0.0.1:1 store=5@...:10911."""


def test_a_record_is_javas_byte_for_byte():
    assert (
        encode_record(
            topic=b"TopicA",
            queue_id=1,
            flag=0,
            queue_offset=2,
            physical_offset=3,
            sys_flag=0,
            born_timestamp_ms=4,
            born_host=pack_host("127.0.0.1", 1),
            store_timestamp_ms=5,
            store_host=pack_host("127.0.0.1", 10911),
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=b"hello",
            properties=b"k\x01v\x02",
        )
        == JAVA_RECORD
    )


def test_a_record_that_java_wrote_is_read_field_by_field():
    message = decode_record(JAVA_RECORD, broker_name="broker-a")
    assert message.topic == "TopicA"
    assert message.broker_name == "broker-a"
    assert message.body == b"hello"
    assert message.body_size == 5
    assert bytes(message.raw_body) == b"hello"
    assert message.properties == {"k": "v"}
    assert (message.queue_id, message.queue_offset, message.commit_log_offset) == (1, 2, 3)
    assert (message.born_timestamp_ms, message.born_host) == (4, "127.0.0.1:1")
    assert (message.store_timestamp_ms, message.store_host) == (5, "127.0.0.1:10911")
    assert (message.flag, message.sys_flag, message.reconsume_times) == (0, 0, 0)
    assert message.prepared_transaction_offset == 0
    assert message.store_size == len(JAVA_RECORD) == 106
    assert message.body_crc == crc(b"hello") == 907060870
    assert message.offset_msg_id == "7F00000100002A9F0000000000000003"
    assert message.msg_id == message.offset_msg_id


def test_the_fixed_part_has_91_bytes_and_12_more_for_each_ipv6_host():  # S-5
    fields = RecordFields(topic=b"", body=b"")
    assert len(fields.encode()) == FIXED_SIZE == 91
    v4, v6 = pack_host("127.0.0.1", 1), pack_host("::1", 1)
    sizes = [len(fields.encode(born_host=v6, store_host=host)) for host in (v4, v6)]
    assert sizes == [103, 115]


def test_a_topic_over_127_bytes_makes_a_v2_record():  # S-5
    def magic(topic: bytes) -> int:
        return int.from_bytes(RecordFields(topic=topic).encode()[4:8], "big", signed=True)

    assert magic(b"t" * 127) == MAGIC_V1 == -626843481
    assert magic(b"t" * 128) == MAGIC_V2 == -626843477


def test_a_crc_never_has_its_top_bit():  # S-16
    body = next(b for b in (bytes([n]) for n in range(256)) if zlib.crc32(b) > 0x7FFFFFFF)
    assert crc(body) == zlib.crc32(body) - 0x80000000


def assert_same(message: MessageExt, fields: RecordFields) -> None:
    assert message.topic.encode() == fields.topic
    assert message.queue_id == fields.queue_id
    assert message.flag == fields.flag
    assert message.queue_offset == fields.queue_offset
    assert message.commit_log_offset == fields.physical_offset
    assert message.sys_flag & ~MessageSysFlag.HOSTS_V6_MASK == fields.sys_flag
    assert message.born_timestamp_ms == fields.born_timestamp_ms
    assert message.packed_born_host == fields.born_host
    assert message.born_host == host_text(fields.born_host)
    assert message.store_timestamp_ms == fields.store_timestamp_ms
    assert message.packed_store_host == fields.store_host
    assert message.reconsume_times == fields.reconsume_times
    assert message.prepared_transaction_offset == fields.prepared_transaction_offset
    assert message.body == fields.body
    assert message.properties == decode_properties(fields.properties.decode())
    assert message.body_crc == crc(fields.body)


@given(st.lists(record_fields(), max_size=4), st.binary(max_size=5))
def test_records_come_back_as_they_were_written(many, before):
    encoded = [fields.encode() for fields in many]
    reply = b"".join(encoded)
    for buffer in (reply, memoryview(reply), bytearray(reply)):
        messages = decode_records(buffer, broker_name="b")
        assert len(messages) == len(many)
        assert queue_offsets(buffer) == [message.queue_offset for message in messages]
        for message, fields, record in zip(messages, many, encoded, strict=True):
            assert_same(message, fields)
            assert bytes(message.record) == record
            assert message.store_size == len(record)
            assert store_time_ms(record[:FIXED_SIZE]) == fields.store_timestamp_ms
    at = len(before)
    for fields, record in zip(many, encoded, strict=True):
        assert_same(decode_record(before + reply, at), fields)
        at += len(record)


@given(record_fields(), packed_hosts, packed_hosts)
def test_the_v6_bits_say_how_long_the_hosts_are(fields, born_host, store_host):  # E-42
    record = fields.encode(
        born_host=born_host, store_host=store_host, sys_flag=MessageSysFlag.HOSTS_V6_MASK
    )
    message = decode_record(record)
    assert bool(message.sys_flag & MessageSysFlag.BORN_HOST_V6) == (len(born_host) == 20)
    assert bool(message.sys_flag & MessageSysFlag.STORE_HOST_V6) == (len(store_host) == 20)
    assert (message.packed_born_host, message.packed_store_host) == (born_host, store_host)


ARBITRARY = st.binary(max_size=400) | mutated(
    st.lists(record_fields(), min_size=1, max_size=2).map(
        lambda many: b"".join(fields.encode() for fields in many)
    )
)


@given(ARBITRARY, st.integers(0, 8))
@example(b"", 0)
@example(JAVA_RECORD[:-1], 0)
def test_bytes_that_are_no_record_raise_only_record_errors(data, at):  # fault 29
    for read in (lambda: decode_records(data), lambda: [decode_record(data, at)]):
        try:
            messages = read()
        except RecordError:
            continue
        for message in messages:
            # What decodes is self-consistent: lazy parts need not fail later.
            assert len(message.raw_body) == message.body_size
            assert isinstance(message.properties, dict)
            assert message.born_host
            assert message.store_host
            assert message.msg_id


@given(record_fields(), st.data())
def test_a_record_cut_anywhere_is_refused(fields, data):
    record = fields.encode()
    cut = data.draw(st.integers(0, len(record) - 1))
    with pytest.raises(RecordError):
        decode_record(record[:cut])


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"\x7f\xff\xff\xff"),  # TOTALSIZE 2 GiB
        (0, b"\xff\xff\xff\xff"),  # ... negative
        (0, b"\0\0\0\x69"),  # ... one too short
        (84, b"\x7f\xff\xff\xff"),  # body length 2 GiB
        (84, b"\xff\xff\xff\xff"),
        (84, b"\0\0\0\x06"),
        (93, b"\x7f"),  # topic length
        (93, b"\xff"),
        (100, b"\x7f\xff"),  # properties length
        (100, b"\xff\xff"),
        (4, b"\xcb\xd4\x31\x94"),  # a blank's magic
        (4, b"\xda\xa3\x20\xab"),  # V2's magic on a V1 record
        (94, b"\xff\xfe"),  # topic that is no UTF-8
        (36, b"\0\0\0\x30"),  # says its hosts are IPv6
    ],
)
def test_a_wrong_length_or_magic_is_refused_and_nothing_is_allocated_for_it(at, value):
    data = bytearray(JAVA_RECORD)
    data[at : at + len(value)] = value
    broken = bytes(data)

    def refused() -> None:
        with pytest.raises(RecordError):
            decode_record(broken)

    refused()
    assert peak_bytes(lambda: [refused() for _ in range(10)]) < 100_000
    assert check_record(memoryview(broken), 0).kind is not RecordKind.RECORD


SMALLEST = RecordFields(topic=b"", body=b"", properties=b"").encode()


def test_the_smallest_records_are_read():  # S-5
    assert len(SMALLEST) == FIXED_SIZE
    assert queue_offsets(SMALLEST + JAVA_RECORD + SMALLEST) == [0, 2, 0]
    messages = decode_records(SMALLEST + JAVA_RECORD + SMALLEST)
    assert [(each.topic, each.body) for each in messages] == [
        ("", b""),
        ("TopicA", b"hello"),
        ("", b""),
    ]
    with pytest.raises(RecordError, match="90 bytes"):
        queue_offsets(JAVA_RECORD + SMALLEST[:-1])


@pytest.mark.parametrize("length", [127, 128, 255, 256, 0x7FFF, 0xFFFF])
def test_a_topic_may_be_as_long_as_its_field_tells(length):  # S-5
    record = RecordFields(topic=b"t" * length).encode()
    message = decode_record(record)
    assert message.topic == "t" * length
    assert record[4:8] == (MAGIC_V1 if length < 128 else MAGIC_V2).to_bytes(4, "big", signed=True)
    assert len(record) == len(RecordFields(topic=b"").encode()) + length + (length > 127)


def test_a_topic_longer_than_that_is_refused():
    with pytest.raises(RecordError, match="a topic of 65536 bytes"):
        RecordFields(topic=b"t" * 0x10000).encode()


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (93, b"\x80", "a V1 topic of 128 bytes"),
        (4, b"\xcb\xd4\x31\x94", "MAGICCODE 0xcbd43194 is no message"),
        (84, b"\x7f\xff\xff\xff", "the body has 2147483647 bytes"),
    ],
)
def test_what_is_wrong_with_a_record_is_told(at, value, says):
    data = bytearray(JAVA_RECORD)
    data[at : at + len(value)] = value
    with pytest.raises(RecordError, match=says):
        decode_record(bytes(data))


@pytest.mark.parametrize(
    ("body_size", "says"),
    [
        (1, "the topic \\(0 bytes\\) and the properties do not end where"),
        (2, "inside the field that contains the topic's length"),  # of whose two bytes one is left
        (3, "the body has 3 bytes and does not fit into the record, which has 91"),
    ],
)
def test_what_is_missing_at_the_end_of_a_v2_record_is_told(body_size, says):
    data = bytearray(SMALLEST)
    data[4:8] = MAGIC_V2.to_bytes(4, "big", signed=True)
    data[84:88] = body_size.to_bytes(4, "big")
    with pytest.raises(RecordError, match=says):
        decode_record(bytes(data))


@pytest.mark.parametrize(("born", "store"), [(8, 9), (20, 0)])
def test_hosts_of_other_lengths_are_refused(born, store):
    with pytest.raises(
        RecordError, match=f"born host has {born} bytes and the store host has {store} bytes"
    ):
        RecordFields().encode(born_host=bytes(born), store_host=bytes(store))


@pytest.mark.parametrize("left", [b"\0", bytes(200), b"\xff" * 91])
def test_offsets_are_not_read_of_what_is_no_record(left):
    with pytest.raises(RecordError):
        queue_offsets(JAVA_RECORD + left)


def test_what_is_noted_is_read_as_text_and_splits_nothing_before():
    message = decode_record(JAVA_RECORD)
    message.note("A", 7)
    message.note_all({"B": 8, "k": "new"})
    assert (message.noted("A"), message.noted("B"), message.noted("k2")) == (7, 8, None)
    assert message.properties == {"k": "new", "A": "7", "B": "8"}
    assert message.noted("A") is None
    message.note_all({"A": 9})
    message.note("B", 10)
    assert message.properties == {"k": "new", "A": "9", "B": "10"}


def test_messages_share_a_note_and_a_further_one_of_one_of_them_is_its_own():
    first, second = decode_records(JAVA_RECORD * 2)
    bounds: dict[str, object] = {"MIN_OFFSET": 0}
    for message in (first, second):
        message.note_all(bounds)
    first.note("A", 1)
    first.note_all({"B": 2})
    assert first.properties == {"k": "v", "MIN_OFFSET": "0", "A": "1", "B": "2"}
    assert second.properties == {"k": "v", "MIN_OFFSET": "0"}
    assert bounds == {"MIN_OFFSET": 0}
    third, _ = decode_records(JAVA_RECORD * 2, notes=bounds)
    third.note("A", 1)
    assert third.properties == {"k": "v", "MIN_OFFSET": "0", "A": "1"}
    assert bounds == {"MIN_OFFSET": 0}


@pytest.mark.parametrize("split_first", [False, True])
def test_the_start_of_consumption_is_a_property_whenever_they_are_split(split_first):  # C-54
    message = decode_record(JAVA_RECORD)
    if split_first:
        assert message.properties == {"k": "v"}
    message.note_consume_start(1_700_000_000_000)
    assert message.properties == {"k": "v", "CONSUME_START_TIME": "1700000000000"}
    message.note_consume_start(1_700_000_000_001)
    assert message.properties["CONSUME_START_TIME"] == "1700000000001"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_body_is_bytes_whatever_it_is_cut_from(kind):
    message = decode_record(kind(JAVA_RECORD))
    assert (type(message.body), message.body) == (bytes, b"hello")


def test_messages_are_compared_by_identity_and_cost_the_garbage_collector_nothing():
    first, second = decode_records(JAVA_RECORD * 2)
    again = decode_record(JAVA_RECORD)
    assert first != again
    assert len({first, second, again}) == 3
    assert not gc.is_tracked(first)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_properties_hold_is_found_without_splitting_them(kind):
    first, second = decode_records(kind(JAVA_RECORD * 2))
    assert first.stores(re.compile(b"k\x01v"))
    assert second.stores(re.compile(b"v"))
    assert not first.stores(re.compile(b"hello"))  # which is the body


def test_left_over_bytes_after_the_last_record_are_an_error():
    with pytest.raises(RecordError, match="2 bytes") as caught:
        decode_records(JAVA_RECORD + b"\0\0")
    assert caught.value.at == len(JAVA_RECORD)


def test_an_empty_reply_holds_no_messages():
    assert decode_records(b"") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": bytes(32768)},
        {"topic": bytes(65536)},
        {"queue_id": 2**31},
        {"queue_offset": 2**63},
        {"born_host": b"1234"},
        {"store_host": b""},
    ],
)
def test_a_value_that_does_not_fit_its_field_is_not_written(wrong):
    with pytest.raises(RecordError):
        RecordFields().encode(**wrong)


def test_the_longest_properties_fit():  # S-6
    text = b"k\x01" + b"v" * 32764 + b"\x02"
    assert len(text) == 32767
    assert decode_record(RecordFields(properties=text).encode()).properties["k"] == "v" * 32764


def test_properties_that_are_no_utf8_do_not_stop_a_consumer():
    message = decode_record(RecordFields(properties=b"k\x01\xff\x02TAGS\x01T\x02").encode())
    assert message.properties == {"k": "\ufffd", "TAGS": "T"}


# -- MessageExt keeps views, and lets go when asked


def test_a_message_is_a_view_until_it_is_detached():
    log = mmap.mmap(-1, 4096)
    log[100 : 100 + len(JAVA_RECORD)] = JAVA_RECORD
    message = decode_record(memoryview(log), 100)
    assert message.body == b"hello"
    with pytest.raises(BufferError):  # the message still looks into the map
        log.close()
    message.detach()
    log.close()
    assert message.body == b"hello"
    assert message.properties == {"k": "v"}
    assert message.store_host == "127.0.0.1:10911"
    assert bytes(message.record) == JAVA_RECORD
    assert (bytes(message.raw_body), bytes(message.raw_properties)) == (b"hello", b"k\x01v\x02")
    assert message.prepared_transaction_offset == 0


def test_a_message_crosses_processes_without_the_reply_it_came_in():
    reply = JAVA_RECORD + RecordFields(body=bytes(100_000)).encode()
    message = decode_records(memoryview(reply), broker_name="b")[0]
    message.properties["MIN_OFFSET"] = "0"
    message.topic = "original"
    message.reconsume_times = 3
    pickled = pickle.dumps(message)
    assert len(pickled) < 1000
    copy = pickle.loads(pickled)
    assert (copy.topic, copy.broker_name, copy.reconsume_times) == ("original", "b", 3)
    assert copy.properties == {"k": "v", "MIN_OFFSET": "0"}
    assert copy.body == b"hello"
    assert copy.store_host == "127.0.0.1:10911"


# -- what recovery asks


def test_a_sound_record_is_recognised_with_its_offsets():
    found = check_record(memoryview(JAVA_RECORD + bytes(50)), 0)
    assert found.kind is RecordKind.RECORD
    assert found.size == 106
    assert (found.physical_offset, found.queue_offset, found.store_timestamp_ms) == (3, 2, 5)
    assert found.message is not None
    assert found.message.topic == "TopicA"


def test_a_changed_body_is_corrupt_unless_its_crc_is_not_asked_for():
    broken = JAVA_RECORD.replace(b"hello", b"hellO")
    found = check_record(memoryview(broken), 0)
    assert found.kind is RecordKind.CORRUPT
    assert "BODYCRC" in found.reason
    assert found.physical_offset == -1
    assert check_record(memoryview(broken), 0, check_crc=False).kind is RecordKind.RECORD


@given(st.integers(1, 105))
def test_a_record_whose_end_is_missing_is_torn(cut):
    found = check_record(memoryview(JAVA_RECORD), 0, cut)
    visible = any(JAVA_RECORD[:cut])  # the first three bytes are zeros, as if never written
    assert found.kind is (RecordKind.TORN if visible else RecordKind.END)
    assert found.size == 0


@given(st.integers(0, 105))
def test_a_record_whose_end_was_never_written_is_no_record(cut):  # a pre-allocated file's zeros
    found = check_record(memoryview(JAVA_RECORD[:cut] + bytes(200)), 0)
    assert found.kind is (RecordKind.CORRUPT if any(JAVA_RECORD[:cut]) else RecordKind.END)


def test_zeros_and_the_end_of_the_bytes_are_the_end_of_the_log():
    assert check_record(memoryview(bytes(100)), 0).kind is RecordKind.END
    assert check_record(memoryview(bytes(5)), 0).kind is RecordKind.END
    assert check_record(memoryview(JAVA_RECORD), 106).kind is RecordKind.END


def test_a_blank_fills_the_rest_of_a_file():  # S-14
    file = memoryview(JAVA_RECORD + encode_blank(64) + bytes(56))
    assert file[106:114].hex() == "00000040cbd43194"
    found = check_record(file, 106)
    assert (found.kind, found.size) == (RecordKind.BLANK, 64)
    assert check_record(file, 106, 160).kind is RecordKind.CORRUPT
    assert check_record(memoryview(encode_blank(7)), 0).kind is RecordKind.CORRUPT


@given(ARBITRARY, st.integers(0, 8), st.booleans())
def test_checking_never_raises(data, at, check_crc):
    found = check_record(memoryview(data), at, check_crc=check_crc)
    if found.kind is RecordKind.RECORD:
        assert found.message is not None
        assert found.message.store_size == found.size <= len(data) - at
    else:
        assert found.message is None
    assert bool(found.reason) == (found.kind in (RecordKind.TORN, RecordKind.CORRUPT))

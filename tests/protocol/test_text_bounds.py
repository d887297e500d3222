"""Properties, ids and receipts at their bounds, on the quick ways and on the slow ones."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from pocketmq.protocol.errors import BadRequestError, IllegalNameError
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.ids import (
    UniqKeyFactory,
    offset_msg_id,
    offset_msg_ids,
    offset_of_msg_id,
)
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.properties import (
    KEY_MARK,
    KEYS_MARK,
    decode_alike,
    decode_properties,
    encode_properties,
    priority_of,
    read_alike,
    stored_name,
    stored_value,
)
from pocketmq.protocol.messages.receipts import (
    ORDERED_QUEUE,
    RecallHandle,
    ReceiptHandle,
    parse_start_offset_info,
    user_topic,
)

KEY = "7F00000100A21B2A"
"""Of 16 characters, the least that is looked for in other values."""


@pytest.mark.parametrize(
    ("text", "priority"),
    [
        ("0", 0), ("9", 9), ("+5", 5), ("2147483647", 2147483647), ("2147483648", -1),
        ("9999999999", -1), ("12345678901", -1), ("00000000007", 7), ("000", 0),
        ("-1", -1), ("", -1), ("x", -1),
    ],
)  # fmt: skip
def test_a_priority_is_an_int_of_java_from_0_on(text: str, priority: int) -> None:  # V-1
    assert priority_of({"_SYS_MSG_PRIORITY_": text}) == priority
    assert priority_of({}) == -1


def test_what_messages_have_in_common_has_marks_for_their_keys() -> None:
    text = f"UNIQ_KEY\x01{KEY}\x02TAGS\x01a\x02PLACE\x01at {KEY}\x02KEYS\x01k1 k2\x02"
    alike = read_alike(text)
    assert alike is not None
    assert (alike.uniq_key, alike.keys) == (KEY, "k1 k2")
    assert alike.shared.properties == {
        "UNIQ_KEY": KEY_MARK, "TAGS": "a", "PLACE": f"at {KEY_MARK}", "KEYS": KEYS_MARK,
    }  # fmt: skip
    assert alike.shared.marked == ("UNIQ_KEY", "PLACE", "KEYS")
    other = read_alike(text.replace(KEY, KEY[::-1]).replace("k1 k2", "k3"))
    assert other is not None
    assert (other.uniq_key, other.keys) == (KEY[::-1], "k3")
    assert other.shared is alike.shared


@pytest.mark.parametrize(
    ("text", "uniq_key", "keys"),
    [
        (f"A\x01b\x02UNIQ_KEY\x01{KEY}\x02KEYS\x01k\x02", KEY, "k"),
        (f"KEYS\x01k\x02UNIQ_KEY\x01{KEY}\x02", KEY, "k"),
        (f"\x02KEYS\x01k\x02UNIQ_KEY\x01{KEY}\x02", KEY, "k"),
        (f"\x02UNIQ_KEY\x01{KEY}\x02KEYS\x01k\x02", KEY, "k"),
        (f"UNIQ_KEY\x01{KEY[1:]}\x02", "", ""),
        (f"MY_UNIQ_KEY\x01{KEY}\x02MYKEYS\x01k\x02", "", ""),
        (f"A\x01b\x02MY_UNIQ_KEY\x01{KEY}\x02MYKEYS\x01k\x02", "", ""),
        ("KEYS\x01\x02A\x01b\x02", "", ""),
        ("A\x01b\x02KEYS\x01k", "", ""),
        ("XKEYS\x01k\x02", "", ""),
        (f"XUNIQ_KEY\x01{KEY}\x02", "", ""),
        ("A\x01b\x02", "", ""),
    ],
)
def test_keys_are_found_where_a_property_begins(text: str, uniq_key: str, keys: str) -> None:
    alike = read_alike(text)
    assert alike is not None
    assert (alike.uniq_key, alike.keys) == (uniq_key, keys)
    assert decode_alike(text) == decode_properties(text)


@pytest.mark.parametrize(
    "text",
    [
        f"A\x01{KEY_MARK}\x02", f"A\x01{KEYS_MARK}\x02",
        f"UNIQ_KEY\x01{KEY}\x02{KEY}\x01v\x02",
        "A\x01" + "b" * 510 + "\x02",
    ],
    ids=["mark of the key", "mark of the keys", "a key for a name", "long"],
)  # fmt: skip
def test_what_cannot_be_marked_is_read_as_it_is(text: str) -> None:
    assert read_alike(text) is None
    assert decode_alike(text) == decode_properties(text)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("A\x011\x02BC\x0122\x02", "A", "1"),
        ("A\x011\x02BC\x0122\x02", "BC", "22"),
        ("A\x011\x02BC\x0122", "BC", "22"),
        ("A\x011\x02BC\x0122", "C", None),
        ("A\x011\x02", "B", None),
        ("BC\x011\x02BC\x01\x02", "BC", "1"),
        ("BC\x011\x02BC\x01", "BC", "1"),
        ("BC\x01\x02", "BC", None),
        ("A\x011\x02A\x012\x02", "A", "2"),
    ],
)
def test_one_stored_property_is_as_among_all(text: str, name: str, value: str | None) -> None:
    assert stored_value(b"\x02" + text.encode(), stored_name(name)) == value
    assert decode_properties(text).get(name) == value


HOST = pack_host("127.0.0.1", 10911)
HOST_V6 = pack_host("fe80::1", 10911)


@pytest.mark.parametrize("count", [1, 2, 512, 513])
@pytest.mark.parametrize("host", [HOST, HOST_V6], ids=["IPv4", "IPv6"])
def test_ids_of_a_batch_are_those_of_its_messages(host: bytes, count: int) -> None:
    offsets = [7 * number for number in range(count)]
    expected = ",".join(offset_msg_id(host, offset) for offset in offsets)
    assert offset_msg_ids(host, offsets) == expected


@pytest.mark.parametrize("host", [HOST, HOST_V6], ids=["IPv4", "IPv6"])
def test_an_offset_is_read_out_of_its_id(host: bytes) -> None:
    assert offset_of_msg_id(offset_msg_id(host, 123_456_789_012)) == 123_456_789_012


@pytest.mark.parametrize("text", ["", "x" * 32, "7" * 31, "x" * 56, "-" * 32])
def test_an_offset_is_read_out_of_nothing_else(text: str) -> None:
    with pytest.raises(IllegalNameError):
        offset_of_msg_id(text)


def test_the_time_of_keys_is_that_of_the_clock_however_many_are_made() -> None:
    now_ms = [1_700_000_000_000]
    make = UniqKeyFactory("127.0.0.1", 1, lambda: now_ms[0], salt=0)
    first = make()
    for _ in range(3):
        now_ms[0] += 1
        for _ in range(30_000):
            last = make()
    assert int(last[20:28], 16) - int(first[20:28], 16) == 3


@pytest.mark.parametrize(
    ("topic", "plain"),
    [
        ("%RETRY%g_orders", "orders"), ("%RETRY%g+orders", "orders"),
        ("%RETRY%g_", "%RETRY%g_"), ("%RETRY%g", "%RETRY%g"), ("%RETRY%other_orders",) * 2,
        ("a topic with a long name",) * 2,
    ],
    ids=["by _", "by +", "nothing behind", "of pulls", "of another", "plain"],
)  # fmt: skip
def test_the_topic_behind_a_retry_topic(topic: str, plain: str) -> None:  # K-15
    assert user_topic(topic, "g") == plain


def test_orderly_pops_have_rocketmqs_revive_queue() -> None:
    assert ORDERED_QUEUE == 999  # KeyBuilder.POP_ORDER_REVIVE_QUEUE


HANDLE = "0 1700000000000 10000 3 0 broker 1 42"


@pytest.mark.parametrize(
    ("at", "word", "reason"),
    [
        (0, str(2**63), "start offset"), (1, "12x", "pop time"), (2, "", "invisible time"),
        (3, str(2**31), "revive queue"), (4, "--1", "retry mark"), (6, str(-(2**31) - 1), "queue"),
        (7, "\u0663", "queue offset"),
    ],
)  # fmt: skip
def test_a_number_of_a_handle_fits_its_field(at: int, word: str, reason: str) -> None:  # K-46
    words = HANDLE.split(" ")
    words[at] = word
    with pytest.raises(BadRequestError, match=f"the {reason}"):
        ReceiptHandle.parse(" ".join(words))


def test_a_number_of_a_handle_may_have_a_sign() -> None:
    read = ReceiptHandle.parse("+7 1700000000000 10000 3 0 broker -1 42")
    assert (read.start_offset, read.queue_id) == (7, -1)
    wide = ReceiptHandle.parse(f"{2**63 - 1} 1 1 {2**31 - 1} 0 broker {-(2**31)} {-(2**63)}")
    assert (wide.start_offset, wide.queue_offset) == (2**63 - 1, -(2**63))


@pytest.mark.parametrize("length", range(1, 9))
def test_a_recall_handle_may_lack_its_padding(length: int) -> None:
    handle = RecallHandle(topic="t" * length, broker_name="b", due_ms=7, uniq_key="k")
    text = handle.encode()
    assert RecallHandle.decode(text) == RecallHandle.decode(text.rstrip("=")) == handle


def test_a_recall_handle_may_have_more_words_than_it_needs() -> None:
    text = urlsafe_b64encode(b"v1 t b 7 k more").decode()
    assert RecallHandle.decode(text) == RecallHandle(
        topic="t", broker_name="b", due_ms=7, uniq_key="k"
    )


def test_a_queue_that_is_named_twice_is_told() -> None:  # K-38
    with pytest.raises(BadRequestError, match="two entries for queue 5 with retry mark 0"):
        parse_start_offset_info("0 5 1;0 5 2")


def test_properties_may_hold_what_is_no_ascii() -> None:
    text = encode_properties({"A": "\u00e4\u4e2d"})
    assert stored_value(b"\x02" + text.encode(), stored_name("A")) == "\u00e4\u4e2d"


def test_a_message_equals_no_other_thing() -> None:
    assert Message("T", b"x") == Message("T", b"x")
    assert (Message("T", b"x") == "T") is False

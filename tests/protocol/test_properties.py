"""The property string (S-6)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.properties import (
    add_to_stored,
    decode_alike,
    decode_properties,
    encode_again,
    encode_properties,
    stored_name,
    stored_value,
)
from support.strategies import property_maps


def test_properties_are_written_as_java_writes_them():
    assert encode_properties({"k": "v"}) == "k\x01v\x02"
    assert encode_properties({"WAIT": "true"}).encode().hex() == "57414954017472756502"
    assert encode_properties({}) == ""


def test_what_java_drops_is_dropped():
    assert decode_properties("a\x011\x02b\x01\x02c\x012") == {"a": "1", "c": "2"}


@pytest.mark.parametrize("text", ["", "\x02", "\x01\x02", "\x01v\x02", "k\x02", "kv", "k\x01\x02"])
def test_entries_without_name_or_value_do_not_count(text):  # S-6
    assert decode_properties(text) == {}


def test_a_value_may_hold_the_first_separator_when_a_peer_wrote_it():
    assert decode_properties("a\x01b\x01c\x02") == {"a": "b\x01c"}
    assert encode_again({"a": "b\x01c", "d": "e"}) == "a\x01b\x01c\x02d\x01e\x02"


@given(st.text("ab\x01\x02"))
def test_what_was_read_is_written_so_that_it_is_read_again(text):
    found = decode_properties(text)
    assert decode_properties(encode_again(found)) == found


def test_a_broker_writes_them_in_the_order_of_javas_map():  # S-6
    # As RocketMQ 5.3.3 stored them: tests/golden/rewritten.json.
    ordered = [
        "TIMER_DELAY_SEC",
        "TIMER_OUT_MS",
        "MSG_REGION",
        "TIMER_DELIVER_MS",
        "UNIQ_KEY",
        "CLUSTER",
        "TIMER_ENQUEUE_MS",
        "TIMER_DELAY_MS",
        "DELAY",
        "TAGS",
        "apple",
        "KEYS",
        "WAIT",
        "zebra",
        "TRACE_ON",
        "TIMER_DEQUEUE_MS",
        "REAL_TOPIC",
        "REAL_QID",
    ]
    assert (
        list(decode_properties(encode_again(dict.fromkeys(sorted(ordered, reverse=True), "x"))))
        == ordered
    )
    revived = [
        "zebra",
        "apple",
        "TRACE_ON",
        "MSG_REGION",
        "KEYS",
        "UNIQ_KEY",
        "CLUSTER",
        "1ST_POP_TIME",
        "WAIT",
        "TAGS",
    ]
    given = {name: "x" for name in ("TAGS", *ordered, "1ST_POP_TIME") if name in revived}
    assert list(decode_properties(encode_again(given, 16))) == revived


@given(
    stored=st.text("abcdAZ\x01\x02", max_size=40),
    added=st.dictionaries(st.text("abcdAZ", min_size=1), st.text("xy\x01", min_size=1), min_size=1),
)
@example(stored="\x01Z\x01A\x02", added={"A": "x"})
def test_what_is_added_to_stored_ones_stands_where_a_map_has_it(stored, added):
    expected = encode_again(decode_properties(stored) | added)
    assert add_to_stored(stored.encode(), added).decode() == expected


@given(property_maps)
def test_properties_come_back_in_their_order(found):
    text = encode_properties(found)
    assert list(decode_properties(text).items()) == list(found.items())
    assert decode_properties(text[:-1]) == found  # the last separator may be missing


@given(st.dictionaries(st.text("ab\x01\x02"), st.text("ab\x01\x02")))
def test_a_property_cannot_forge_another(found):
    try:
        text = encode_properties(found)
    except IllegalMessageError:
        assert any(c in name + value for name, value in found.items() for c in "\x01\x02")
        return
    assert decode_properties(text) == {k: v for k, v in found.items() if k and v}


KEY = "7F0000014BCDC3E8D7D847B760000004"
PIECES = st.sampled_from(
    [
        "UNIQ_KEY",
        "KEYS",
        "__transactionId__",
        "TAGS",
        KEY,
        "short",
        "a",
        "\x01",
        "\x02",
        "\x03",
        "\x04",
    ]
)


@given(st.lists(PIECES, max_size=24).map("".join))
def test_a_property_read_alone_or_from_memory_is_the_same_as_with_all(text):
    found = decode_properties(text)
    for _ in range(2):  # the second time it is remembered
        assert list(decode_alike(text).items()) == list(found.items())
    for name in ("UNIQ_KEY", "KEYS", "TAGS", "a"):
        stored = f"\x02{text}".encode()
        assert stored_value(stored, stored_name(name)) == found.get(name)


def test_messages_that_are_alike_have_their_own_keys():
    for n in range(3):
        key = f"{KEY[:-1]}{n}"
        found = {"TAGS": "x", "UNIQ_KEY": key, "KEYS": f"{n} {key}", "__transactionId__": key}
        read = decode_alike(encode_properties(found))
        assert read == found
        read["TAGS"] = "changed by whoever reads it"


def test_the_name_that_holds_a_separator_is_told():
    with pytest.raises(IllegalMessageError, match="'route'"):
        encode_properties({"ok": "1", "route": "a\x02b\x01c"})


def test_reserved_names_are_rocketmqs():  # E-44
    # Pinned: it is made from the module's constants, so one that goes would let users set its name.
    assert " ".join(sorted(names.RESERVED)) == (
        "1ST_POP_TIME ARRIVE_TIME BORN_TIMESTAMP BUYER_ID CHECK_IMMUNITY_TIME_IN_SECONDS "
        "CLUSTER CONSUME_START_TIME CORRECTION_FLAG CORRELATION_ID DELAY DLQ_ORIGIN_MESSAGE_ID "
        "DLQ_ORIGIN_TOPIC DUP_INFO EXTEND_UNIQ_INFO INNER_BASE INNER_MULTI_DISPATCH "
        "INNER_MULTI_QUEUE_OFFSET INNER_NUM INSTANCE_ID KEYS MAX_OFFSET MAX_RECONSUME_TIMES "
        "MIN_OFFSET MQ2_FLAG MSG_REGION MSG_TYPE ORIGIN_GROUP ORIGIN_MESSAGE_ID PGROUP POP_CK "
        "POP_CK_OFFSET PROPERTY_FORWARD_QUEUE_ID PUSH_REPLY_TIME REAL_QID REAL_TOPIC "
        "RECONSUME_TIME REDIRECT REPLY_TO_CLIENT RETRY_TOPIC TAGS TIMER_DELAY_LEVEL "
        "TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_DEL_UNIQKEY TIMER_DEQUEUE_MS "
        "TIMER_ENQUEUE_MS TIMER_OUT_MS TIMER_ROLL_TIMES TRACE_CONTEXT TRACE_ON "
        "TRANSACTION_CHECK_TIMES TRANSFER_FLAG TRAN_MSG TRAN_PREPARED_QUEUE_OFFSET TTL UNIQ_KEY "
        "WAIT _SYS_MSG_PRIORITY_ __BORNHOST __CRC32# __SHARDINGKEY __transactionId__"
    )

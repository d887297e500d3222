"""Messages and queues as applications see them."""

import msgspec
import pytest

from pocketmq.protocol.compression import CompressionKind, compress
from pocketmq.protocol.errors import BodyTooLargeError, IllegalMessageError
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.stored.record import decode_record
from support.strategies import RecordFields


def test_arguments_become_properties():
    message = Message(
        "flights", b"x", tags="UA", keys=["N14228", "UA1545"], delay_level=3, properties={"a": "b"}
    )
    assert message.properties == {
        "a": "b",
        "KEYS": "N14228 UA1545",
        "TAGS": "UA",
        "DELAY": "3",
        "WAIT": "true",
    }
    assert message.tags == "UA"
    assert message.keys == "N14228 UA1545"
    assert message.key_list == ["N14228", "UA1545"]
    assert message.delay_level == 3
    assert message.wait_store_ok
    assert message.uniq_key is None
    assert message.get_property("a") == "b"
    assert message.get_property("b", "none") == "none"


@pytest.mark.parametrize(
    ("when", "property_name", "text"),
    [
        ({"delay_level": 1}, "DELAY", "1"),
        ({"delay_ms": 0}, "TIMER_DELAY_MS", "0"),
        ({"deliver_at": 5000}, "TIMER_DELIVER_MS", "5000"),
        ({"priority": 0}, "_SYS_MSG_PRIORITY_", "0"),
    ],
)
def test_each_way_to_be_late_is_one_property(when, property_name, text):  # B-91, B-96, V-1
    message = Message("T", b"x", **when)
    assert message.properties == {property_name: text, "WAIT": "true"}


@pytest.mark.parametrize(
    "when",
    [
        {"delay_level": 1, "delay_ms": 5},
        {"delay_level": 1, "deliver_at": 5},
        {"delay_ms": 5, "deliver_at": 5},
    ],
)
def test_a_message_has_one_time(when):
    with pytest.raises(IllegalMessageError, match="give only one of"):
        Message("T", b"x", **when)
    for name, value in when.items():
        assert Message("T", b"x", priority=7, **{name: value}).priority == 7


def test_a_message_has_flag_0_and_no_priority_below_0():  # V-1
    assert Message("T", b"x").flag == 0
    with pytest.raises(IllegalMessageError, match="the priority must be 0 or more, but is -1"):
        Message("T", b"x", priority=-1)


def test_a_message_is_no_text():
    assert (Message("T", b"x") == "T") is False
    assert (Message("T", b"x") == Message("T", b"x")) is True


def test_keys_may_be_one_text_and_a_wait_that_is_said_stays():
    message = Message("T", b"x", keys="k1 k2", flag=7, properties={"WAIT": "false"})
    assert message.properties == {"KEYS": "k1 k2", "WAIT": "false"}
    assert (message.flag, message.properties_text()) == (7, "WAIT\x01false\x02KEYS\x01k1 k2\x02")
    assert message != Message("T", b"x", keys="k1 k2", properties={"WAIT": "false"})


def test_a_bare_message_has_no_tag_no_keys_and_no_delay():
    message = Message("T", b"x", wait_store_ok=False)
    assert (message.tags, message.keys, message.key_list, message.delay_level) == (
        None,
        None,
        [],
        0,
    )
    assert not message.wait_store_ok
    assert message.properties == {"WAIT": "false"}


def test_views_follow_the_properties():
    message = Message("T", b"x")
    message.properties["TAGS"] = "A"
    message.properties["DELAY"] = "not a number"
    assert message.tags == "A"
    assert message.delay_level == 0


def test_messages_do_not_share_the_callers_dict():
    given = {"a": "b"}
    message = Message("T", b"x", properties=given)
    message.properties["c"] = "d"
    assert given == {"a": "b"}


def test_user_properties_may_not_take_reserved_names():  # E-44
    message = Message("T", b"x")
    message.put_user_property("carrier", "UA")
    assert message.properties["carrier"] == "UA"
    for name, value in [("TAGS", "A"), ("", "x"), ("x", "")]:
        with pytest.raises(IllegalMessageError):
            message.put_user_property(name, value)


def test_equal_messages_are_equal():
    assert Message("T", b"x", tags="A") == Message("T", b"x", properties={"TAGS": "A"})
    assert Message("T", b"x") != Message("T", b"y")
    assert Message("T", b"x") != "T"
    assert "3 bytes" in repr(Message("T", b"xyz"))


def test_queues_sort_by_topic_broker_and_number():
    queues = [
        MessageQueue("T", "b", 2),
        MessageQueue("T", "a", 10),
        MessageQueue("S", "z", 0),
        MessageQueue("T", "a", 9),
    ]
    assert [(q.topic, q.broker_name, q.queue_id) for q in sorted(queues)] == [
        ("S", "z", 0),
        ("T", "a", 9),
        ("T", "a", 10),
        ("T", "b", 2),
    ]


def test_a_queue_is_a_key_and_prints_as_in_rocketmq():
    assert {MessageQueue("T", "a", 1): 5}[MessageQueue("T", "a", 1)] == 5
    assert str(MessageQueue("T", "a", 1)) == "MessageQueue [topic=T, brokerName=a, queueId=1]"


def test_a_queue_is_a_wire_body():
    assert msgspec.json.encode(MessageQueue("T", "a", 1), order="sorted") == (
        b'{"brokerName":"a","queueId":1,"topic":"T"}'
    )


@pytest.mark.parametrize("legacy", [True, False], ids=["4.9", "5.x"])
def test_a_compressed_body_is_inflated_on_first_use_and_kept(legacy):  # E-42
    plain = b"flight" * 2000
    record = RecordFields(
        body=compress(plain), sys_flag=1 if legacy else CompressionKind.ZLIB.sys_flag
    ).encode()
    message = decode_record(record)
    assert message.body_size == len(message.raw_body) < len(plain)
    assert message.body == plain
    assert message.body is message.body


def test_a_body_that_would_grow_too_large_is_not_inflated():  # fault 30
    record = RecordFields(body=compress(bytes(5_000_000)), sys_flag=1).encode()
    message = decode_record(record)
    with pytest.raises(BodyTooLargeError, match="raise the consumer's max_body_bytes"):
        _ = message.body
    assert len(decode_record(record, max_body_bytes=5_000_000).body) == 5_000_000


def test_the_message_id_is_the_producers_when_there_is_one():
    text = encode_properties({"UNIQ_KEY": "ABC", "KEYS": "k1 k2"}).encode()
    message = decode_record(RecordFields(properties=text).encode())
    assert message.msg_id == message.uniq_key == "ABC"
    assert len(message.offset_msg_id) == 32
    assert message.key_list == ["k1", "k2"]


def test_a_received_message_can_be_sent_on():
    text = encode_properties({"TAGS": "A", "WAIT": "false"}).encode()
    message = decode_record(RecordFields(properties=text, flag=7).encode(), broker_name="b")
    again = message.to_message("%RETRY%g")
    assert again == Message("%RETRY%g", b"body", tags="A", flag=7, wait_store_ok=False)
    assert message.to_message().topic == "TopicA"
    assert message.queue == MessageQueue("TopicA", "b", 0)
    assert "queue_offset=0" in repr(message)

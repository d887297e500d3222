"""A reply as it is pushed to the requester, and as it is stored (R-11, R-13)."""

from __future__ import annotations

import pytest

from pocketmq.broker.replies.reply_messages import pushed, requester_of, stored
from pocketmq.broker.sending.stamp import traced
from pocketmq.protocol.headers.send import SendMessageRequestHeader
from pocketmq.protocol.messages.properties import decode_properties, encode_properties

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))


def header(**properties: str) -> SendMessageRequestHeader:
    return SendMessageRequestHeader(
        producer_group="repliers", topic="C_REPLY_TOPIC", default_topic="TBW102",
        default_topic_queue_nums=4, queue_id=-1, sys_flag=1, born_timestamp=123, flag=7,
        properties=encode_properties(properties), reconsume_times=2, unit_mode=True,
    )  # fmt: skip


def test_the_requester_stands_in_a_property() -> None:
    assert requester_of(header(REPLY_TO_CLIENT="10.0.0.1@7")) == "10.0.0.1@7"
    assert requester_of(header(TAGS="a")) is None


def test_a_pushed_reply_has_its_senders_fields_and_the_time() -> None:
    told = pushed(header(TAGS="a"), "10.0.0.2:1", "10.0.0.3:2", 456, traced(region_is_stored=True))
    assert decode_properties(told.properties) == {
        "TAGS": "a", "PUSH_REPLY_TIME": "456", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    assert (told.producer_group, told.topic, told.default_topic) == (
        "repliers", "C_REPLY_TOPIC", "TBW102",
    )  # fmt: skip
    assert (told.default_topic_queue_nums, told.queue_id, told.sys_flag) == (4, -1, 1)
    assert (told.born_timestamp, told.flag, told.reconsume_times) == (123, 7, 2)
    assert (told.unit_mode, told.store_timestamp) == (True, 456)
    assert (told.born_host, told.store_host) == ("10.0.0.2:1", "10.0.0.3:2")


@pytest.mark.parametrize(("wait", "waits"), [("true", True), ("false", False)])
def test_a_stored_reply_has_no_flags_of_the_system(wait: str, waits: bool) -> None:
    message = stored(
        header(TAGS="a", KEYS="k", UNIQ_KEY="u", WAIT=wait),
        b"body",
        3,
        HOST,
        HOST[::-1],
        traced(region_is_stored=True),
    )
    assert (message.topic, message.queue_id, message.body) == ("C_REPLY_TOPIC", 3, b"body")
    assert (message.sys_flag, message.flag, message.reconsume_times) == (0, 7, 2)
    assert (message.born_timestamp_ms, message.born_host) == (123, HOST)
    assert (message.store_host, message.tags_code) == (HOST[::-1], 97)  # Java's hash of "a"
    assert (message.keys, message.uniq_key, message.wait_store_ok) == ("k", "u", waits)
    assert decode_properties(message.properties.decode())["TAGS"] == "a"

"""Preparer: what becomes of messages before they are sent."""

from __future__ import annotations

import pytest

from pocketmq.client import Message, MessageQueue
from pocketmq.client.producer.prepare import Preparer
from pocketmq.client.producer.settings import ProducerSettings
from pocketmq.protocol import properties as names
from pocketmq.protocol.batch import encode_batch
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.headers.replies import (
    SendReplyMessageRequestHeader,
    SendReplyMessageRequestHeaderV2,
)
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.message import MessageSysFlag
from pocketmq.runtime.profile import PROFILE_5_X

QUEUE = MessageQueue("T", "a", 3)


def preparer(**settings: object) -> Preparer:
    return Preparer(
        "P",
        PROFILE_5_X.client,
        ProducerSettings(**settings),  # type: ignore[arg-type]
        new_uniq_key=lambda: "KEY",
        time_ms=lambda: 17,
    )


def test_a_half_message_is_marked() -> None:
    message = Message("T", b"x")
    assert preparer().message(message).sys_flag == 0
    message.properties[names.TRANSACTION_PREPARED] = "true"
    assert preparer().message(message).sys_flag == MessageSysFlag.TRANSACTION_PREPARED


def test_the_counts_of_a_retry_travel_in_the_header() -> None:  # C-55
    for topic, times in [("%RETRY%g", 2), ("%OTHER%g", 0), ("T", 0)]:
        message = Message(topic, b"x")
        message.properties[names.RECONSUME_TIME] = "2"
        found = preparer().message(message)
        assert (found.reconsume_times, names.RECONSUME_TIME in message.properties) == (
            times,
            not times,
        )


def test_a_batch_may_be_as_large_as_the_limit_and_no_larger() -> None:  # P-49
    messages = [Message("T", b"1"), Message("T", b"22")]
    size = len(preparer().batch(messages).body)
    assert preparer(max_message_size=size).batch(messages).body == encode_batch(messages)
    with pytest.raises(IllegalMessageError, match=f"{size} bytes, the limit is {size - 1}"):
        preparer(max_message_size=size - 1).batch(messages)


def test_the_header_of_a_batch_says_whether_to_wait_and_nothing_else() -> None:  # P-49
    first, second = Message("T", b"1"), Message("U", b"2")
    found = preparer().batch([first, second])
    assert (found.topic, found.flag, found.sys_flag, found.uniq_key) == ("T", 0, 0, "KEY,KEY")
    assert found.properties == names.encode_properties({names.WAIT: "true"})
    first.properties[names.WAIT] = "false"
    found = preparer().batch([first, second])
    assert found.properties == names.encode_properties({names.WAIT: "false"})
    del first.properties[names.WAIT]
    assert preparer().batch([first, second]).properties == ""


@pytest.mark.parametrize("smart", [True, False])
def test_the_header_s_class_follows_the_setting(smart: bool) -> None:
    made = preparer(send_smart_msg=smart)
    reply = Message("T", b"x")
    reply.properties[names.MESSAGE_TYPE] = names.REPLY_TYPE
    plain, answer = Message("T", b"x"), made.message(reply)
    assert type(made.header(made.message(plain), QUEUE)) is (
        SendMessageRequestHeaderV2 if smart else SendMessageRequestHeader
    )
    assert type(made.header(answer, QUEUE)) is (
        SendReplyMessageRequestHeaderV2 if smart else SendReplyMessageRequestHeader
    )

"""What is refused before it is sent (P-20..P-24, P-49, fault 32)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import IllegalMessageError, IllegalNameError
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.messages.validation import (
    NOT_ALLOWED_SEND,
    SYSTEM_TOPICS,
    check_batch,
    check_client_group,
    check_group,
    check_message,
    check_send_topic,
    check_topic,
    dlq_topic,
    is_dlq,
    is_folder_name,
    is_retry,
    is_system_group,
    is_system_topic,
    retry_topic,
)
from support.strategies import batches, groups, messages, topics

EVIL_NAMES = {
    "empty": "",
    "blank": "   ",
    "parent folder": "../etc/passwd",
    "dots": "..",
    "absolute": "/etc/passwd",
    "backslash": "a\\b",
    "nul": "a\0b",
    "newline at the end": "topic\n",
    "space": "a b",
    "dot": "a.b",
    "at": "a@b",
    "plus": "a+b",
    "cyrillic a": "t\u0430g",
    "full-width A": "\uff21",
    "arabic digit": "t\u0661",
    "combining": "e\u0301",
    "zero width": "a\u200bb",
    "right to left": "\u202eabc",
    "emoji": "\U0001f600",
    "lone surrogate": "\ud800",
    "separator": "a\x01b",
    "128 characters": "t" * 128,
}


@pytest.mark.parametrize("name", EVIL_NAMES.values(), ids=EVIL_NAMES.keys())
def test_an_illegal_topic_is_refused(name):  # P-20, fault 32
    with pytest.raises(IllegalNameError) as caught:
        check_topic(name)
    assert caught.value.name == name
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400
    with pytest.raises(IllegalNameError):
        check_message(Message(name, b"x"))


@pytest.mark.parametrize("name", EVIL_NAMES.values(), ids=EVIL_NAMES.keys())
def test_an_illegal_group_is_refused(name):  # P-23
    with pytest.raises(IllegalNameError):
        check_group(name, max_chars=120)


@given(st.text())
def test_what_passes_can_be_a_folder(name):
    try:
        check_topic(name)
    except IllegalNameError:
        return
    assert name.isascii()
    assert not set(name) & set("/\\.\0 ")
    assert name


@given(topics, groups)
def test_legal_names_pass(topic, group):
    check_topic(topic)
    check_client_group(group, max_chars=120)
    check_topic(retry_topic(group))
    check_topic(dlq_topic(group))


def test_lengths_are_exact_and_follow_the_profile():  # P-20, P-23
    check_topic("t" * 127)
    check_group("g" * 120, max_chars=120)
    with pytest.raises(IllegalNameError, match="longer than 120"):
        check_group("g" * 121, max_chars=120)
    check_group("g" * 255, max_chars=255)
    with pytest.raises(IllegalNameError):
        check_group("g" * 256, max_chars=255)
    long_retry = retry_topic("g" * 248)
    assert len(long_retry) == 255
    check_topic(long_retry)
    with pytest.raises(IllegalNameError):
        check_topic(long_retry + "g")
    with pytest.raises(IllegalNameError):
        check_topic(long_retry, max_retry_chars=127)


@pytest.mark.parametrize("group", ["DEFAULT_PRODUCER", "DEFAULT_CONSUMER"])
def test_a_group_must_be_chosen(group):  # P-23, C-1
    check_group(group, max_chars=120)
    with pytest.raises(IllegalNameError, match="choose a name of your own"):
        check_client_group(group, max_chars=120)


@pytest.mark.parametrize("topic", sorted(NOT_ALLOWED_SEND))
def test_the_brokers_own_topics_take_no_messages(topic):  # P-21
    check_topic(topic)
    with pytest.raises(IllegalNameError, match="system topic of the broker"):
        check_send_topic(topic)


def test_system_topics_and_groups_are_known():  # E-70
    assert NOT_ALLOWED_SEND < SYSTEM_TOPICS
    assert is_system_topic("TBW102")
    assert is_system_topic("rmq_sys_wheel_timer")
    assert not is_system_topic("flights")
    assert is_system_group("CID_RMQ_SYS_TRANS")
    assert is_system_group("CID_RMQ_SYS_other")
    assert not is_system_group("flights")


def test_retry_and_dead_letter_topics_are_named_after_the_group():
    assert retry_topic("g") == "%RETRY%g"
    assert dlq_topic("g") == "%DLQ%g"
    assert is_retry("%RETRY%g")
    assert not is_retry("%DLQ%g")
    assert is_dlq("%DLQ%g")
    assert not is_dlq("g")


@given(messages())
def test_a_legal_message_passes(message):
    check_message(message)
    check_message(message, queue=MessageQueue(message.topic, "b", 0))


def test_a_body_has_1_byte_to_4_mib():  # P-22
    with pytest.raises(IllegalMessageError, match="empty") as caught:
        check_message(Message("T", b""))
    assert caught.value.code == 13
    check_message(Message("T", bytes(4_194_304)))
    with pytest.raises(IllegalMessageError, match="4194305 bytes"):
        check_message(Message("T", bytes(4_194_305)))
    check_message(Message("T", bytes(10)), max_body_bytes=10)


@pytest.mark.parametrize("body", ["text", 7, ["b"], {"a": 1}])
def test_a_body_that_is_no_bytes_is_refused(body):
    with pytest.raises(
        IllegalMessageError, match=rf"must be bytes, but is of type {type(body).__name__}"
    ):
        check_message(Message("T", body))


def test_a_chosen_queue_must_be_the_topics():  # P-24
    with pytest.raises(IllegalMessageError, match="another topic"):
        check_message(Message("T", b"x"), queue=MessageQueue("U", "b", 0))


@given(batches())
def test_a_legal_batch_passes(batch):
    check_batch(batch)


@pytest.mark.parametrize(
    "batch",
    [
        [],
        [Message("T", b"x"), Message("U", b"x")],
        [Message("T", b"x"), Message("T", b"x", wait_store_ok=False)],
        [Message("T", b"x"), Message("T", b"x", delay_level=1)],
        [Message("%RETRY%g", b"x")],
    ],
    ids=["empty", "two topics", "two WAITs", "delayed", "retry topic"],
)
def test_messages_that_cannot_travel_together_are_refused(batch):  # P-49
    with pytest.raises(IllegalMessageError):
        check_batch(batch)


@pytest.mark.parametrize("name", ["a", "...", "a.b", "%RETRY%a b", "é" * 127, "x" * 255, "\ud800"])
def test_a_folder_may_have_this_name(name):
    assert is_folder_name(name) is True


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "a/b", "/../../x", "a\0b", "x" * 256, "é" * 128, "\ud800" * 86]
)
def test_a_name_that_leads_elsewhere_or_is_too_long_is_no_folders(name):
    assert is_folder_name(name) is False


def test_an_applications_group_is_legal_and_says_what_is_wrong():  # P-23, C-1
    check_client_group("g" * 120, max_chars=120)
    for name, says in (
        ("a/b", "has an illegal character"),
        (" ", "is blank"),
        ("g" * 121, "is longer than 120 characters"),
        ("DEFAULT_CONSUMER", "default group name"),
    ):
        with pytest.raises(IllegalNameError, match=says):
            check_client_group(name, max_chars=120)

"""Preparer: what becomes of messages before they are sent."""

from __future__ import annotations

import pytest

from pocketmq.client import Message, MessageQueue
from pocketmq.client.producer.prepare import Preparer
from pocketmq.client.producer.settings import ProducerSettings
from pocketmq.protocol.compression import decompress
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.headers.replies import (
    SendReplyMessageRequestHeader,
    SendReplyMessageRequestHeaderV2,
)
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.message import MessageSysFlag
from pocketmq.runtime.errors import ConfigError

QUEUE = MessageQueue("T", "a", 3)
BODY = b"one two " * 100


def preparer(**settings: object) -> Preparer:
    return Preparer(
        "P",
        ProducerSettings(**settings),  # type: ignore[arg-type]
        new_uniq_key=lambda: "KEY",
        time_ms=lambda: 17,
    )


def test_a_half_message_is_marked() -> None:
    message = Message("T", b"x")
    assert preparer().message(message).sys_flag == 0
    message.properties[names.TRANSACTION_PREPARED] = "true"
    found = preparer().message(message)
    assert found.sys_flag == MessageSysFlag.TRANSACTION_PREPARED
    assert found.properties == names.encode_properties(message.properties)
    assert not found.is_plain, "its header is no other message's"


def test_every_message_has_a_key_and_keeps_the_one_it_has() -> None:  # S-8
    message = Message("T", b"x")
    assert (preparer().message(message).uniq_key, message.properties[names.UNIQ_KEY]) == (
        "KEY",
        "KEY",
    )
    message.properties[names.UNIQ_KEY] = "OWN"
    found = preparer().message(message)
    assert (found.uniq_key, message.properties[names.UNIQ_KEY]) == ("OWN", "OWN")
    assert (found.flag, found.sys_flag) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "flag"),
    [
        ("lz4", 0x101),
        ("zstd", 0x201),
        ("zlib", 0x301),
    ],
)
def test_a_body_of_the_limit_is_compressed(kind: str, flag: int) -> None:  # P-44
    message = Message("T", BODY)
    limit = {"compression": kind, "compress_body_over": len(BODY)}
    found = preparer(**limit).message(message)
    assert found.sys_flag == flag
    assert decompress(found.body, found.sys_flag) == BODY
    above = preparer(**{**limit, "compress_body_over": len(BODY) + 1})
    assert (above.message(message).body, above.message(message).sys_flag) == (BODY, 0)


def test_a_body_is_compressed_as_hard_as_wished() -> None:  # P-44
    sizes = [
        len(
            preparer(compress_body_over=1, compression_level=level).message(Message("T", BODY)).body
        )
        for level in (0, 9)
    ]
    assert sizes[0] > len(BODY) > sizes[1], "level 0 of zlib only wraps"


def test_a_producer_has_rocketmqs_defaults() -> None:  # DefaultMQProducer, ClientConfig
    settings = ProducerSettings()
    assert (settings.send_timeout_ms, settings.retry_times_when_send_failed) == (3000, 2)
    assert (settings.compress_body_over, settings.max_message_size) == (4096, 4 * 1024 * 1024)
    assert settings.default_topic_queue_nums == 4
    assert settings.retry_another_broker_when_not_store_ok is False
    assert settings.send_latency_fault_enable is False
    assert settings.start_detector_enable is False


@pytest.mark.parametrize(
    ("learns", "probes"), [(False, False), (False, True), (True, False), (True, True)]
)
def test_only_who_learns_of_faults_probes(learns: bool, probes: bool) -> None:  # P-38
    settings = ProducerSettings(send_latency_fault_enable=learns, start_detector_enable=probes)
    assert settings.detects_faults is (learns and probes)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose from lz4, zstd, zlib"):
        ProducerSettings(compression="gzip")


def test_the_counts_of_a_retry_travel_in_the_header() -> None:  # C-55
    for topic, times in [("%RETRY%g", 2), ("%OTHER%g", 0), ("T", 0)]:
        message = Message(topic, b"x")
        message.properties[names.RECONSUME_TIME] = "2"
        message.properties[names.MAX_RECONSUME_TIMES] = "5"
        found = preparer().message(message)
        assert (found.reconsume_times, names.RECONSUME_TIME in message.properties) == (
            times,
            not times,
        )
        assert found.max_reconsume_times == (5 if times else None)
        assert found.properties == names.encode_properties(message.properties)


def test_a_batch_may_be_as_large_as_the_limit_and_no_larger() -> None:  # P-49
    messages = [Message("T", b"1"), Message("T", b"22")]
    size = len(preparer().batch(messages).body)
    assert preparer(max_message_size=size).batch(messages).body == encode_batch(messages)
    with pytest.raises(IllegalMessageError, match=f"{size} bytes, but may have at most {size - 1}"):
        preparer(max_message_size=size - 1).batch(messages)


def test_the_header_of_a_batch_says_whether_to_wait_and_nothing_else() -> None:  # P-49
    first, second = Message("T", b"1"), Message("U", b"2")
    found = preparer().batch([first, second])
    assert (found.topic, found.flag, found.sys_flag, found.uniq_key) == ("T", 0, 0, "KEY,KEY")
    assert preparer().header(found, QUEUE).batch is True
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

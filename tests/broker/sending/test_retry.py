"""Where a message goes that could not be consumed."""

from __future__ import annotations

import pytest

from pocketmq.broker.sending.retry import (
    max_reconsume_times,
    plan_send_back,
    resend_goes_to_dlq,
    sent_back,
)
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.stored.record import decode_record, encode_record

HOST = pack_host("127.0.0.1", 10911)
GROUP = SubscriptionGroupConfig(group_name="readers")


def record(reconsume_times: int = 0, text: str = "", **properties: str) -> bytes:
    return encode_record(
        topic=b"orders",
        queue_id=2,
        flag=7,
        queue_offset=5,
        physical_offset=1000,
        sys_flag=0,
        born_timestamp_ms=11,
        born_host=pack_host("10.0.0.1", 99),
        store_timestamp_ms=12,
        store_host=HOST,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=0,
        body=b"hello",
        properties=(encode_properties(properties) + text).encode(),
    )


def test_sixteen_retries_wait_from_10_s_to_2_h_and_then_it_is_given_up() -> None:  # B-83, B-84
    levels = [plan_send_back(times, 0, 16).delay_level for times in range(16)]
    assert levels == list(range(3, 19))
    last = plan_send_back(16, 0, 16)
    assert (last.to_dlq, last.delay_level) == (True, 0)


def test_an_explicit_level_is_kept_and_a_negative_one_gives_up_at_once() -> None:  # B-83
    assert plan_send_back(5, 1, 16).delay_level == 1
    assert plan_send_back(0, -1, 16).to_dlq


@pytest.mark.parametrize(
    ("header", "version", "limit"), [(None, 479, 16), (3, 479, 3), (3, 121, 3), (3, 120, 16)]
)
def test_newer_clients_bring_their_own_limit(  # B-82
    header: int | None, version: int, limit: int
) -> None:
    assert max_reconsume_times(GROUP, header, version) == limit


@pytest.mark.parametrize(
    ("times", "in_5", "in_4_9"), [(15, False, False), (16, False, True), (17, True, True)]
)
def test_a_plain_resend_is_given_up_beyond_the_limit_and_by_4_9_at_it(  # B-86
    times: int, in_5: bool, in_4_9: bool
) -> None:
    assert resend_goes_to_dlq(times, 16, when_equal=False, holds_locks=False) is in_5
    assert resend_goes_to_dlq(times, 16, when_equal=True, holds_locks=False) is in_4_9


def test_a_group_that_holds_locks_has_given_up_when_it_resends() -> None:  # B-86
    assert resend_goes_to_dlq(0, 16, when_equal=False, holds_locks=True)


def test_the_copy_keeps_the_message_and_remembers_where_it_came_from() -> None:  # B-81, B-84
    original = decode_record(record(2, TAGS="TagA", KEYS="k", UNIQ_KEY="U", WAIT="true"))
    message, properties = sent_back(original, "%RETRY%readers", 0, 5, HOST)
    assert (message.topic, message.queue_id, bytes(message.body)) == ("%RETRY%readers", 0, b"hello")
    assert (message.flag, message.born_timestamp_ms) == (7, 11)
    assert message.born_host == pack_host("10.0.0.1", 99)
    assert message.reconsume_times == 3
    most, _ = sent_back(decode_record(record(2**31 - 1)), "%RETRY%readers", 0, 5, HOST)
    assert most.reconsume_times == -(2**31), "as Java counts on"
    assert message.tags_code == 2598919
    assert not message.wait_store_ok
    assert properties == {
        "TAGS": "TagA",
        "KEYS": "k",
        "UNIQ_KEY": "U",
        "WAIT": "false",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": original.offset_msg_id,
        "DELAY": "5",
    }


def test_a_second_copy_keeps_the_first_origin_and_has_no_old_delay() -> None:  # B-81, B-84
    again = record(1, RETRY_TOPIC="first", ORIGIN_MESSAGE_ID="ID1", DELAY="3")
    _, properties = sent_back(decode_record(again), "%DLQ%readers", 0, 0, HOST)
    assert properties["RETRY_TOPIC"] == "first"
    assert properties["ORIGIN_MESSAGE_ID"] == "ID1"
    assert properties["DELAY"] == "0"


def test_a_separator_in_a_value_stays_there() -> None:
    again = decode_record(record(1, text="a\x01b\x01c\x02"))  # RocketMQ and a send take it
    message, properties = sent_back(again, "%RETRY%readers", 0, 0, HOST)
    assert properties["a"] == "b\x01c"
    assert b"a\x01b\x01c\x02" in message.properties

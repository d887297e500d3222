"""Half messages, op records, and what END_TRANSACTION is held against (X-1 to X-21, X-45)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.transactions.half_messages import (
    Outcome,
    add_to_half,
    check_end,
    committed,
    given_up,
    is_half,
    offsets_of,
    op_record,
    outcome_of,
    read_half,
    renewed,
    to_half,
    with_real_topic,
)
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
)
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import decode_properties, encode_properties
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.stored.record import decode_record
from support.golden import wire_frames
from support.half_queue import HERE, half, record


def sent(**more: Any) -> StoredMessage:
    return StoredMessage(
        topic="orders", queue_id=2, body=b"body", properties=b"", flag=0,
        sys_flag=MessageSysFlag.TRANSACTION_PREPARED, born_timestamp_ms=1, born_host=HERE,
        store_host=HERE, uniq_key="key", **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "retries", "expected"),
    [
        ({"TRAN_MSG": "true"}, 0, True),
        ({"TRAN_MSG": "TRUE"}, 0, True),
        ({"TRAN_MSG": "false"}, 0, False),
        ({}, 0, False),
        ({"TRAN_MSG": "true", "DELAY": "3"}, 0, True),
        ({"TRAN_MSG": "true", "DELAY": "3"}, 1, False),
        ({"TRAN_MSG": "true"}, 1, True),
    ],
)
def test_what_is_a_half_message(
    properties: dict[str, str], retries: int, expected: bool
) -> None:  # X-10, B-100
    assert is_half(sent(reconsume_times=retries), properties) is expected


def test_a_half_message_lies_in_the_half_topic_under_its_own_name() -> None:
    message, properties = sent(), {"TRAN_MSG": "true", "PGROUP": "writers", "UNIQ_KEY": "key"}
    to_half(message, properties)
    assert (message.topic, message.queue_id) == (HALF_TOPIC, 0)
    assert MessageSysFlag.transaction_type(message.sys_flag) == 0
    assert decode_properties(message.properties.decode()) == {
        "TRAN_MSG": "true", "PGROUP": "writers", "UNIQ_KEY": "key", "__transactionId__": "key",
        "REAL_TOPIC": "orders", "REAL_QID": "2",
    }  # fmt: skip


@pytest.mark.parametrize("names_transaction", [False, True])
@pytest.mark.parametrize("key", ["key", None])
def test_what_is_added_to_encoded_properties_is_what_a_half_message_has(
    key: str | None, names_transaction: bool
) -> None:
    properties = {"TRAN_MSG": "true", "PGROUP": "writers", "TAGS": "x"}
    slow, quick = sent(), sent()
    slow.uniq_key = quick.uniq_key = key
    quick.properties = encode_properties(properties).encode()
    quick.sys_flag = 0  # whoever calls has taken the bits off
    to_half(slow, properties, names_transaction=names_transaction)
    add_to_half(quick, names_transaction=names_transaction)
    assert quick == slow


LONG = "7F0000011A2B18B4AAC2123456780001"
PIECES = st.sampled_from([
    "REAL_TOPIC\x01", "REAL_QID\x01", "PGROUP\x01", "UNIQ_KEY\x01", "KEYS\x01", "TAGS\x01",
    "WAIT\x01", "DELAY\x01", "__transactionId__\x01", "CHECK_IMMUNITY_TIME_IN_SECONDS\x01",
    "a\x01", "orders", "7", "false", LONG, "\x02", "\x02", "\x02", "\x03", "\x04",
])  # fmt: skip


@given(st.lists(PIECES, max_size=24).map("".join))
@example(
    f"UNIQ_KEY\x01{LONG}\x02KEYS\x017\x02__transactionId__\x01{LONG}\x02REAL_TOPIC\x01orders\x02"
)
@example(f"UNIQ_KEY\x01{LONG}\x02REAL_TOPIC\x01{LONG}\x02")
@example(f"UNIQ_KEY\x01{LONG}\x02KEYS\x017\x02KEYS\x018\x02REAL_TOPIC\x01orders\x02")
def test_a_half_message_read_from_memory_is_the_same_as_read_in_full(text: str) -> None:
    for _ in range(2):  # the second time it is remembered
        read = read_half(record(HALF_TOPIC, 1, {}, text=text))
        found = decode_properties(text)
        assert read.properties == text.encode()
        assert (read.key, read.keys) == (found.get("UNIQ_KEY", ""), found.get("KEYS"))
        traits = read.traits
        assert (traits.topic, traits.queue) == (found.get("REAL_TOPIC", ""), found.get("REAL_QID"))
        assert (traits.group, traits.immunity) == (
            found.get("PGROUP"), found.get("CHECK_IMMUNITY_TIME_IN_SECONDS"),
        )  # fmt: skip
        assert traits.tags_code == tags_code(found.get("TAGS"))
        assert (traits.wait_store_ok, traits.is_delayed) == (
            found.get("WAIT") != "false", "DELAY" in found,
        )  # fmt: skip


def test_a_committed_message_keeps_its_birth_its_flag_and_its_properties() -> None:
    one = half(5, born_ms=7, WAIT="false")
    message = committed(read_half(one))
    assert (message.topic, message.queue_id, message.prepared_transaction_offset) == (
        "orders", 2, 1005,
    )  # fmt: skip
    assert message.sys_flag == MessageSysFlag.TRANSACTION_COMMIT
    assert (message.flag, message.born_timestamp_ms, message.tags_code) == (3, 7, tags_code("new"))
    assert decode_properties(message.properties.decode()) == one.properties
    assert not message.wait_store_ok
    assert committed(read_half(half(5))).wait_store_ok
    of_5_5 = committed(read_half(one), names_real_topic=False)
    assert (of_5_5.topic, of_5_5.queue_id) == ("orders", 2)
    kept = decode_properties(of_5_5.properties.decode())
    assert set(one.properties) - set(kept) == {names.REAL_TOPIC, names.REAL_QUEUE_ID}


def test_what_names_no_topic_cannot_be_committed() -> None:  # bad input
    for properties in ({}, {names.REAL_TOPIC: HALF_TOPIC}, {names.REAL_TOPIC: OP_HALF_TOPIC}):
        with pytest.raises(RequestRefusedError, match="not a half message"):
            committed(read_half(record(HALF_TOPIC, 1, properties)))


def test_a_half_message_stored_again_is_the_same_but_for_what_is_changed() -> None:
    one = half(5, born_ms=7)
    again = renewed(one, {names.TRANSACTION_CHECK_TIMES: "3"})
    assert (again.topic, again.queue_id, again.born_timestamp_ms) == (HALF_TOPIC, 0, 7)
    assert decode_properties(again.properties.decode()) == one.properties | {
        names.TRANSACTION_CHECK_TIMES: "3"
    }
    lost = given_up(one)
    assert (lost.topic, lost.queue_id) == ("TRANS_CHECK_MAX_TIME_TOPIC", 0)


def test_an_op_record_is_offsets_each_followed_by_a_comma() -> None:
    op = op_record("17,18,25,", 0, 9, HERE)
    assert (op.topic, op.body, op.properties) == (
        OP_HALF_TOPIC, b"17,18,25,", b"WAIT\x01true\x02TAGS\x01d\x02",
    )  # fmt: skip
    for body, offsets in ((b"17,18,25,", [17, 18, 25]), (b"4", [4]), (b"", []), (b"x,1,", [1])):
        assert offsets_of(record(OP_HALF_TOPIC, 0, {"TAGS": "d"}, body)) == offsets
    assert offsets_of(record(OP_HALF_TOPIC, 0, {"TAGS": "e"}, b"1,")) == []


# -- END_TRANSACTION ------------------------------------------------------------------------------


def end(one: MessageExt, **changes: Any) -> EndTransactionRequestHeader:
    fields: dict[str, Any] = {
        "producer_group": "writers",
        "tran_state_table_offset": one.queue_offset,
        "commit_log_offset": one.commit_log_offset,
        "commit_or_rollback": 8,
        "msg_id": "key",
    }
    return EndTransactionRequestHeader(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"producer_group": "others"}, "producer group wrong"),
        ({"tran_state_table_offset": 6}, "state table offset wrong"),
        ({"commit_log_offset": 6}, "commit log offset wrong"),
    ],
)
def test_an_end_that_names_another_message_is_refused(
    changes: dict[str, Any], remark: str
) -> None:  # X-21, B-102
    one = half(5)
    check_end(end(one), read_half(one), 0, 6_000)
    with pytest.raises(RequestRefusedError, match=remark):
        check_end(end(one, **changes), read_half(one), 0, 6_000)


def test_after_the_time_it_asked_for_only_an_answer_to_a_check_counts() -> None:  # B-102, 604
    one = half(5, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    check_end(end(one), read_half(one), 10_000, 6_000)
    with pytest.raises(
        RequestRefusedError, match="wait until the broker checks the transaction"
    ) as caught:
        check_end(end(one), read_half(one), 10_001, 6_000)
    assert caught.value.code == 604
    check_end(end(one, from_transaction_check=True), read_half(one), 10_001, 6_000)
    check_end(end(half(5)), read_half(half(5)), 10**9, 6_000)


def test_outcomes_are_0_8_and_12() -> None:
    one = half(5)
    wanted = {0: Outcome.UNKNOWN, 8: Outcome.COMMIT, 12: Outcome.ROLLBACK}
    for number, outcome in wanted.items():
        assert outcome_of(end(one, commit_or_rollback=number)) is outcome
    with pytest.raises(RequestRefusedError, match="commitOrRollback field wrong"):
        outcome_of(end(one, commit_or_rollback=4))


@pytest.mark.parametrize("encoding", ["json", "rocketmq"])
def test_a_question_of_rocketmq_holds_a_record_as_ours_does(encoding: str) -> None:
    frames = dict(wire_frames(encoding))
    [asked] = FrameDecoder().feed(frames["check_transaction_state.oneway.request"])
    header = asked.header(CheckTransactionStateRequestHeader)
    theirs = decode_record(bytes(asked.body_view))
    assert header.topic == HALF_TOPIC
    assert theirs.topic == theirs.properties[names.REAL_TOPIC]
    assert (theirs.queue_offset, theirs.commit_log_offset) == (
        header.tran_state_table_offset,
        header.commit_log_offset,
    )
    assert header.msg_id == header.transaction_id == theirs.properties[names.UNIQ_KEY]
    assert with_real_topic(theirs) == bytes(asked.body_view)


# -- all that a record has ------------------------------------------------------------------------


def of_record(message: StoredMessage) -> tuple[object, ...]:
    return (
        bytes(message.body), message.flag, message.born_timestamp_ms, message.born_host,
        message.store_host, message.reconsume_times,
    )  # fmt: skip


def test_every_copy_has_what_its_producer_gave_it() -> None:
    one = half(5, born_ms=7, KEYS="a b", WAIT="true")
    one.reconsume_times = 2
    one.sys_flag = MessageSysFlag.COMPRESSED
    wanted = (b"body", 3, 7, one.packed_born_host, HERE, 2)
    message = committed(read_half(one))
    assert of_record(message) == wanted
    assert (message.uniq_key, message.keys, message.delay_level) == ("key-5", "a b", 0)
    assert message.sys_flag == MessageSysFlag.COMPRESSED | MessageSysFlag.TRANSACTION_COMMIT
    for copy in (renewed(one, {}), given_up(one)):
        assert of_record(copy) == wanted
        assert (copy.uniq_key, copy.keys) == ("key-5", "a b")
        assert (copy.tags_code, copy.sys_flag) == (tags_code("new"), MessageSysFlag.COMPRESSED)
        assert not copy.wait_store_ok
        assert decode_properties(copy.properties.decode()) == one.properties


def test_every_copy_of_one_with_a_separator_in_a_value_has_it_too() -> None:
    odd = "a\x01b\x01c\x02"  # RocketMQ and a send take it
    real = "REAL_TOPIC\x01orders\x02REAL_QID\x012\x02"
    one = record(HALF_TOPIC, 5, {}, text=real + odd)
    assert renewed(one, {}).properties == given_up(one).properties == (odd + real).encode()
    assert committed(read_half(one)).properties == (real + odd).encode()
    assert committed(read_half(one), names_real_topic=False).properties == odd.encode()


def test_without_a_key_it_has_none() -> None:
    one = record(HALF_TOPIC, 5, {names.REAL_TOPIC: "orders", names.REAL_QUEUE_ID: "2"})
    message = committed(read_half(one))
    assert (message.uniq_key, message.keys, message.tags_code) == (None, None, 0)


@pytest.mark.parametrize(
    ("queue", "number"), [("2", 2), ("0", 0), ("-1", 0), ("x", 0), ("", 0), (None, 0)]
)
def test_a_queue_that_is_none_is_the_first(queue: str | None, number: int) -> None:  # bad input
    properties = {names.REAL_TOPIC: "orders"}
    if queue is not None:
        properties[names.REAL_QUEUE_ID] = queue
    one = record(HALF_TOPIC, 5, properties)
    assert committed(read_half(one)).queue_id == number
    assert decode_record(with_real_topic(one)).queue_id == number


def test_a_question_s_record_is_the_half_message_under_its_own_topic() -> None:
    one = half(5, born_ms=7)
    asked = decode_record(with_real_topic(one))
    assert (asked.topic, asked.queue_id) == ("orders", 2)
    for name in (
        "flag", "queue_offset", "commit_log_offset", "sys_flag", "born_timestamp_ms", "born_host",
        "store_timestamp_ms", "store_host", "reconsume_times", "prepared_transaction_offset",
        "properties", "body",
    ):  # fmt: skip
        assert getattr(asked, name) == getattr(one, name), name


def test_an_op_record_is_a_message_of_its_broker() -> None:
    op = op_record("17,", 3, 9, HERE)
    assert (op.queue_id, op.flag, op.sys_flag, op.born_timestamp_ms) == (3, 0, 0, 9)
    assert (op.born_host, op.store_host, op.tags_code) == (HERE, HERE, tags_code("d"))
    assert not op.wait_store_ok


@pytest.mark.parametrize(
    ("delay", "retries", "expected"), [("0", 1, True), ("x", 1, True), ("1", 1, False)]
)
def test_a_retry_with_a_delay_is_no_half_message(
    delay: str, retries: int, expected: bool
) -> None:
    properties = {"TRAN_MSG": "true", "DELAY": delay}
    assert is_half(sent(reconsume_times=retries), properties) is expected


def test_a_half_message_without_a_key_gets_no_transaction_id() -> None:
    message, properties = sent(), {"TRAN_MSG": "true"}
    message.uniq_key = None
    to_half(message, properties)
    assert "__transactionId__" not in properties
    assert decode_properties(message.properties.decode()) == properties


def test_what_is_no_transaction_flag_stays_when_it_becomes_a_half_message() -> None:
    message = sent()
    message.sys_flag = MessageSysFlag.TRANSACTION_MASK | MessageSysFlag.COMPRESSED
    to_half(message, {})
    assert message.sys_flag == MessageSysFlag.COMPRESSED


@pytest.mark.parametrize(
    ("immunity", "timeout_ms", "longest_ms"),
    [("1", 6_000, 6_000), ("-1", 6_000, 6_000), ("x", 6_000, 6_000), ("10", 6_000, 10_000)],
)
def test_the_longer_of_both_times_counts(
    immunity: str, timeout_ms: int, longest_ms: int
) -> None:  # B-102
    one = half(5, born_ms=100, CHECK_IMMUNITY_TIME_IN_SECONDS=immunity)
    check_end(end(one), read_half(one), 100 + longest_ms, timeout_ms)
    with pytest.raises(RequestRefusedError, match=f"older than {longest_ms} ms"):
        check_end(end(one), read_half(one), 101 + longest_ms, timeout_ms)

    check_end(end(one), read_half(one), 101 + longest_ms, timeout_ms, ends_in_its_time=False)


def test_5_5_takes_its_own_properties_off_wherever_they_stand() -> None:
    first = {names.REAL_TOPIC: "orders", names.REAL_QUEUE_ID: "2", "a": "1"}
    last = {"a": "1", names.REAL_TOPIC: "orders", names.REAL_QUEUE_ID: "2"}
    twice = {names.REAL_QUEUE_ID: "2", "a": "1", names.REAL_TOPIC: "orders"}
    for properties in (first, last, twice, {"a": "1", names.REAL_TOPIC: "orders"}):
        one = read_half(record(HALF_TOPIC, 5, properties))
        found = committed(one, names_real_topic=False).properties
        assert decode_properties(found.decode()) == {"a": "1"}
    text = "REAL_QID\x015\x02a\x011\x02REAL_TOPIC\x01orders\x02REAL_QID\x012\x02"
    one = read_half(record(HALF_TOPIC, 5, {}, text=text))
    assert committed(one, names_real_topic=False).properties == b"a\x011\x02"

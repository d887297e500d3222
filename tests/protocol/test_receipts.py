"""Receipt handles and recall handles, against what RocketMQ's classes write (K-45, R-30)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.bodies.pop import BatchAck, BatchAckBody, QueueAssignments, ack_bits
from pocketmq.protocol.body import decode_body, encode_json
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.messages.receipts import (
    RecallHandle,
    ReceiptHandle,
    marked_topic,
    msg_offset_info,
    order_count_info,
    parse_msg_offset_info,
    parse_start_offset_info,
    pop_retry_topic,
    retry_mark,
    start_offset_info,
    user_topic,
)
from support.java_lines import java_text

POPPED_MS = 1_700_000_000_123

int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
names = st.text("abcXYZ09_-", min_size=1, max_size=12)


def test_a_handle_is_written_as_rocketmq_writes_it() -> None:  # K-45
    handle = ReceiptHandle(7, POPPED_MS, 60_000, 1, 0, "broker-a", 3, 9)
    assert str(handle) == java_text("handle.normal")
    retried = ReceiptHandle(7, POPPED_MS, 60_000, 1, 1, "broker-a", 0, 9)
    assert str(retried) == java_text("handle.v1")
    assert ReceiptHandle.parse(java_text("handle.normal")) == handle
    assert handle.due_ms == POPPED_MS + 60_000
    assert not handle.is_ordered


def test_a_handle_of_an_old_client_lacks_the_offset_and_is_read_with_it() -> None:  # K-46
    text = java_text("handle.short")
    assert ReceiptHandle.parse(text, 9) == ReceiptHandle.parse(java_text("handle.normal"))
    with pytest.raises(BadRequestError, match="7 words"):
        ReceiptHandle.parse(text)


def test_spaces_behind_a_handle_are_no_words() -> None:  # K-45, as Java's split reads them
    text = java_text("handle.normal")
    assert ReceiptHandle.parse(f"{text}  ") == ReceiptHandle.parse(text)
    assert ReceiptHandle.parse(java_text("handle.short") + " ", 9) == ReceiptHandle.parse(text)
    with pytest.raises(BadRequestError, match="0 words"):
        ReceiptHandle.parse("   ")


def test_a_handle_tells_whether_its_pop_keeps_the_order() -> None:  # K-17
    ordered, plain = (
        ReceiptHandle(7, POPPED_MS, 60_000, queue, 0, "broker-a", 3, 9) for queue in (999, 998)
    )
    assert (ordered.is_ordered, plain.is_ordered) == (True, False)


@given(int64s, int64s, int64s, int32s, st.integers(0, 2), names, int32s, int64s)
def test_every_handle_comes_back(
    start: int,
    popped: int,
    invisible: int,
    revive: int,
    mark: int,
    broker: str,
    queue: int,
    at: int,
) -> None:
    handle = ReceiptHandle(start, popped, invisible, revive, mark, broker, queue, at)
    assert ReceiptHandle.parse(str(handle)) == handle


@given(st.text(max_size=80))
def test_any_other_text_is_refused_with_a_remark(text: str) -> None:
    with pytest.raises(BadRequestError, match="receipt handle"):
        ReceiptHandle.parse(f"{text} x")


@pytest.mark.parametrize("word", ["x", "", "1_0", "٣", "9" * 30, "1e3"])
def test_a_handle_with_a_word_that_is_no_number_is_refused(word: str) -> None:
    with pytest.raises(BadRequestError, match="receipt handle"):
        ReceiptHandle.parse(f"7 {word} 60000 1 0 broker-a 3 9")


def test_offsets_of_an_answer_are_written_as_rocketmq_writes_them() -> None:  # K-37
    starts = [((0, 3), 7), ((1, 0), 2)]
    offsets = [((0, 3), [7, 9]), ((1, 0), [2])]
    assert start_offset_info(starts) == java_text("startOffsetInfo")
    assert msg_offset_info(offsets) == java_text("msgOffsetInfo")
    assert parse_start_offset_info(java_text("startOffsetInfo")) == dict(starts)
    assert parse_msg_offset_info(java_text("msgOffsetInfo")) == dict(offsets)
    counts = order_count_info((0, 3), [(8, 1), (10, 2)], 0)
    assert ";".join(counts) == java_text("orderCountInfo")


def test_nothing_in_an_answer_is_no_offsets() -> None:
    assert parse_start_offset_info("") == parse_start_offset_info(None) == {}
    assert parse_msg_offset_info(None) == {}


@pytest.mark.parametrize("text", ["0 3", "0 3 7;0 3 8", "a 3 7", "0 3 7,x", "0 3 7 9"])
def test_malformed_offsets_of_an_answer_are_refused(text: str) -> None:  # K-38
    with pytest.raises(BadRequestError):
        parse_msg_offset_info(text)


def test_retry_topics_and_their_marks() -> None:  # K-12 to K-15
    v1, v2 = pop_retry_topic("TP", "G1"), pop_retry_topic("TP", "G1", v2=True)
    assert (v1, v2) == ("%RETRY%G1_TP", "%RETRY%G1+TP")
    assert [retry_mark(topic) for topic in ("TP", v1, v2, "%RETRY%G1")] == [0, 1, 2, 1]
    for topic in ("TP", v1, v2):
        assert marked_topic("TP", "G1", retry_mark(topic)) == topic
        assert user_topic(topic, "G1") == "TP"
    assert user_topic("%RETRY%G1", "G1") == "%RETRY%G1"
    with pytest.raises(BadRequestError):
        marked_topic("TP", "G1", "3")


def test_a_batch_ack_acks_by_the_distance_from_the_start_offset() -> None:  # K-52
    body = decode_body(java_text("body.BatchAckBody").encode(), BatchAckBody, Encoding.JSON)
    assert body.acks is not None
    [ack] = body.acks
    assert list(ack.offsets()) == [7, 9, 38]
    assert ack_bits([0, 2, 31]) == ack.bits
    assert ack_bits([0, 2]) == "BQ=="
    assert encode_json(body).decode() == java_text("body.BatchAckBody")


@given(st.sets(st.integers(0, 300)))
def test_every_set_of_acks_comes_back(distances: set[int]) -> None:
    ack = BatchAck(
        consumer_group="G", topic="T", retry="0", start_offset=100, queue_id=0,
        revive_queue_id=0, pop_time=1, invisible_time=1, bits=ack_bits(distances),
    )  # fmt: skip
    assert list(ack.offsets()) == [100 + distance for distance in sorted(distances)]


@pytest.mark.parametrize("bits", ["%%%", "AAA", "A" * 20_000])
def test_a_bit_set_that_is_none_or_too_large_is_refused(bits: str) -> None:
    ack = BatchAck(
        consumer_group="G", topic="T", retry="0", start_offset=0, queue_id=0,
        revive_queue_id=0, pop_time=1, invisible_time=1, bits=bits,
    )  # fmt: skip
    with pytest.raises(BadRequestError):
        list(ack.offsets())


def test_no_assignment_and_an_empty_one_differ_on_the_wire() -> None:  # K-22
    for name, wanted in (("null", None), ("empty", [])):
        text = java_text(f"body.QueueAssignments.{name}")
        read = decode_body(text.encode(), QueueAssignments, Encoding.JSON)
        assert read.message_queue_assignments == wanted
        assert encode_json(read).decode() == text


def test_a_recall_handle_is_written_as_rocketmq_writes_it() -> None:
    handle = RecallHandle("TT", "broker-a", 1795336210001, "U3")
    assert handle.encode() == java_text("recall")
    assert RecallHandle.decode(java_text("recall")) == handle


@pytest.mark.parametrize("text", ["", "not base64", "djEgVFQ=", "djIgVFQgYiAxIFUz", "é"])
def test_what_is_no_recall_handle_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="recall handle is invalid"):
        RecallHandle.decode(text)

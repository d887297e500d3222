"""The handles of gRPC clients as RocketMQ's proxy 5.3.3 writes and reads them (G-90, G-91)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.messages.receipts import ReceiptHandle
from pocketmq.proxy.handles.receipts import NO_LOG_OFFSET, Receipt, make_receipt

LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
EXAMPLE = "1200 1735689600000 60000 3 0 broker-a 2 1203 884736"  # G-90


def test_nine_words_are_read() -> None:
    receipt = Receipt.parse(EXAMPLE)
    assert receipt == Receipt(
        1200, 1735689600000, 60000, 3, "0", "broker-a", 2, 1203, 884736, EXAMPLE
    )
    assert receipt.due_ms == 1735689660000
    assert not receipt.expired(1735689659999)
    assert receipt.expired(1735689660000)


@given(LONGS, LONGS, LONGS, INTS, st.sampled_from("012"), INTS, LONGS, LONGS)
def test_what_is_made_of_a_brokers_handle_is_read_again(
    start: int, popped: int, invisible: int, revive: int, mark: str, queue: int, at: int, log: int
) -> None:
    handle = ReceiptHandle(start, popped, invisible, revive, int(mark), "b%c", queue, at)
    receipt = make_receipt(handle, log)
    assert receipt.text == f"{handle} {log}"
    assert Receipt.parse(receipt.text) == receipt
    assert receipt.start_offset == start
    assert receipt.mark == mark
    assert receipt.queue_id == queue
    assert receipt.queue_offset == at
    assert receipt.commit_log_offset == log
    assert ReceiptHandle.parse(receipt.text) == handle  # a broker reads eight of the nine


def test_eight_words_name_no_place_in_the_log() -> None:
    receipt = Receipt.parse(EXAMPLE.rsplit(" ", 1)[0])
    assert receipt.commit_log_offset == NO_LOG_OFFSET


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Parse failed, dataList size 1"),
        ("   ", "Parse failed, dataList size 0"),
        ("garbage", "Parse failed, dataList size 1"),
        ("1 2 3 4 5 6 7      ", "Parse failed, dataList size 7"),
        ("a 2 3 4 5 6 7 8", 'For input string: "a"'),
        (" 1 2 3 4 5 6 7", 'For input string: ""'),
        ("1 2 3 2147483648 5 6 7 8", 'For input string: "2147483648"'),
        ("1 2 3 4 5 6 7 9223372036854775808", 'For input string: "9223372036854775808"'),
        ("1 2 3 4 5 6 7 8 x", 'For input string: "x"'),
        ("+ 2 3 4 5 6 7 8", 'For input string: "+"'),
    ],
)
def test_what_is_no_handle_is_refused_in_the_words_of_the_real_proxy(
    text: str, sentence: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        Receipt.parse(text)
    assert str(caught.value) == sentence


@given(st.text(max_size=200) | st.lists(st.text("0129 -+x", max_size=25)).map(" ".join))
def test_nothing_else_happens_to_what_is_no_handle(text: str) -> None:
    with suppress(BadRequestError):
        assert Receipt.parse(text).text == text


def test_a_mark_names_the_topic_where_the_message_lies() -> None:
    words = EXAMPLE.split(" ")
    names = {}
    for words[4] in ("0", "1", "2", "7"):
        names[words[4]] = Receipt.parse(" ".join(words)).real_topic("T", "G")
    assert names == {"0": "T", "1": "%RETRY%G_T", "2": "%RETRY%G+T", "7": "T"}


def test_a_renewed_handle_begins_at_the_message_and_keeps_its_place_in_the_log() -> None:
    # MQClientAPIImpl.changeInvisibleTimeAsync: the request's offset is the new start offset.
    renewed = Receipt.parse(EXAMPLE).renewed(1735689650000, 180000, 999)
    assert renewed.text == "1203 1735689650000 180000 999 0 broker-a 2 1203 884736"
    assert Receipt.parse(renewed.text) == renewed

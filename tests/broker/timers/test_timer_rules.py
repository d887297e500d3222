"""When a timer message is due, which slot it gets, and what becomes of it (T-101 to T-136)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.timers.rules import (
    NEVER_WAITED_MS,
    TimerRules,
    check_room,
    delivery,
    is_deleted,
    names_cancel,
    precision_of,
    rolled,
    to_timer_topic,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from support.half_queue import HERE, record

NOW_MS = 1_700_000_000_500
RULES = TimerRules()


def refused(rules: TimerRules, properties: dict[str, str]) -> RequestRefusedError:
    with pytest.raises(RequestRefusedError) as caught:
        rules.out_ms(properties, NOW_MS)
    return caught.value


@pytest.mark.parametrize(
    ("wanted", "width"),
    [(0, 100), (199, 100), (200, 200), (499, 200), (500, 500), (999, 500), (1000, 1000)],
)
def test_a_precision_becomes_one_of_four(wanted: int, width: int) -> None:  # T-101
    assert precision_of(wanted) == width


@pytest.mark.parametrize(
    ("wanted", "window"),
    [(1, 604_740), (2, 2), (604_740, 604_740), (604_741, 604_740), (-1, 604_740)],
)
def test_a_window_that_does_not_fit_the_wheel_is_its_half(wanted: int, window: int) -> None:
    rules = TimerRules.of(400, wanted, lambda: 7, enabled=False)  # T-101
    assert (rules.precision_ms, rules.roll_window_slots) == (200, window)
    assert (rules.max_delay(), rules.enabled) == (7, False)


def test_the_defaults_are_those_of_rocketmq() -> None:  # T-101
    assert (RULES.precision_ms, RULES.roll_window_slots) == (1000, 2 * 86_400)
    assert (RULES.max_delay(), RULES.enabled) == (3 * 86_400_000, True)
    assert NEVER_WAITED_MS == 9_223_372_036_854_775_807  # Long.MAX_VALUE


@pytest.mark.parametrize(
    ("properties", "out_ms"),
    [
        ({names.TIMER_DELAY_SEC: "2"}, 1_700_000_002_000),
        ({names.TIMER_DELAY_SEC: "86400"}, 1_700_086_400_000),
        ({names.TIMER_DELAY_MS: "1"}, 1_700_000_000_000),
        ({names.TIMER_DELAY_MS: "1499"}, 1_700_000_001_000),
        ({names.TIMER_DELAY_MS: "1500"}, 1_700_000_001_000),  # on a slot's edge: the one before
        ({names.TIMER_DELAY_MS: "1501"}, 1_700_000_002_000),
        ({names.TIMER_DELIVER_MS: str(NOW_MS + 501)}, 1_700_000_001_000),
        ({names.TIMER_DELAY_SEC: "2", names.TIMER_DELAY_MS: "9000"}, 1_700_000_002_000),
        ({names.TIMER_DELAY_MS: "2000", names.TIMER_DELIVER_MS: "1"}, 1_700_000_002_000),
        ({names.TIMER_DELAY_SEC: "", names.TIMER_DELAY_MS: "2000"}, 1_700_000_002_000),
        ({names.TIMER_DELAY_SEC: "0"}, None),
        ({names.TIMER_DELAY_SEC: "-5"}, None),  # T-106
        ({names.TIMER_DELIVER_MS: str(NOW_MS)}, None),
        ({names.TIMER_DELAY_SEC: "5", names.TIMER_OUT_MS: "7"}, None),
        ({}, None),
    ],
)
def test_the_slot_of_a_sent_message(properties: dict[str, str], out_ms: int | None) -> None:
    assert RULES.out_ms(properties, NOW_MS) == out_ms  # T-105


def test_as_far_ahead_as_allowed_and_no_further() -> None:  # T-101
    rules = TimerRules(max_delay=lambda: 5_000)
    assert rules.out_ms({names.TIMER_DELAY_MS: "5000"}, NOW_MS) == NOW_MS + 4_500
    error = refused(rules, {names.TIMER_DELAY_MS: "5001"})
    assert error.code == ResponseCode.MESSAGE_ILLEGAL
    assert "max delay 5000ms" in error.remark


def test_a_cancel_has_to_come_before_the_time() -> None:  # T-135
    cancel = {names.TIMER_DEL_UNIQKEY: "orders+k"}
    late = refused(RULES, cancel | {names.TIMER_DELIVER_MS: str(NOW_MS)})
    assert late.code == ResponseCode.MESSAGE_ILLEGAL
    early = cancel | {names.TIMER_DELIVER_MS: str(NOW_MS + 501)}
    assert RULES.out_ms(early, NOW_MS) == NOW_MS + 500


def test_what_is_no_cancel_may_be_due_already() -> None:  # T-105, K-55
    assert RULES.out_ms_of(NOW_MS, NOW_MS) is None
    assert RULES.out_ms_of(NOW_MS + 501, NOW_MS) == NOW_MS + 500


def test_without_timers_every_time_is_refused() -> None:
    rules = TimerRules(enabled=False)
    error = refused(rules, {names.TIMER_DELAY_SEC: "0"})
    assert (error.code, rules.out_ms({}, NOW_MS)) == (ResponseCode.SYSTEM_ERROR, None)


@pytest.mark.parametrize(
    "text", ["x", " 1", "1 ", "1_000", "٣", "1.0", str(2**63), str(-(2**63) - 1), "0" * 21]
)
@pytest.mark.parametrize(
    "name", [names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS]
)
def test_what_is_no_long_of_java_s_is_refused(name: str, text: str) -> None:
    error = refused(RULES, {name: text})
    assert error.code == ResponseCode.MESSAGE_ILLEGAL
    assert f"{text[:40]!r} is no number" in error.remark


@pytest.mark.parametrize("text", ["-9223372036854775808", "0" * 20, "+1"])
def test_longs_of_java_s_are_numbers(text: str) -> None:
    assert RULES.out_ms({names.TIMER_DELIVER_MS: text}, NOW_MS) is None


def test_what_lies_beyond_the_window_rolls_in_it() -> None:  # T-122
    rules = TimerRules(roll_window_slots=60)
    for ahead_s, slot_s, is_roll in (
        (59, 59, False),
        (60, 30, True),  # little beyond it: half a window, so that the rest is not tiny
        (79, 30, True),
        (80, 60, True),
        (500, 60, True),
    ):
        slot = rules.slot_of(NOW_MS + ahead_s * 1000, NOW_MS)
        assert slot == (NOW_MS + slot_s * 1000, is_roll)


def test_a_slot_is_delivered_when_it_is_over() -> None:  # T-125
    assert TimerRules(precision_ms=200).delivered_at_ms(1_000) == 1_200
    assert TimerRules(precision_ms=200).floor(1_399) == 1_200


def test_a_waiting_message_names_its_time_and_its_place() -> None:  # T-105
    message = StoredMessage(
        topic="orders", queue_id=3, body=b"", properties=b"", flag=0, sys_flag=0,
        born_timestamp_ms=1, born_host=HERE, store_host=HERE,
    )  # fmt: skip
    properties = {"TAGS": "x"}
    to_timer_topic(message, properties, 7_000)
    assert (message.topic, message.queue_id) == (TIMER_TOPIC, 0)
    wanted = {"TAGS": "x", "TIMER_OUT_MS": "7000", "REAL_TOPIC": "orders", "REAL_QID": "3"}
    assert decode_properties(message.properties.decode()) == properties == wanted


def test_there_is_room_for_what_delivery_adds() -> None:
    check_room(bytes(32_767 - 128))
    with pytest.raises(RequestRefusedError, match="may have at most 32639 bytes") as caught:
        check_room(bytes(32_767 - 127))
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL


WAITED = {
    "REAL_TOPIC": "orders", "REAL_QID": "2", "TAGS": "x", "UNIQ_KEY": "k", "KEYS": "a b",
    "TIMER_DELIVER_MS": "9",
}  # fmt: skip


def test_a_delivered_message_has_all_that_its_sender_gave_it() -> None:  # T-127
    waited = record(TIMER_TOPIC, 4, WAITED, b"body", born_ms=5, sys_flag=8)
    message = delivery(waited, 111, 222)
    assert message is not None
    assert (message.topic, message.queue_id, bytes(message.body)) == ("orders", 2, b"body")
    assert (message.flag, message.sys_flag, message.born_timestamp_ms) == (3, 8, 5)
    assert (message.born_host, message.store_host) == (waited.packed_born_host, HERE)
    assert (message.uniq_key, message.keys) == ("k", "a b")
    assert (message.tags_code, message.wait_store_ok) == (tags_code("x"), False)
    added = {"TIMER_ENQUEUE_MS": "111", "TIMER_DEQUEUE_MS": "222"}
    assert decode_properties(message.properties.decode()) == WAITED | added


@pytest.mark.parametrize(
    "lacks",
    [
        {"REAL_TOPIC": ""},
        {"REAL_QID": ""},
        {"REAL_QID": "x"},
        {"REAL_TOPIC": None},
        {"REAL_QID": "-1"},
    ],
)
def test_what_does_not_say_where_it_belongs_is_not_delivered(lacks: dict[str, str | None]) -> None:
    properties = {name: text for name, text in (WAITED | lacks).items() if text is not None}
    assert delivery(record(TIMER_TOPIC, 4, properties), 1, 2) is None


@pytest.mark.parametrize("queue_id", [0, 2**31 - 1])
def test_any_queue_may_be_where_it_belongs(queue_id: int) -> None:
    message = delivery(record(TIMER_TOPIC, 4, WAITED | {"REAL_QID": str(queue_id)}), 1, 2)
    assert message is not None
    assert message.queue_id == queue_id


PIECES = st.sampled_from(
    ["REAL_TOPIC", "REAL_QID", "TAGS", "UNIQ_KEY", "KEYS", "TIMER_DEL_UNIQKEY", "TIMER_ENQUEUE_MS",
     "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "orders", "7", "ü", "", "\x01", "\x01", "\x02", "\x02"]
)  # fmt: skip


@given(pieces=st.lists(PIECES, max_size=30))
@example(pieces=["TIMER_ENQUEUE_MS", "\x01", "7", "\x02"])
@example(pieces=["TAGS", "\x01", "7"])  # the last 0x02 may be missing
@example(pieces=["UNIQ_KEY", "\x01", "7", "\x02", "UNIQ_KEY", "\x01", "\x02"])
def test_copies_have_the_properties_that_readers_see(pieces: list[str]) -> None:  # T-122, T-127
    waited = record(TIMER_TOPIC, 4, WAITED, text="".join(pieces))
    seen = decode_properties(bytes(waited.raw_properties).decode())
    assert names_cancel(waited) == ("TIMER_DEL_UNIQKEY" in seen)
    message = delivery(waited, 111, 222)
    times = ["TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"]
    copies = [(rolled(waited, 111, 222), [*times, "TIMER_ROLL_TIMES"])]
    if message is not None:
        copies.append((message, times))
        assert (message.topic, str(message.queue_id)) == (seen["REAL_TOPIC"], seen["REAL_QID"])
    for copy, added in copies:
        told = decode_properties(copy.properties.decode())
        assert told.keys() == seen.keys() | set(added)
        assert all(told[name] == seen[name] for name in seen if name not in added)
        assert (copy.uniq_key, copy.keys) == (seen.get("UNIQ_KEY"), seen.get("KEYS"))
        assert copy.tags_code == tags_code(seen.get("TAGS"))
    assert message is None or told["TIMER_ENQUEUE_MS"] == "111"


def test_a_separator_in_a_value_stays_there() -> None:
    odd = record(TIMER_TOPIC, 4, WAITED, text="a\x01b\x01c\x02")  # RocketMQ and a send take it
    message = delivery(odd, 1, 2)
    assert message is not None
    for copy in (message, rolled(odd, 1, 2)):
        assert decode_properties(copy.properties.decode()).get("a") == "b\x01c"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((None, "1"), ("1", "2"), ("x", "1"), ("9", "10"), ("0", "1"), ("-7", "1"), ("²", "1")),
        *((str(2**31 - 1), str(2**31)), (str(2**31), "1")),
    ],
)
def test_each_roll_is_counted(before: str | None, after: str) -> None:  # T-122
    properties = WAITED if before is None else WAITED | {"TIMER_ROLL_TIMES": before}
    message = rolled(record(TIMER_TOPIC, 4, properties), 111, 222)
    assert (message.topic, message.queue_id) == (TIMER_TOPIC, 0)
    times = {"TIMER_ENQUEUE_MS": "111", "TIMER_DEQUEUE_MS": "222"}
    wanted = WAITED | times | {"TIMER_ROLL_TIMES": after}
    assert decode_properties(message.properties.decode()) == wanted


def test_a_cancel_names_a_message_with_its_topic_or_without() -> None:  # T-136, T-137
    waited = record(TIMER_TOPIC, 4, WAITED)
    assert is_deleted(waited, {"orders+k"})
    assert is_deleted(waited, {"k"})
    assert not is_deleted(waited, {"others+k", "orders+j", "j"})
    assert not is_deleted(waited, set())
    nameless = {name: text for name, text in WAITED.items() if name != "UNIQ_KEY"}
    assert not is_deleted(record(TIMER_TOPIC, 4, nameless), {"k", "orders+k", "orders+"})

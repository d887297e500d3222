"""Delay levels: what a delayed message looks like, and when each level is due."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.broker.delays.delay import (
    DelayPlanner,
    delay_rewrite,
    from_schedule_topic,
    level_of,
    to_schedule_topic,
)
from pocketmq.broker.store.config import StoreConfig
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.protocol.bodies.offsets import DelayOffsetTable
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.properties import DELAY_LEVELS, decode_properties, encode_properties
from pocketmq.protocol.stored.record import decode_record, encode_record

HOST = pack_host("127.0.0.1", 10911)
DELAYS = StoreConfig(store_path_root_dir="/none").delay_levels_ms()
NOW_MS = 1_700_000_000_000


def message(**fields: Any) -> StoredMessage:
    values: dict[str, Any] = {
        "topic": "orders",
        "queue_id": 2,
        "body": b"hello",
        "properties": b"",
        "flag": 0,
        "sys_flag": 0,
        "born_timestamp_ms": 1,
        "born_host": HOST,
        "store_host": HOST,
    }
    return StoredMessage(**(values | fields))


def test_there_are_18_levels_from_1_s_to_2_h() -> None:  # B-90
    seconds = [ms // 1000 for ms in DELAYS[1:]]
    minutes = [60 * n for n in range(1, 11)]
    assert seconds == [1, 5, 10, 30, *minutes, 1200, 1800, 3600, 7200]
    assert len(DELAY_LEVELS.split()) == DelayPlanner(DELAYS).max_level == 18


@pytest.mark.parametrize(("text", "level"), [(None, 0), ("", 0), ("x", 0), ("3", 3), ("-1", -1)])
def test_a_delay_that_is_no_number_is_none(text: str | None, level: int) -> None:  # B-91
    assert level_of(text) == level


@pytest.mark.parametrize(("asked", "level"), [(1, 1), (18, 18), (19, 18), (500, 18)])
def test_a_delayed_message_waits_in_its_levels_queue(asked: int, level: int) -> None:  # B-91
    properties = {"KEYS": "k", "DELAY": str(asked)}
    waiting = to_schedule_topic(message(), properties, asked, 18)
    assert (waiting.topic, waiting.queue_id) == ("SCHEDULE_TOPIC_XXXX", level - 1)
    assert waiting.delay_level == level
    assert decode_properties(waiting.properties.decode()) == {
        "KEYS": "k",
        "DELAY": str(level),
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
    }


@pytest.mark.parametrize("level", [1, 18])
def test_every_level_has_messages_wait(level: int) -> None:  # B-91
    waiting, rewrite = message(), delay_rewrite(18)
    assert rewrite(waiting, {"DELAY": str(level)}, NOW_MS)
    assert (waiting.topic, waiting.queue_id) == ("SCHEDULE_TOPIC_XXXX", level - 1)
    assert not rewrite(message(), {"DELAY": "0"}, NOW_MS)


def test_a_level_is_looked_at_when_it_was_put_off_to() -> None:
    planner = DelayPlanner(DELAYS)
    planner.look_at(2, NOW_MS + 300)
    assert planner.next_deadline_ms() == NOW_MS + 300
    planner.look_at(2, NOW_MS + 500)
    assert planner.due(NOW_MS + 499) == []
    assert planner.due(NOW_MS + 500) == [2]


def test_a_message_of_queue_0_comes_back_to_queue_0() -> None:  # B-92
    back = delivered(REAL_TOPIC="orders", REAL_QID="0", DELAY="3")
    assert back is not None
    assert back.queue_id == 0


def delivered(text: str = "", **properties: str) -> StoredMessage | None:
    stored = encode_record(
        topic=b"SCHEDULE_TOPIC_XXXX",
        queue_id=2,
        flag=9,
        queue_offset=5,
        physical_offset=1000,
        sys_flag=1,
        born_timestamp_ms=11,
        born_host=pack_host("10.0.0.1", 99),
        store_timestamp_ms=12,
        store_host=pack_host("10.0.0.2", 10911),
        reconsume_times=4,
        prepared_transaction_offset=0,
        body=b"hello",
        properties=(encode_properties(properties) + text).encode(),
    )
    return from_schedule_topic(decode_record(stored))


def test_a_due_message_is_as_it_was_before_it_waited() -> None:  # B-92
    due = delivered(
        DELAY="3", REAL_TOPIC="orders", REAL_QID="2", TAGS="TagB", UNIQ_KEY="U", KEYS="k"
    )
    assert due is not None
    assert (due.topic, due.queue_id, bytes(due.body), due.reconsume_times) == (
        "orders",
        2,
        b"hello",
        4,
    )
    assert (due.flag, due.sys_flag, due.born_timestamp_ms) == (9, 1, 11)
    assert due.born_host == pack_host("10.0.0.1", 99)
    assert due.store_host == pack_host("10.0.0.2", 10911)
    assert (due.tags_code, due.uniq_key, due.keys) == (2598920, "U", "k")
    assert due.delay_level == 0
    assert not due.wait_store_ok


def test_a_due_message_keeps_every_property() -> None:  # B-92, X-3
    stored = {"TAGS": "TagB", "DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "2", "a": "b"}
    due = delivered(**stored)
    assert due is not None
    assert decode_properties(due.properties.decode()) == stored


def test_a_level_is_kept_as_it_was_written() -> None:  # B-91
    waiting, properties = message(), {"DELAY": "+3"}
    assert delay_rewrite(18)(waiting, properties, NOW_MS)
    assert (waiting.queue_id, properties["DELAY"]) == (2, "+3")


def test_half_messages_and_messages_without_a_real_topic_are_dropped() -> None:  # B-92
    assert delivered(DELAY="3", REAL_TOPIC="RMQ_SYS_TRANS_HALF_TOPIC", REAL_QID="0") is None
    assert delivered(DELAY="3") is None


def test_a_message_is_due_when_its_level_says() -> None:  # B-92
    planner = DelayPlanner(DELAYS)
    assert planner.due_at_ms(3, NOW_MS, NOW_MS) == NOW_MS + 10_000


def test_a_message_from_a_clock_that_ran_ahead_is_due_now() -> None:  # B-92, fault 37
    planner = DelayPlanner(DELAYS)
    assert planner.due_at_ms(3, NOW_MS + 3_600_000, NOW_MS) == NOW_MS


def test_a_clock_that_is_set_back_does_not_hold_a_level() -> None:  # B-92
    planner = DelayPlanner(DELAYS)  # found by the simulation, seed 395
    planner.arrived(2, NOW_MS + 5_000)
    assert planner.due(NOW_MS) == []
    assert planner.due(NOW_MS - 1) == [2]
    assert planner.due(NOW_MS - 3_600_000) == [2]


def test_the_next_deadline_is_that_of_the_first_level_due() -> None:
    planner = DelayPlanner(DELAYS)
    assert planner.next_deadline_ms() is None
    assert planner.arrived(5, NOW_MS + 60_000)
    assert not planner.arrived(5, NOW_MS + 61_000)
    assert planner.arrived(1, NOW_MS + 1_000)
    assert planner.next_deadline_ms() == NOW_MS + 1_000
    assert planner.due(NOW_MS + 999) == []
    assert planner.due(NOW_MS + 1_000) == [1]
    planner.look_at(1, None)
    assert planner.next_deadline_ms() == NOW_MS + 60_000


def test_only_safe_offsets_are_stored() -> None:  # B-94, B-95
    planner = DelayPlanner(DELAYS)
    planner.moved(3, 5)
    assert planner.unsaved
    assert planner.wrapper().offset_table == {}
    delivered = planner.delivered()
    planner.moved(3, 7)
    planner.made_safe(delivered)
    assert planner.offset(3) == 7
    assert planner.wrapper().offset_table == {3: 5}


def test_loaded_offsets_are_clamped_into_their_queues() -> None:  # B-94
    planner = DelayPlanner(DELAYS)
    stored = DelayOffsetTable(offset_table={1: 5, 2: 50, 3: 1, 99: 4})
    planner.load(stored)
    planner.clamp({1: (0, 10), 2: (0, 10), 3: (4, 10)})
    assert [planner.offset(level) for level in (1, 2, 3, 4)] == [5, 10, 4, 0]
    assert planner.common() == planner.wrapper(), "what is stored at the start, all replicas have"


def test_a_message_with_a_delay_is_sent_to_its_level_and_no_other_is() -> None:
    rewrite = delay_rewrite(18)
    at_once = message()
    assert not rewrite(at_once, {"TAGS": "a"}, NOW_MS)
    assert not rewrite(at_once, {"DELAY": "0"}, NOW_MS)
    assert at_once.topic == "orders"
    later = message()
    assert rewrite(later, {"DELAY": "3"}, NOW_MS)
    assert (later.topic, later.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)


def test_a_level_begins_at_0_and_every_move_is_to_be_saved() -> None:
    planner = DelayPlanner(DELAYS)
    assert list(planner.levels) == list(range(1, 19))
    assert planner.offset(1) == 0
    planner.moved(1, 0)
    assert not planner.unsaved
    planner.moved(1, 1)
    assert planner.unsaved
    assert planner.offset(1) == 1


def test_what_was_loaded_is_stored_again_as_it_was() -> None:
    planner = DelayPlanner(DELAYS)
    version = DataVersion(timestamp=7, counter=3)
    planner.load(DelayOffsetTable(data_version=version, offset_table={2: 5, 3: 9}))
    planner.clamp({1: (0, 4), 2: (0, 8)})
    stored = planner.wrapper()
    assert stored.data_version == version
    assert stored.offset_table == {level: 5 if level == 2 else 0 for level in range(1, 19)}


def test_a_slave_follows_its_masters_table() -> None:
    master, slave = DelayPlanner(DELAYS), DelayPlanner(DELAYS)
    master.load(DelayOffsetTable(data_version=DataVersion(counter=3), offset_table={3: 7}))
    assert master.wrapper().offset_table[3] == 7, "what was stored is safe"
    assert not slave.unsaved
    slave.follow(master.wrapper())
    assert slave.unsaved
    assert (slave.offset(3), slave.wrapper()) == (7, master.wrapper())
    assert slave.common() == master.wrapper(), "who asks the slave is told the same"
    assert slave.unsaved.take()
    slave.follow(master.wrapper())
    assert not slave.unsaved, "there is nothing new"


def test_a_separator_in_a_value_stays_there() -> None:
    odd = "a\x01b\x01c\x02"  # RocketMQ takes it
    due = delivered(odd, DELAY="3", REAL_TOPIC="orders", REAL_QID="2")
    assert due is not None
    assert decode_properties(due.properties.decode())["a"] == "b\x01c"

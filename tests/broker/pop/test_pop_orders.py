"""Which messages of an ordered queue are out, against RocketMQ's own table (K-110 to K-116)."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.pop import order_service
from pocketmq.broker.pop.orders import ILLEGAL, STALE, ConsumerOrders, OrderInfo, OrderTable
from pocketmq.protocol import fastjson
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.growth import least_s
from support.java_lines import java_text

KEY = ("TP", "G1", 3)
FIRST_MS, SECOND_MS, THIRD_MS = 1700000000123, 1700000000999, 1700000001999
LAST_USED_MS = 1795335893291


def hand_out(orders: ConsumerOrders, at_ms: int, attempt: str | None, *offsets: int) -> str:
    return ";".join(
        orders.handed_out(KEY, offsets, attempt_id=attempt, pop_time_ms=at_ms, invisible_ms=60_000)
    )


def as_file(orders: ConsumerOrders) -> object:
    """The table as it is stored, with the time of the recording."""
    table = orders.wrapper()
    for queues in table.table.values():
        for info in queues.values():
            info.handed_out_ms = LAST_USED_MS
    return json.loads(msgspec.json.encode(table))


def test_hand_outs_and_acks_lead_to_the_same_table_as_in_rocketmq() -> None:  # K-111, K-113
    orders = ConsumerOrders()
    assert hand_out(orders, FIRST_MS, "att1", 8, 10, 11) == java_text("orders.first.counts")
    assert as_file(orders) == fastjson.parse(java_text("orders.first.file"))
    assert orders.acknowledge(KEY, 10, FIRST_MS) == int(java_text("orders.first.next"))
    assert hand_out(orders, SECOND_MS, "att2", 8, 11, 12) == java_text("orders.second.counts")
    orders.make_visible_at(KEY, 8, SECOND_MS, 1700000090000)
    assert orders.acknowledge(KEY, 11, SECOND_MS) == int(java_text("orders.second.next"))
    assert orders.acknowledge(KEY, 11, FIRST_MS) == STALE == int(java_text("orders.second.stale"))
    illegal = int(java_text("orders.second.illegal"))
    assert orders.acknowledge(KEY, 99, SECOND_MS) == ILLEGAL == illegal
    assert as_file(orders) == fastjson.parse(java_text("orders.second.file"))
    assert hand_out(orders, THIRD_MS, "att2", 8, 11, 12) == java_text("orders.third.counts")
    assert as_file(orders) == fastjson.parse(java_text("orders.third.file"))


def test_a_table_that_rocketmq_wrote_is_read() -> None:
    stored = fastjson.parse(java_text("orders.second.file"))
    orders = ConsumerOrders()
    orders.load(msgspec.convert(stored, OrderTable, strict=False, str_keys=True))
    assert as_file(orders) == stored
    assert orders.is_blocked(KEY, None, SECOND_MS + 59_999)
    assert orders.is_blocked(KEY, "other", 1700000089999)
    assert not orders.is_blocked(KEY, "other", 1700000090000)


def test_the_same_attempt_gets_the_same_messages_again_and_another_waits() -> None:  # K-112
    orders = ConsumerOrders()
    hand_out(orders, 1000, "a1", 0, 1, 2)
    assert orders.is_blocked(KEY, "a2", 1000)
    assert orders.is_blocked(KEY, None, 1000)
    assert not orders.is_blocked(KEY, "a1", 1000)
    assert orders.free_at_ms(KEY, 1000) == 61_000
    assert not orders.is_blocked(KEY, "a2", 61_000)


@given(st.sets(st.integers(0, 200), min_size=1, max_size=32), st.data())
def test_the_committed_offset_is_the_first_without_an_ack(
    offsets: set[int], data: st.DataObject
) -> None:
    orders = ConsumerOrders()
    ordered = sorted(offsets)
    hand_out(orders, 1000, None, *ordered)
    done: set[int] = set()
    for offset in data.draw(st.permutations(ordered)):
        done.add(offset)
        left = [o for o in ordered if o not in done]
        wanted = left[0] if left else ordered[-1] + 1
        assert orders.acknowledge(KEY, offset, 1000) == wanted
        assert orders.is_blocked(KEY, None, 1000) == bool(left)


def test_what_nobody_consumes_any_more_is_forgotten() -> None:  # K-110
    orders = ConsumerOrders()
    hand_out(orders, 1000, None, 0)
    orders.clean(lambda _: 4, lambda _: True, 1000 + 24 * 3600 * 1000)
    assert orders
    orders.clean(lambda _: 3, lambda _: True, 1000)
    assert not orders


def test_an_ack_of_what_nothing_is_known_of_commits_behind_it() -> None:  # K-113
    orders = ConsumerOrders()
    assert orders.acknowledge(KEY, 7, FIRST_MS) == 8
    nothing_out = OrderTable(table={"TP@G1": {3: OrderInfo(pop_time_ms=FIRST_MS)}})
    orders.load(nothing_out)
    assert orders.acknowledge(KEY, 7, FIRST_MS) == ILLEGAL
    assert not orders.is_blocked(KEY, None, FIRST_MS)


def test_every_change_is_to_be_saved_and_told() -> None:
    orders, told = ConsumerOrders(), []
    orders.changed.connect(lambda: told.append(1))
    hand_out(orders, FIRST_MS, "a", 8, 9)
    for change in (
        lambda: orders.acknowledge(KEY, 8, FIRST_MS),
        lambda: orders.make_visible_at(KEY, 9, FIRST_MS, FIRST_MS + 1),
        lambda: orders.clear(KEY),
    ):
        assert orders.unsaved.take()
        change()
    assert orders.unsaved.take()
    orders.clear(KEY)
    assert not orders.unsaved, "there was nothing to forget"
    assert len(told) == 4


def test_the_time_of_an_earlier_hand_out_changes_nothing() -> None:  # K-56
    orders = ConsumerOrders()
    hand_out(orders, FIRST_MS, "a", 8)
    orders.make_visible_at(KEY, 8, FIRST_MS - 1, FIRST_MS + 1)
    assert orders.free_at_ms(KEY, FIRST_MS) == FIRST_MS + 60_000
    orders.make_visible_at(("TP", "G1", 4), 8, FIRST_MS, FIRST_MS + 1)  # of this one none is out


def test_a_queue_that_is_free_again_is_told_once() -> None:  # K-112
    orders, other = ConsumerOrders(), ("TP", "G1", 4)
    assert orders.take_freed(FIRST_MS) == []
    assert orders.next_free_ms() is None
    hand_out(orders, FIRST_MS, "a", 8)
    orders.handed_out(other, [1], attempt_id="a", pop_time_ms=FIRST_MS, invisible_ms=10_000)
    assert orders.take_freed(FIRST_MS) == []
    assert orders.next_free_ms() == FIRST_MS + 10_000
    assert orders.take_freed(FIRST_MS + 9_999) == []
    assert orders.take_freed(FIRST_MS + 10_000) == [other]
    assert orders.take_freed(FIRST_MS + 10_000) == []
    assert orders.next_free_ms() == FIRST_MS + 60_000
    assert orders.take_freed(FIRST_MS + 60_000) == [KEY]
    assert orders.next_free_ms() is None


def test_a_queue_is_free_as_soon_as_its_last_message_is_acknowledged() -> None:  # K-113
    orders = ConsumerOrders()
    hand_out(orders, FIRST_MS, "a", 8, 9)
    assert orders.take_freed(FIRST_MS) == []
    orders.make_visible_at(KEY, 9, FIRST_MS, FIRST_MS + 90_000)
    orders.acknowledge(KEY, 8, FIRST_MS)
    assert orders.take_freed(FIRST_MS) == []
    assert orders.next_free_ms() == FIRST_MS + 90_000
    assert orders.take_freed(FIRST_MS + 60_000) == []
    orders.acknowledge(KEY, 9, FIRST_MS)
    assert orders.take_freed(FIRST_MS + 60_001) == [KEY]
    assert orders.next_free_ms() is None


def test_a_hand_out_costs_the_same_while_many_queues_are_blocked() -> None:
    orders, numbers = ConsumerOrders(), count()

    def hand_out_next() -> None:
        key = ("TP", "G1", next(numbers))
        orders.handed_out(key, [1], attempt_id=None, pop_time_ms=FIRST_MS, invisible_ms=60_000)
        assert orders.take_freed(FIRST_MS) == []
        assert orders.next_free_ms() == FIRST_MS + 60_000

    before_s = least_s(hand_out_next, runs=5, steps=100)
    for _ in range(5_000):
        hand_out_next()
    assert least_s(hand_out_next, runs=5, steps=100) < 10 * before_s


def test_a_hand_out_without_an_invisible_time_blocks_nothing() -> None:
    info = OrderInfo(offsets=[8], pop_time_ms=FIRST_MS)  # as a file may hold it
    assert info.blocks_until_ms(FIRST_MS) is None
    assert info.blocks_until_ms(FIRST_MS - 1) == FIRST_MS


def test_what_was_blocked_before_a_restart_is_told_when_it_is_free() -> None:  # K-112
    before, orders = ConsumerOrders(), ConsumerOrders()
    hand_out(before, FIRST_MS, "a", 8)
    orders.load(before.wrapper())
    assert orders.take_freed(FIRST_MS) == []
    assert orders.next_free_ms() == FIRST_MS + 60_000
    assert orders.take_freed(FIRST_MS + 60_000) == [KEY]


def test_only_what_was_idle_for_more_than_a_day_or_is_gone_is_forgotten() -> None:  # K-110
    day_ms = 86_400_000
    orders, other = ConsumerOrders(), ("TP", "G1", 4)
    hand_out(orders, FIRST_MS, None, 8)
    orders.handed_out(other, [1], attempt_id=None, pop_time_ms=FIRST_MS + 1, invisible_ms=1)
    orders.clean(lambda _: 5, lambda _: True, FIRST_MS + day_ms)
    assert set(orders.wrapper().table["TP@G1"]) == {3, 4}
    orders.clean(lambda _: 5, lambda _: True, FIRST_MS + day_ms + 1)
    assert set(orders.wrapper().table["TP@G1"]) == {4}
    orders.clean(lambda _: 5, lambda _: False, FIRST_MS)
    assert not orders


def ordered(queues: int) -> ConsumerOrders:
    """As many queues of topics T0, T1, ..., four of each, all blocked for a minute."""
    orders = ConsumerOrders()
    for number in range(queues):
        key = (f"T{number // 4}", "G1", number % 4)
        orders.handed_out(key, [1], attempt_id=None, pop_time_ms=FIRST_MS, invisible_ms=60_000)
    return orders


def test_a_look_at_many_queues_goes_on_where_the_one_before_ended() -> None:  # K-115
    orders = ordered(5)
    assert orders.take_freed(FIRST_MS, most=2) == []
    assert orders.is_looking
    assert orders.acknowledge(("T1", "G1", 0), 1, FIRST_MS) == 2
    freed = []
    while orders.is_looking:
        freed += orders.take_freed(FIRST_MS, most=2)
    assert freed == [("T1", "G1", 0)]
    late = [orders.take_freed(FIRST_MS + 60_000, most=3) for _ in range(2)]
    assert [len(each) for each in late] == [3, 1]
    assert not orders.is_looking


def test_each_save_cleans_some_of_many_queues() -> None:  # K-110
    orders = ordered(12)
    sizes = []
    for _ in range(4):
        orders.clean(lambda _: None, lambda _: True, FIRST_MS, most=4)
        sizes.append(len(orders.wrapper().table))
    assert sizes == [2, 1, 0, 0]


async def test_after_a_start_a_turn_looks_at_some_of_the_queues_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 80,000 took 0.3 s of one turn.
    monkeypatch.setattr(order_service, "LOOKED_AT_PER_TURN", 2)
    before, orders, clock = ordered(5), ConsumerOrders(), ManualClock(FIRST_MS)
    orders.load(before.wrapper())
    looks = []
    take_freed = orders.take_freed

    def counted(*args: Any) -> list[tuple[str, str, int]]:
        looks.append(args[1])
        return take_freed(*args)

    monkeypatch.setattr(orders, "take_freed", counted)
    waiting: Any = None  # nobody is woken: all are blocked
    service = order_service.OrderService(clock, orders, waiting)
    await service.start()
    await clock.move_to(FIRST_MS)
    await service.stop()
    assert looks == [2, 2, 2]
    assert orders.next_free_ms() == FIRST_MS + 60_000

"""Which check points are settled, and which offset the revive queue is at (K-81 to K-83)."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.pop.records import Ack, CheckPoint
from pocketmq.broker.pop.revive import GRACE_MS, RevivePlanner
from support.growth import STEPS_MEASURED, least_s


def point(start: int, popped_ms: int = 1000, *, count: int = 3, queue: int = 0) -> CheckPoint:
    offsets = list(range(start, start + count))
    return CheckPoint.of_pop(("G", "T", queue, "b"), offsets, popped_ms, 10_000)


def ack_of(of: CheckPoint, *offsets: int, broker: str | None = "b") -> Ack:
    return Ack(
        offset=offsets[0], offsets=list(offsets) if len(offsets) > 1 else None,
        broker_name=broker, group=of.group, pop_time_ms=of.pop_time_ms, queue_id=of.queue_id,
        start_offset=of.start_offset, topic=of.topic,
    )  # fmt: skip


def test_a_check_point_waits_for_its_acks_and_keeps_the_rest_open() -> None:
    planner = RevivePlanner(-1, "b")
    first = point(0)
    planner.check_point(0, first)
    planner.ack(1, ack_of(first, 0))
    planner.ack(2, ack_of(first, 2, broker=None))  # of an old broker
    due_ms = first.revive_time_ms + GRACE_MS
    assert planner.due(due_ms) is None
    assert planner.due_at_ms() == due_ms + 1
    assert planner.due(due_ms + 1) == (0, first)
    assert first.open_offsets() == [1]
    assert planner.settled(0) == 2  # all that was read
    assert (len(planner), planner.due_at_ms(), planner.next_offset) == (0, None, 3)


def test_the_first_that_is_not_settled_holds_the_offset_back() -> None:
    planner = RevivePlanner(9, "b")
    assert planner.next_offset == 10
    points = [point(0), point(3, 5000), point(6)]
    for offset, each in enumerate(points, start=10):
        planner.check_point(offset, each)
    settled = planner.due(14_000)
    assert settled == (10, points[0])
    assert planner.settled(10) == 10
    assert planner.due(14_000) is None  # the second waits until 17,000, and the third behind it
    assert planner.due(17_001) == (11, points[1])


def test_a_check_point_stored_twice_is_settled_once() -> None:
    planner = RevivePlanner(-1, "b")
    planner.check_point(0, point(0))
    planner.ack(1, ack_of(point(0), 1))
    planner.check_point(2, point(0))
    due = planner.due(99_999)
    assert due is not None
    assert due[1].open_offsets() == [0, 2]
    planner.settled(due[0])
    assert planner.due(99_999) is None


def test_check_points_of_one_name_and_other_messages_are_both_settled() -> None:  # bad input
    planner = RevivePlanner(-1, "b")
    planner.check_point(0, point(0))
    planner.check_point(1, point(0, count=1))  # of an altered receipt, in the pop's millisecond
    planner.ack(2, ack_of(point(0), 0, 1))
    opened = []
    while (due := planner.due(99_999)) is not None:
        opened.append((due[0], due[1].open_offsets()))
        planner.settled(due[0])
    assert opened == [(0, [2]), (1, [])]
    planner.ack(3, ack_of(point(0), 2))
    planner.check_point(4, point(0))
    assert len(planner) == 1


def test_an_ack_without_its_check_point_is_passed_over() -> None:
    planner = RevivePlanner(-1, "b")
    planner.ack(0, ack_of(point(0), 0))
    planner.skip(1)
    assert (planner.next_offset, planner.due_at_ms()) == (2, None)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 2))), min_size=1, max_size=5),
    st.data(),
)
def test_exactly_what_nobody_acknowledged_is_open_however_a_restart_falls(
    pops: list[tuple[int, set[int]]], data: st.DataObject
) -> None:
    """Records as the timers deliver them: a check point a second before its acks."""
    records: list[tuple[int, CheckPoint | Ack]] = []
    wanted: set[int] = set()
    for number, (late, acked) in enumerate(pops):
        each = point(number * 3, 1000 * (number + late))
        records.append((each.revive_time_ms - 1000, each))
        for index in acked:
            ack = ack_of(each, each.start_offset + index)
            records.append((each.revive_time_ms, ack))
        wanted |= {each.start_offset + i for i in range(3) if i not in acked}
    records.sort(key=lambda record: record[0])
    found: list[int] = []
    planner = RevivePlanner(-1, "b")
    now_ms = 9000
    while planner.committed < len(records) - 1 or len(planner):
        now_ms += data.draw(st.integers(900, 4000))
        while planner.next_offset < len(records) and records[planner.next_offset][0] <= now_ms:
            offset = planner.next_offset
            record = records[offset][1]
            if isinstance(record, Ack):
                planner.ack(offset, record)
            else:
                planner.check_point(offset, _fresh(record))
        while (due := planner.due(now_ms)) is not None:
            found += due[1].open_offsets()
            planner.settled(due[0])
        if data.draw(st.booleans()):
            planner = RevivePlanner(planner.committed, "b")
        if now_ms > 40_000:
            break
    assert set(found) == wanted
    assert len(found) == len(wanted)


def _fresh(of: CheckPoint) -> CheckPoint:
    return point(of.start_offset, of.pop_time_ms)


def test_a_check_point_without_a_broker_s_name_is_this_broker_s() -> None:  # K-74
    planner = RevivePlanner(6, "b")
    assert planner.committed == 6
    old = point(0)
    old.broker_name = None
    planner.check_point(7, old)
    planner.ack(8, ack_of(point(0), 1))
    other = point(0)
    other.broker_name = "c"
    planner.check_point(9, other)
    planner.ack(10, ack_of(point(0), 2))
    assert (old.open_offsets(), other.open_offsets()) == ([0], [0, 1, 2])


def test_an_ack_still_counts_for_the_second_of_one_name_when_the_first_is_settled() -> None:
    planner = RevivePlanner(-1, "b")
    planner.check_point(0, point(0))
    planner.check_point(1, point(0, count=1))
    planner.settled(0)
    planner.ack(2, ack_of(point(0), 0))
    due = planner.due(99_999)
    assert due is not None
    assert (due[0], due[1].open_offsets()) == (1, [])


def test_a_check_point_costs_the_same_after_many_were_settled() -> None:
    planner = RevivePlanner(-1, "b")
    for offset in range(60_000):
        planner.check_point(offset, point(offset))

    def settle() -> None:
        due = planner.due(99_999)
        assert due is not None
        planner.settled(due[0])

    before_s = least_s(settle)
    while len(planner) > STEPS_MEASURED:
        settle()
    assert least_s(settle) < 10 * before_s


def test_a_check_point_costs_the_same_among_many_of_one_name() -> None:  # bad input
    planner = RevivePlanner(-1, "b")
    numbers = count()

    def read() -> None:
        number = next(numbers)
        offsets = [0, number + 1]
        planner.check_point(number, CheckPoint.of_pop(("G", "T", 0, "b"), offsets, 1000, 10_000))

    before_s = least_s(read)
    for _ in range(20_000):
        read()
    assert least_s(read) < 10 * before_s
    assert len(planner) == 2 * STEPS_MEASURED + 20_000

"""Which check points stay in memory and how far a group's offset follows, at each limit."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pocketmq.broker.pop.merge import Held, MergeLimits, PopMerge
from pocketmq.broker.pop.records import CheckPoint
from support.growth import least_s

NOW_MS = 1_700_000_000_000
QUEUE = ("G", "T", 0)
LIMITS = MergeLimits(
    enabled=True, stay_ms=10_000, before_due_ms=3_000, max_points=9, max_points_of_queue=9
)


def held(start: int, *, queue_id: int = 0, invisible_ms: int = 60_000, count: int = 2) -> Held:
    """Messages that a pop of just now handed out."""
    offsets = range(start, start + count)
    point = CheckPoint.of_pop(("G", "T", queue_id, "a"), offsets, NOW_MS, invisible_ms)
    return Held(point, 0, start + count, NOW_MS)


def merging(*starts: int, limits: MergeLimits = LIMITS) -> tuple[PopMerge, list[Held]]:
    merge = PopMerge(lambda: limits)
    points = [held(start) for start in starts]
    for each in points:
        merge.add(each, in_memory=True)
    return merge, points


@pytest.mark.parametrize(("invisible_ms", "stays"), [(4_499, False), (4_500, True)])
def test_one_that_is_soon_due_is_written_at_once(invisible_ms: int, stays: bool) -> None:  # K-100
    merge = PopMerge(lambda: LIMITS)
    assert merge.takes(held(0, invisible_ms=invisible_ms).point, NOW_MS) is stays


def test_so_many_stay_in_all_and_for_each_queue() -> None:  # K-100
    limits = replace(LIMITS, max_points=3, max_points_of_queue=2)
    merge, _ = merging(0, 2, limits=limits)
    assert not merge.takes(held(4).point, NOW_MS)
    other = held(4, queue_id=1)
    assert merge.takes(other.point, NOW_MS)
    merge.add(other, in_memory=True)
    assert not merge.takes(held(6, queue_id=1).point, NOW_MS)
    assert len(merge) == merge.ordered == 3


def test_one_that_is_written_is_in_the_order_only() -> None:
    merge = PopMerge(lambda: LIMITS)
    each = held(0)
    merge.add(each, in_memory=False)
    assert (len(merge), merge.ordered, list(merge)) == (0, 1, [])
    assert merge.acknowledge(each.point.key, [0], NOW_MS) is None
    assert merge.takes(each.point, NOW_MS)


def test_the_merging_is_on_until_its_order_is_empty() -> None:
    off = replace(LIMITS, enabled=False)
    assert PopMerge(lambda: LIMITS).is_on
    merge, points = merging(0, limits=off)
    assert merge.is_on
    assert not merge.takes(held(2).point, NOW_MS)
    assert merge.next_due(NOW_MS) is points[0]
    merge.forget()
    assert (merge.is_on, len(merge), merge.ordered) == (False, 0, 0)


@pytest.mark.parametrize(("after_ms", "is_taken"), [(0, True), (8_500, True), (8_501, False)])
def test_acks_are_taken_while_it_stays(after_ms: int, is_taken: bool) -> None:  # K-101
    merge, (each,) = merging(0)
    taken = merge.acknowledge(each.point.key, [0], NOW_MS + after_ms)
    assert taken is (each if is_taken else None)


@pytest.mark.parametrize(("invisible_ms", "is_taken"), [(4_499, False), (4_500, True)])
def test_acks_are_taken_until_it_is_nearly_due(invisible_ms: int, is_taken: bool) -> None:  # K-101
    merge = PopMerge(lambda: LIMITS)
    each = held(0, invisible_ms=invisible_ms)
    merge.add(each, in_memory=True)
    assert (merge.acknowledge(each.point.key, [0], NOW_MS) is each) is is_taken


def test_one_that_is_acknowledged_as_a_whole_leaves_memory() -> None:  # K-101
    merge, (first, second) = merging(0, 2)
    merge.acknowledge(first.point.key, [0, 77], NOW_MS)
    assert list(merge) == [first, second]
    merge.acknowledge(first.point.key, [1], NOW_MS)
    assert list(merge) == [second]


@pytest.mark.parametrize(
    ("invisible_ms", "after_ms", "is_due"),
    [(60_000, 10_000, False), (60_000, 10_001, True), (3_000, 0, False), (2_999, 0, True)],
)
def test_one_is_written_in_time(invisible_ms: int, after_ms: int, is_due: bool) -> None:  # K-102
    merge = PopMerge(lambda: LIMITS)
    merge.add(held(0, invisible_ms=invisible_ms), in_memory=True)
    assert (merge.next_due(NOW_MS + after_ms) is not None) is is_due


def test_those_that_leave_first_are_written_first() -> None:  # K-102
    merge = PopMerge(lambda: LIMITS)
    later, sooner, taken = held(0), held(2, invisible_ms=5_000), held(4, invisible_ms=5_000)
    for each in (later, sooner, taken):
        merge.add(each, in_memory=True)
    assert merge.take(taken.point.key) is taken
    written = []
    while (due := merge.next_due(NOW_MS + 20_000)) is not None:
        written.append(due)
        merge.written(due)
    assert written == [sooner, later]
    merge.keep(taken)
    assert merge.next_due(NOW_MS) is None
    assert merge.next_due(math.inf) is taken


def test_other_limits_hold_for_those_that_are_in_memory() -> None:  # K-102
    limits = [LIMITS]
    merge = PopMerge(lambda: limits[-1])
    each = held(0)
    merge.add(each, in_memory=True)
    assert merge.next_due(NOW_MS + 5_001) is None
    limits.append(replace(LIMITS, stay_ms=5_000))
    assert merge.next_due(NOW_MS + 5_000) is None
    assert merge.next_due(NOW_MS + 5_001) is each
    limits.append(LIMITS)
    assert merge.next_due(NOW_MS + 5_001) is None


def test_a_look_for_one_costs_the_same_however_many_are_in_memory() -> None:
    few, _ = merging(*range(0, 20, 2))
    many, _ = merging(*range(0, 40_000, 2))
    assert few.next_due(NOW_MS) is many.next_due(NOW_MS) is None
    of_few = least_s(lambda: few.next_due(NOW_MS), runs=5, steps=100)
    of_many = least_s(lambda: many.next_due(NOW_MS), runs=5, steps=100)
    assert of_many < 20 * of_few


def test_what_could_not_be_written_comes_back() -> None:
    merge, (each,) = merging(0)
    assert merge.take(each.point.key) is each
    assert (len(merge), merge.take(each.point.key)) == (0, None)
    merge.keep(None)
    merge.keep(each)
    assert list(merge) == [each]
    merge.written(each)
    merge.written(each)
    assert (len(merge), merge.ordered) == (0, 1)


def test_the_offset_passes_what_is_settled_from_the_front() -> None:  # K-103
    merge, (first, second, third) = merging(0, 2, 4)
    assert merge.settled(QUEUE) is None
    assert not first.is_safe
    second.is_safe = third.is_safe = True
    assert merge.settled(QUEUE) is None
    merge.acknowledge(first.point.key, [0, 1], NOW_MS)
    third.is_safe = False
    assert merge.settled(QUEUE) == 4
    assert merge.settled(QUEUE) is None
    third.is_safe = True
    assert merge.settled(QUEUE) == 6
    assert (merge.settled(QUEUE), merge.ordered) == (None, 0)
    assert merge.settled(("G", "T", 1)) is None


def test_the_merging_ends_when_the_last_offset_has_followed() -> None:  # K-103
    merge, (each,) = merging(0, limits=replace(LIMITS, enabled=False))
    each.is_safe = True
    assert merge.settled(QUEUE) == 2
    assert not merge.is_on
    assert Held(each.point, 3, 2, NOW_MS).revive_queue == 3


def test_a_group_that_was_moved_is_not_moved_again() -> None:
    merge, (each,) = merging(0)
    each.is_safe = True
    merge.reset(QUEUE)
    merge.reset(QUEUE)
    assert (merge.settled(QUEUE), merge.ordered) == (None, 0)

"""The events of several roles are put into causal order, also of those that come late."""

from __future__ import annotations

from pocketmq.operation.events.merge import EventMerge
from pocketmq.operation.events.roles import ClockMoved


def moved(by: str, real_us: int) -> ClockMoved:
    return ClockMoved(0, by, 1, real_us, from_ms=0)


def test_what_somebody_may_still_tell_is_waited_for() -> None:
    merge = EventMerge()
    merge.took("a", [moved("a", 10), moved("a", 30)], 40)
    merge.took("b", [moved("b", 5)], 20)
    assert [each.real_us for each in merge.ready()] == [5, 10]
    merge.took("b", [moved("b", 25)], 50)
    assert [each.real_us for each in merge.ready()] == [25, 30]


def test_who_starts_is_waited_for_until_it_tells_or_is_gone() -> None:
    merge = EventMerge()
    merge.expect("new", 15)
    merge.took("a", [moved("a", 10), moved("a", 30)], 40)
    assert [each.real_us for each in merge.ready()] == [10]
    merge.expect("new", 35)  # it is not asked anew for what it was expected with
    assert merge.ready() == []
    merge.took("new", [moved("new", 20)], 40)
    assert [each.real_us for each in merge.ready()] == [20, 30]
    merge.expect("other", 41)
    merge.took("a", [moved("a", 45)], 60)
    merge.took("new", [], 60)
    assert merge.ready() == []
    merge.gone("other")
    assert [each.real_us for each in merge.ready()] == [45]


def test_what_happened_when_a_role_last_told_is_not_held_back() -> None:
    merge = EventMerge()
    merge.took("a", [moved("a", 10), moved("a", 11)], 10)
    assert [each.real_us for each in merge.ready()] == [10]

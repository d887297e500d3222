"""Calls under way to one peer, with times that the caller brings (E-5)."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.transport.timed_calls import PendingCalls
from support.growth import least_s


def test_an_answer_finds_its_caller_by_the_number_of_the_question() -> None:
    calls = PendingCalls[str]()
    first, second = calls.add(1.0, "first"), calls.add(1.0, "second")
    assert first != second
    assert calls.take(second) == "second"
    assert calls.take(first) == "first"
    assert calls.take(first) is None
    assert len(calls) == 0


def test_calls_expire_at_their_deadline_and_the_next_deadline_is_known() -> None:
    calls = PendingCalls[str]()
    calls.add(3.0, "long")
    calls.add(1.0, "short")
    assert calls.next_deadline == 1.0
    assert calls.expire(0.9) == []
    assert calls.expire(1.0) == ["short"]
    assert calls.next_deadline == 3.0
    assert calls.expire(99.0) == ["long"]
    assert calls.next_deadline is None


def test_a_forgotten_call_hears_nothing_any_more() -> None:
    calls = PendingCalls[str]()
    opaque = calls.add(1.0, "forgotten")
    calls.forget(opaque)
    calls.forget(opaque)
    assert calls.take(opaque) is None
    assert calls.expire(9.0) == []


def test_a_lost_connection_ends_every_call_once() -> None:
    calls = PendingCalls[int]()
    for number in range(3):
        calls.add(1.0, number)
    assert calls.take_all() == [0, 1, 2]
    assert calls.take_all() == []
    assert calls.next_deadline is None


def test_numbers_wrap_to_zero_and_step_over_a_call_still_open() -> None:
    calls = PendingCalls[None]()
    assert calls.add(1.0, None) == 0
    calls._next_opaque = 0x7FFFFFFF
    assert calls.add(1.0, None) == 0x7FFFFFFF
    assert calls.add(1.0, None) == 1  # 0 is still open


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ask"), st.integers(0, 30)),
            st.tuples(st.just("answer"), st.integers(0, 20)),
            st.tuples(st.just("forget"), st.integers(0, 20)),
            st.tuples(st.just("wait"), st.integers(0, 10)),
        ),
        max_size=60,
    )
)
def test_each_call_ends_once_and_at_its_deadline_whatever_the_others_do(
    steps: list[tuple[str, int]],
) -> None:
    calls, now = PendingCalls[int](), 0.0
    deadlines: dict[int, float] = {}
    for what, number in steps:
        if what == "ask":
            opaque = calls.add(now + number, number)
            deadlines[opaque] = now + number
        elif what == "answer":
            assert (calls.take(number) is None) == (deadlines.pop(number, None) is None)
        elif what == "forget":
            calls.forget(number)
            deadlines.pop(number, None)
        else:
            now += number
            late = [opaque for opaque, deadline in deadlines.items() if deadline <= now]
            assert len(calls.expire(now)) == len(late)
            for opaque in late:
                del deadlines[opaque]
        assert len(calls) == len(deadlines)
        first = calls.next_deadline
        assert not deadlines or (first is not None and first <= min(deadlines.values()))


def test_a_call_that_nobody_answers_costs_the_same_beside_many_others() -> None:
    def one_late_after_the_other(others: int) -> float:
        calls, moments = PendingCalls[int](), count()
        for number in range(others):
            calls.add(number, number)

        def step() -> None:
            now = next(moments)
            assert calls.expire(now) == [now]
            calls.add(now + others, now + others)

        return least_s(step, runs=5, steps=100)

    assert one_late_after_the_other(10_000) < 10 * one_late_after_the_other(100)

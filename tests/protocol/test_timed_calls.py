"""Calls under way to one peer, with times that the caller brings (E-5)."""

from __future__ import annotations

from pocketmq.protocol.transport.timed_calls import PendingCalls


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

"""Calls under way to one peer, with times that the caller brings (E-5)."""

from __future__ import annotations

import pytest

from pocketmq.protocol.command import FLAG_RESPONSE, Command
from pocketmq.protocol.connection import PendingCalls

Answer = Command | Exception


def answer_to(opaque: int) -> Command:
    return Command(0, opaque=opaque, flag=FLAG_RESPONSE)


def test_an_answer_finds_its_caller_by_the_number_of_the_question() -> None:
    calls, heard = PendingCalls(), list[tuple[str, int]]()

    def caller(name: str, answer: Answer) -> None:
        assert isinstance(answer, Command)
        heard.append((name, answer.opaque))

    first = calls.add(1.0, lambda answer: caller("first", answer))
    second = calls.add(1.0, lambda answer: caller("second", answer))
    assert first != second
    assert calls.complete(answer_to(second))
    assert calls.complete(answer_to(first))
    assert heard == [("second", second), ("first", first)]
    assert not calls.complete(answer_to(first))
    assert len(calls) == 0


def test_calls_expire_at_their_deadline_and_the_next_deadline_is_known() -> None:
    calls, late = PendingCalls(), list[str]()
    calls.add(3.0, lambda _: late.append("long"))
    calls.add(1.0, lambda _: late.append("short"))
    assert calls.next_deadline == 1.0
    assert calls.expire(0.9) == []
    for on_answer in calls.expire(1.0):
        on_answer(TimeoutError())
    assert late == ["short"]
    assert calls.next_deadline == 3.0
    assert len(calls.expire(99.0)) == 1
    assert calls.next_deadline is None


def test_a_forgotten_call_hears_nothing_any_more() -> None:
    calls = PendingCalls()
    opaque = calls.add(1.0, lambda _: pytest.fail("it was forgotten"))
    calls.forget(opaque)
    calls.forget(opaque)
    assert not calls.complete(answer_to(opaque))
    assert calls.expire(9.0) == []


def test_a_lost_connection_fails_every_call_once() -> None:
    calls, errors = PendingCalls(), list[Answer]()
    for _ in range(3):
        calls.add(1.0, errors.append)
    error = ConnectionError("gone")
    calls.fail_all(error)
    calls.fail_all(error)
    assert errors == [error] * 3
    assert calls.next_deadline is None


def test_numbers_wrap_to_zero_and_step_over_a_call_still_open() -> None:
    calls = PendingCalls()
    assert calls.add(1.0, lambda _: None) == 0
    calls._next_opaque = 0x7FFFFFFF
    assert calls.add(1.0, lambda _: None) == 0x7FFFFFFF
    assert calls.add(1.0, lambda _: None) == 1  # 0 is still open

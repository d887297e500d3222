"""The bound of a turn goes with the machine, and still finds work that grows with the square."""

from __future__ import annotations

import time

import pytest

from support.cost import cost_s, least_and_bound_s

TRIES = 5


def linear(count: int) -> None:
    list(map(str, range(count)))


def quadratic(count: int) -> None:
    names = [str(nth) for nth in range(count)]
    sum(names.index(name) for name in names)


@pytest.mark.parametrize("slower", [1, 20])
def test_a_machine_that_is_slower_has_a_wider_bound(
    monkeypatch: pytest.MonkeyPatch, slower: int
) -> None:
    thread_time = time.thread_time
    monkeypatch.setattr(time, "thread_time", lambda: thread_time() * slower)

    def turn_s() -> float:
        return cost_s(lambda: linear(100_000))

    took_s, bound_s = least_and_bound_s(turn_s(), turn_s, TRIES)
    assert took_s < bound_s


def test_quadratic_work_is_found() -> None:
    def turn_s() -> float:
        began = time.thread_time()
        quadratic(10_000)
        return time.thread_time() - began

    took_s, bound_s = least_and_bound_s(turn_s(), turn_s, 1)
    assert took_s >= bound_s

"""What a broker remembers of transactions, when they are many."""

from __future__ import annotations

from itertools import count

from pocketmq.broker.transactions.decisions import Decisions
from pocketmq.broker.transactions.half_messages import Outcome
from support.growth import least_s

REMEMBERED = 50_000


def test_the_oldest_are_forgotten_and_the_others_known() -> None:
    decisions = Decisions(max_open=2, max_decided=2)
    for key in "abc":
        decisions.opened(key)
    assert [decisions.is_open(key) for key in "abc"] == [False, True, True]
    for key in "bca":
        decisions.decided(key, Outcome.COMMIT)
    decisions.decided("c", Outcome.COMMIT)  # again: now it is the latest
    decisions.decided("d", Outcome.ROLLBACK)
    found = [decisions.outcome(key) for key in "abcd"]
    assert found == [None, None, Outcome.COMMIT, Outcome.ROLLBACK]


def test_a_decision_costs_the_same_after_many_were_forgotten() -> None:
    """By processor time, least of ten runs each: it took 50 times as much after 150,000 of them."""
    decisions = Decisions(max_decided=REMEMBERED)
    keys = map(str, count())

    def decide() -> None:
        decisions.decided(next(keys), Outcome.COMMIT)

    before_s = least_s(decide)
    for _ in range(3 * REMEMBERED):
        decide()
    assert least_s(decide) < 10 * before_s

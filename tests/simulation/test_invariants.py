"""The ledgers see what they are there to see, and let pass what RocketMQ allows."""

from __future__ import annotations

import pytest

from pocketmq.cluster.simulation.invariants import OwnershipLedger, ProgressLedger
from pocketmq.protocol.message import MessageQueue

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)


def consumed(ledger: ProgressLedger, *offsets: int, client: str = "c1") -> None:
    for offset in offsets:
        ledger.started(client, Q0, offset, f"m{offset}", 0, 1.0)
        ledger.ended(client, Q0, offset, f"m{offset}", 0, ok=True)


def test_a_commit_behind_the_first_unconsumed_message_is_fine_one_beyond_is_not() -> None:
    ledger = ProgressLedger(orderly=False)
    consumed(ledger, 0, 2)
    ledger.committed("G", Q0, 1, "c1", 1, 2.0)
    assert not ledger.violations
    ledger.committed("G", Q0, 2, "c1", 1, 2.0)
    [violation] = ledger.violations
    assert "1 is not consumed" in violation


def test_an_offset_may_fall_between_owners_but_not_within_one_ownership() -> None:
    ledger = ProgressLedger(orderly=False)
    consumed(ledger, 0, 1, 2)
    ledger.committed("G", Q0, 3, "c2", 2, 2.0)
    ledger.committed("G", Q0, 1, "c1", 1, 2.1)  # a late commit of the former owner
    assert (ledger.falls, ledger.violations) == (1, [])
    ledger.committed("G", Q0, 0, "c1", 1, 2.2)
    [violation] = ledger.violations
    assert "in one ownership" in violation


def test_a_broker_that_comes_back_with_older_offsets_is_counted_only() -> None:
    ledger = ProgressLedger(orderly=False)
    consumed(ledger, 0, 1, 2)
    ledger.committed("G", Q0, 3, "c1", 1, 2.0)
    ledger.broker_restarted("a", {("G", Q0): 1}, 3.0)
    ledger.committed("G", Q0, 2, "c1", 1, 4.0)
    assert (ledger.falls, ledger.violations) == (1, [])


def test_a_message_that_nobody_consumed_is_missing_unless_it_is_a_dead_letter() -> None:
    ledger = ProgressLedger(orderly=False)
    ledger.acked |= {"m0": None, "m1": None, "m2!": None}
    consumed(ledger, 0)
    assert ledger.missing(["m2!"]) == ["m1"]


def test_a_seventeenth_retry_is_one_too_many() -> None:
    ledger = ProgressLedger(orderly=False)
    ledger.started("c1", Q0, 0, "m0!", 16, 1.0)
    assert not ledger.violations
    ledger.started("c1", Q0, 1, "m0!", 17, 1.0)
    assert ledger.violations


def test_one_failed_delivery_makes_one_copy() -> None:
    ledger = ProgressLedger(orderly=False)
    ledger.started("c1", Q0, 0, "m0", 0, 1.0)
    ledger.ended("c1", Q0, 0, "m0", 0, ok=False)
    ledger.started("c1", Q1, 5, "m0", 1, 2.0)
    ledger.started("c1", Q1, 5, "m0", 1, 2.0)  # the same copy again
    ledger.check_copies(exactly=True)
    assert not ledger.violations
    ledger.started("c1", Q1, 6, "m0", 1, 2.0)
    ledger.check_copies(exactly=False)  # an answer may have been lost
    assert not ledger.violations
    ledger.check_copies(exactly=True)
    assert ledger.violations


def test_an_orderly_queue_has_one_consumer_and_an_order() -> None:  # C-58, B-45
    ledger = ProgressLedger(orderly=True)
    consumed(ledger, 0, 1)
    ledger.started("c1", Q0, 2, "m2", 0, 100.0)
    ledger.started("c2", Q0, 1, "m1", 0, 100.0)
    assert "two consumers" in ledger.violations.pop()
    ledger.client_gone("c1")
    ledger.abandoned("c2", Q0)
    ledger.started("c2", Q0, 3, "m3", 0, 101.0)
    assert "out of order" in ledger.violations.pop()


def test_for_30_s_after_a_broker_restart_order_is_not_promised() -> None:  # B-45, C-52
    ledger = ProgressLedger(orderly=True)
    ledger.broker_restarted("a", {}, 100.0)
    ledger.started("c1", Q0, 0, "m0", 0, 110.0)
    ledger.started("c2", Q0, 0, "m0", 0, 130.0)
    assert not ledger.violations
    ledger.started("c3", Q0, 0, "m0", 0, 130.5)
    assert ledger.violations


def settled(*, first: frozenset[MessageQueue], second: frozenset[MessageQueue]) -> OwnershipLedger:
    ledger = OwnershipLedger(orderly=False)
    ledger.queues(frozenset({Q0, Q1}), 0.0)
    ledger.alive(frozenset({"c1", "c2"}), 0.0)
    for client in ("c1", "c2"):
        ledger.known(client, frozenset({Q0, Q1}), 0.0)
    ledger.view("a", ("c1", "c2"), 10.0)
    ledger.owned("c1", first)
    ledger.owned("c2", second)
    return ledger


@pytest.mark.parametrize(
    ("first", "second", "ok"),
    [
        (frozenset({Q0}), frozenset({Q1}), True),
        (frozenset({Q0, Q1}), frozenset({Q1}), False),
        (frozenset({Q0}), frozenset(), False),
    ],
)
def test_21_s_after_the_members_changed_each_queue_has_exactly_one_owner(
    first: frozenset[MessageQueue], second: frozenset[MessageQueue], ok: bool
) -> None:
    ledger = settled(first=first, second=second)
    ledger.check(30.9)
    assert ledger.checks == 0
    ledger.check(31.1)
    assert ledger.checks == 1
    assert (not ledger.violations) is ok


def test_after_a_notification_2_s_are_enough() -> None:
    ledger = settled(first=frozenset(), second=frozenset())
    ledger.notified("a", "c1", 10.0, 10.1)
    ledger.check(13.0)
    assert ledger.fast_checks == 0  # c2 has not heard yet
    ledger.notified("a", "c2", 10.0, 11.5)
    ledger.check(13.4)
    assert ledger.fast_checks == 0
    ledger.check(13.6)
    assert ledger.fast_checks == 1
    assert ledger.violations


def test_nothing_is_asked_while_brokers_disagree_or_know_a_dead_client() -> None:  # C-29
    ledger = settled(first=frozenset(), second=frozenset())
    ledger.view("b", ("c1",), 20.0)
    ledger.check(100.0)
    ledger.view("b", ("c1", "c2", "c2"), 110.0)
    ledger.check(200.0)
    assert (ledger.checks, ledger.violations) == (0, [])

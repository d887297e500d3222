"""RebalanceLockManager: who holds which queue, and for how long."""

from __future__ import annotations

from pocketmq.broker.locks.queue_locks import RebalanceLockManager
from pocketmq.protocol.messages.message import MessageQueue

QUEUES = [MessageQueue("orders", "broker-a", n) for n in range(3)]


def test_a_free_queue_is_taken_and_another_client_is_refused() -> None:  # B-46
    locks = RebalanceLockManager()
    assert locks.lock("readers", "one", QUEUES[:2], 0.0) == QUEUES[:2]
    assert locks.lock("readers", "two", QUEUES, 1.0) == QUEUES[2:]
    assert locks.holder("readers", QUEUES[0], 1.0) == "one"


def test_locks_of_two_groups_know_nothing_of_each_other() -> None:  # B-45
    locks = RebalanceLockManager()
    locks.lock("readers", "one", QUEUES, 0.0)
    assert locks.lock("others", "two", QUEUES, 0.0) == QUEUES


def test_the_holder_renews_its_lock() -> None:  # B-46
    locks = RebalanceLockManager()
    locks.lock("readers", "one", QUEUES[:1], 0.0)
    assert locks.lock("readers", "one", QUEUES[:1], 50.0) == QUEUES[:1]
    assert locks.lock("readers", "two", QUEUES[:1], 100.0) == []


def test_a_lock_lives_for_60_s_and_not_a_moment_less() -> None:  # B-45, B-46, B-50
    locks = RebalanceLockManager()
    locks.lock("readers", "one", QUEUES[:1], 0.0)
    assert locks.lock("readers", "two", QUEUES[:1], 60.0) == []
    assert locks.lock("readers", "two", QUEUES[:1], 60.001) == QUEUES[:1]
    assert locks.lock("readers", "one", QUEUES[:1], 61.0) == []


def test_the_same_client_takes_its_expired_lock_again() -> None:  # B-47
    locks = RebalanceLockManager()
    locks.lock("readers", "one", QUEUES[:1], 0.0)
    assert locks.lock("readers", "one", QUEUES[:1], 1000.0) == QUEUES[:1]


def test_only_the_holder_unlocks() -> None:  # B-48
    locks = RebalanceLockManager()
    locks.lock("readers", "one", QUEUES, 0.0)
    locks.unlock("readers", "two", QUEUES)
    assert locks.lock("readers", "two", QUEUES, 1.0) == []
    locks.unlock("readers", "one", QUEUES[:1])
    locks.unlock("nobody", "one", QUEUES)
    assert locks.lock("readers", "two", QUEUES, 1.0) == QUEUES[:1]


def test_a_group_with_a_live_lock_is_known_as_ordered() -> None:  # B-86
    locks = RebalanceLockManager()
    assert not locks.holds_live_lock("readers", 0.0)
    locks.lock("readers", "one", QUEUES[:1], 0.0)
    assert locks.holds_live_lock("readers", 60.0)
    assert not locks.holds_live_lock("readers", 60.5)


def test_expired_locks_take_no_memory() -> None:
    locks = RebalanceLockManager()
    locks.lock("readers", "one", QUEUES[:1], 0.0)
    locks.lock("readers", "one", QUEUES[1:], 30.0)
    assert (locks.count, locks.unknown("readers", QUEUES)) == (3, 0)
    assert locks.unknown("others", QUEUES[:2]) == 2
    locks.expire(60.0)
    assert locks.count == 3, "a lock lives for 60 s and not a moment less"
    locks.expire(61.0)
    assert locks.holder("readers", QUEUES[1], 61.0) == "one"
    locks.expire(91.0)
    assert locks._table == {}


def test_the_holder_of_a_lock_is_told_until_its_60_s_are_over() -> None:
    locks = RebalanceLockManager()
    assert locks.holder("readers", QUEUES[0], 0.0) is None
    locks.lock("readers", "one", QUEUES[:1], 1000.0)
    assert locks.holder("readers", QUEUES[0], 1060.0) == "one"
    assert locks.holder("readers", QUEUES[0], 1060.001) is None
    assert locks.holder("readers", QUEUES[1], 1000.0) is None


def test_a_group_consumes_in_order_while_one_of_its_locks_lives() -> None:
    locks = RebalanceLockManager()
    locks.lock("readers", "one", QUEUES[:1], 1000.0)
    assert locks.holds_live_lock("readers", 1060.0)
    assert not locks.holds_live_lock("readers", 1060.001)
    assert not locks.holds_live_lock("others", 1000.0)

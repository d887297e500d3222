"""When a rebalance has settled, and who owned what then."""

from __future__ import annotations

from pocketmq.cluster.demo.allocation import AllocationLog, QueueName

A0, A1, B0, B1 = (QueueName("a", 0), QueueName("a", 1), QueueName("b", 0), QueueName("b", 1))


def started_with_two() -> AllocationLog:
    log = AllocationLog([B1, A0, B0, A1])
    log.joined(["c1", "c2"], 1000, "2 consumers start")
    log.assigned("c1", [A0, A1], 1200)
    log.assigned("c2", [B0, B1], 1300)
    for at, (name, queue) in enumerate([("c1", A0), ("c1", A1), ("c2", B0), ("c2", B1)]):
        log.pulled(name, queue, 1400 + at)
    return log


def test_the_start_is_settled_when_the_last_queue_was_pulled() -> None:
    log = started_with_two()
    (start,) = log.rebalances
    assert start.took_ms == 403
    assert start.queues_of("c1") == [A0, A1]
    assert start.queues_of("c2") == [B0, B1]
    assert start.moved == 4


def test_one_consumer_that_owns_everything_does_not_settle_the_start_of_two() -> None:
    log = AllocationLog([A0, B0])
    log.joined(["c1", "c2"], 0, "start")
    log.assigned("c1", [A0, B0], 10)
    log.pulled("c1", A0, 11)
    log.pulled("c1", B0, 12)
    assert not log.settled
    log.assigned("c2", [B0], 20)
    log.pulled("c2", B0, 21)
    assert not log.settled, "c1 still says that it owns B0"
    log.assigned("c1", [A0], 30)
    assert log.rebalances[0].took_ms == 30


def test_a_join_is_settled_when_old_owners_let_go_and_the_newcomer_pulled() -> None:
    log = started_with_two()
    log.joined(["c3"], 5000, "c3 joins")
    assert not log.settled
    log.assigned("c2", [B0], 5100)
    assert not log.settled, "B1 has no owner"
    log.assigned("c3", [B1], 5200)
    assert not log.settled, "c3 has not pulled yet"
    log.pulled("c3", B1, 5250)
    join = log.rebalances[-1]
    assert (join.took_ms, join.moved) == (250, 1)
    assert join.owners == {A0: "c1", A1: "c1", B0: "c2", B1: "c3"}


def test_after_a_kill_the_queues_need_an_owner_that_has_pulled_them_itself() -> None:
    log = started_with_two()
    log.left("c2", 9000, "c2 is killed")
    assert not log.settled
    log.assigned("c1", [A0, A1, B0, B1], 9100)
    log.pulled("c1", B0, 9150)
    log.pulled("c2", B1, 9151)  # last words that were still in the pipe
    assert not log.settled
    log.pulled("c1", B1, 9200)
    assert log.rebalances[-1].took_ms == 200
    assert log.members == ["c1"]


def test_a_queue_that_comes_back_must_be_pulled_again() -> None:
    log = started_with_two()
    log.joined(["c3"], 100, "c3 joins")
    log.assigned("c1", [A0], 110)
    log.assigned("c1", [A0, A1], 120)
    log.assigned("c3", [], 130)
    assert not log.settled
    log.pulled("c1", A1, 140)
    assert log.settled


def test_a_second_event_ends_a_rebalance_that_never_settled() -> None:
    log = started_with_two()
    log.joined(["c3"], 5000, "c3 joins")
    log.left("c3", 5001, "c3 is killed")
    log.assigned("c1", [A0, A1], 5002)
    reasons = [(each.reason, each.took_ms) for each in log.rebalances]
    assert reasons == [("2 consumers start", 403), ("c3 joins", None), ("c3 is killed", 1)]


def test_a_start_of_several_begins_with_the_last_of_them() -> None:
    log = AllocationLog([A0])
    log.joined(["c1", "c2"], 100, "start")
    log.began_later(150)
    log.began_later(120)
    log.assigned("c1", [A0], 300)
    log.pulled("c1", A0, 310)
    log.assigned("c2", [], 400)
    assert log.rebalances[0].took_ms == 250


def test_a_queue_with_two_owners_is_shown_with_both() -> None:
    log = AllocationLog([A0])
    log.joined(["c1", "c2"], 0, "start")
    log.assigned("c1", [A0], 1)
    log.assigned("c2", [A0], 2)
    log.left("c2", 3, "c2 is killed")
    assert log.rebalances[0].owners == {A0: "c1+c2"}

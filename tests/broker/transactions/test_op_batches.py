"""Op records are written in batches, and nothing is written twice or left (X-25)."""

from __future__ import annotations

from pocketmq.broker.transactions.decisions import Decisions
from pocketmq.broker.transactions.half_messages import Outcome
from pocketmq.broker.transactions.op_batches import OpBatches, OpLimits


def test_a_batch_is_due_three_seconds_after_the_last_or_when_it_is_long() -> None:
    batches = OpBatches(lambda: OpLimits(max_chars=10, interval_s=3.0))
    batches.add(0, [17], now=100.0)
    assert batches.due(102.9) == []
    assert batches.next_due_in_s(102.0) == 1.0
    assert batches.due(103.0) == [0]
    batches.add(0, [18], now=100.5)
    batches.add(0, [1234], now=100.6)
    assert batches.due(100.6) == [0]
    assert batches.next_due_in_s(100.6) == 0.0
    assert batches.take(0, 100.6) == "17,18,1234,"
    assert batches.next_due_in_s(100.6) is None


def test_a_timer_that_fires_a_float_s_last_bit_early_finds_the_batch_due() -> None:
    batches = OpBatches(lambda: OpLimits(max_chars=10, interval_s=3.0))
    batches.add(0, [17], now=1.0490000000000001)
    now = 4.049
    left_s = batches.next_due_in_s(now)
    assert left_s is not None
    assert batches.due(now) == [0] or now + left_s > now  # or it would be asked without end
    assert batches.due(now + left_s) == [0]


def test_a_long_batch_is_taken_in_parts() -> None:
    batches = OpBatches(lambda: OpLimits(max_chars=6, interval_s=3.0))
    for offset in (17, 18, 19):
        batches.add(5, [offset], now=0.0)
    assert batches.take(5, 0.0) == "17,18,"
    assert batches.waiting() == [5]
    assert batches.take(5, 0.0) == "19,"
    assert batches.waiting() == []


def test_what_could_not_be_stored_comes_first_again() -> None:
    batches = OpBatches(lambda: OpLimits(max_chars=3, interval_s=3.0))
    batches.add(0, [1], now=0.0)
    batches.add(0, [2], now=0.0)
    body = batches.take(0, 0.0)
    batches.put_back(0, body)
    assert batches.take(0, 0.0) + batches.take(0, 0.0) == "1,2,"
    assert batches.waiting() == []


def test_queues_do_not_mix() -> None:
    batches = OpBatches(lambda: OpLimits(max_chars=100, interval_s=0.0))
    batches.add(0, [1], now=0.0)
    batches.add(1, [2], now=0.0)
    assert sorted(batches.due(0.0)) == [0, 1]
    assert (batches.take(0, 0.0), batches.take(1, 0.0)) == ("1,", "2,")


def test_the_first_decision_of_an_open_message_is_certain_and_a_second_is_known() -> None:
    decisions = Decisions()
    decisions.opened("key")
    assert decisions.is_open("key")
    decisions.decided("key", Outcome.COMMIT)
    assert not decisions.is_open("key")
    assert decisions.outcome("key") is Outcome.COMMIT
    decisions.opened("key")  # its producer heard no answer and sent it again
    assert not decisions.is_open("key")
    assert decisions.outcome("other") is None
    assert decisions.outcome(None) is None


def test_memory_of_decisions_is_bounded() -> None:
    decisions = Decisions(max_open=2, max_decided=2)
    for key in "abc":
        decisions.opened(key)
    assert [decisions.is_open(key) for key in "abc"] == [False, True, True]
    for key in "abc":
        decisions.decided(key, Outcome.ROLLBACK)
    assert [decisions.outcome(key) for key in "abc"] == [None, Outcome.ROLLBACK, Outcome.ROLLBACK]


def test_a_batch_of_just_the_length_waits_for_its_time() -> None:
    batches = OpBatches(lambda: OpLimits(max_chars=6, interval_s=3.0))
    batches.add(0, [17, 18], now=1.0)
    assert (batches.due(1.0), batches.next_due_in_s(1.0)) == ([], 3.0)
    batches.add(0, [9], now=1.0)
    assert (batches.due(1.0), batches.next_due_in_s(1.0)) == ([0], 0.0)


def test_the_first_queue_that_is_due_counts_and_never_less_than_nothing() -> None:
    batches = OpBatches(lambda: OpLimits(max_chars=100, interval_s=3.0))
    batches.add(0, [17], now=2.0)
    batches.add(1, [18], now=1.0)
    assert batches.next_due_in_s(2.0) == 2.0
    assert batches.next_due_in_s(9.0) == 0.0


def test_the_next_record_waits_its_time_from_the_last_one(
) -> None:
    batches = OpBatches(lambda: OpLimits(max_chars=6, interval_s=3.0))
    batches.add(0, [17, 18, 19], now=0.0)
    assert batches.take(0, 5.0) == "17,18,"
    assert (batches.due(7.9), batches.due(8.0)) == ([], [0])
    batches.put_back(0, "17,18,")
    assert batches.due(5.0) == [0], "it is longer than it may be again"
    assert batches.take(0, 5.0) == "17,18,"
    assert batches.due(5.0) == []


def test_memory_of_decisions_is_for_a_hundred_thousand() -> None:
    decisions = Decisions()
    for n in range(100_000):
        decisions.opened(f"o{n}")
        decisions.decided(f"d{n}", Outcome.COMMIT)
    assert decisions.is_open("o0")
    assert decisions.outcome("d0") is Outcome.COMMIT
    decisions.opened("one more")
    decisions.decided("another", Outcome.ROLLBACK)
    assert not decisions.is_open("o0")
    assert decisions.outcome("d0") is None


def test_the_latest_decision_of_a_message_counts_and_is_kept_longest() -> None:
    decisions = Decisions(max_decided=2)
    decisions.decided("a", Outcome.ROLLBACK)
    decisions.decided("b", Outcome.COMMIT)
    decisions.decided("a", Outcome.COMMIT)
    decisions.decided("c", Outcome.COMMIT)
    assert decisions.outcome("a") is Outcome.COMMIT
    assert decisions.outcome("b") is None


def test_what_is_forgotten_is_not_written_any_more() -> None:
    batches = OpBatches(lambda: OpLimits(max_chars=6, interval_s=3.0))
    batches.add(0, [17, 18, 19], now=0.0)
    batches.add(1, [20], now=0.0)
    batches.forget()
    assert (batches.waiting(), batches.due(9.0), batches.next_due_in_s(9.0)) == ([], [], None)
    batches.add(0, [7], now=9.0)
    assert batches.due(9.0) == []
    assert batches.take(0, 12.0) == "7,"


def test_a_broker_that_leads_no_more_knows_no_decision() -> None:  # B-101
    decisions = Decisions()
    decisions.opened("open")
    decisions.decided("done", Outcome.COMMIT)
    decisions.forget()
    assert not decisions.is_open("open")
    assert decisions.outcome("done") is None
    decisions.opened("done")
    assert decisions.is_open("done")

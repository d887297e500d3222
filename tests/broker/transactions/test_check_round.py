"""Which half messages are asked for, when, and how far a round gets (X-30 to X-37)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pocketmq.broker.transactions.check_round import Action, CheckRound, HalfRead
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from support.half_queue import LIMITS, Queues

LATER = LIMITS.timeout_ms + 1


@pytest.fixture
def queues() -> Queues:
    return Queues()


def actions(queues: Queues, now_ms: int) -> list[tuple[str, int]]:
    steps, _ = queues.round(0, 0, now_ms)
    return [(step.action.name, step.half.queue_offset) for step in steps if step.half]


def test_what_an_op_record_names_is_settled_and_the_rest_is_asked_for(queues: Queues) -> None:
    for _ in range(5):
        queues.put()
    queues.done(0, 3)
    queues.done(1)
    steps, progress = queues.round(0, 0, LATER)
    assert [(step.action, step.half and step.half.queue_offset) for step in steps] == [
        (Action.ASK, 2),
        (Action.ASK, 4),
    ]
    assert steps[0].changes == ((names.TRANSACTION_CHECK_TIMES, "1"),)
    assert progress == (5, 2)


def test_a_young_half_message_ends_the_round(queues: Queues) -> None:
    queues.put(born_ms=0)
    queues.put(born_ms=10_000)
    queues.put(born_ms=0)
    steps, progress = queues.round(0, 0, 10_000 + LIMITS.timeout_ms)
    assert len(steps) == 1
    assert progress == (1, 0)
    assert actions(queues, 10_001 + LIMITS.timeout_ms) == [("ASK", 0), ("ASK", 1), ("ASK", 2)]


def test_up_to_5_3_one_exactly_as_old_is_asked_for(queues: Queues) -> None:
    limits = replace(LIMITS, young_at_its_age=False)
    for then in ([], ["RENEW"]):
        queues.halves = []
        if then:
            queues.put(CHECK_IMMUNITY_TIME_IN_SECONDS="6")
        else:
            queues.put()
        for check, expected in ((limits, ["ASK"]), (LIMITS, then)):
            steps, _ = queues.round(0, 0, LIMITS.timeout_ms, check)
            assert [step.action.name for step in steps] == expected


def test_what_is_stored_after_the_round_began_waits_for_the_next(queues: Queues) -> None:
    queues.put(born_ms=0)
    check = CheckRound(0, 0, LIMITS, started_ms=0)
    assert check.next(queues, LATER) is None
    assert check.progress() == (0, 0)


def test_a_producer_whose_clock_is_ahead_is_asked(queues: Queues) -> None:  # age below 0
    queues.halves = []
    queues.put(born_ms=50_000)
    queues.restore(0, born_ms=50_000, stored_ms=0)
    assert actions(queues, 49_999) == [("ASK", 0)]
    assert actions(queues, 50_000) == [], "born now"


def test_a_half_message_is_asked_for_15_times_and_then_given_up(queues: Queues) -> None:
    queues.put(TRANSACTION_CHECK_TIMES="14")
    queues.put(TRANSACTION_CHECK_TIMES="15")
    steps, _ = queues.round(0, 0, LATER)
    assert [step.action for step in steps] == [Action.ASK, Action.GIVE_UP]
    assert steps[0].changes == ((names.TRANSACTION_CHECK_TIMES, "15"),)


def test_one_older_than_the_log_keeps_is_given_up_unasked(queues: Queues) -> None:
    queues.put()
    assert actions(queues, LIMITS.reserved_ms + 1) == [("GIVE_UP", 0)]


def test_one_that_asked_for_immunity_is_stored_again_until_then(queues: Queues) -> None:
    first = queues.put(CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    queues.put()
    steps, progress = queues.round(0, 0, LATER)
    assert [step.action for step in steps] == [Action.RENEW, Action.ASK]
    assert steps[0].changes == ((names.TRANSACTION_PREPARED_QUEUE_OFFSET, str(first)),)
    assert progress == (2, 0)
    assert actions(queues, 60_001)[0] == ("ASK", 0)


def test_a_renewed_one_is_found_by_the_op_record_of_its_first_place(queues: Queues) -> None:
    queues.put(CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    queues.put(CHECK_IMMUNITY_TIME_IN_SECONDS="60", TRAN_PREPARED_QUEUE_OFFSET="7")
    queues.done(7)
    steps, progress = queues.round(0, 0, LATER)
    assert [step.half and step.half.queue_offset for step in steps] == [0]
    assert progress == (2, 1)


def test_what_is_decided_and_not_yet_written_is_not_asked_for(queues: Queues) -> None:
    queues.put()
    queues.put()
    queues.decided.add("key-0")
    assert actions(queues, LATER) == [("ASK", 1)]


def test_op_records_are_done_in_one_run_from_the_first(queues: Queues) -> None:
    for _ in range(4):
        queues.put()
    queues.done(3)  # its half message is behind a young one
    queues.done(0)
    queues.restore(1, born_ms=0, stored_ms=LATER)
    _, progress = queues.round(0, 0, LATER)
    assert progress == (1, 0)
    queues.restore(1, born_ms=0, stored_ms=0)
    _, progress = queues.round(1, 0, LATER)
    assert progress == (4, 2)


def test_a_half_message_named_by_two_op_records_holds_neither_back(queues: Queues) -> None:
    queues.put()
    queues.done(0)
    queues.done(0)
    assert queues.round(0, 0, LATER) == ([], (1, 2))


def test_a_step_that_failed_is_the_first_of_the_next_round(queues: Queues) -> None:
    queues.put()
    queues.put()
    check = CheckRound(0, 0, LIMITS, LATER)
    assert check.next(queues, LATER) is not None
    check.failed()
    assert check.next(queues, LATER) is None
    assert check.progress() == (0, 0)


def test_a_hole_in_the_queue_is_passed_and_a_second_one_ends_the_round(queues: Queues) -> None:
    for _ in range(6):
        queues.put()
    queues.halves[1] = queues.halves[3] = None
    steps, progress = queues.round(0, 0, LATER)
    assert [step.half and step.half.queue_offset for step in steps] == [0, 2]
    assert progress[0] == 3


def test_a_round_ends_after_a_minute_and_pauses_on_the_way(queues: Queues) -> None:
    for _ in range(500):
        queues.put()
    queues.done(*range(500))
    check = CheckRound(0, 0, LIMITS, LATER)
    step = check.next(queues, LATER)
    assert step is not None
    assert step.action is Action.PAUSE
    assert check.progress() == (200, 0)
    assert check.next(queues, LATER + 60_001) is None
    assert check.progress() == (200, 0)


def test_the_limits_are_those_that_were_set(queues: Queues) -> None:
    queues.put(TRANSACTION_CHECK_TIMES="1")
    steps, _ = queues.round(0, 0, 101, replace(LIMITS, timeout_ms=100, max_checks=1))
    assert [step.action for step in steps] == [Action.GIVE_UP]


def test_each_limit_holds_to_the_millisecond(queues: Queues) -> None:
    queues.put()
    assert actions(queues, LIMITS.timeout_ms) == []
    assert actions(queues, LATER) == [("ASK", 0)]
    assert actions(queues, LIMITS.reserved_ms) == [("ASK", 0)]
    queues.halves.clear()
    queues.put(CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    assert actions(queues, 59_999) == [("RENEW", 0)]
    assert actions(queues, 60_000) == [("RENEW", 0)]
    assert actions(queues, 60_001) == [("ASK", 0)]


def test_a_shorter_immunity_than_the_usual_time_is_asked_for_earlier(queues: Queues) -> None:
    queues.put(CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    assert actions(queues, 1_000) == [("RENEW", 0)]
    assert actions(queues, 1_001) == [("ASK", 0)]


@pytest.mark.parametrize("text", ["-1", "soon", "1_0", " 10", str(2**63), "9" * 5000])
def test_an_immunity_that_is_none_is_the_usual_time(queues: Queues, text: str) -> None:
    queues.put(CHECK_IMMUNITY_TIME_IN_SECONDS=text)
    assert actions(queues, LIMITS.timeout_ms) == [("RENEW", 0)]
    assert actions(queues, LATER) == [("ASK", 0)]


def test_a_number_of_checks_that_is_none_counts_as_0(queues: Queues) -> None:
    for text in ("", "x", "-3", "٣", str(2**63), "9" * 5000):
        queues.put(TRANSACTION_CHECK_TIMES=text)
    steps, _ = queues.round(0, 0, LATER)
    assert [step.changes for step in steps] == [((names.TRANSACTION_CHECK_TIMES, "1"),)] * 6


@pytest.mark.parametrize("text", ["-1", "x", str(2**63), "9" * 5000])
def test_a_first_place_that_is_none_holds_no_round_up(queues: Queues, text: str) -> None:
    queues.put(CHECK_IMMUNITY_TIME_IN_SECONDS="60", TRAN_PREPARED_QUEUE_OFFSET=text)
    queues.put()
    assert actions(queues, LATER) == [("RENEW", 0), ("ASK", 1)]


def test_what_was_stored_in_the_round_s_first_millisecond_waits(queues: Queues) -> None:
    queues.put()
    queues.restore(0, born_ms=0, stored_ms=LATER)
    assert actions(queues, LATER) == []
    queues.restore(0, born_ms=0, stored_ms=LATER - 1)
    assert actions(queues, LATER) == [("ASK", 0)]


def test_a_round_lasts_a_minute_and_not_less(queues: Queues) -> None:
    for _ in range(2):
        queues.put()
    check = CheckRound(0, 0, LIMITS, LATER)
    assert check.next(queues, LATER + 60_000) is not None
    check.done()
    assert check.next(queues, LATER + 60_001) is None
    assert check.next(queues, LATER) is None, "it is over"
    assert check.progress() == (1, 0)


def test_after_a_pause_a_round_goes_on_where_it_was(queues: Queues) -> None:
    for _ in range(202):
        queues.put()
    queues.done(*range(201))
    check = CheckRound(0, 0, LIMITS, LATER)
    first, second = check.next(queues, LATER), check.next(queues, LATER)
    assert first is not None
    assert (first.action, first.half, first.changes) == (Action.PAUSE, None, ())
    assert second is not None
    assert second.half is not None
    assert (second.action, second.half.queue_offset) == (Action.ASK, 201)
    assert check.progress() == (201, 1)


def test_op_records_of_what_is_behind_the_round_are_done(queues: Queues) -> None:
    for _ in range(4):
        queues.put()
    queues.done(0, 1)
    queues.done(1, 2)
    queues.done(3)
    steps, progress = queues.round(2, 0, LATER)
    assert (steps, progress) == ([], (4, 3))


def test_an_op_record_is_done_when_the_last_that_it_names_is(queues: Queues) -> None:
    for _ in range(3):
        queues.put()
    queues.done(0, 2)
    queues.restore(1, born_ms=0, stored_ms=LATER)
    assert queues.round(0, 0, LATER) == ([], (1, 0))


def test_a_hole_without_an_end_ends_the_round(queues: Queues) -> None:
    class Stuck(Queues):
        def half(self, offset: int) -> HalfRead:
            return HalfRead(None, offset)

    assert Stuck().round(3, 0, LATER) == ([], (3, 0))


def test_the_end_of_the_op_queue_is_looked_for_once_in_a_round(queues: Queues) -> None:
    for _ in range(5):
        queues.put()
    queues.done(0)
    looks: list[int] = []
    read = queues.ops
    queues.ops = lambda offset: looks.append(offset) or read(offset)  # type: ignore[method-assign, func-returns-value]
    assert len(actions(queues, LATER)) == 4
    assert looks == [0, 1]


def test_a_round_pauses_also_while_all_are_asked_for(queues: Queues) -> None:
    for _ in range(1_000):
        queues.put()
    check = CheckRound(0, 0, LIMITS, LATER)
    asked: list[int] = [0]
    while (step := check.next(queues, LATER)) is not None:
        if step.action is Action.PAUSE:
            asked.append(0)
        else:
            asked[-1] += 1
            check.done()
    assert sum(asked) == 1_000
    assert max(asked) <= 200


@pytest.mark.parametrize("named", [1, 400])
def test_a_round_pauses_while_it_reads_op_records(queues: Queues, named: int) -> None:
    queues.put()
    for n in range(500):
        queues.done(*range(1 + n * named, 1 + (n + 1) * named))
    check = CheckRound(0, 0, LIMITS, LATER)
    taken = [0]
    """Op records, between two pauses."""
    read = queues.ops

    def ops(offset: int) -> tuple[Sequence[MessageExt], int]:
        records, following = read(offset)
        taken[-1] += len(records)
        return records, following

    queues.ops = ops  # type: ignore[method-assign]
    asked = []
    while (step := check.next(queues, LATER)) is not None:
        if step.action is Action.PAUSE:
            taken.append(0)
        else:
            asked.append(step.half and step.half.queue_offset)
            check.done()
    assert asked == [0]
    assert sum(taken) == 500
    assert max(taken) * named <= 2_400
    assert max(taken) <= 80


def test_an_older_copy_is_passed_and_what_an_op_record_names_counts_all_the_same(
    queues: Queues,
) -> None:
    for _ in range(4):
        queues.put()
    queues.older |= {0, 1}
    queues.done(1)
    steps, progress = queues.round(0, 0, 10_000)
    assert [step.half.queue_offset for step in steps if step.half] == [2, 3]
    assert progress == (4, 1)

"""Proof 2 of the store: whatever a broker was doing when it was killed, it keeps its promises."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from support import crash_loop
from support.crash_ledger import Ledger, Place
from support.crash_plan import PLACES, plan_round
from support.store_life import Verdict, body_of

SEED = 2013
LIVES = 3
ROUNDS = 10


@pytest.mark.cluster
@pytest.mark.timeout(600)  # some 50 s where nothing else runs
async def test_nothing_acknowledged_is_lost_over_thirty_kills(tmp_path: Path) -> None:
    figures = crash_loop.Figures()  # faults 1, 3 and 5; both flush modes
    for life in range(LIVES):
        figures.add(await crash_loop.run_life(tmp_path, seed=SEED, life=life, rounds=ROUNDS))
    assert figures.rounds == LIVES * ROUNDS
    assert figures.kills.total() > figures.rounds, "some starts were killed as well"
    assert figures.acknowledged > 1000, figures
    assert figures.commits > 100, figures
    at_the_disk = sum(figures.kills[what] for what, _, _ in PLACES)
    assert at_the_disk >= 3, figures.kills


# -- the plan -------------------------------------------------------------------------------------


def test_a_thousand_rounds_meet_every_moment() -> None:
    plans = [plan_round(SEED, number // 10, number % 10) for number in range(1000)]
    assert plans == [plan_round(SEED, number // 10, number % 10) for number in range(1000)]
    ends = Counter(plan.end.what for plan in plans)
    assert set(ends) == {"it is under load", "it stops", *(what for what, _, _ in PLACES)}
    starts = [start for plan in plans for start in plan.starts]
    assert 300 < len(starts) < 600
    assert {bool(start.fault) for start in starts} == {True, False}


# -- the judge: a ledger that agrees with anything proves nothing ---------------------------------


def told(*numbers: int) -> tuple[Ledger, dict[Place, bytes]]:
    """Messages of one sender in one queue, all acknowledged, and a broker that serves them."""
    ledger = Ledger()
    served = {}
    for _ in range(10):
        ledger.send(sender=0)
    for offset, number in enumerate(numbers):
        place = Place("T", 0, offset)
        ledger.acknowledge(place, number)
        served[place] = body_of(number)
    ledger.judge(served)
    return ledger, served


def test_a_lost_message_is_seen() -> None:
    ledger, served = told(0, 1, 2)
    del served[Place("T", 0, 2)]
    with pytest.raises(Verdict, match="message 2 was acknowledged at T/0/2"):
        ledger.judge(served)


def test_a_message_at_another_offset_is_seen() -> None:
    ledger, served = told(0, 1)
    served[Place("T", 0, 1)] = body_of(2)
    served[Place("T", 0, 2)] = body_of(1)
    with pytest.raises(Verdict, match=r"message 1 .* it is at \['T/0/2'\]"):
        ledger.judge(served)


def test_a_message_that_is_there_twice_is_seen() -> None:
    ledger, served = told(0, 1)
    served[Place("T", 1, 0)] = body_of(1)
    with pytest.raises(Verdict, match="message 1 is there twice: T/0/1 and T/1/0"):
        ledger.judge(served)


def test_a_hole_is_seen_and_an_unacknowledged_message_is_none() -> None:
    ledger, served = told(0, 1)
    served[Place("T", 0, 2)] = body_of(5)
    ledger.judge(served)
    served[Place("T", 0, 4)] = body_of(6)
    with pytest.raises(Verdict, match="a hole"):
        ledger.judge(served)


def test_messages_out_of_order_are_seen() -> None:
    ledger, served = told(0, 3)
    served[Place("T", 0, 2)] = body_of(2)
    with pytest.raises(Verdict, match="message 2 is behind 3 of the same sender"):
        ledger.judge(served)


def test_a_wrong_body_is_seen() -> None:
    ledger, served = told(0, 1)
    served[Place("T", 0, 1)] = body_of(1)[:-1]
    with pytest.raises(Verdict, match=r"T/0/1 holds .* which nobody sent"):
        ledger.judge(served)


def test_one_place_acknowledged_twice_is_seen() -> None:
    ledger, _ = told(0, 1)
    with pytest.raises(Verdict, match="T/0/1 was given to message 1 and to 4"):
        ledger.acknowledge(Place("T", 0, 1), 4)


def test_a_delayed_message_that_never_comes_is_seen() -> None:
    ledger = Ledger()
    ledger.delayed = {ledger.send(0), ledger.send(0)}
    ledger.judge_delayed([body_of(0), body_of(1), body_of(0)])  # twice is allowed after a crash
    with pytest.raises(Verdict, match=r"delayed messages \[1\] were never delivered"):
        ledger.judge_delayed([body_of(0)])


@pytest.mark.parametrize(
    ("now_ms", "least"),
    [
        (9_999, 3),  # before the first save nothing of this life need be kept
        (10_000, 5),  # what was committed by 5 s is in the save at 10 s
        (16_000, 7),  # and what was committed by 11 s in that at 15 s
    ],
)
def test_an_offset_may_move_back_by_one_interval_and_no_further(now_ms: int, least: int) -> None:
    def crashed() -> Ledger:  # B-31
        ledger = Ledger(kept={0: 3})
        for by_ms, offset in ((5_000, 5), (11_000, 7), (12_000, 9)):
            ledger.commit(0, by_ms, offset)
        return ledger

    for offset in (least, 9):
        ledger = crashed()
        ledger.judge_offset(0, offset, started_ms=0, now_ms=now_ms)
        assert ledger.progress(0) == offset
    for offset in (least - 1, 10):
        with pytest.raises(Verdict, match=f"is {offset}, not within {least}..9"):
            crashed().judge_offset(0, offset, started_ms=0, now_ms=now_ms)

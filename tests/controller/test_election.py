"""Who becomes master (D-30 to D-33)."""

from __future__ import annotations

import pytest

from pocketmq.controller.election import Candidate, elect


def living(*candidates: Candidate) -> dict[int, Candidate]:
    return {each.broker_id: each for each in candidates}


def test_of_those_in_sync_the_first_by_epoch_then_offset_then_priority_then_id() -> None:  # D-33
    order = [
        Candidate(9, epoch=8, max_offset=10, priority=7),
        Candidate(8, epoch=7, max_offset=90, priority=7),
        Candidate(7, epoch=7, max_offset=80, priority=1),
        Candidate(5, epoch=7, max_offset=80, priority=2),
        Candidate(6, epoch=7, max_offset=80, priority=2),
        Candidate(1),
    ]
    for at, best in enumerate(order):
        left = living(*reversed(order[at:]))
        assert elect(left, set(left), old_master=None) == best.broker_id


def test_a_master_that_lives_and_is_in_sync_stays() -> None:  # D-31
    both = living(Candidate(1, 7, 8_000), Candidate(2, 7, 9_000))
    assert elect(both, {1, 2}, old_master=1) == 1
    assert elect(both, {2}, old_master=1) == 2
    assert elect(living(Candidate(2)), {1, 2}, old_master=1) == 2


@pytest.mark.parametrize(
    ("in_sync", "preferred", "is_unclean", "elected"),
    [
        ({1, 2}, 2, False, 2),  # though 1 is master and lives
        ({1, 2}, 3, False, None),  # lives, and nobody promised that it has all
        ({1, 2}, 3, True, 3),
        ({1, 2, 4}, 4, True, None),  # is in sync, and dead
        ({4}, None, False, None),
        ({4}, None, True, 1),
        (set(), None, True, 1),
    ],
)
def test_the_wanted_one_or_nobody_and_out_of_sync_only_if_allowed(
    in_sync: set[int], preferred: int | None, is_unclean: bool, elected: int | None
) -> None:  # D-30, D-32
    three = living(Candidate(1), Candidate(2), Candidate(3, 9, 9_000))
    found = elect(three, in_sync, old_master=1, preferred=preferred, allow_unclean=is_unclean)
    assert found == elected


def test_without_a_living_replica_nobody_is_elected() -> None:
    assert elect({}, {1}, old_master=1, allow_unclean=True) is None
    assert elect(living(Candidate(1)), {4}, old_master=None) is None, "not by default"


def test_a_replica_that_told_nothing_of_its_log_is_the_last() -> None:  # D-33
    assert Candidate(1) == Candidate(1, epoch=-1, max_offset=-1, priority=2**31 - 1)

"""PopProgress: where the next pop begins, and what is in flight."""

from __future__ import annotations

from pocketmq.broker.pop.progress import PopProgress

KEY = ("g", "t", 0)
OTHER = ("g", "u", 0)


def test_a_pop_begins_behind_what_was_handed_out_until_that_is_committed() -> None:
    progress = PopProgress()
    assert (progress.begin(KEY, 5), progress.is_ahead(KEY)) == (5, False)
    progress.handed_out(KEY, 8, 3)
    progress.handed_out(KEY, 7, 1)  # again, out of order
    assert (progress.begin(KEY, 5), progress.is_ahead(KEY)) == (8, True)
    assert progress.begin(KEY, 9) == 9
    progress.committed(KEY, 7)
    assert progress.is_ahead(KEY)
    progress.committed(KEY, 8)
    assert (progress.begin(KEY, 8), progress.is_ahead(KEY)) == (8, False)
    progress.committed(KEY, 8)  # nothing is ahead, and that is no error


def test_a_pop_of_nothing_at_0_is_ahead_by_nothing() -> None:
    progress = PopProgress()
    progress.handed_out(KEY, 0, 0)
    assert (progress.begin(KEY, 0), progress.in_flight(KEY)) == (0, 0)


def test_what_was_handed_out_is_in_flight_until_it_returns() -> None:  # K-146
    progress = PopProgress()
    assert progress.in_flight(KEY) == 0
    progress.handed_out(KEY, 3, 3)
    progress.handed_out(KEY, 5, 2)
    assert progress.in_flight(KEY) == 5
    progress.returned(KEY)
    assert progress.in_flight(KEY) == 4
    progress.returned(KEY, 3)
    assert progress.in_flight(KEY) == 1
    progress.returned(KEY)
    assert progress.in_flight(KEY) == 0
    progress.returned(KEY)  # of before a restart
    assert progress.in_flight(KEY) == 0
    assert progress._in_flight == {}


def test_a_reset_and_a_deleted_topic_forget_both() -> None:
    progress = PopProgress()
    for key in (KEY, OTHER):
        progress.handed_out(key, 3, 3)
    progress.reset(KEY)
    assert (progress.begin(KEY, 0), progress.in_flight(KEY)) == (0, 0)
    assert (progress.begin(OTHER, 0), progress.in_flight(OTHER)) == (3, 3)
    progress.handed_out(KEY, 2, 2)
    progress.forget_topic("u")
    assert (progress.begin(OTHER, 0), progress.in_flight(OTHER)) == (0, 0)
    assert (progress.begin(KEY, 0), progress.in_flight(KEY)) == (2, 2)

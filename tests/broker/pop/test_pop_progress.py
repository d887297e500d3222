"""How many messages of a queue are in flight, and how far it was handed out."""

from __future__ import annotations

from pocketmq.broker.pop.progress import PopProgress

ONE, OTHER = ("readers", "orders", 0), ("others", "orders", 0)


def test_in_flight_is_what_was_popped_since_the_start_and_has_not_come_back() -> None:  # K-146
    progress = PopProgress(1_000)
    progress.handed_out(ONE, 32, 32)
    progress.handed_out(OTHER, 1, 1)
    progress.returned(ONE, 1_500, 2)
    progress.returned(ONE, 999, 5)  # popped from the process before
    assert (progress.in_flight(ONE), progress.in_flight(OTHER)) == (30, 1)
    progress.returned(ONE, 1_500, 40)
    assert progress.in_flight(ONE) == 0


def test_what_is_deleted_has_nothing_in_flight() -> None:
    progress = PopProgress()
    progress.handed_out(ONE, 32, 32)
    progress.handed_out(OTHER, 1, 1)
    progress.forget_group("readers", with_offsets=False)
    assert (progress.in_flight(ONE), progress.in_flight(OTHER)) == (0, 1)
    progress.forget_topic("orders")
    assert progress.in_flight(OTHER) == 0


def test_a_pop_begins_behind_what_was_handed_out_until_that_is_committed() -> None:
    progress = PopProgress()
    assert (progress.begin(ONE, 7), progress.ahead(ONE), progress.is_ahead(ONE)) == (7, None, False)
    progress.handed_out(ONE, 32, 25)
    progress.handed_out(ONE, 20, 1)  # of an older pop, told later
    assert (progress.begin(ONE, 7), progress.ahead(ONE), progress.is_ahead(ONE)) == (32, 32, True)
    assert progress.begin(ONE, 40) == 40
    progress.committed(ONE, 31)
    assert progress.is_ahead(ONE)
    progress.committed(ONE, 32)
    assert (progress.is_ahead(ONE), progress.begin(ONE, 32)) == (False, 32)


def test_what_could_not_be_stored_was_never_handed_out() -> None:
    progress = PopProgress(1_000)
    progress.handed_out(ONE, 8, 8)
    progress.handed_out(ONE, 12, 4)
    progress.taken_back(ONE, 8, 4)
    assert (progress.begin(ONE, 0), progress.in_flight(ONE)) == (8, 8)
    progress.taken_back(ONE, None, 8)
    assert (progress.begin(ONE, 0), progress.is_ahead(ONE), progress.in_flight(ONE)) == (
        0,
        False,
        0,
    )


def test_what_was_reset_or_deleted_is_handed_out_no_more() -> None:
    progress = PopProgress()
    for key in (ONE, OTHER):
        progress.handed_out(key, 32, 32)
    assert progress.is_handed_out(ONE, 32)
    assert not progress.is_handed_out(ONE, 33)
    progress.forget_group("readers", with_offsets=False)
    assert progress.is_handed_out(ONE, 32)  # its offset is kept, and will be 32
    progress.forget_group("readers", with_offsets=True)
    assert (progress.is_handed_out(ONE, 0), progress.is_handed_out(OTHER, 32)) == (False, True)


def test_one_message_comes_back_and_the_last_counts() -> None:  # K-146
    progress = PopProgress(1_000)
    progress.handed_out(ONE, 2, 2)
    progress.returned(ONE, 1_000)  # popped in the millisecond of the start
    assert progress.in_flight(ONE) == 1


def test_a_reset_forgets_how_far_it_was_and_what_is_in_flight() -> None:
    progress = PopProgress()
    for key in (ONE, OTHER):
        progress.handed_out(key, 32, 32)
    progress.reset(ONE)
    assert (progress.begin(ONE, 3), progress.in_flight(ONE)) == (3, 0)
    assert (progress.begin(OTHER, 3), progress.in_flight(OTHER)) == (32, 32)


def test_a_topic_that_is_made_anew_begins_at_its_committed_offset() -> None:
    progress = PopProgress()
    progress.handed_out(ONE, 32, 32)
    progress.forget_topic("orders")
    assert progress.begin(ONE, 0) == 0

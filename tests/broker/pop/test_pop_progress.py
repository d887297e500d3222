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
    progress.forget_group("readers")
    assert (progress.in_flight(ONE), progress.in_flight(OTHER)) == (0, 1)
    progress.forget_topic("orders")
    assert progress.in_flight(OTHER) == 0

"""ProcessQueue against the plainest thing that could be right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.protocol.messages.message import MessageExt
from support.claims import buffer
from support.messages import pulled_message


def messages(*offsets: int) -> list[MessageExt]:
    return [pulled_message(offset=offset) for offset in offsets]


def remove_each(held: ProcessQueue, done: list[MessageExt]) -> int:
    """`remove`, one message at a time."""
    return [held.remove_one(message) for message in done][-1]


def start_each(held: ProcessQueue, begun: list[MessageExt], now: float) -> None:
    """`started`, one message at a time."""
    for message in begun:
        held.started_one(message, now)


REMOVE = pytest.mark.parametrize("remove", [ProcessQueue.remove, remove_each])
START = pytest.mark.parametrize("start", [ProcessQueue.started, start_each])
Remove = Callable[[ProcessQueue, list[MessageExt]], int]
Start = Callable[[ProcessQueue, list[MessageExt], float], None]


def test_the_offset_to_commit_is_the_smallest_not_yet_done() -> None:  # C-50, C-51
    held = buffer()
    one, two, three = messages(5, 6, 7)
    assert held.put([one, two, three])
    assert held.remove([two]) == 5  # a slow message holds the queue up
    assert held.remove([one]) == 7
    assert held.remove([three]) == 8  # nothing left: one after the largest ever seen
    assert held.remove([three]) == -1  # nothing there to begin with


def test_put_asks_for_one_orderly_run_at_a_time() -> None:  # C-50
    held = buffer()
    assert held.put(messages(0, 1)) is True
    assert held.put(messages(2)) is False
    assert [m.queue_offset for m in held.take(10)] == [0, 1, 2]
    assert held.take(10) == []
    assert held.put(messages(3)) is True
    assert buffer().put([]) is False


def test_counts_and_bytes_follow() -> None:
    held = buffer()
    held.put(messages(0, 1, 1))
    assert (held.count, held.body_bytes) == (2, 2)
    assert held.span == 1
    held.remove(messages(0))
    assert (held.count, held.body_bytes, held.span) == (1, 1, 0)
    held.clear()
    assert (held.count, held.body_bytes, held.span, held.first_offset) == (0, 0, 0, None)


def test_orderly_messages_are_held_until_committed() -> None:  # C-59
    held = buffer()
    held.put(messages(0, 1, 2))
    assert [m.queue_offset for m in held.take(2)] == [0, 1]
    assert held.count == 3
    assert held.first_offset == 0
    assert held.commit() == 2
    assert held.count == 1
    assert held.commit() == -1


def test_orderly_messages_put_back_come_first_again() -> None:  # C-59
    held = buffer()
    held.put(messages(0, 1, 2))
    taken = held.take(2)
    held.put_back(taken)
    assert [m.queue_offset for m in held.take(3)] == [0, 1, 2]
    held.put_back()
    assert [m.queue_offset for m in held.take(1)] == [0]


def test_only_a_first_message_that_began_too_long_ago_is_expired() -> None:  # C-53
    held = buffer()
    one, two = messages(0, 1)
    held.put([one, two])
    assert held.expired_first(9999.0, 900.0) is None  # its listener has not begun
    held.started([two], 0.0)
    assert held.expired_first(9999.0, 900.0) is None  # only the first counts
    held.started([one], 0.0)
    assert held.expired_first(900.0, 900.0) is None
    assert held.expired_first(900.1, 900.0) is one


@REMOVE
@given(history=st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=80))
def test_any_history_commits_what_a_sorted_dict_would(
    remove: Remove, history: list[tuple[bool, int]]
) -> None:
    held, model, most = buffer(), dict[int, int](), -1
    for is_put, offset in history:
        if is_put:
            held.put(messages(offset))
            model[offset] = 1
            most = max(most, offset)
        else:
            was_empty = not model
            model.pop(offset, None)
            expected = -1 if was_empty else min(model, default=most + 1)
            assert remove(held, messages(offset)) == expected
        assert held.count == held.body_bytes == len(model)
        assert held.first_offset == min(model, default=None)
        assert held.span == (max(model) - min(model) if model else 0)
        assert (offset in held) == (offset in model)


@REMOVE
def test_a_long_life_keeps_no_trace(remove: Remove) -> None:
    held = buffer()
    for message in messages(*range(2_000)):
        held.put([message])
        remove(held, [message])
    assert not held._offsets


def test_messages_behind_one_that_is_held_already_are_taken() -> None:
    held = buffer()
    held.put(messages(5))
    held.put(messages(5, 6))
    assert (held.count, held.span) == (2, 1)
    assert held.remove(messages(5)) == 6


def test_whole_mebibytes_of_bodies_count() -> None:
    held = buffer()
    held.put([pulled_message(offset=0, body=b"x" * (2 * 1024 * 1024 - 1))])
    assert held.body_mib == 1
    held.put([pulled_message(offset=1, body=b"x")])
    assert held.body_mib == 2


def test_an_orderly_commit_gives_the_bytes_back() -> None:
    held = buffer()
    held.put(messages(0, 1))
    held.take(1)
    held.commit()
    assert held.body_bytes == 1


def test_what_waits_counts_as_cached() -> None:
    held = buffer()
    assert held.has_cached is False
    held.put(messages(0))
    assert held.has_cached is True


@REMOVE
def test_a_start_is_forgotten_with_its_message(remove: Remove) -> None:  # C-53
    held = buffer()
    held.put(messages(0, 1))
    held.started(messages(0), 5.0)
    remove(held, messages(0))
    held.put(messages(0))  # pulled again: its listener has not begun
    assert held.expired_first(1000.0, 900.0) is None


@START
def test_the_age_of_a_message_is_what_has_passed(start: Start) -> None:  # C-53
    held = buffer()
    held.put(messages(0))
    start(held, messages(0), 500.0)
    assert held.last_consume_at == 500.0
    assert held.expired_first(1400.0, 900.0) is None
    assert held.expired_first(1400.5, 900.0) is not None


def test_a_cleared_queue_begins_anew() -> None:
    held = buffer()
    held.put(messages(5, 6, 7))
    held.take(1)
    held.started(messages(6), 1.0)
    held.clear()
    assert 5 not in held
    assert held.commit() == -1
    assert held.remove(messages(6)) == -1
    held.put(messages(0, 1))
    assert held.span == 1
    assert held.expired_first(1000.0, 1.0) is None
    assert held.remove(messages(0, 1)) == 2, "what was seen before counts no more"
    held.put(messages(6))
    assert held.expired_first(1000.0, 1.0) is None, "its listener has not begun anew"


def test_a_run_goes_on_until_nothing_is_left() -> None:  # C-59
    held = buffer()
    held.put(messages(0, 1))
    held.take(1)
    assert held.put(messages(2)) is False, "the run that is under way takes it"
    assert [m.queue_offset for m in held.take(5)] == [1, 2]

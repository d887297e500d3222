"""Which offset a moment means, and where a pull stands (S-40..S-42, B-59..B-62)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.store import Boundary, GetStatus, MessageStore, StoredMessage
from pocketmq.broker.store.queues.lookup import offset_by_time, offset_nearest_time, outside
from pocketmq.broker.store.reads.queue_reads import LimitsNow
from pocketmq.runtime.manual_time.manual_clock import ManualClock

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]

TIMES = st.lists(st.integers(0, 50), max_size=30).map(sorted)


@pytest.mark.parametrize(
    ("at", "lower", "upper", "nearest"),
    [
        *((9, 5, 5, 5), (10, 5, 5, 5), (20, 6, 8, 6), (24, 9, 8, 8), (25, 9, 8, 8)),
        *((26, 9, 8, 9), (30, 9, 9, 9), (31, 10, 9, 9)),
    ],
)
def test_a_moment_between_before_and_at_messages(  # S-40, S-41
    at: int, lower: int, upper: int, nearest: int
) -> None:
    times = dict(enumerate((10, 20, 20, 20, 30), start=5))
    assert offset_by_time(at, 5, 10, times.__getitem__) == lower
    assert offset_by_time(at, 5, 10, times.__getitem__, Boundary.UPPER) == upper
    assert offset_nearest_time(at, 5, 10, times.__getitem__) == nearest
    assert offset_nearest_time(at, 7, 7, times.__getitem__) == 7


@pytest.mark.parametrize(
    ("bounds", "status", "offset"),
    [
        ((0, 0, 0), GetStatus.NO_MESSAGE_IN_QUEUE, 0),
        ((4, 5, 9), GetStatus.OFFSET_TOO_SMALL, 5),
        ((5, 5, 5), GetStatus.OFFSET_OVERFLOW_ONE, 5),
        ((9, 5, 9), GetStatus.OFFSET_OVERFLOW_ONE, 9),
        ((10, 5, 9), GetStatus.OFFSET_OVERFLOW_BADLY, 9),
        ((1, 0, 1), GetStatus.OFFSET_OVERFLOW_ONE, 1),
    ],
)
def test_a_pull_from_outside_goes_on_at_the_next_message(  # B-59
    bounds: tuple[int, int, int], status: GetStatus, offset: int
) -> None:
    assert outside(*bounds) == (status, offset)


@given(times=TIMES, at=st.integers(-5, 60), base=st.integers(0, 100))
def test_lower_is_the_first_stored_then_or_later(times: list[int], at: int, base: int) -> None:
    found = offset_by_time(at, base, base + len(times), lambda n: times[n - base])
    later = [base + n for n, time in enumerate(times) if time >= at]
    assert found == (later[0] if later else base + len(times))


@given(times=TIMES, at=st.integers(-5, 60), base=st.integers(0, 100))
def test_upper_is_the_last_stored_then_or_earlier(times: list[int], at: int, base: int) -> None:
    found = offset_by_time(at, base, base + len(times), lambda n: times[n - base], Boundary.UPPER)
    earlier = [base + n for n, time in enumerate(times) if time <= at]
    assert found == (earlier[-1] if earlier else base)


@given(times=TIMES.filter(bool), at=st.integers(-5, 60))
def test_nearest_is_nearest_and_left_on_a_tie(times: list[int], at: int) -> None:  # S-40
    found = offset_nearest_time(at, 0, len(times), times.__getitem__)
    assert abs(times[found] - at) == min(abs(time - at) for time in times)
    ties = [n for n, time in enumerate(times) if abs(time - at) == abs(times[found] - at)]
    assert times[found] == times[ties[0]] or at in times


@pytest.mark.parametrize(
    ("offset", "low", "high", "expected"),
    [
        (0, 0, 0, (GetStatus.NO_MESSAGE_IN_QUEUE, 0)),
        (7, 0, 0, (GetStatus.NO_MESSAGE_IN_QUEUE, 0)),
        (4, 5, 9, (GetStatus.OFFSET_TOO_SMALL, 5)),
        (9, 5, 9, (GetStatus.OFFSET_OVERFLOW_ONE, 9)),
        (10, 5, 9, (GetStatus.OFFSET_OVERFLOW_BADLY, 9)),
    ],
)
def test_a_pull_outside_the_queue_is_told_where_to_go(  # B-59
    offset: int, low: int, high: int, expected: tuple[GetStatus, int]
) -> None:
    assert outside(offset, low, high) == expected


def test_an_unknown_queue_has_no_bounds(open_store: Make) -> None:  # S-36, S-42
    store = open_store()
    result = store.reads.get_message("nothing", 3, 5, 32)
    assert result.status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (0, 0, 0)
    assert (store.reads.min_offset("nothing", 3), store.reads.max_offset("nothing", 3)) == (0, 0)
    assert store.reads.offset_by_time("nothing", 3, 5) == 0
    assert store.reads.earliest_store_time("nothing", 3) == -1
    assert list(store.reads.queues()) == []


async def test_time_is_searched_in_the_stored_records(
    open_store: Make, message: Message, clock: ManualClock
) -> None:
    store = open_store()
    start = clock.time_ms()
    for n in range(10):
        await clock.move_to(start + n * 1000)
        store.put_messages([message(b"%d" % n), message(b"other", "U")])
    assert store.reads.earliest_store_time("T", 0) == start
    assert store.reads.store_time("T", 0, 4) == start + 4000
    assert store.reads.store_time("T", 0, 10) == -1
    assert store.reads.offset_by_time("T", 0, start + 3500) == 4
    assert store.reads.offset_by_time("T", 0, start + 3500, Boundary.UPPER) == 3
    assert store.reads.offset_by_time("T", 0, start + 99_000) == 10
    assert store.reads.offset_by_time("T", 0, 0, Boundary.UPPER) == 0


def test_a_filter_is_asked_before_a_record_is_touched(open_store: Make, message: Message) -> None:
    store = open_store()
    store.put_messages([message(b"%d" % n, tags_code=n % 3) for n in range(30)])
    result = store.reads.get_message("T", 0, 0, 32, accept=lambda code: code == 2)
    assert (result.count, result.next_begin_offset) == (10, 30)
    nothing = store.reads.get_message("T", 0, 5, 32, accept=lambda code: False)
    assert (nothing.status, nothing.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 30)


def test_eight_hundred_entries_are_looked_at_in_vain_and_no_more(  # B-61
    open_store: Make, message: Message
) -> None:
    store = open_store(mapped_file_size_consume_queue=5000 * 20)
    for _ in range(20):
        store.put_messages([message(b"x") for _ in range(100)])
    result = store.reads.get_message("T", 0, 0, 32, accept=lambda code: False)
    assert result.next_begin_offset == 801


def test_a_batch_ends_at_its_limits_but_holds_one_message(  # B-61
    open_store: Make, message: Message
) -> None:
    store = open_store(mapped_file_size_commit_log=4 << 20)
    store.put_messages([message(b"x" * 10_000) for _ in range(60)])
    assert store.reads.get_message("T", 0, 0, 5).count == 5
    assert store.reads.get_message("T", 0, 0, 100).count == 262_144 // 10_092
    assert store.reads.get_message("T", 0, 0, 100, max_bytes=25_000).count == 2
    assert store.reads.get_message("T", 0, 0, 100, max_bytes=1).count == 1
    assert not store.reads.get_message("T", 0, 0, 5).suggest_pulling_from_slave


def test_data_that_left_memory_comes_in_smaller_batches(  # B-61, B-62
    open_store: Make, message: Message
) -> None:
    store = open_store()
    store.put_messages([message(b"%d" % n) for n in range(60)])
    store.reads._limits = LimitsNow(lambda: store.config, 2500)  # 40 % of it: 1000
    result = store.reads.get_message("T", 0, 0, 32)
    assert result.count == 8
    assert result.suggest_pulling_from_slave
    last = store.reads.get_message("T", 0, 55, 32)
    assert not last.suggest_pulling_from_slave


def test_a_pull_reads_one_queue_file_per_call(open_store: Make, message: Message) -> None:
    store = open_store(mapped_file_size_consume_queue=10 * 20)
    store.put_messages([message(b"%d" % n) for n in range(25)])
    assert store.reads.get_message("T", 0, 7, 32).next_begin_offset == 10
    assert store.reads.get_message("T", 0, 10, 32).next_begin_offset == 20


def test_delayed_messages_carry_their_delivery_time(open_store: Make, message: Message) -> None:
    store = open_store()  # B-91
    levels = {1: 1000, 3: 10_000, 18: 7_200_000, 99: 7_200_000}
    for level in levels:
        store.put_messages([message(topic="SCHEDULE_TOPIC_XXXX", delay_level=level, tags_code=5)])
    queue = store.consume_queues.get("SCHEDULE_TOPIC_XXXX", 0)
    assert queue is not None
    codes = [(queue.entry(n) or (0, 0, 0))[2] for n in range(4)]
    assert codes == [1_700_000_000_000 + delay for delay in levels.values()]


def test_listeners_hear_once_per_queue_and_batch(open_store: Make, message: Message) -> None:
    heard: list[tuple[str, int, int, list[int]]] = []
    store = open_store(on_arrival=lambda t, q, end, codes: heard.append((t, q, end, [*codes])))
    store.put_messages([message(tags_code=1), message(queue_id=1), message(tags_code=2)])
    store.put_messages([message(tags_code=3)])
    assert heard == [("T", 0, 2, [1, 2]), ("T", 1, 1, [0]), ("T", 0, 3, [3])]

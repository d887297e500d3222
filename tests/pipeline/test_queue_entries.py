"""Entries of several queues are put in the log's order some at a time, and none is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.pipeline.columns.fixed_fields import QUEUE_ENTRY
from pocketmq.pipeline.stores.queue_entries import FIRST_ROWS, Entries, Run, in_log_order


def run(queue: int, offsets: list[int], first: int = 0) -> Run:
    raw = np.zeros(len(offsets), QUEUE_ENTRY)
    raw["offset"] = offsets
    raw["size"] = 100
    return Run(queue, raw, first)


def rows(windows: list[Entries]) -> list[tuple[int, int, int]]:
    """Log offset, queue and queue offset of each entry."""
    return [
        row
        for each in windows
        for row in zip(
            each.offsets.tolist(), each.queue.tolist(), each.numbers.tolist(), strict=True
        )
    ]


@given(st.lists(st.integers(0, 4), max_size=3000), st.integers(0, 2**40))
def test_entries_of_all_queues_come_in_the_logs_order(queues: list[int], first: int) -> None:
    places = {
        queue: [100 * n for n, each in enumerate(queues) if each == queue] for queue in queues
    }
    windows = list(in_log_order([run(queue, each, first) for queue, each in places.items()]))
    numbers = {queue: iter(range(first, first + len(each))) for queue, each in places.items()}
    assert rows(windows) == [(100 * n, each, next(numbers[each])) for n, each in enumerate(queues)]
    assert not windows or len(windows[0]) <= FIRST_ROWS + len(places)


def test_a_queue_that_begins_where_another_ends_follows_it() -> None:
    one, two = list(range(0, 500_000, 100)), list(range(500_000, 1_000_000, 100))
    assert [row[0] for row in rows(list(in_log_order([run(0, two), run(1, one)])))] == one + two


@pytest.mark.parametrize("others", [0, 1])
def test_a_queue_whose_records_are_out_of_order_loses_none(others: int) -> None:
    strange = np.random.default_rng(1).permutation(5000) * 100
    runs = [
        run(0, strange.tolist()),
        *(run(1, list(range(50, 500_000, 100))) for _ in range(others)),
    ]
    found = rows(list(in_log_order(runs)))
    assert sorted(row[0] for row in found if row[1] == 0) == list(range(0, 500_000, 100))
    assert {number: offset for offset, queue, number in found if queue == 0} == dict(
        enumerate(strange.tolist())
    )
    assert sum(row[1] == 1 for row in found) == 5000 * others


def test_only_what_is_kept_of_a_queue_comes_with_its_queue_offset() -> None:
    kept = run(0, [0, 100, 200, 300], first=7)
    kept.kept = np.array([1, 3])
    assert rows(list(in_log_order([kept]))) == [(100, 0, 8), (300, 0, 10)]

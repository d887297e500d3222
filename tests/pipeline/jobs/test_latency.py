"""Latencies from messages and looks at committed offsets; skew, hot keys, retries."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.pipeline.jobs.commit_samples import (
    CommitSamples,
    Sample,
    read_samples,
    samples_of_store,
)
from pocketmq.pipeline.jobs.hot_keys import HotKeys
from pocketmq.pipeline.jobs.latency_chart import bar, bars, draw
from pocketmq.pipeline.jobs.latency_job import latency
from pocketmq.pipeline.jobs.latency_rows import BORN_TO_STORE, STORE_TO_COMMIT
from pocketmq.pipeline.jobs.output import write_rows
from pocketmq.pipeline.jobs.percentiles import DurationCounts, buckets, highest
from pocketmq.runtime.errors import CallerError
from support.spark_store import START_MS, open_store, put, stored

MINUTE = 60_000
FIRST_MINUTE = START_MS // MINUTE * MINUTE


def rank(values: Sequence[int], share: float) -> int:
    return sorted(values)[math.ceil(share * len(values)) - 1]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300))
def test_percentiles_are_those_of_all_durations_or_a_little_higher(values: list[int]) -> None:
    counts = DurationCounts()
    for part in np.array_split(np.array(values, np.int64), 3):
        counts.add(np.full(len(part), 5), part)
    (found,) = counts.results()
    assert (found.group, found.total) == (5, len(values))
    for share, had in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99), (1.0, found.max)):
        exact = rank(values, share)
        assert exact <= had <= exact * 1.002 + 1


@given(st.integers(0, 2**45))
def test_a_duration_is_in_its_bucket(value: int) -> None:
    bucket = buckets(np.array([value], np.int64))
    assert 0 <= highest(bucket)[0] - value <= value * 0.002


def test_frequent_keys_are_kept_when_there_are_too_many() -> None:
    keys = HotKeys(most=10)
    for number in range(300):
        keys.add([("hot", 3), (f"cold-{number}", 1)])
    ((key, count), *_) = keys.top(3)
    assert key == "hot"
    assert 900 - keys.short <= count <= 900


def a_store(root: Path) -> None:
    """Messages that took 5 ms; three of four in queue 0; a group's retries and dead letters."""
    with open_store(root) as store:
        for number in range(200):
            queue = 0 if number % 4 else 1
            keys = "often" if number % 2 else f"k{number}"
            put(store, [stored(b"x", queue_id=queue, keys=keys)])
        put(store, [stored(b"x", topic="%RETRY%billing") for _ in range(20)])
        put(store, [stored(b"x", topic="%DLQ%billing") for _ in range(4)])


def looks(*pairs: tuple[int, int]) -> CommitSamples:
    return CommitSamples(
        Sample(START_MS + after_ms, "broker-a", {"T@billing": {0: offset}})
        for after_ms, offset in pairs
    )


def waits(samples: CommitSamples, offsets: Sequence[int]) -> tuple[dict[int, int], int, int, int]:
    """Offset -> waited ms; error, pending, earlier."""
    numbers = np.array(offsets, np.int64)
    stored_ms = np.full(len(offsets), START_MS)
    ((group, found),) = samples.commits("broker-a", "T", 0, numbers, stored_ms)
    assert group == "billing"
    waited = dict(zip(numbers[found.rows].tolist(), found.waited_ms.tolist(), strict=True))
    return waited, found.error_ms, found.pending, found.earlier


def test_a_message_counts_as_committed_at_the_first_look_behind_it() -> None:
    samples = looks((1000, 2), (2000, 2), (3000, 5), (4000, 5), (5000, 6))
    waited, error, pending, earlier = waits(samples, range(8))
    assert waited == {2: 3000, 3: 3000, 4: 3000, 5: 5000}
    assert (error, pending, earlier) == (1000, 2, 2)  # 0 and 1: when is not known


def test_an_offset_that_is_set_back_takes_no_commit_back() -> None:
    waited, _, pending, _ = waits(looks((1000, 0), (2000, 4), (3000, 1), (4000, 5)), range(5))
    assert waited == {0: 2000, 1: 2000, 2: 2000, 3: 2000, 4: 4000}
    assert pending == 0


def test_a_group_that_first_commits_between_two_looks_is_known_to() -> None:
    samples = CommitSamples(
        [
            Sample(START_MS, "broker-a", {"U@other": {0: 1}}),
            Sample(START_MS + 700, "broker-a", {"T@billing": {0: 3}}),
        ]
    )
    assert waits(samples, [0, 1, 2])[0] == {0: 700, 1: 700, 2: 700}


def test_all_is_found_in_a_store(tmp_path: Path) -> None:
    root = tmp_path / "broker-a"
    a_store(root)
    (root / "config").mkdir(exist_ok=True)
    path = root / "config/consumerOffset.json"
    for name, offset, after_ms in ((path.with_name(path.name + ".bak"), 0, 0), (path, 140, 900)):
        name.write_text(json.dumps({"offsetTable": {"T@billing": {0: offset, 1: 0}}}))
        os.utime(name, ns=((START_MS + after_ms) * 1_000_000,) * 2)
    assert [each.time_ms for each in samples_of_store(root, "broker-a")] == [
        START_MS,
        START_MS + 900,
    ]
    found = latency(f"store:{root}")
    assert (found.messages, found.clock_ahead) == (224, 0)
    born, commit = [row for row in found.rows if row.topic == "T"][:2]
    assert (born.measure, born.minute_ms, born.count) == (BORN_TO_STORE, FIRST_MINUTE, 200)
    assert (born.p50_ms, born.p999_ms, born.max_ms, born.error_ms) == (5, 5, 5, 0)
    assert (commit.measure, commit.group, commit.count) == (STORE_TO_COMMIT, "billing", 140)
    assert 898 <= commit.p50_ms <= 902
    assert commit.error_ms == 900
    assert [(row.queue_id, row.messages, row.skew) for row in found.queues] == [
        (0, 150, 1.5),
        (1, 50, 0.5),
    ]
    hottest = found.keys[0]
    assert (hottest.key, hottest.count, hottest.share) == ("often", 100, 0.5)
    (group,) = found.groups
    assert (group.messages, group.retries, group.dead_letters) == (200, 20, 4)
    assert (group.retry_rate, group.dead_letter_rate, group.pending) == (0.1, 0.02, 60)
    lines = list(bars(found.rows))
    assert lines[0] == "born-to-store of T: p99 by minute"
    assert "5 ms ████" in lines[1]
    draw(found.rows, tmp_path / "latency.svg")
    assert (tmp_path / "latency.svg").read_text().count("born-to-store")
    for name in ("rows.parquet", "rows.json", "rows.jsonl"):
        write_rows(found.rows, tmp_path / name, type(born))
        assert (tmp_path / name).stat().st_size > 100


def test_looks_that_were_written_are_read_but_for_a_line_that_a_kill_cut(tmp_path: Path) -> None:
    path = tmp_path / "looks.jsonl"
    line = json.dumps({"timeMs": 5, "broker": "a", "offsets": {"T@g": {"3": 7}}})
    path.write_text(f"{line}\n{line[:20]}")
    assert list(read_samples(path)) == [Sample(5, "a", {"T@g": {3: 7}})]
    path.write_text("[]\n")
    with pytest.raises(CallerError, match="line 1"):
        list(read_samples(path))


def test_bars_are_as_long_as_their_values() -> None:
    assert [bar(value, 8, 4) for value in (8, 4, 1, 0)] == ["████", "██", "▌", ""]
    assert bar(0, 0) == ""

"""Looks at committed offsets, and the bars of `latency`; test_spark_latency.py has the job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pocketmq.pipeline.jobs.commit_samples import (
    MOST_OFFSET,
    CommitSamples,
    Sample,
    read_samples,
)
from pocketmq.pipeline.jobs.latency_chart import bar, bars, draw
from pocketmq.pipeline.jobs.latency_rows import BORN_TO_STORE, LatencyRow
from pocketmq.runtime.errors import CallerError
from support.spark_store import START_MS


def looks(*pairs: tuple[int, int]) -> CommitSamples:
    return CommitSamples(
        Sample(START_MS + after_ms, "broker-a", {"T@billing": {0: offset}})
        for after_ms, offset in pairs
    )


def told(samples: CommitSamples) -> list[tuple[int, int, int | None, int | None]]:
    """Offsets, and the look before and the look that found them committed, after the start."""
    found = list(samples.spans())
    assert {each[:4] for each in found} == {("", "T", 0, "billing")}
    return [
        (each.low, each.high, after_ms(each.before_ms), after_ms(each.time_ms)) for each in found
    ]


def after_ms(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms - START_MS


def test_a_message_counts_as_committed_at_the_first_look_behind_it() -> None:
    assert told(looks((1000, 2), (2000, 2), (3000, 5), (4000, 5), (5000, 6))) == [
        (0, 2, None, 1000),  # when is not known
        (2, 5, 2000, 3000),
        (5, 6, 4000, 5000),
        (6, MOST_OFFSET, None, None),
    ]


def test_an_offset_that_is_set_back_takes_no_commit_back() -> None:
    assert told(looks((1000, 0), (2000, 4), (3000, 1), (4000, 5))) == [
        (0, 4, 1000, 2000),
        (4, 5, 3000, 4000),
        (5, MOST_OFFSET, None, None),
    ]


def test_a_group_that_first_commits_between_two_looks_is_known_to() -> None:
    samples = CommitSamples(
        [
            Sample(START_MS, "broker-a", {"U@other": {0: 1}}),
            Sample(START_MS + 700, "broker-a", {"T@billing": {0: 3}}),
        ]
    )
    spans = [each for each in samples.spans() if each.topic == "T"]
    assert [each[4:] for each in spans] == [
        (0, 3, START_MS, START_MS + 700),
        (3, MOST_OFFSET, None, None),
    ]


def test_looks_at_several_brokers_are_those_of_their_own_messages() -> None:
    samples = CommitSamples(Sample(START_MS, name, {"T@g": {0: 3}}) for name in ("a", "b"))
    assert {each.broker for each in samples.spans()} == {"a", "b"}


def test_looks_that_were_written_are_read_but_for_a_line_that_a_kill_cut(tmp_path: Path) -> None:
    path = tmp_path / "looks.jsonl"
    line = json.dumps({"timeMs": 5, "broker": "a", "offsets": {"T@g": {"3": 7}}})
    path.write_text(f"{line}\n{line[:20]}")
    assert list(read_samples(path)) == [Sample(5, "a", {"T@g": {3: 7}})]
    path.write_text("[]\n")
    with pytest.raises(CallerError, match="line 1"):
        list(read_samples(path))


def test_bars_are_as_long_as_their_values(tmp_path: Path) -> None:
    assert [bar(value, 8, 4) for value in (8, 4, 1, 0)] == ["████", "██", "▌", ""]
    assert bar(0, 0) == ""
    row = LatencyRow(BORN_TO_STORE, "T", "", START_MS, 2, 5, 5, 5, 5, 5, 0)
    lines = list(bars([row]))
    assert lines[0] == "born-to-store of T: p99 by minute"
    assert "5 ms ████" in lines[1]
    draw([row], tmp_path / "latency.svg")
    assert (tmp_path / "latency.svg").read_text().count("born-to-store")

"""When messages are sent again, and where a replay goes on: no cluster, no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.pipeline.jobs.replay_pace import Pace, ReplayState
from pocketmq.pipeline.jobs.sources import source_of
from pocketmq.pipeline.progress.checkpoint import Mark
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError
from support.spark_store import START_MS


def test_the_original_pace_is_kept_or_divided() -> None:
    for speed, factor in ((1.0, 1.0), (10.0, 0.1)):
        pace = Pace(speed)
        assert [pace.due_s(ms) for ms in (5000, 5000, 7000, 65_000)] == pytest.approx(
            [0.0, 0.0, 2 * factor, 60 * factor]
        )
    pace = Pace(0)
    assert [pace.due_s(ms) for ms in (5000, 9000)] == [0.0, 0.0]


def test_the_rate_is_a_limit_beside_the_pace() -> None:
    pace = Pace(speed=1, rate=2)
    assert [pace.due_s(ms) for ms in (0, 0, 0, 10_000, 10_000)] == [0.0, 0.5, 1.0, 10.0, 10.0]


def test_a_state_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "state.json"
    assert ReplayState.load(path, "store:a", "T") is None
    queue = MessageQueue("S", "broker-a", 3)
    marks = {queue: Mark(START_MS, 4711)}
    state = ReplayState("store:a", "T", {queue: 7}, {MessageQueue("T", "b", 0): 9}, marks)
    state.save(path)
    assert ReplayState.load(path, "store:a", "T") == state
    with pytest.raises(CallerError, match="another replay, from store:a to T"):
        ReplayState.load(path, "store:b", "T")
    path.write_text("{}")
    with pytest.raises(CallerError, match="not the state of a replay"):
        ReplayState.load(path, "store:a", "T")


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="there is no table"):
        source_of(f"parquet:{tmp_path / 'no'}")

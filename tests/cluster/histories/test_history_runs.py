"""Histories of real processes under faults have no anomaly: of ours, and of RocketMQ's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.history_run import HistoryRun, our_cluster, real_cluster

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(600)
async def test_our_brokers_keep_their_word_under_kills_cuts_and_clock_jumps(
    tmp_path: Path,
) -> None:
    async with our_cluster(tmp_path) as system:
        run = HistoryRun(system, tmp_path / "history", seed=1, keys=4)
        await run.run(["kill", "clock_ahead", "cut", "kill_consumer", "freeze", "reset"])
    judgement = run.judgement()
    assert judgement.is_clean, judgement
    assert judgement.acknowledged > 300, judgement
    assert judgement.commits > 50, judgement


@pytest.mark.java
@pytest.mark.timeout(1200)  # a first run downloads RocketMQ
async def test_rocketmq_itself_is_found_clean_by_the_same_judge(tmp_path: Path) -> None:
    async with real_cluster(tmp_path) as system:
        run = HistoryRun(system, tmp_path / "history", seed=1, keys=4)
        await run.run(["kill", "cut"])
    judgement = run.judgement()
    assert judgement.is_clean, judgement
    assert judgement.acknowledged > 60, judgement

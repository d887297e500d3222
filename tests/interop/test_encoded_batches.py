"""A benchmark's load of batches encoded before is a client like others, and counts what is refused.

It is the row `batch 32 x 128 B, encoded before` of `benchmarks/beside_rocketmq.py`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.client import Admin, MessageExt
from support.cluster import running

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
BATCH = 32

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.timeout(1200)]


async def load(nameservers: str, body_bytes: int, messages: int) -> dict[str, float]:
    """What the row calls, with 2 connections and 3 requests in flight on each."""
    call = "import json, sys, beside_rows; print(json.dumps(beside_rows.load(*sys.argv[1:])))"
    arguments = ("encoded", nameservers, "Load", body_bytes, messages, 2, 3)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", call, *map(str, arguments)],
        cwd=BENCHMARKS,
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, float] = json.loads(done.stdout)
    return told


async def stored(admin: Admin) -> list[list[MessageExt]]:
    """The topic's messages, by queue and in order."""
    queues = []
    for queue, bounds in (await admin.topic_stats("Load")).items():
        messages: list[MessageExt] = []
        while len(messages) < bounds.max_offset:
            messages += (await admin.read(queue, len(messages))).messages
        queues.append(messages)
    return queues


async def test_batches_encoded_before_are_stored_as_their_answers_say(tmp_path: Path) -> None:
    warm_up, counted = 8 * BATCH, 40 * BATCH
    async with running(tmp_path) as cluster:
        told = await load(cluster.nameservers, 128, counted)
        async with cluster.admin() as admin:
            queues = await stored(admin)
    assert (told["messages"], told["refused"]) == (counted, 0)
    assert 0 < told["seconds"] <= told["readable_s"]
    assert len(queues) == 4
    batched = [[each for each in queue if each.body == bytes(128)] for queue in queues]
    assert all(batched), "some queue got nothing"
    assert sum(map(len, batched)) == warm_up + counted
    assert sum(map(len, queues)) == warm_up + counted + 1  # by which the topic was made
    for messages in batched:
        assert {each.tags for each in messages} == {"TagA"}
        for at in range(0, len(messages), BATCH):
            assert len({each.properties["UNIQ_KEY"] for each in messages[at : at + BATCH]}) == BATCH


async def test_batches_encoded_before_that_are_refused_count_as_refused(tmp_path: Path) -> None:
    async with running(tmp_path, "--max-message-size", "2048") as cluster:
        told = await load(cluster.nameservers, 2049, 40 * BATCH)
    assert (told["messages"], told["refused"]) == (40 * BATCH, 40 * BATCH)

"""RocketMQ's Java client of several versions does the same things with our cluster.

In CI 4.9.8; others by hand:
POCKETMQ_JAVA_CLIENTS=4.5.2,5.3.3,5.5.0 pytest tests/interop/test_java_versions.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.cluster import running
from support.java_versions import expected, run_rows, versions

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads the client
]

OPTIONS = (
    "--transaction-time-out-ms", "1000", "--transaction-check-interval-ms", "1500",
    "--enable-property-filter", "--default-message-request-mode", "POP",
    "--revive-queue-num", "1",
)  # fmt: skip


@pytest.mark.parametrize("version", versions())
async def test_a_java_client_does_what_its_version_can(tmp_path: Path, version: str) -> None:
    async with running(tmp_path, *OPTIONS) as cluster:
        run = await asyncio.to_thread(run_rows, version, cluster.nameservers)
        told = {name: " ".join(outcome) for name, *outcome in run.lines("ROW")}
        assert told == expected(version), f"{run.stdout}\n{run.stderr[-4000:]}\n{cluster.story()}"

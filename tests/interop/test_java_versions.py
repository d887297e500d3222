"""RocketMQ's Java client of several versions does the same things with our cluster.

In CI two versions; others by hand, and with a real broker too:
POCKETMQ_JAVA_CLIENTS=4.2.0,4.5.2,5.5.0 POCKETMQ_JAVA_BROKERS=ours,5.3.3 \
    pytest tests/interop/test_java_versions.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.cluster import running
from support.java_versions import (
    OPTIONS,
    SETTINGS,
    brokers,
    expected,
    outcomes,
    run_rows,
    versions,
)
from support.real_rocketmq import free_port, real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads the client
]


@pytest.mark.skipif("ours" not in brokers(), reason="another broker was asked for")
@pytest.mark.parametrize("version", versions())
async def test_a_java_client_does_what_its_version_can(tmp_path: Path, version: str) -> None:
    port = free_port((-2, 0))  # clients up to 4.4 use the broker's VIP port, two below its own
    async with running(tmp_path, *OPTIONS, "--port", str(port)) as cluster:
        run = await asyncio.to_thread(run_rows, version, cluster.nameservers)
        story = f"{run.stdout}\n{run.stderr[-4000:]}\n{cluster.story()}"
        assert outcomes(run) == expected(version), story


if "5.3.3" in brokers():  # by hand

    @pytest.mark.parametrize("version", versions())
    def test_it_does_the_same_with_a_real_broker(tmp_path: Path, version: str) -> None:
        with real_rocketmq(tmp_path / "store", settings=SETTINGS) as cluster:
            run = run_rows(version, cluster.namesrv_addr)
        told = expected(version)
        if told["priority"] == "ok":
            told["priority"] = outcomes(run)["priority"]  # 5.3.3 knows no priorities
        assert outcomes(run) == told, f"{run.stdout}\n{run.stderr[-4000:]}"

"""A Java client that pops, sends timer messages and recalls: the same with us and with RocketMQ."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.cluster import running
from support.java import JavaError, JavaRun, run_java
from support.real_rocketmq import real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads the client
]

COUNT = 200


def check(run: JavaRun) -> None:
    """What the program saw, whoever the broker was."""
    popped, timed = run.tally("POPPED"), run.tally("TIMED")
    assert popped["distinct"] == COUNT
    assert popped["retried"] == COUNT // 10  # each refused message came again, once
    assert popped["POPPED"] == COUNT + COUNT // 10
    assert (timed["TIMED"], timed["early"], timed["recalled"]) == (16, 0, 0)
    assert run.lines("REFUSED") == [["604"]]
    assert run.lines("FAR") == [["13"]]


async def test_a_java_group_pops_and_times_with_us(tmp_path: Path) -> None:
    options = ("--recall-message-enable", "--revive-queue-num", "1")
    async with running(tmp_path, *options) as cluster:
        broker = cluster.broker("a").address
        try:
            args = (cluster.nameservers, "Popped", "poppers", COUNT, broker)
            check(await asyncio.to_thread(run_java, "PopAndTime", *args))
        except JavaError as exc:
            raise JavaError(f"{exc}\n{cluster.story()}") from None


def test_a_java_group_pops_and_times_with_rocketmq(tmp_path: Path) -> None:
    settings = {"timerWheelEnable": "true", "recallMessageEnable": "true"}
    with real_rocketmq(tmp_path / "store", settings=settings) as cluster:
        args = (cluster.namesrv_addr, "Popped", "poppers", COUNT, cluster.broker_addr)
        check(run_java("PopAndTime", *args))

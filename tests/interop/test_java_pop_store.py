"""A store with pending timers and popped messages changes hands, and the other broker finishes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.timers.layout import Checkpoint
from pocketmq.client import ConsumeFromWhere, Message, MessageExt, Producer, SimpleConsumer
from pocketmq.runtime.errors import PocketMQError
from support.cluster import running
from support.eventually import eventually
from support.real_rocketmq import real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

SETTINGS = {"timerWheelEnable": "true", "mappedFileSizeTimerLog": 1 << 20}
OURS = ("--revive-queue-num", "1", "--mapped-file-size-timer-log", str(1 << 20))
TIMED = {b"timed-%d" % n for n in range(10)}
POPPED = {b"popped-%d" % n for n in range(10)}
DONE = {b"popped-%d" % n for n in range(4)}


def options(nameservers: str) -> dict[str, Any]:
    return {"nameservers": nameservers, "encoding": "json"}


def consumer(nameservers: str) -> SimpleConsumer:
    made = SimpleConsumer(
        "poppers", consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **options(nameservers)
    )
    made.subscribe("T")
    return made


async def begin(nameservers: str, store: Path) -> None:
    """Leave ten messages that wait for their time, and ten popped ones of which four are done."""
    async with Producer("p", **options(nameservers)) as producer:
        for body in sorted(POPPED):
            await producer.send(Message("T", body))
        taken: list[MessageExt] = []
        async with consumer(nameservers) as popper:
            while len(taken) < len(POPPED):
                taken += await popper.receive(32, invisible_s=20, wait_s=2)
            await popper.ack(*(message for message in taken if message.body in DONE))
        for body in sorted(TIMED):
            await producer.send(Message("T", body, delay_ms=20_000))
    # A check point, four acks and ten timers at least; RocketMQ writes them down once a second.
    file = store / "config" / "timercheck"
    await eventually(lambda: Checkpoint.decode(file.read_bytes()).queue_offset >= 15, "all logged")


async def finish(nameservers: str, _store: Path) -> None:
    """All that is left comes: what waited once, what was not acknowledged again."""
    left = TIMED | (POPPED - DONE)
    found: dict[bytes, int] = {}
    async with consumer(nameservers) as popper:
        for _ in range(90):
            if found.keys() >= left:
                break
            some: list[MessageExt] = []
            with suppress(PocketMQError, TimeoutError):  # the broker may not be routed yet
                some = await popper.receive(32, invisible_s=60, wait_s=1)
                await popper.ack(*some)
            for message in some:
                found[message.body] = message.reconsume_times
    assert found.keys() == left
    assert {found[body] for body in TIMED} == {0}
    assert {found[body] for body in POPPED - DONE} == {1}


async def test_rocketmq_finishes_what_we_began(tmp_path: Path) -> None:
    async with running(tmp_path, *OURS) as cluster:
        await begin(cluster.nameservers, tmp_path / "broker-a")
    store = tmp_path / "broker-a"
    await _with_rocketmq(store, finish)


async def test_we_finish_what_rocketmq_began(tmp_path: Path) -> None:
    await _with_rocketmq(tmp_path / "broker-a", begin)
    async with running(tmp_path, *OURS) as cluster:
        await finish(cluster.nameservers, tmp_path / "broker-a")


async def _with_rocketmq(store: Path, work: Callable[[str, Path], Awaitable[None]]) -> None:
    started = real_rocketmq(store, settings=SETTINGS)
    cluster = await asyncio.to_thread(started.__enter__)
    try:
        await work(cluster.namesrv_addr, store)
    finally:
        await asyncio.to_thread(started.__exit__, None, None, None)

"""Timers under SYNC_FLUSH of a broker that is killed while they wait and while they come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pocketmq.client import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer
from pocketmq.runtime.clock import SystemClock
from support.cluster import running
from support.eventually import PATIENCE_MS, eventually

pytestmark = [pytest.mark.cluster]

COUNT = 40


async def test_timers_are_never_early_and_none_is_lost_by_kills(tmp_path: Path) -> None:
    clock = SystemClock()
    due_ms: dict[bytes, int] = {}
    copies: dict[bytes, set[tuple[int, int]]] = {}
    early: list[MessageExt] = []

    async def listen(message: MessageExt) -> None:
        copies.setdefault(message.body, set()).add((message.queue_id, message.queue_offset))
        if message.store_timestamp_ms < due_ms[message.body]:
            early.append(message)

    async with running(tmp_path, "--flush-disk-type", "SYNC_FLUSH") as cluster:
        broker = cluster.broker("a")

        async def send(producer: Producer, number: int) -> None:
            body, delay_ms = b"%d" % number, 1000 + number * 150
            due_ms[body] = clock.time_ms() + delay_ms
            await producer.send(Message("Timed", body, delay_ms=delay_ms))

        async with Producer(
            "p", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
        ) as producer:
            await producer.send(Message("Timed", b"first"))
            due_ms[b"first"] = 0
            await asyncio.gather(*(send(producer, number) for number in range(COUNT)))
        await broker.kill()
        await cluster.restart(broker)
        consumer = PushConsumer(
            "readers",
            nameservers=cluster.nameservers,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        )
        consumer.subscribe("Timed")
        consumer.listen(listen)
        async with consumer:
            await eventually(lambda: len(copies) > 10, "some have come", limit_s=120)
            await cluster.broker("a").kill()
            await cluster.restart(cluster.broker("a"))
            await eventually(lambda: len(copies) == COUNT + 1, "all have come", limit_s=120)
    assert early == []
    # What came in the last moment before a kill may come again, and there were two.
    assert max(map(len, copies.values())) <= 3

"""One producer and one consumer of a broker whose disk a test maltreats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pocketmq.broker.store import OsDisk
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.client import (
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullResult,
    PullStatus,
    SendStatus,
)
from pocketmq.protocol.errors import BrokerError
from support.cluster import Cluster
from support.eventually import PATIENCE_MS

TOPIC = "orders"
GROUP = "readers"
SLOTS = 1000
SMALL = (
    *("--mapped-file-size-commit-log", str(256 * 1024)),
    *("--mapped-file-size-consume-queue", str(20 * 1000)),
    *("--max-hash-slot-num", str(SLOTS), "--max-index-num", str(4 * SLOTS)),
)


class Voice:
    """A producer and a consumer of one queue, and what was acknowledged."""

    def __init__(self, producer: Producer, reader: PullConsumer) -> None:
        self.queue = MessageQueue(TOPIC, "broker-a", 0)
        self.acknowledged: dict[int, bytes] = {}
        """Offset -> body."""
        self._producer = producer
        self._reader = reader
        self._number = 0

    async def send(self, topic: str = TOPIC) -> SendStatus:
        """One message of 1 KiB; raises what the broker refuses."""
        self._number += 1
        body = b"%06d" % self._number * 171
        message = Message(topic, body, keys=f"k{self._number}")
        result = await self._producer.send(
            message, queue=MessageQueue(topic, "broker-a", 0), timeout_ms=PATIENCE_MS
        )
        if topic == TOPIC and result.status is SendStatus.SEND_OK:
            assert result.queue_offset not in self.acknowledged, "an offset was given twice"
            self.acknowledged[result.queue_offset] = body
        return result.status

    async def refused(self) -> BrokerError:
        """What a send is refused with."""
        with pytest.raises(BrokerError) as refusal:
            await self.send()
        return refusal.value

    async def send_until_refused(self) -> BrokerError:
        """Send on while the broker takes messages."""
        for _ in range(10_000):
            try:
                await self.send()
            except BrokerError as refusal:
                return refusal
        raise AssertionError("the disk never became full")

    async def pull(self, offset: int) -> PullResult:
        """What a consumer gets at an offset."""
        return await self._reader.pull(self.queue, "*", offset)

    async def served(self, offset: int = 0) -> dict[int, bytes]:
        """Offset -> body of all that a consumer gets from an offset on."""
        found: dict[int, bytes] = {}
        while True:
            pulled = await self.pull(offset)
            if pulled.status is not PullStatus.FOUND:
                return found
            found |= {m.queue_offset: bytes(m.body) for m in pulled.messages}
            offset = pulled.next_begin_offset

    async def check(self) -> None:
        """Every acknowledged message is served, and there is no hole."""
        served = await self.served()
        wrong = {at for at, body in self.acknowledged.items() if served.get(at) != body}
        assert wrong == set()
        assert list(served) == list(range(len(served)))


@asynccontextmanager
async def speaking(cluster: Cluster, *, new: bool = True) -> AsyncIterator[Voice]:
    """A producer and a consumer of a running cluster; `new` makes the topic."""
    if new:
        await cluster.create_topic(TOPIC)
    async with (
        Producer(
            "producers", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
        ) as producer,
        PullConsumer(GROUP, nameservers=cluster.nameservers) as reader,
    ):
        yield Voice(producer, reader)


def log_of(cluster: Cluster, event: str) -> list[dict[str, str]]:
    """The broker's log lines about one event."""
    lines = cluster.broker("a").log_tail(10_000).splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == event]


def assert_sound(root: Path) -> None:
    """The store of a broker that has stopped is whole, and it stopped in order."""
    verified = verify_store(OsDisk(), str(root), index_slots=SLOTS)
    assert [str(problem) for problem in verified.problems] == []
    assert not any("did not stop cleanly" in note for note in verified.notes)

"""Scripted brokers, a manual clock and clients on one memory network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pocketmq.client import Producer, PushConsumer
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.eventually import PATIENCE_MS
from support.scripted_broker import ScriptedBroker, ScriptedNameServer

START_MS = 1_700_000_000_000


@dataclass
class ClientRig:
    """What a client test stands on."""

    network: MemoryNetwork = field(default_factory=MemoryNetwork)
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))
    brokers: list[ScriptedBroker] = field(default_factory=list)
    nameserver: ScriptedNameServer = field(default_factory=lambda: ScriptedNameServer(9876))

    @property
    def options(self) -> dict[str, Any]:
        """For every client of this rig."""
        return {
            "nameservers": self.nameserver.address,
            "network": self.network,
            "clock": self.clock,
        }

    def producer(self, group: str = "producers", **options: Any) -> Producer:
        own = {"send_timeout_ms": PATIENCE_MS}  # of real time, which its tries share
        return Producer(group, **(self.options | own | options))

    def consumer(self, group: str = "consumers", **options: Any) -> PushConsumer:
        return PushConsumer(group, **(self.options | options))

    async def advance(self, seconds: float) -> None:
        """Let time pass; returns when what it woke has settled."""
        await self.clock.move_to(self.clock.time_ms() + round(seconds * 1000))


@asynccontextmanager
async def client_rig(*broker_names: str) -> AsyncIterator[ClientRig]:
    """A name server, brokers of these names with topic T (4 queues each) and TBW102."""
    rig = ClientRig()
    await rig.nameserver.start(rig.network)
    for number, name in enumerate(broker_names or ("a",)):
        broker = ScriptedBroker(name, 10911 + 100 * number)
        rig.brokers.append(broker)
        await broker.start(rig.network)
    rig.nameserver.add_topic("T", rig.brokers)
    rig.nameserver.add_topic("TBW102", rig.brokers, queues=8, perm=7)
    try:
        yield rig
    finally:
        for broker in rig.brokers:
            await broker.stop()
        await rig.nameserver.stop()

"""The real nameserver and brokers in one loop: memory network, manual clock, small files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import StoreConfig
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.client import Admin, Producer, PushConsumer
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import profile_named
from support.broker_rig import SMALL_FILES
from support.eventually import PATIENCE_MS, eventually
from support.nameserver_rig import MemoryStorage

START_MS = 1_700_000_000_000


@dataclass
class MemoryCluster:
    """A whole cluster for client tests."""

    folder: Path
    profile: str = "5.x"
    options: dict[str, Any] = field(default_factory=dict)
    """For every broker."""
    disk: Disk | None = None
    """Of every broker; the usual one by default."""
    network: MemoryNetwork = field(default_factory=MemoryNetwork)
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))
    brokers: dict[str, Broker] = field(default_factory=dict)
    nameserver: NameServer = field(init=False)

    def __post_init__(self) -> None:
        self.nameserver = NameServer(
            NameServerConfig(port=9876),
            self.clock,
            self.network,
            profile_named(self.profile),
            kv_storage=MemoryStorage(),
        )

    @property
    def client_options(self) -> dict[str, Any]:
        return {
            "nameservers": self.nameserver.address,
            "network": self.network,
            "clock": self.clock,
            "profile": self.profile,
            "api_timeout_ms": PATIENCE_MS,
        }

    async def start_broker(self, name: str, **options: Any) -> Broker:
        """Start a broker, on its old data if it ran before."""
        number = sorted({*self.brokers, name}).index(name)
        settings = {"port": 10911 + 100 * number, **self.options, **options}
        config = BrokerConfig(
            name=name,
            nameservers=(self.nameserver.address,),
            data=self.folder / name,
            **settings,
        )
        broker = Broker(
            config,
            self.clock,
            self.network,
            profile_named(self.profile),
            store_config=StoreConfig(**SMALL_FILES),
            disk=self.disk,
        )
        await broker.start()
        self.brokers[name] = broker
        return broker

    async def stop_broker(self, name: str) -> None:
        await self.brokers[name].stop()

    def producer(self, group: str = "producers", **options: Any) -> Producer:
        own = {"send_timeout_ms": PATIENCE_MS}
        return Producer(group, **(self.client_options | own | options))

    def consumer(self, group: str = "consumers", **options: Any) -> PushConsumer:
        return PushConsumer(group, **(self.client_options | options))

    def admin(self) -> Admin:
        return Admin(**self.client_options)

    async def create_topic(self, topic: str, queues: int = 4, **options: Any) -> None:
        """Create a topic and wait until the name server knows it everywhere."""
        async with self.admin() as admin:
            await admin.create_topic(topic, queues=queues, **options)
            await eventually(
                lambda: len(self.queues_of(topic)) == queues * len(self.brokers),
                f"{topic} is registered",
            )

    def queues_of(self, topic: str) -> list[MessageQueue]:
        route = self.nameserver.table.route(topic)
        if route is None:
            return []
        return [
            MessageQueue(topic, data.broker_name, i)
            for data in route.queue_datas
            for i in range(data.read_queue_nums)
        ]

    async def advance(self, seconds: float) -> None:
        """Let time pass; returns when what it woke has settled."""
        await self.clock.move_to(self.clock.time_ms() + round(seconds * 1000))

    async def until(self, condition: Any, what: str, *, step_s: float = 0.5) -> None:
        """Let time pass until something holds; for what needs an unknown number of steps."""
        for _ in range(200):
            if condition():
                return
            await self.advance(step_s)
        raise AssertionError(f"waited in vain until {what}")


@asynccontextmanager
async def memory_cluster(
    folder: Path,
    *broker_names: str,
    profile: str = "5.x",
    disk: Disk | None = None,
    **options: Any,
) -> AsyncIterator[MemoryCluster]:
    """A nameserver and brokers of these names, running."""
    made = MemoryCluster(folder, profile, options, disk)
    await made.nameserver.start()
    try:
        for name in broker_names or ("a",):
            await made.start_broker(name)
        yield made
    finally:
        for broker in made.brokers.values():
            await broker.stop()
        await made.nameserver.stop()

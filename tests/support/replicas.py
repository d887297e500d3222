"""Masters and slaves of one broker name on one loop: a nameserver, memory network, manual clock."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import Disk, MessageStore, StoreConfig
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.operation.membership.members import Members
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.network import Network
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import profile_named
from support.broker_rig import SMALL_FILES, START_MS, Voice
from support.nameserver_rig import MemoryStorage
from support.tls import memory_over_tls


def log_of(store: MessageStore) -> bytes:
    """The whole log, as it is in the files."""
    return b"".join(bytes(file.view()[: file.wrote]) for file in store.commit_log.files.files)


class ReplicaRig:
    """Brokers of the name `broker-a`, each with a folder of its own."""

    def __init__(
        self,
        folder: Path,
        profile: str = "5.x",
        *,
        nameserver: NameServerConfig | None = None,
        events: EventSink = NO_EVENTS,
        members: Members | None = None,
    ) -> None:
        self._events = events
        self.folder = folder
        self.clock = ManualClock(START_MS)
        self._members = members
        self.outside = None if members is None else memory_over_tls()
        """The same network for who is no member, where members must prove who they are."""
        self.network: Network = (
            MemoryNetwork()
            if members is None or self.outside is None
            else MemberNetwork(self.outside, members)
        )
        self.brokers: dict[str, Broker] = {}
        self._profile = profile_named(profile)
        self.nameserver = NameServer(
            nameserver or NameServerConfig(port=9876),
            self.clock,
            self.network,
            self._profile,
            kv_storage=MemoryStorage(),
            members=members,
        )

    async def __aenter__(self) -> ReplicaRig:
        await self.nameserver.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self.brokers):
            await self.stop(name)
        await self.nameserver.stop()

    async def start(self, name: str, **options: Any) -> Broker:
        """Start a broker on the folder `name`, on its old data if it was there before."""
        store_options = {key: options.pop(key) for key in list(options) if key.startswith("flush_")}
        port = options.pop("port", 11000 + 100 * len(self.brokers))
        disk: Disk | None = options.pop("disk", None)
        budget: Budget = options.pop("budget", DEFAULT_BUDGET)
        config = BrokerConfig(
            nameservers=(self.nameserver.address,), data=self.folder / name, port=port, **options
        )
        broker = Broker(
            config,
            self.clock,
            self.network,
            self._profile,
            store_config=StoreConfig(**(SMALL_FILES | store_options)),
            disk=disk,
            budget=budget,
            events=self._events,
            members=self._members,
        )
        await broker.start()
        self.brokers[name] = broker
        return broker

    async def stop(self, name: str) -> None:
        await self.brokers.pop(name).stop()

    async def voice(self, broker: Broker) -> Voice:
        """A client's connection."""
        return Voice(await self.network.connect(broker.address, Dispatcher()))

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.move_to(self.clock.time_ms() + round(seconds * 1000))

    async def same_logs(self) -> None:
        """Let time pass until every broker has the same log, and has dispatched it."""
        for _ in range(200):
            logs = [log_of(broker.store) for broker in self.brokers.values()]
            waiting = sum(b.store.replica.undispatched_bytes for b in self.brokers.values())
            if all(log == logs[0] for log in logs) and not waiting:
                return
            await self.advance(0.5)
        ends = {name: b.store.commit_log.max_offset for name, b in self.brokers.items()}
        raise AssertionError(f"the logs differ: {ends}")

"""The rigs of client tests over real sockets: loopback TCP on free ports, and a manual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import StoreConfig
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.profile import profile_named
from support.broker_rig import SMALL_FILES
from support.client_rig import ClientRig
from support.eventually import eventually
from support.memory_cluster import MemoryCluster
from support.nameserver_rig import MemoryStorage
from support.scripted_broker import ScriptedBroker, ScriptedNameServer


@asynccontextmanager
async def tcp_rig(*broker_names: str, queues: int = 4) -> AsyncIterator[ClientRig]:
    """Scripted name server and brokers; topic T with `queues` queues on each."""
    rig = ClientRig(network=TcpNetwork(), nameserver=ScriptedNameServer(0))
    async with AsyncExitStack() as stack:
        await rig.nameserver.start(rig.network)
        stack.push_async_callback(rig.nameserver.stop)
        rig.nameserver.port = rig.nameserver.listener.port
        for name in broker_names or ("a",):
            rig.brokers.append(await scripted(rig, stack, name))
        rig.nameserver.add_topic("T", rig.brokers, queues=queues)
        rig.nameserver.add_topic("TBW102", rig.brokers, queues=8, perm=7)
        yield rig


async def scripted(rig: ClientRig, stack: AsyncExitStack, name: str) -> ScriptedBroker:
    """One more scripted broker on a free port."""
    broker = ScriptedBroker(name, 0)
    await broker.start(rig.network)
    stack.push_async_callback(broker.stop)
    broker.port = broker.listener.port
    return broker


def spy(dispatcher: Dispatcher) -> list[Command]:
    """Every request that comes to a dispatcher from now on, in order."""
    seen: list[Command] = []
    for code, processor in list(dispatcher.single.items()):

        def process(peer: Peer, request: Command, processor: Any = processor) -> Reply:
            seen.append(copy(request))  # a processor may empty the one it holds
            return processor(peer, request)

        dispatcher.single[code] = process
    for code, batch in list(dispatcher.batch.items()):

        def process_batch(peer: Peer, requests: Any, processor: Any = batch) -> Any:
            seen.extend(copy(request) for request in requests)
            return processor(peer, requests)

        dispatcher.batch[code] = process_batch
    return seen


@dataclass
class TcpHouse(MemoryCluster):
    """The real nameservers and brokers, over loopback TCP."""

    nameserver_count: int = 1
    nameservers: list[NameServer] = field(default_factory=list)
    asked: dict[str, list[Command]] = field(default_factory=dict)
    """Broker name -> requests it got."""
    told: list[list[Command]] = field(default_factory=list)
    """Requests that each nameserver got."""

    def __post_init__(self) -> None:
        self.network = TcpNetwork()
        for _ in range(self.nameserver_count):
            server = NameServer(
                NameServerConfig(port=0),
                self.clock,
                self.network,
                profile_named(self.profile),
                kv_storage=MemoryStorage(),
            )
            self.nameservers.append(server)
        self.nameserver = self.nameservers[0]

    @property
    def client_options(self) -> dict[str, Any]:
        return super().client_options | {
            "nameservers": ";".join(each.address for each in self.nameservers)
        }

    async def start_nameservers(self) -> None:
        """All of them; requests are watched from the start."""
        for server in self.nameservers:
            await server.start()
            self.told.append(spy(server.dispatcher))

    async def start_broker(self, name: str, **options: Any) -> Broker:
        """Start a broker on a free port, or on its old port and data if it ran before."""
        before = self.brokers.get(name)
        settings = {
            "port": 0 if before is None else before.port,
            "nameservers": tuple(each.address for each in self.nameservers),
            **self.options,
            **options,
        }
        store_options = {
            key: settings.pop(key) for key in list(settings) if key in StoreConfig.__annotations__
        }
        broker = Broker(
            BrokerConfig(name=name, data=self.folder / name, **settings),
            self.clock,
            self.network,
            profile_named(self.profile),
            store_config=StoreConfig(**(SMALL_FILES | store_options)),
        )
        self.asked[name] = spy(broker.dispatcher)
        await broker.start()
        self.brokers[name] = broker
        return broker

    async def until(self, condition: Any, what: str, *, step_s: float = 0.5) -> None:
        """Let time pass until something holds; sockets get real time in between."""
        for _ in range(100):
            if condition():
                return
            await self.advance(step_s)
            await self.clock.sleep(0)
        await eventually(condition, what)


@asynccontextmanager
async def tcp_cluster(
    folder: Path, *broker_names: str, profile: str = "5.x", nameservers: int = 1, **options: Any
) -> AsyncIterator[TcpHouse]:
    """Nameservers and brokers of these names, running."""
    made = TcpHouse(folder, profile, options, nameserver_count=nameservers)
    await made.start_nameservers()
    try:
        for name in broker_names or ("a",):
            await made.start_broker(name)
        yield made
    finally:
        for broker in made.brokers.values():
            await broker.stop()
        for server in made.nameservers:
            await server.stop()

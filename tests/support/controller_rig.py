"""Controllers over a memory network, memory files and one manual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pocketmq.controller.config import ControllerConfig
from pocketmq.controller.server import Controller, ControllerSeams
from pocketmq.protocol.bodies.controller import ElectMasterResponseBody, SyncStateSet
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.controller import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    ElectMasterRequestHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    NotifyBrokerRoleChangedRequestHeader,
    RegisterBrokerToControllerRequestHeader,
)
from pocketmq.protocol.headers.route import BrokerHeartbeatRequestHeader
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock

START_MS = 1_700_000_000_000
CLUSTER = "DefaultCluster"


class MemoryFiles:
    """Texts in memory; `fails` makes every write an error."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.fails = False

    def make_directory(self, path: str, *, lasting: bool = False) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def file_size(self, path: str) -> int | None:
        text = self.texts.get(path)
        return None if text is None else len(text)

    async def read_text(self, path: str) -> str | None:
        return self.texts.get(path)

    async def write_text(self, path: str, text: str) -> None:
        self._check(path)
        self.texts[path] = text

    async def append_text(self, path: str, text: str) -> None:
        self._check(path)
        self.texts[path] += text

    async def rename(self, source: str, target: str) -> None:
        self._check(target)
        self.texts[target] = self.texts.pop(source)

    def _check(self, path: str) -> None:
        if self.fails:
            raise DiskError(path, "Input/output error")


@dataclass
class BrokerInQuestion:
    """A broker as controllers see it: an address, a connection to each of them."""

    rig: ControllerRig
    name: str
    id: int
    address: str
    encoding: Encoding
    channels: dict[str, Channel] = field(default_factory=dict)
    notices: list[tuple[NotifyBrokerRoleChangedRequestHeader, SyncStateSet]] = field(
        default_factory=list
    )
    epoch: int = 0
    max_offset: int = 0

    async def ask(self, header: Header, body: bytes | msgspec.Struct = b"") -> Command:
        """A request to the leader, whose answer is waited for."""
        return await self.rig.answer(await self.channel(self.rig.leader), header, body)

    async def channel(self, controller: Controller) -> Channel:
        """The open connection to a controller."""
        channel = self.channels.get(controller.config.self_id)
        if channel is None or not channel.is_open:
            channel = await self.rig.network.connect(
                controller.address, Dispatcher(), encoding=self.encoding
            )
            self.channels[controller.config.self_id] = channel
        return channel

    async def heartbeat(self, **more: Any) -> None:
        """One to each controller that runs."""
        for controller in self.rig.controllers.values():
            header = BrokerHeartbeatRequestHeader(
                **{
                    "cluster_name": CLUSTER, "broker_addr": self.address, "broker_name": self.name,
                    "broker_id": self.id, "epoch": self.epoch, "max_offset": self.max_offset,
                    "confirm_offset": 0, "heartbeat_timeout_mills": 10_000, **more,
                }
            )  # fmt: skip
            (await self.channel(controller)).oneway(header)
        await self.rig.settle()

    async def apply(self, check_code: str | None = None) -> Command:
        """Claim the id."""
        return await self.ask(
            ApplyBrokerIdRequestHeader(
                cluster_name=CLUSTER,
                broker_name=self.name,
                applied_broker_id=self.id,
                register_check_code=check_code or f"{self.address};1",
            )
        )

    async def register(self, address: str | None = None) -> Command:
        """Tell the address."""
        return await self.ask(
            RegisterBrokerToControllerRequestHeader(
                cluster_name=CLUSTER,
                broker_name=self.name,
                broker_id=self.id,
                broker_address=address or self.address,
            )
        )

    async def elect(self, **more: Any) -> Command:
        """Ask for a master."""
        fields = {"cluster_name": CLUSTER, "broker_name": self.name, "broker_id": self.id, **more}
        return await self.ask(ElectMasterRequestHeader(**fields))

    async def alter(self, ids: set[int], *, epoch: int, set_epoch: int) -> Command:
        """Tell who is in sync."""
        return await self.ask(
            AlterSyncStateSetRequestHeader(
                broker_name=self.name, master_broker_id=self.id, master_epoch=epoch
            ),
            SyncStateSet(sync_state_set=ids, sync_state_set_epoch=set_epoch),
        )

    def die(self) -> None:
        """As a killed process: all its connections close."""
        for channel in self.channels.values():
            channel.close()
        self.channels.clear()
        self.rig.brokers.remove(self)

    @handles(RequestCode.NOTIFY_BROKER_ROLE_CHANGED)
    def _notified(self, _peer: Peer, request: Command) -> Reply:
        body = decode_body(request.body_view, SyncStateSet, request.encoding)
        self.notices.append((request.header(NotifyBrokerRoleChangedRequestHeader), body))
        return None


@dataclass
class ControllerRig:
    """What a test of controllers holds in its hands."""

    clock: ManualClock
    network: MemoryNetwork
    peers: str
    options: dict[str, Any]
    budget: Budget = DEFAULT_BUDGET
    files: dict[str, MemoryFiles] = field(default_factory=dict)
    controllers: dict[str, Controller] = field(default_factory=dict)
    brokers: list[BrokerInQuestion] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    async def start(self, own_id: str) -> Controller:
        """Start a controller on what its files hold."""
        config = ControllerConfig(
            name=own_id, self_id=own_id, peers=self.peers, store_path=Path(f"/{own_id}"),
            **self.options,
        )  # fmt: skip
        controller = Controller(
            config,
            ControllerSeams(
                self.clock,
                self.network,
                self.files.setdefault(own_id, MemoryFiles()),
                seed=int(own_id[1:]) + 1,
            ),
            budget=self.budget,
            on_failure=lambda _task, error: self.failures.append(error),
        )
        await controller.start()
        self.controllers[own_id] = controller
        return controller

    async def stop(self, own_id: str) -> None:
        """Stop a controller."""
        await self.controllers.pop(own_id).stop()

    @property
    def leader(self) -> Controller:
        """The controller that serves."""
        [leader] = [each for each in self.controllers.values() if each.consensus.serves]
        return leader

    async def advance(self, seconds: float) -> None:
        """Let time pass; brokers of the rig send their heartbeats each second."""
        end = self.clock.time_ms() + round(seconds * 1000)
        while self.clock.time_ms() < end:
            for broker in self.brokers:
                await broker.heartbeat()
            for _ in range(10):
                await self.clock.move_to(min(end, self.clock.time_ms() + 100))
                await self.settle()

    async def settle(self) -> None:
        """Let what is under way arrive."""
        for _ in range(30):
            await self.clock.sleep(0)

    async def answer(
        self, channel: Channel, header: Header, body: bytes | msgspec.Struct = b""
    ) -> Command:
        """An answer that needs a majority: time passes meanwhile."""
        raw = encode_body(body, channel.encoding) if isinstance(body, msgspec.Struct) else body
        future = channel.request(header, raw)
        for _ in range(50):
            await self.settle()
            if future.done():
                break
            await self.clock.move_to(self.clock.time_ms() + 20)
        return await future

    async def broker(
        self,
        name: str = "broker-a",
        *,
        encoding: Encoding = Encoding.JSON,
        is_registered: bool = True,
    ) -> BrokerInQuestion:
        """A broker that has an id, is registered and alive."""
        listening = Dispatcher()
        listener = await self.network.serve("127.0.0.1", 0, listening)
        broker = BrokerInQuestion(self, name, 0, f"127.0.0.1:{listener.port}", encoding)
        listening.add(broker)
        header = GetNextBrokerIdRequestHeader(cluster_name=CLUSTER, broker_name=name)
        reply = await broker.ask(header)
        broker.id = reply.header(GetNextBrokerIdResponseHeader).next_broker_id or 0
        if is_registered:
            assert (await broker.apply()).code == ResponseCode.SUCCESS
            assert (await broker.register()).code == ResponseCode.SUCCESS
            await broker.heartbeat()
            self.brokers.append(broker)
        return broker

    async def info(self, name: str = "broker-a") -> tuple[GetReplicaInfoResponseHeader, set[int]]:
        """Master and set, as the leader tells."""
        channel = await self.network.connect(self.leader.address, Dispatcher())
        reply = await self.answer(channel, GetReplicaInfoRequestHeader(broker_name=name))
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        body = decode_body(reply.body_view, SyncStateSet, reply.encoding)
        channel.close()
        return reply.header(GetReplicaInfoResponseHeader), set(body.sync_state_set or ())

    async def until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> float:
        """Let time pass until something holds; how many seconds it took."""
        start = self.clock.time_ms()
        while not condition():
            assert self.clock.time_ms() - start < limit_s * 1000, "it never came"
            await self.clock.move_to(self.clock.time_ms() + 50)
            await self.settle()
        return (self.clock.time_ms() - start) / 1000


def elected(reply: Command) -> ElectMasterResponseBody:
    """Body of an answer to ELECT_MASTER."""
    return decode_body(reply.body_view, ElectMasterResponseBody, reply.encoding)


@asynccontextmanager
async def controllers(
    count: int = 1, *, budget: Budget = DEFAULT_BUDGET, **options: Any
) -> AsyncIterator[ControllerRig]:
    """Running controllers n0, n1, ... of which one leads and serves."""
    names = [f"n{at}" for at in range(count)]
    peers = ";".join(f"{name}-127.0.0.1:{9877 + at}" for at, name in enumerate(names))
    clock = ManualClock(START_MS, guard_s=120.0)  # 20,000 replicas on a loaded machine
    rig = ControllerRig(clock, MemoryNetwork(), peers, options, budget)
    try:
        for name in names:
            await rig.start(name)
        await rig.until(lambda: any(each.consensus.serves for each in rig.controllers.values()))
        await rig.advance(5.0)
        yield rig
    finally:
        for name in list(rig.controllers):
            await rig.stop(name)

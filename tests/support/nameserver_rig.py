"""A nameserver on a memory network and a manual clock, and brokers that are only voices."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.kv_config import KvTable
from pocketmq.nameserver.server import NameServer
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.bodies.compressed_registration import encode_compressed
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import VERSION_5_3_3, Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.route import (
    BrokerHeartbeatRequestHeader,
    GetRouteInfoRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    UnregisterBrokerRequestHeader,
)
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X, Profile

START_MS = 1_700_000_000_000
CLUSTER = "DefaultCluster"


class MemoryStorage:
    """A KV file without a disk."""

    def __init__(self, table: KvTable | None = None) -> None:
        self.table: KvTable = table or {}
        self.saves = 0
        self.failure: DiskError | None = None

    async def load(self) -> KvTable:
        return self.table

    async def save(self, table: KvTable) -> None:
        if self.failure is not None:
            raise self.failure
        self.table = table
        self.saves += 1


def topic_configs(names: Iterable[str], **options: Any) -> dict[str, TopicConfig]:
    """4 queues each way unless `options` say otherwise."""
    fields = {"read_queue_nums": 4, "write_queue_nums": 4} | options
    return {name: TopicConfig(topic_name=name, **fields) for name in names}


@dataclass
class BrokerVoice:
    """Says to a nameserver what a broker would."""

    channel: Channel
    name: str
    id: int = 0
    address: str = "127.0.0.1:10911"
    ha_address: str = "127.0.0.1:10912"
    cluster: str = CLUSTER
    version: DataVersion = field(default_factory=lambda: DataVersion(timestamp=1, counter=1))

    async def register(
        self,
        topics: Mapping[str, TopicConfig] | Iterable[str] = ("TopicA", "TopicB"),
        *,
        filter_servers: list[str] | None = None,
        compressed: bool = False,
        check_crc: bool = False,
        body: bytes | None = None,
        **fields: Any,
    ) -> Command:
        """REGISTER_BROKER; `fields` go into the header."""
        table = topics if isinstance(topics, Mapping) else topic_configs(topics)
        registration = RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
                data_version=self.version, topic_config_table=dict(table)
            ),
            filter_server_list=filter_servers,
        )
        if body is None:
            body = (
                encode_compressed(registration, version=self.channel.version)
                if compressed
                else encode_body(registration, self.channel.encoding)
            )
        all_fields = {
            **self._identity(),
            "ha_server_addr": self.ha_address,
            "compressed": compressed,
            "body_crc32": zlib.crc32(body) & 0x7FFFFFFF if check_crc else 0,
            "enable_acting_master": False,
            **fields,
        }
        return await self.channel.request(RegisterBrokerRequestHeader(**all_fields), body)

    async def unregister(self, **fields: Any) -> Command:
        """UNREGISTER_BROKER."""
        return await self.channel.request(self.departure(**fields))

    def departure(self, **fields: Any) -> UnregisterBrokerRequestHeader:
        """The header of UNREGISTER_BROKER."""
        return UnregisterBrokerRequestHeader(**(self._identity() | fields))

    async def query_version(
        self, channel: Channel | None = None
    ) -> tuple[bool, DataVersion | None]:
        """QUERY_DATA_VERSION: whether ours differs, and what the nameserver holds."""
        channel = channel or self.channel
        header = QueryDataVersionRequestHeader(**self._identity())
        reply = await channel.request(header, self.version)
        body = reply.body_view
        known = decode_body(body, DataVersion, reply.encoding) if body else None
        return reply.header(QueryDataVersionResponseHeader).changed, known

    async def heartbeat(self) -> Command:
        """BROKER_HEARTBEAT."""
        return await self.channel.request(BrokerHeartbeatRequestHeader(**self._identity()))

    def bump(self) -> None:
        """A topic changed: the next registration carries a new version."""
        version = self.version
        self.version = version.next_version(version.timestamp + 1, version.state_version)

    def _identity(self) -> dict[str, Any]:
        return {
            "broker_name": self.name,
            "broker_addr": self.address,
            "cluster_name": self.cluster,
            "broker_id": self.id,
        }


@dataclass
class NameServerRig:
    """What a test of the nameserver holds in its hands."""

    clock: ManualClock
    network: MemoryNetwork
    server: NameServer
    storage: MemoryStorage
    _ports: int = 10910

    async def channel(
        self, encoding: Encoding = Encoding.MSGPACK, *, version: int = VERSION_5_3_3
    ) -> Channel:
        """A new connection."""
        return await self.network.connect(
            self.server.address, Dispatcher(), encoding=encoding, version=version
        )

    async def broker(
        self,
        name: str = "broker-a",
        id: int = 0,
        *,
        encoding: Encoding = Encoding.MSGPACK,
        version: int = VERSION_5_3_3,
        **fields: Any,
    ) -> BrokerVoice:
        """A broker with an address of its own, not registered yet."""
        self._ports += 1
        fields.setdefault("address", f"127.0.0.1:{self._ports}")
        fields.setdefault("ha_address", f"127.0.0.1:{self._ports + 1000}")
        return BrokerVoice(await self.channel(encoding, version=version), name, id, **fields)

    async def ask(
        self, header: Header, body: bytes | msgspec.Struct = b"", **connection: Any
    ) -> Command:
        """One request on a connection of its own."""
        channel = await self.channel(**connection)
        try:
            return await channel.request(header, body)
        finally:
            channel.close()

    async def route(self, topic: str) -> TopicRouteData | None:
        """The route as a client hears it; None for TOPIC_NOT_EXIST (17)."""
        reply = await self.ask(GetRouteInfoRequestHeader(topic=topic))
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return decode_body(reply.body_view, TopicRouteData, reply.encoding)

    async def brokers_of(self, topic: str) -> list[str]:
        """Names of the brokers that hold queues of the topic, sorted."""
        route = await self.route(topic)
        return sorted(queue.broker_name for queue in route.queue_datas) if route else []

    async def perm_of(self, topic: str, broker: str = "broker-a") -> int:
        """Perm of the topic's queues on a broker."""
        route = await self.route(topic)
        assert route is not None
        return next(queue.perm for queue in route.queue_datas if queue.broker_name == broker)

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.move_to(self.clock.time_ms() + round(seconds * 1000))


@asynccontextmanager
async def nameserver(
    profile: Profile = PROFILE_5_X,
    kv: KvTable | None = None,
    budget: Budget = DEFAULT_BUDGET,
    events: EventSink = NO_EVENTS,
    **options: Any,
) -> AsyncIterator[NameServerRig]:
    """A running nameserver; `options` are those of its configuration."""
    clock, network, storage = ManualClock(START_MS), MemoryNetwork(), MemoryStorage(kv)
    config = NameServerConfig(**{"port": 9876, **options})
    server = NameServer(
        config, clock, network, profile, kv_storage=storage, budget=budget, events=events
    )
    await server.start()
    try:
        yield NameServerRig(clock, network, server, storage)
    finally:
        await server.stop()

"""A proxy in front of a memory cluster, and a client that speaks raw gRPC to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.proxy.assembly.proxy import Proxy
from pocketmq.proxy.config import ProxyConfig
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, MessageType
from pocketmq.proxy.protos.shapes import PACKAGE, SERVICE
from pocketmq.proxy.routes.endpoints import scheme_of
from pocketmq.runtime.addresses import address_text
from support.eventually import PATIENCE_S
from support.memory_cluster import START_MS, MemoryCluster, memory_cluster


@dataclass
class Sdk:
    """One producer or consumer object, as an SDK would be: an id, a connection, a stream."""

    channel: Any
    endpoints: Any
    client_id: str
    headers: dict[str, str] = field(default_factory=dict)
    stream: Any = None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        said = {"x-mq-client-id": self.client_id, "x-mq-language": "PYTHON"} | self.headers
        return tuple(said.items())

    async def call(self, rpc: str, **fields: Any) -> Any:
        """One unary RPC's answer."""
        invoke = self.channel.unary_unary(
            f"/{PACKAGE}.{SERVICE}/{rpc}",
            request_serializer=getattr(pb, f"{rpc}Request").SerializeToString,
            response_deserializer=getattr(pb, f"{rpc}Response").FromString,
        )
        request = getattr(pb, f"{rpc}Request")(**fields)
        return await invoke(request, metadata=self.metadata, timeout=PATIENCE_S)

    async def receive(self, **fields: Any) -> list[Any]:
        """What ReceiveMessage streams."""
        invoke = self.channel.unary_stream(
            f"/{PACKAGE}.{SERVICE}/ReceiveMessage",
            request_serializer=pb.ReceiveMessageRequest.SerializeToString,
            response_deserializer=pb.ReceiveMessageResponse.FromString,
        )
        request = pb.ReceiveMessageRequest(**fields)
        return [each async for each in invoke(request, metadata=self.metadata, timeout=PATIENCE_S)]

    def open_stream(self) -> None:
        """Open Telemetry; an SDK does so once for each endpoint."""
        invoke = self.channel.stream_stream(
            f"/{PACKAGE}.{SERVICE}/Telemetry",
            request_serializer=pb.TelemetryCommand.SerializeToString,
            response_deserializer=pb.TelemetryCommand.FromString,
        )
        self.stream = invoke(metadata=self.metadata)

    async def say(self, **command: Any) -> None:
        """Write one command."""
        if self.stream is None:
            self.open_stream()
        await self.stream.write(pb.TelemetryCommand(**command))

    async def hear(self) -> Any:
        """Read one command; `grpc.aio.EOF` at the end of the stream."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.stream.read()

    async def publish(self, *topics: str) -> Any:
        """Send a producer's settings; what it is told."""
        settings = pb.Settings(client_type=ClientType.PRODUCER, access_point=self.endpoints)
        settings.publishing.topics.extend([pb.Resource(name=topic) for topic in topics])
        await self.say(settings=settings)
        return await self.hear()

    async def subscribe(
        self, group: str, *topics: str, kind: ClientType = ClientType.SIMPLE_CONSUMER
    ) -> Any:
        """Send a consumer's settings; what it is told."""
        settings = pb.Settings(client_type=kind, access_point=self.endpoints)
        settings.subscription.group.name = group
        for topic in topics:
            entry = settings.subscription.subscriptions.add()
            entry.topic.name = topic
            entry.expression.expression = "*"
        await self.say(settings=settings)
        return await self.hear()

    async def send(self, topic: str, body: bytes = b"hello", **system: Any) -> Any:
        """Send one message; the fields of SystemProperties that matter are given."""
        return await self.call("SendMessage", messages=[message(topic, body, **system)])


def message(topic: str, body: bytes = b"hello", **system: Any) -> Any:
    """What an SDK would send."""
    given = {
        "message_id": "01" + "AB" * 16,
        "message_type": MessageType.NORMAL,
        "born_timestamp": pb.Timestamp(seconds=START_MS // 1_000),
    } | system
    user = given.pop("user_properties", {})
    return pb.Message(
        topic=pb.Resource(name=topic),
        body=body,
        user_properties=user,
        system_properties=pb.SystemProperties(**given),
    )


@dataclass
class ProxyRig:
    """A proxy and what is behind it."""

    cluster: MemoryCluster
    proxy: Proxy
    _channels: list[Any] = field(default_factory=list)

    def sdk(self, client_id: str = "sdk-1", *, host: str = "127.0.0.1", **headers: str) -> Sdk:
        """A new client on a connection of its own."""
        address = address_text(host, self.proxy.grpc_port)
        channel = grpc.aio.insecure_channel(
            address, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self._channels.append(channel)
        endpoints = pb.Endpoints(
            scheme=scheme_of(host),
            addresses=[pb.Address(host=host, port=self.proxy.grpc_port)],
        )
        return Sdk(channel, endpoints, client_id, dict(headers))

    async def close(self) -> None:
        """Close the clients' connections."""
        for channel in self._channels:
            await channel.close()


@asynccontextmanager
async def proxy_rig(
    folder: Path,
    *broker_names: str,
    options: dict[str, Any] | None = None,
    budget: Budget = DEFAULT_BUDGET,
    **broker: Any,
) -> AsyncIterator[ProxyRig]:
    """A memory cluster with a proxy on a real port."""
    async with memory_cluster(folder, *broker_names, **broker) as cluster:
        config = ProxyConfig(
            nameservers=(cluster.nameserver.address,),
            grpc_port=0,
            port=8080,
            encoding="msgpack",
            **(options or {}),
        )
        async with Proxy(config, cluster.clock, cluster.network, budget=budget) as proxy:
            rig = ProxyRig(cluster, proxy)
            try:
                yield rig
            finally:
                await rig.close()

"""`GrpcDoor`: what a role does with an HTTP/2 peer at its port of remoting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import structlog

from pocketmq.operation.grpc_ports.requests import ProxyAddress
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.passed_on import PassedOn
from pocketmq.protocol.transport.proxy_protocol import header_of
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

FindProxies: TypeAlias = Callable[[], Awaitable[Sequence[ProxyAddress]]]
"""Which proxies are in front of this role's cluster, the best one first; raises nothing."""

NO_PROXY: Final = (
    "PocketMQ: this is the port of a {role}, and no gRPC proxy is known to this cluster. "
    "RocketMQ 5's SDKs need one: pip install 'pocketmq[grpc]', then `pocketmq up`, or "
    "`pocketmq proxy --nameservers HOST:PORT` beside a cluster that runs"
)


MOST_AT_ONCE: Final = 256
"""Peers for whom a proxy is looked for; a further one is hung up on."""

MOST_TRIED: Final = 3
"""Proxies that are dialled for one peer; of more that are dead a peer would not hear in time."""


class GrpcDoor:
    """Passes SDKs on to a proxy of the cluster; without one they hear what is missing (G-133).

    Args:
        role: `broker` or `nameserver`, for the text.
        network: Reaches the proxies.
        find: Tells which there are.
    """

    def __init__(self, role: str, network: Network, find: FindProxies) -> None:
        self._role = role
        self._network = network
        self._find = find
        self._tasks = TaskOwner("grpc door")
        self._is_stopped = False

    def __call__(self, channel: Channel) -> None:
        """Take over the connection of a channel, whose peer began to speak HTTP/2."""
        # Bounded: each connection costs a dial and a buffer, and a peer may open many.
        if self._is_stopped or len(self._tasks) >= MOST_AT_ONCE:
            channel.close()
            return
        # With a header of the PROXY protocol, the proxy sees the SDK's address instead of ours.
        passed_on = PassedOn(channel, header_of(channel.address, channel.local_address))
        self._tasks.start(self._open(passed_on, channel.address), name="pass on")

    async def stop(self) -> None:
        """Pass on nobody any more; connections that are passed on end with their channels."""
        self._is_stopped = True
        await self._tasks.stop()

    async def _open(self, passed_on: PassedOn, peer: str) -> None:
        # Look proxies up for each peer: they come and go, and SDKs connect rarely.
        proxies = await self._find()
        for proxy in proxies[:MOST_TRIED]:
            if passed_on.is_over:
                return  # the peer has left
            try:
                await self._network.dial(proxy.endpoints, passed_on, tls=True, to_member=False)
            except ConnectError as exc:
                log.warning("grpc.proxy_unreachable", proxy=proxy.endpoints, reason=str(exc))
            else:
                log.debug("grpc.passed_on", peer=peer, proxy=proxy.endpoints)
                return
        # Answer the peer itself: its user does not read the log of a broker.
        text = NO_PROXY.format(role=self._role)
        if proxies:
            text = (
                f"PocketMQ: this is the port of a {self._role}, and the gRPC proxy at "
                f"{proxies[0].endpoints} cannot be reached from here"
            )
        log.warning("grpc.refused", peer=peer, reason=text)
        passed_on.refuse(text)

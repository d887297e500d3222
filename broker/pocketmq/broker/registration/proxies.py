"""Which gRPC proxies are in front of this broker's cluster: its nameservers know (G-133)."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from pocketmq.operation.grpc_ports.requests import (
    GetProxiesRequestHeader,
    ProxyAddress,
    ProxyList,
)
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import PeerError

log = structlog.get_logger()


class ProxyFinder:
    """Asks nameservers, one after the other, when an SDK knocks at the broker's port.

    Args:
        nameservers: `host:port` each.
        client: Reaches them.
    """

    def __init__(self, nameservers: Sequence[str], client: RemotingClient) -> None:
        self._nameservers = tuple(nameservers)
        self._client = client

    async def find(self) -> Sequence[ProxyAddress]:
        """Those that the first nameserver knows which knows any."""
        for nameserver in self._nameservers:
            try:
                reply = await self._client.call(nameserver, GetProxiesRequestHeader())
                if reply.code != ResponseCode.SUCCESS:
                    continue  # RocketMQ's own: it knows no such request
                found = decode_body(reply.body_view, ProxyList, reply.encoding).proxies
            except PeerError as exc:
                log.info("proxies.unknown", nameserver=nameserver, reason=str(exc))
                continue
            if found:
                return found
        return ()

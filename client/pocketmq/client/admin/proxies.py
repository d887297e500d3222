"""Which gRPC proxies are in front of a cluster, and who is connected to them."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from pocketmq.client.api import ClientApi
from pocketmq.operation.grpc_ports.requests import (
    GetProxiesRequestHeader,
    ProxyAddress,
    ProxyList,
)
from pocketmq.protocol.bodies.clients import (
    ConsumerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.clients import (
    GetAllProducerInfoRequestHeader,
    GetConsumerConnectionListRequestHeader,
)
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class Proxies:
    """Asks nameservers for proxies, and proxies for their clients. Brokers do not know these.

    A proxy that does not answer is left out.

    Args:
        api: Sends the requests.
        nameservers: `host:port` each.
    """

    def __init__(self, api: ClientApi, nameservers: Sequence[str]) -> None:
        self._api = api
        self._nameservers = nameservers

    async def all(self) -> list[ProxyAddress]:
        """Those that the first nameserver knows which knows any; RocketMQ's own know none."""
        for nameserver in self._nameservers:
            try:
                reply = await self._api.call(
                    nameserver,
                    GetProxiesRequestHeader(),
                    ok=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),
                )
            except PocketMQError as exc:
                log.info("proxies.unknown", nameserver=nameserver, reason=str(exc))
                continue
            if reply.code == ResponseCode.SUCCESS:
                found = decode_body(reply.body_view, ProxyList, reply.encoding).proxies
                if found:
                    return sorted(found, key=lambda each: each.name)
        return []

    async def consumers(self, group: str) -> dict[str, ConsumerConnection]:
        """Proxy -> who consumes in the group through it; proxies without any are left out."""
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)
        found: dict[str, ConsumerConnection] = {}
        for each in await self.all():
            try:
                found[each.name] = await self._api.call_for_body(
                    each.address, header, ConsumerConnection
                )
            except PocketMQError as exc:
                log.debug("proxy.no_consumers", proxy=each.name, reason=str(exc))
        return found

    async def producers(self) -> dict[str, dict[str, list[ProducerInfo]]]:
        """Proxy -> topic -> who publishes to it through that proxy."""
        found: dict[str, dict[str, list[ProducerInfo]]] = {}
        for each in await self.all():
            try:
                table = await self._api.call_for_body(
                    each.address, GetAllProducerInfoRequestHeader(), ProducerTableInfo
                )
            except PocketMQError as exc:
                log.debug("proxy.no_producers", proxy=each.name, reason=str(exc))
            else:
                found[each.name] = table.data
        return found

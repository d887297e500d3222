"""Finds the masters that an admin request goes to, and sends it to each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pocketmq.client.admin.name_server_requests import NameServerRequests
from pocketmq.client.api import ClientApi
from pocketmq.client.routes import RouteTable
from pocketmq.protocol.body import BodyT
from pocketmq.protocol.command import Body
from pocketmq.protocol.errors import BrokerNotFoundError, ClientError
from pocketmq.protocol.header import Header


class Masters:
    """Finds masters and calls them. All of its tables are broker name -> address, sorted.

    Args:
        api: Sends the requests.
        name_servers: Know them all.
        routes: The routes that this client has cached.
    """

    def __init__(
        self, api: ClientApi, name_servers: NameServerRequests, routes: RouteTable
    ) -> None:
        self._api = api
        self._name_servers = name_servers
        self._routes = routes

    async def of_broker(self, broker_name: str) -> str:
        """The address of one; raises `BrokerNotFoundError`."""
        address = self._routes.master(broker_name)
        if address is None:
            info = await self._name_servers.cluster_info()
            data = info.broker_addr_table.get(broker_name)
            address = None if data is None else data.master_address()
        if address is None:
            raise BrokerNotFoundError(broker_name)
        return address

    async def of_topic(self, topic: str) -> dict[str, str]:
        """Those that the topic has queues on; raises `TopicNotFoundError`."""
        route = await self._name_servers.route(topic)
        return {
            data.broker_name: address
            for data in sorted(route.broker_datas, key=lambda each: each.broker_name)
            if (address := data.master_address()) is not None
        }

    async def all(self) -> dict[str, str]:
        """Every one; raises as `chosen`."""
        return await self.chosen(None, None)

    async def chosen(
        self, broker_names: Iterable[str] | None, cluster: str | None
    ) -> dict[str, str]:
        """Those that an operator means.

        Args:
            broker_names: Only these; None for all.
            cluster: Only those of this cluster; None for all.

        Raises:
            BrokerNotFoundError: one of them is not registered, or has no master.
            ClientError: no broker is left.
        """
        info = await self._name_servers.cluster_info()
        chosen = set(info.broker_addr_table if broker_names is None else broker_names)
        if cluster is not None:
            chosen &= set(info.cluster_addr_table.get(cluster, ()))
        found = {}
        for name in sorted(chosen):
            data = info.broker_addr_table.get(name)
            address = None if data is None else data.master_address()
            if address is None:
                raise BrokerNotFoundError(name)
            found[name] = address
        if not found:
            raise ClientError("no broker is registered; start one with `pocketmq broker`")
        return found

    async def tell(
        self, masters: Mapping[str, str], header: Header, body: Body | msgspec.Struct = b""
    ) -> None:
        """Tell each, one after the other; raises `BrokerError` at the first that refuses."""
        for address in masters.values():
            await self._api.call(address, header, body)

    async def ask(
        self, masters: Mapping[str, str], header: Header, body_type: type[BodyT]
    ) -> list[BodyT]:
        """What each answers; raises `BrokerError` at the first that refuses."""
        return [
            await self._api.call_for_body(address, header, body_type)
            for address in masters.values()
        ]

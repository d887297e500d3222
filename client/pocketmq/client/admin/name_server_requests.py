"""Admin requests to name servers: queries to one, changes to all of them (E-31)."""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.client.api import ClientApi
from pocketmq.protocol.bodies.route import ClusterInfo, KVTable, TopicList, TopicRouteData
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import TopicNotFoundError
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.kv import (
    DeleteKvConfigRequestHeader,
    GetKvConfigRequestHeader,
    GetKvConfigResponseHeader,
    GetKvListRequestHeader,
    PutKvConfigRequestHeader,
)
from pocketmq.protocol.headers.route import (
    AddWritePermRequestHeader,
    AddWritePermResponseHeader,
    DeleteTopicInNamesrvRequestHeader,
    GetAllTopicListRequestHeader,
    GetClusterInfoRequestHeader,
    WipeWritePermRequestHeader,
    WipeWritePermResponseHeader,
)


class NameServerRequests:
    """One coroutine per request.

    Name servers do not talk to each other, so whatever changes something goes to every one of
    them, in their order, and whatever asks goes to the one in use (P-9).

    Args:
        api: Sends the requests.
        addresses: All name servers, `host:port` each.
    """

    def __init__(self, api: ClientApi, addresses: Sequence[str]) -> None:
        self._api = api
        self._addresses = addresses

    # -- asked of one ---------------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """Every broker name with its addresses, and the clusters: GET_BROKER_CLUSTER_INFO (106)."""
        response = await self._api.ask_name_server(GetClusterInfoRequestHeader())
        return decode_body(response.body_view, ClusterInfo, response.encoding)

    async def topics(self) -> list[str]:
        """Names of all topics, sorted: GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)."""
        response = await self._api.ask_name_server(GetAllTopicListRequestHeader())
        return sorted(decode_body(response.body_view, TopicList, response.encoding).topic_list)

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic's queues are: GET_ROUTEINFO_BY_TOPIC (105); raises `TopicNotFoundError`."""
        route = await self._api.route(topic)
        if route is None:
            raise TopicNotFoundError(topic)
        return route

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """A key's value: GET_KV_CONFIG (101)."""
        response = await self._ask_kv(GetKvConfigRequestHeader(namespace=namespace, key=key))
        return None if response is None else response.header(GetKvConfigResponseHeader).value

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace: GET_KVLIST_BY_NAMESPACE (219)."""
        response = await self._ask_kv(GetKvListRequestHeader(namespace=namespace))
        if response is None:
            return {}
        return decode_body(response.body_view, KVTable, response.encoding).table

    async def _ask_kv(self, header: Header) -> Command | None:
        response = await self._api.ask_name_server(header, ok=(ResponseCode.QUERY_NOT_FOUND,))
        return None if response.code == ResponseCode.QUERY_NOT_FOUND else response

    # -- told to all ----------------------------------------------------------------------------

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Remove a broker's write permission; the largest number of topics changed on a server.

        Asks by WIPE_WRITE_PERM_OF_BROKER (205, N-31).
        """
        answers = await self._tell_all(WipeWritePermRequestHeader(broker_name=broker_name))
        counts = (each.header(WipeWritePermResponseHeader).wipe_topic_count for each in answers)
        return max(counts, default=0)

    async def add_write_perm(self, broker_name: str) -> int:
        """Restore a broker's write permission: ADD_WRITE_PERM_OF_BROKER (327, N-31)."""
        answers = await self._tell_all(AddWritePermRequestHeader(broker_name=broker_name))
        counts = (each.header(AddWritePermResponseHeader).add_topic_count for each in answers)
        return max(counts, default=0)

    async def delete_topic(self, topic: str) -> None:
        """Forget a topic's route: DELETE_TOPIC_IN_NAMESRV (216)."""
        await self._tell_all(DeleteTopicInNamesrvRequestHeader(topic=topic))

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a key: PUT_KV_CONFIG (100)."""
        await self._tell_all(PutKvConfigRequestHeader(namespace=namespace, key=key, value=value))

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Remove a key: DELETE_KV_CONFIG (102)."""
        await self._tell_all(DeleteKvConfigRequestHeader(namespace=namespace, key=key))

    async def _tell_all(self, header: Header) -> list[Command]:
        return [await self._api.call(address, header) for address in self._addresses]

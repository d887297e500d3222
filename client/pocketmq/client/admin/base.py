"""What every kind of admin request needs: a running client, and who is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, Unpack

from pocketmq.client.admin.masters import Masters
from pocketmq.client.admin.members import Members
from pocketmq.client.admin.name_server_requests import NameServerRequests
from pocketmq.client.admin.proxies import Proxies
from pocketmq.client.api import ClientApi
from pocketmq.client.config import ClientConfig, ClientOptions
from pocketmq.client.instance import ClientInstance
from pocketmq.client.instances import acquire, release
from pocketmq.protocol.body import parse_mq_key
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.lifetime import StartStop

T = TypeVar("T")


class AdminBase(StartStop):
    """Starts and stops the client; finds the brokers for the requests in its subclasses.

    Args:
        options: See `ClientConfig`.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self.config = ClientConfig.of(options)
        self._instance: ClientInstance | None = None

    async def start(self) -> None:
        """Start the client; requests can be sent afterwards."""
        if self._instance is None:
            self.config = await self.config.with_identity(unique=True)
            self._instance = acquire(self.config)

    async def stop(self) -> None:
        """Close the connections."""
        instance, self._instance = self._instance, None
        if instance is not None:
            await release(instance)

    def _started(self) -> ClientInstance:
        if self._instance is None:
            raise ClientError(
                "the admin client is not running; use it in a `with` block, or call start()"
            )
        return self._instance

    @property
    def _api(self) -> ClientApi:
        return self._started().api

    @property
    def _name_servers(self) -> NameServerRequests:
        return NameServerRequests(self._api, self.config.nameservers)

    @property
    def _masters(self) -> Masters:
        return Masters(self._api, self._name_servers, self._started().routes)

    @property
    def _proxies(self) -> Proxies:
        return Proxies(self._api, self._api.name_servers.addresses)

    @property
    def _members(self) -> Members:
        return Members(self._api, self._masters)


def by_queue(tables: Iterable[Mapping[str, T]]) -> dict[MessageQueue, T]:
    """What brokers say of their queues in one table, sorted."""
    found = {parse_mq_key(key): each for table in tables for key, each in table.items()}
    return dict(sorted(found.items()))

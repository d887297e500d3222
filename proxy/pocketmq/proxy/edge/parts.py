"""What all RPCs of one proxy share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pocketmq.proxy.codes.names import check_group
from pocketmq.proxy.edge.brokers import Brokers
from pocketmq.proxy.edge.callers import Caller
from pocketmq.proxy.edge.guard import Guard
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType
from pocketmq.proxy.settings.clients import Client, Clients
from pocketmq.proxy.settings.limits import Limits
from pocketmq.proxy.settings.merging import for_consumer, for_producer, kept_of_consumer
from pocketmq.proxy.transactions.data import OpenTransactions
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import TaskOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One proxy's."""

    clock: Clock
    limits: Limits
    brokers: Brokers
    guard: Guard
    clients: Clients
    transactions: OpenTransactions
    tasks: TaskOwner
    advertise: tuple[str, int] | None
    """Host and port in routes in place of those that the asker used."""

    def entered(self, caller: Caller, settings: Any) -> Client:
        """The client of these settings, which replace those before."""
        return self.clients.said(
            caller.client_id,
            settings,
            language=caller.language,
            version=caller.version,
            address=caller.address,
        )

    def consumer(self, caller: Caller, kind: ClientType, group: str) -> Client:
        """A consumer that has sent no settings: it is entered with those of a fresh group.

        Raises:
            Refusal: ILLEGAL_CONSUMER_GROUP.
        """
        # Check the name first: a refused one must leave no client behind.
        check_group(group)
        settings = pb.Settings(client_type=kind)
        settings.subscription.group.name = group
        # A fresh group's values stand in for the settings that were never sent.
        client = self.entered(caller, kept_of_consumer(settings, self.limits))
        self.clients.join(client, group)
        return client

    async def settings_of(self, client: Client) -> Any:
        """The settings of a client with the server's values over them, as they are now (G-21)."""
        if client.is_producer:
            return for_producer(client.settings, self.limits)
        group = await self.brokers.group(client.settings.subscription.group.name)
        return for_consumer(client.settings, group, self.limits)

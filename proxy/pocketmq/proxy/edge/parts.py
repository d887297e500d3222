"""What all RPCs of one proxy share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pocketmq.proxy.edge.brokers import Brokers
from pocketmq.proxy.settings.clients import Client, Clients
from pocketmq.proxy.settings.limits import Limits
from pocketmq.proxy.settings.merging import for_consumer, for_producer
from pocketmq.proxy.transactions.data import OpenTransactions
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import TaskOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One proxy's."""

    clock: Clock
    limits: Limits
    brokers: Brokers
    clients: Clients
    transactions: OpenTransactions
    tasks: TaskOwner
    advertise: tuple[str, int] | None
    """Host and port in routes in place of those that the asker used."""

    async def settings_of(self, client: Client) -> Any:
        """The settings of a client with the server's values over them, as they are now (G-21)."""
        if client.is_producer:
            return for_producer(client.settings, self.limits)
        group = await self.brokers.group(client.settings.subscription.group.name)
        return for_consumer(client.settings, group, self.limits)

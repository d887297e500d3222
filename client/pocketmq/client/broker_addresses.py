"""Where the broker of a queue is, after one question to the name server if the routes do not tell.

One place for what each request needs of it:

    send, lock, offsets of a queue    the master, nobody else                 `master`
    pull, commit an offset            the master; a slave while it is gone    `any_replica`
    query a consumer offset           the master; a slave only if the name    `master_or_replica`
                                      server knows no master either
    list the group's members          some broker of the topic                `of_topic`
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pocketmq.client.routes import BrokerAddress, RouteTable
from pocketmq.protocol.errors import BrokerNotFoundError
from pocketmq.protocol.messages.message import MessageQueue


class BrokerAddresses:
    """Addresses for the requests of one client instance.

    Args:
        routes: The cached routes.
        refresh_route: Asks the name server for a topic's route; errors are the caller's.
    """

    def __init__(self, routes: RouteTable, refresh_route: Callable[[str], Awaitable[bool]]) -> None:
        self.routes = routes
        self._refresh_route = refresh_route

    async def master(self, queue: MessageQueue) -> str:
        """The address of the queue's master.

        Raises:
            BrokerNotFoundError: the topic's route names none.
        """
        address = self.routes.master(queue.broker_name)
        if address is None:
            await self._refresh_route(queue.topic)
            address = self.routes.master(queue.broker_name)
            if address is None:
                raise BrokerNotFoundError(queue.broker_name)
        return address

    async def any_replica(self, queue: MessageQueue) -> BrokerAddress:
        """The queue's master, or a slave when no master is known.

        Raises:
            BrokerNotFoundError: the topic's route does not name the broker.
        """
        broker = self.routes.broker(queue.broker_name)
        if broker is None:
            await self._refresh_route(queue.topic)
            broker = self.routes.broker(queue.broker_name)
            if broker is None:
                raise BrokerNotFoundError(queue.broker_name)
        return broker

    async def master_or_replica(self, queue: MessageQueue) -> str:
        """As `any_replica`, but a slave counts only after the name server was asked for a master.

        Raises:
            BrokerNotFoundError: the topic's route does not name the broker.
        """
        try:
            return await self.master(queue)
        except BrokerNotFoundError:
            broker = self.routes.broker(queue.broker_name)
            if broker is None:
                raise
            return broker.address

    async def of_topic(self, topic: str, choose: Callable[[Sequence[str]], str]) -> str | None:
        """Some broker that has the topic (C-24); None when its route names none.

        Args:
            topic: The topic.
            choose: Picks one of several names, such as `random.choice`.
        """
        address = self.routes.broker_of_topic(topic, choose)
        if address is None:
            await self._refresh_route(topic)
            address = self.routes.broker_of_topic(topic, choose)
        return address

"""Creates the demo's topic, checks its routes, and counts its messages at the end."""

from __future__ import annotations

from typing import Final

from pocketmq.client import Admin
from pocketmq.client.config import ClientOptions
from pocketmq.cluster.demo.allocation import QueueName
from pocketmq.cluster.demo.workers import TOPIC
from pocketmq.cluster.limits import ROUTE_LIMIT_S
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.topics import GetTopicConfigRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PeerError

QUEUES: Final = 8
"""On all broker names together."""
_LOOK_S: Final = 0.02


class DemoTopic:
    """Topic `flights` of a running cluster.

    Args:
        cluster: It runs.
        clients: Options of clients that may do everything there.
    """

    def __init__(self, cluster: Supervisor, clients: ClientOptions) -> None:
        self._cluster = cluster
        self._clients = clients
        self._clock = SystemClock()
        self._names = sorted({spec.broker_name for spec in cluster.spec.brokers})
        self._queues = QUEUES // len(self._names)

    def _admin(self, nameservers: str) -> Admin:
        options: ClientOptions = {**self._clients, "nameservers": nameservers}
        return Admin(**options)

    async def create(self) -> list[QueueName]:
        """Create it on each broker; returns its queues when every nameserver knows them all.

        Raises:
            PeerError: The routes were still incomplete after `ROUTE_LIMIT_S`.
        """
        async with self._admin(self._cluster.namesrv_addr) as admin:
            await admin.create_topic(TOPIC, queues=self._queues)
        expected = {(broker, self._queues) for broker in self._names}
        try:
            async with self._clock.timeout(ROUTE_LIMIT_S):
                # Asked one by one, since they learn of the topic at different times.
                for nameserver in self._cluster.nameserver_addresses:
                    while await self._known(nameserver) != expected:
                        await self._clock.sleep(_LOOK_S)
                for broker in self._cluster.of_role("broker"):  # slaves copy topics every 3 s
                    # Otherwise a slave would refuse the first pulls after a failover.
                    while not await self._has_it(broker.address):
                        await self._clock.sleep(_LOOK_S)
        except TimeoutError:
            raise PeerError(
                f"after {ROUTE_LIMIT_S:g} s, a nameserver or a replica still does not know all "
                f"queues of {TOPIC}; see the logs in {self._cluster.spec.logs}"
            ) from None
        return [QueueName(broker, queue) for broker in self._names for queue in range(self._queues)]

    async def have_popped(self, group: str) -> None:
        """Let a group pop it on every broker."""
        async with self._admin(self._cluster.namesrv_addr) as admin:
            await admin.set_request_mode(group, TOPIC, "POP")

    async def stored(self) -> dict[tuple[str, int], int]:
        """(broker, queue id) -> messages stored there."""
        found = {}
        async with self._admin(self._cluster.namesrv_addr) as admin:
            for name in self._names:
                for queue in range(self._queues):
                    place = MessageQueue(TOPIC, name, queue)
                    found[name, queue] = await admin.max_offset(place)
        return found

    async def _has_it(self, address: str) -> bool:
        header = GetTopicConfigRequestHeader(topic=TOPIC)
        return (await self._cluster.remoting.call(address, header)).code == ResponseCode.SUCCESS

    async def _known(self, nameserver: str) -> set[tuple[str, int]]:
        async with self._admin(nameserver) as admin:
            route = await admin.route(TOPIC)
        if route is None:
            return set()
        return {(each.broker_name, each.write_queue_nums) for each in route.queue_datas}

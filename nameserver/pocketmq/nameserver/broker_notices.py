"""Tells brokers that another id is the least of their group: 905, oneway (Z-6)."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from pocketmq.nameserver.acting_master import LeastIdChange
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.route import NotifyMinBrokerIdChangeRequestHeader
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PeerError
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

MOST_UNDER_WAY = 256
"""Notices that wait for a connection; who registers may name addresses at which nobody answers."""


class BrokerNotices:
    """The nameserver's connections to brokers; without `wanted` it never connects to one.

    Args:
        network: to brokers.
        clock: is told of waits for them.
        wanted: `notifyMinBrokerIdChanged`, as it is now.
    """

    def __init__(self, network: Network, clock: Clock, *, wanted: Callable[[], bool]) -> None:
        self._clock = clock
        self._wanted = wanted
        # Brokers may be RocketMQ's own, which read JSON.
        self._client = RemotingClient(network, encoding=Encoding.JSON)
        self._tasks = TaskOwner("broker notices")
        self._stopping = False

    def least_id_changed(self, change: LeastIdChange) -> None:
        """Tell the brokers that RocketMQ tells. One that cannot be reached asks by itself (Z-4)."""
        if not self._wanted() or self._stopping:
            return
        header = NotifyMinBrokerIdChangeRequestHeader(
            min_broker_id=change.least_id,
            min_broker_addr=change.members[change.least_id],
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        )
        for address in change.told:
            # Bounded, because a group that comes and goes would start a task for each change.
            if len(self._tasks) >= MOST_UNDER_WAY:
                log.warning("broker.not_told", address=address, reason="too many notices wait")
                return
            self._tasks.start(self._tell(address, header), name=f"least id for {address}")

    async def stop(self) -> None:
        """Close the connections."""
        self._stopping = True
        await self._tasks.stop()
        await self._client.close()

    async def _tell(self, address: str, header: NotifyMinBrokerIdChangeRequestHeader) -> None:
        try:
            # The clock may be moved meanwhile, but the answer of another process does not depend on
            # it.
            with self._clock.peer_wait():
                await self._client.oneway(address, header)
        except PeerError as exc:
            # The broker asks for its group every second, so nothing is lost (Z-4).
            log.info("broker.not_told", address=address, reason=str(exc))

"""Removes clients without a heartbeat for 120 s; their groups are not notified (B-27)."""

from __future__ import annotations

import structlog

from pocketmq.broker.groups.consumers import ClientChannelInfo, ConsumerManager
from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.broker.subject import Service
from pocketmq.protocol.dispatch import Peer
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import PeriodicService

log = structlog.get_logger()

SCAN_S = 10.0
"""Interval of the scan; the first one comes after one interval (B-27)."""


class SilentClients(Service):
    """Closes the connections of clients whose heartbeats stopped.

    Args:
        consumers: consumer groups, with the times of heartbeats.
        producers: producer groups, likewise.
        clock: tells the age of heartbeats.
    """

    def __init__(
        self, consumers: ConsumerManager, producers: ProducerManager, clock: Clock
    ) -> None:
        self._consumers = consumers
        self._producers = producers
        self._clock = clock
        self._scanned_at = 0.0
        self._service = PeriodicService("scan clients", clock, SCAN_S, self.scan)

    async def start(self) -> None:
        self._scanned_at = self._clock.monotonic()
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop()

    def scan(self) -> None:
        """Scan all clients once."""
        now = self._clock.monotonic()
        late_s, self._scanned_at = now - self._scanned_at - SCAN_S, now
        if late_s > SCAN_S:
            # This process stood still. Its clients did not, and their heartbeats wait in our
            # sockets: hear them before calling anybody silent.
            log.warning("broker.stalled", stood_still_s=round(late_s, 1))
            return
        silent: dict[Peer, ClientChannelInfo] = {
            info.channel: info
            for info in [*self._consumers.expire(now), *self._producers.expire(now)]
        }
        for peer, info in silent.items():
            log.warning(
                "client.expired", client_id=info.client_id, peer=peer.address,
                silent_s=round(now - info.last_update_at, 1),
            )  # fmt: skip
            peer.close()

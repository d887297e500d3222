"""Removes clients without a heartbeat for 120 s; their groups are not notified (B-27)."""

from __future__ import annotations

import structlog

from pocketmq.broker.groups.consumers import ClientChannelInfo, ConsumerManager
from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.broker.subject import Service
from pocketmq.operation.events.groups import MemberSilent
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
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
        events: told who was silent.
        broker: name of the broker.
    """

    def __init__(
        self,
        consumers: ConsumerManager,
        producers: ProducerManager,
        clock: Clock,
        *,
        events: EventSink = NO_EVENTS,
        broker: str = "",
    ) -> None:
        self._events = events
        self._broker = broker
        self._consumers = consumers
        self._producers = producers
        self._clock = clock
        self._due_at = 0.0
        """When the next scan should run."""
        self._service = PeriodicService("scan clients", clock, SCAN_S, self.scan)

    async def start(self) -> None:
        self._due_at = self._clock.monotonic() + SCAN_S
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop()

    def scan(self) -> float:
        """Scan all clients once; seconds until the next scan."""
        now = self._clock.monotonic()
        late_s = now - self._due_at
        # Who comes while there is nobody cannot be silent for too long any sooner.
        has_any = self._consumers.groups or self._producers.groups
        next_s = SCAN_S if has_any else max(SCAN_S, self._consumers.expiry_s)
        self._due_at = now + next_s
        if late_s > SCAN_S:
            # This process stood still. Its clients did not, and their heartbeats wait in our
            # sockets: hear them before calling anybody silent.
            log.warning("broker.stalled", stood_still_s=round(late_s, 1))
            return next_s
        silent: dict[Peer, ClientChannelInfo] = {
            info.channel: info
            for info in [*self._consumers.expire(now), *self._producers.expire(now)]
        }
        for peer, info in silent.items():
            log.warning(
                "client.expired", client_id=info.client_id, peer=peer.address,
                silent_s=round(now - info.last_update_at, 1),
            )  # fmt: skip
            if self._events.is_on:
                silent_ms = round((now - info.last_update_at) * 1000)
                self._events.emit(
                    MemberSilent(
                        *self._events.stamp(),
                        client_id=info.client_id,
                        broker=self._broker,
                        silent_ms=silent_ms,
                    )
                )
            peer.close()
        return next_s

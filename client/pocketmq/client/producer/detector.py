"""Probes brokers that failed, so that they are chosen again as soon as they answer (P-38, 5.x)."""

from __future__ import annotations

from typing import Final

import structlog

from pocketmq.client.instance import ClientInstance
from pocketmq.client.producer.fault_strategy import FaultStrategy
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.periodic import PeriodicService

log = structlog.get_logger()

DETECT_INTERVAL_S: Final = 3.0
DETECT_TIMEOUT_S: Final = 0.2
"""Real seconds for an answer."""


class FaultDetector:
    """Asks unreachable brokers for the end of some queue; an error is no answer.

    Args:
        group: Names the task.
        instance: Connections and routes.
        strategy: Its table says who is unreachable.
    """

    def __init__(self, group: str, instance: ClientInstance, strategy: FaultStrategy) -> None:
        self._instance = instance
        self._strategy = strategy
        self._service = PeriodicService(
            f"detect faults {group}", instance.clock, DETECT_INTERVAL_S, self.probe
        )

    def start(self) -> None:
        """Begin; the first probe comes after a period."""
        self._service.start()

    async def stop(self) -> None:
        """Return when no probe is under way."""
        await self._service.stop()

    async def probe(self) -> None:
        """Ask each unreachable broker once."""
        instance = self._instance
        for broker_name in list(self._strategy.unreachable_brokers()):
            address = instance.routes.master(broker_name)
            queue = self._some_queue(broker_name)
            if address is None or queue is None:
                # No route names the broker; if one does later, the broker has been started again.
                self._strategy.table.remove(broker_name)
                continue
            try:
                await instance.api.max_offset(address, queue, timeout_s=DETECT_TIMEOUT_S)
            except PocketMQError as exc:
                log.debug("broker.still_unreachable", broker=broker_name, reason=str(exc))
            else:
                self._strategy.reached(broker_name)
                log.info("broker.reached_again", broker=broker_name)

    def _some_queue(self, broker_name: str) -> MessageQueue | None:
        for info in self._instance.routes.publish.values():
            for queue in info.queues:
                if queue.broker_name == broker_name:
                    return queue
        return None

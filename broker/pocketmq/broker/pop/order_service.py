"""Wakes pops of an ordered queue when the messages that block it become visible again (K-115)."""

from __future__ import annotations

from pocketmq.broker.pop.orders import ConsumerOrders
from pocketmq.broker.pop.waking import WakingPops
from pocketmq.broker.subject import Service
from pocketmq.protocol.headers.pop import PopMessageRequestHeader
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import AT_REST, PeriodicService

LONGEST_WAIT_S = 5.0
LOOKED_AT_PER_TURN = 2_000
"""Queues of which one turn of the loop finds whether they are free: after a start, of all."""


class OrderService(Service):
    """Sleeps until the first blocked queue may be free.

    Args:
        clock: says when.
        orders: which queues are blocked.
        waiting: the pops that wait for them.
    """

    def __init__(
        self, clock: Clock, orders: ConsumerOrders, waiting: WakingPops[PopMessageRequestHeader]
    ) -> None:
        self._clock = clock
        self._orders = orders
        self._waiting = waiting
        self._service = PeriodicService(
            "free ordered queues", clock, LONGEST_WAIT_S, self._run, initial_delay_s=0
        )
        # A change may free a queue before the present sleep ends.
        orders.changed.connect(self._service.wakeup)

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop()

    def _run(self) -> float:
        now_ms = self._clock.time_ms()
        for topic, group, queue_id in self._orders.take_freed(now_ms, LOOKED_AT_PER_TURN):
            self._waiting.wake(topic, group, queue_id)
        if self._orders.is_looking:
            return 0.0  # go on in the next turn
        next_ms = self._orders.next_free_ms()
        if next_ms is None:
            # No queue is blocked; the next change wakes the service.
            return AT_REST
        # Wait 5 s at most, because a change of the wall clock does not shorten a sleep.
        return min(LONGEST_WAIT_S, max(1, next_ms - now_ms) / 1000)

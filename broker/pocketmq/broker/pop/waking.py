"""Answers waiting pops when a message arrives or time is up; closed channels' are dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from pocketmq.broker.core import BrokerCore, defer
from pocketmq.broker.holding.held_requests import WOKEN_PER_TURN
from pocketmq.broker.pop.waiting import WaitingPop, WaitingPops
from pocketmq.broker.subject import Service
from pocketmq.protocol.dispatch import Reply, error_reply
from pocketmq.runtime.periodic import AT_REST, PeriodicService

HeaderT = TypeVar("HeaderT")

LONGEST_WAIT_S = 5.0
"""Setting the wall clock forward wakes no sleeping task, so the clock is read this often."""


class WakingPops(Service, Generic[HeaderT]):
    """A `WaitingPops` with the signals and the service that end the waiting.

    Listens to `topic_deleted` and `channel_closed`, and from the first one that waits on to
    `message_arrived`.

    Args:
        name: of the service.
        core: its clock and signals.
        answer_again: runs a request once more; it may wait again, and then returns None.
    """

    def __init__(
        self,
        name: str,
        core: BrokerCore,
        answer_again: Callable[[WaitingPop[HeaderT]], Reply],
    ) -> None:
        self.table: WaitingPops[HeaderT] = WaitingPops()
        self._clock = core.clock
        self._answer_again = answer_again
        self._woken: deque[WaitingPop[HeaderT]] = deque()
        self._service = PeriodicService(name, core.clock, LONGEST_WAIT_S, self._sweep)
        self._arrivals = core.signals.message_arrived
        self._listens = False
        """Whether `message_arrived` reaches us: a broker that nobody pops from is spared it."""
        core.signals.topic_deleted.connect(self._topic_deleted)
        core.signals.channel_closed.connect(self.table.forget_peer)

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop()

    def hold(self, pop: WaitingPop[HeaderT], extra_bytes: int = 0) -> None:
        """Let a request wait.

        Args:
            pop: the request.
            extra_bytes: as `WaitingPops.hold`.
        """
        # The frame's bytes stay alive with the request; the header is all that is needed of it.
        pop.request.ext = pop.request.remark = None
        pop.request.body = b""
        if not self._listens:
            self._listens = True
            # Listen only while somebody waits: other brokers need not handle each arrival.
            self._arrivals.connect(self._arrived)
        first = self.table.next_deadline_ms()
        self.table.hold(pop, extra_bytes)
        # The service sleeps until a later deadline.
        if first is None or pop.deadline_ms < first:
            self._service.wakeup()

    def wake(self, topic: str, group: str, queue_id: int | None) -> None:
        """There are messages for the group: run its first waiting pop again, in the next turn."""
        pop = self.table.wake(topic, group, queue_id)
        if pop is not None:
            self._soon([pop])

    def _arrived(self, topic: str, queue_id: int, _end: int, codes: Sequence[int]) -> None:
        if self.table.total:
            self._soon(self.table.arrived(topic, queue_id, codes))

    def _topic_deleted(self, topic: str) -> None:
        self._soon(self.table.release_topic(topic))

    def _soon(self, pops: Sequence[WaitingPop[HeaderT]]) -> None:
        # In the next turn, after the caller that stored the message.
        if pops:
            if not self._woken:
                defer(self._answer_woken)
            self._woken += pops

    def _answer_woken(self) -> None:
        """Answer some; the rest follow in the next turns, so that other work goes on."""
        woken = [self._woken.popleft() for _ in range(min(len(self._woken), WOKEN_PER_TURN))]
        if self._woken:
            defer(self._answer_woken)
        for pop in woken:
            self._answer(pop)

    def _sweep(self) -> float:
        """Answer the pops whose time is up; returns seconds until the next deadline."""
        self._soon(self.table.due(self._clock.time_ms()))
        next_ms = self.table.next_deadline_ms()
        if next_ms is None:
            return AT_REST
        return min(LONGEST_WAIT_S, max(1, next_ms - self._clock.time_ms()) / 1000)

    def _answer(self, pop: WaitingPop[HeaderT]) -> None:
        peer, request = pop.peer, pop.request
        if not peer.is_open:
            return
        try:
            reply = self._answer_again(pop)
        except Exception as exc:  # noqa: BLE001 - the topic or group may be gone; the peer is told
            reply = error_reply(peer, request, exc)
        # None: it found nothing and waits again.
        if reply is not None:
            peer.reply(request, reply)

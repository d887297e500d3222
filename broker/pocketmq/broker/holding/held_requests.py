"""Long polling: answers held requests when a message arrives or time is up.

A pull that finds nothing is not answered. It is kept, and answered by the message that ends its
wait; so a consumer gets a message without asking again and again, and an idle one costs a request
every 15 s (B-70). The table (hold_table.py) is pure; this class brings it the signals:

    0.0 s    a pull of orders/0 from offset 7 finds nothing: held
    2.3 s    a message is stored at offset 7: `arrived` takes the pull out, and in the next turn
             of the loop it is run again; it finds the message
    2.3 s    the consumer's next pull, from offset 8: held, and nothing comes
    17.3 s   its time is up: the next sweep runs it again, and PULL_NOT_FOUND (19) is the answer

`arrived` looks at tags codes before it wakes anybody. The sweep, every 5 s, ends what is overdue
and finds messages that no signal told of (B-71). Pops are held in the same way. A closed
connection's requests are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from pocketmq.broker.core import BrokerCore, defer
from pocketmq.broker.holding.hold_table import Held, HoldTable
from pocketmq.broker.subject import Service
from pocketmq.operation.events.messages import Woken
from pocketmq.protocol.dispatch import Reply, error_reply
from pocketmq.runtime.periodic import AT_REST, PeriodicService

HELD = TypeVar("HELD", bound=Held)

CHECK_S = 5.0
SHORT_CHECK_S = 1.0
"""Interval at which held requests are checked, with and without long polling (B-71)."""


WOKEN_PER_TURN = 256
"""Most held requests that are answered in one turn of the loop."""

LOOKED_AT_PER_TURN = 4_096
"""Held requests of which a sweep finds in one turn whether they are due."""


class HeldRequests(Service, Generic[HELD]):
    """A `HoldTable` with the signals and the periodic service that end the waiting.

    Listens to `message_arrived`, `topic_deleted`, `channel_closed` and `master_returned`.

    Args:
        name: of the service.
        core: its store, clock, signals and options.
        answer_again: runs a request once more; this time it must not be held. An error that it
            raises becomes the answer.
        on_woken: told, while somebody watches, of each request that waits no longer, and why.
    """

    def __init__(
        self,
        name: str,
        core: BrokerCore,
        answer_again: Callable[[HELD], Reply],
        on_woken: Callable[[HELD, Woken], None] | None = None,
    ) -> None:
        self._on_woken = on_woken
        self.table: HoldTable[HELD] = HoldTable(core.budget)
        self._core = core
        self._clock = core.clock
        self._max_offset = core.store.reads.max_offset
        self._answer_again = answer_again
        self._slaves_wake = core.profile.broker.slaves_wake_pulls
        self._woken: deque[HELD] = deque()
        self._service = PeriodicService(
            name,
            core.clock,
            self._check_s,
            self.sweep,
        )
        core.signals.message_arrived.connect(self.arrived)
        core.signals.topic_deleted.connect(self.topic_deleted)
        core.signals.channel_closed.connect(self.table.forget_peer)
        core.signals.master_returned.connect(self.master_returned)

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop()

    def hold(self, held: HELD, extra_bytes: int = 0) -> None:
        """Hold a request; a oneway one needs no answer and is dropped.

        Args:
            held: the request.
            extra_bytes: as `HoldTable.hold`.

        Raises:
            OverBudgetError: its connection has as many waiting as it may.
        """
        request = held.request
        if request.is_oneway:
            return
        self.table.hold(held, extra_bytes)
        # The frame's bytes stay alive with the request; the header is all that is needed of it.
        request.ext = request.remark = None
        request.body = b""
        self._service.resume()

    def arrived(self, topic: str, queue_id: int, max_offset: int, codes: Sequence[int]) -> None:
        """Messages became readable: answer requests that wait for them, after the append (B-72)."""
        # In 4.9 those of a slave wait for the sweep (B-74).
        if not self._slaves_wake and not self._core.role.leads:
            return
        if woken := self.table.arrived(topic, queue_id, max_offset, codes):
            self._answer_soon(woken, "arrived")

    def sweep(self) -> float | None:
        """Answer requests whose time is up or whose queue grew (B-71).

        Called every 5 s, but not while nothing is held, and in the next turn while it has not
        looked at all.
        """
        now = self._clock.monotonic()
        # Look at a portion only: going through 100,000 held pulls would block the event loop.
        due = self.table.due(now, self._max_offset, LOOKED_AT_PER_TURN)
        self._answer_soon(due, "deadline")
        # The rest follows in the next turn.
        if self.table.is_looking:
            return 0.0
        return None if self.table else AT_REST

    def _check_s(self) -> float:
        return CHECK_S if self._core.config.long_polling_enable else SHORT_CHECK_S

    def topic_deleted(self, topic: str) -> None:
        """The topic was deleted: answer all requests that wait for it."""
        self._answer_soon(self.table.release_topic(topic), "topic-deleted")

    def master_returned(self) -> None:
        """Answer all, so that consumers go back to the master (Z-5)."""
        self._answer_soon(self.table.release_all(), "master-returned")

    def _answer_soon(self, woken: Sequence[HELD], trigger: Woken) -> None:
        # Answer in the next turn, because `arrived` is called inside the append of the messages.
        if woken:
            if self._core.events.is_on and self._on_woken is not None:
                for held in woken:
                    self._on_woken(held, trigger)
            if not self._woken:
                defer(self._answer_woken)
            self._woken += woken

    def _answer_woken(self) -> None:
        """Answer some; the rest follow in the next turns, so that other work goes on."""
        woken = [self._woken.popleft() for _ in range(min(len(self._woken), WOKEN_PER_TURN))]
        if self._woken:
            defer(self._answer_woken)
        for held in woken:
            self._answer(held)

    def _answer(self, held: HELD) -> None:
        peer, request = held.peer, held.request
        # The connection closed meanwhile: nobody reads the answer.
        if not peer.is_open:
            return
        try:
            reply = self._answer_again(held)
        except Exception as exc:  # noqa: BLE001 - the topic or group may be gone; the peer is told
            reply = error_reply(peer, request, exc)
        # None means that the request would wait again, but it may wait only once (B-72).
        if reply is not None:
            peer.reply(request, reply)

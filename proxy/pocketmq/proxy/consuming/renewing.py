"""Renews the handles of messages that clients work on, by a timer of the clock (G-97)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.consuming.requests import PopRequests
from pocketmq.proxy.handles.backoff import server_delay_ms
from pocketmq.proxy.handles.held import Held, HeldHandles, Kind, Renewal
from pocketmq.proxy.handles.receipts import Receipt
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.periodic import PeriodicService
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

PERIOD_S: Final = 5.0
AT_ONCE: Final = 32
"""Requests under way to one broker; the others to it wait their turn."""

ROUND_S: Final = 1.0
"""Real seconds for which a round waits for answers. Requests that take longer go on, so that a
broker that hangs does not keep the messages of the others from being renewed."""

STOP_S: Final = 3.0
"""Real seconds in which all that clients hold is given back when the proxy stops."""

PATIENCE_S: Final = 3.0
"""Real seconds for which an ack waits for its renewal (`lockTimeoutMsInHandleGroup`), and so does
what is given back."""

STOP_PATIENCE_S: Final = 1.0
"""The same at a stop, where `STOP_S` leaves time to give back after it."""


class Renewing:
    """Carries out what `HeldHandles` plans.

    Args:
        clock: What handles are measured on.
        requests: Asks the brokers.
        is_online: Whether a client (id, group) is here still.
        group_config: The configuration of a group; None: there is none.
        tasks: Owns the requests.
    """

    def __init__(
        self,
        clock: Clock,
        requests: PopRequests,
        is_online: Callable[[str, str], bool],
        group_config: Callable[[str], Awaitable[SubscriptionGroupConfig | None]],
        tasks: TaskOwner,
    ) -> None:
        self.held = HeldHandles()
        self._clock = clock
        self._requests = requests
        self._is_online = is_online
        self._group_config = group_config
        self._under_way: dict[Held, asyncio.Future[None]] = {}
        self._tasks = tasks
        self._places: dict[str, asyncio.Semaphore] = {}
        """Of each broker that messages came from."""
        self._service = PeriodicService("renew receipt handles", clock, PERIOD_S, self._round)

    def start(self) -> None:
        """Begin to renew."""
        self._service.start()

    async def stop(self) -> None:
        """End; what clients hold is to be seen again soon, for nobody renews it any more."""
        # Stop the rounds first: one could renew what is given back.
        await self._service.stop()
        leaving = [
            self._tasks.start(self.leave(*client, patience_s=STOP_PATIENCE_S), name="leave")
            for client in self.held.clients()
        ]
        if leaving:
            # Bounded: a broker that hangs must not hold up the stop; its messages come again by
            # themselves.
            await asyncio.wait(leaving, timeout=STOP_S)

    async def newest(self, client_id: str, group: str, message_id: str, handle: str) -> Receipt:
        """The handle that holds instead of a client's; it is not renewed any more (G-92).

        Raises:
            BadRequestError: the client's handle is none.
        """
        held = self.held.take(client_id, group, message_id, handle)
        # The handle was never held, or was given up: the broker decides by the client's own handle.
        if held is None:
            return Receipt.parse(handle)
        await self._answered(held, PATIENCE_S)
        return held.receipt

    async def leave(self, client_id: str, group: str, *, patience_s: float = PATIENCE_S) -> None:
        """A client has gone: others get what it held.

        Args:
            client_id: Its.
            group: Of it.
            patience_s: Real seconds for renewals under way.
        """
        held = self.held.leave(client_id, group)
        await asyncio.gather(*(self._give_back(each, patience_s) for each in held))

    async def _round(self) -> None:
        # A client may have been forgotten silently, when too many were remembered.
        gone = [client for client in self.held.clients() if not self._is_online(*client)]
        due = self.held.due(self._clock.time_ms())
        started = [
            # Tasks, because leaving and renewing may take longer than this round.
            *(self._tasks.start(self.leave(*client), name="leave") for client in gone),
            *(self._tasks.start(self._renew(each), name="renew") for each in due),
        ]
        if started:
            await asyncio.wait(started, timeout=ROUND_S)

    def _place(self, held: Held) -> asyncio.Semaphore:
        broker_name = held.receipt.broker_name
        place = self._places.get(broker_name)
        if place is None:
            place = self._places[broker_name] = asyncio.Semaphore(AT_ONCE)
        return place

    async def _answered(self, held: Held, patience_s: float) -> None:
        """Wait until no renewal of it is under way, though no longer than the patience.

        A renewal changes the handle: what is asked by the older one would not reach the newest
        check point. After the patience it is tried all the same.
        """
        renewal = self._under_way.get(held)
        if renewal is not None:
            await asyncio.wait({renewal}, timeout=patience_s)

    async def _give_back(self, held: Held, patience_s: float) -> None:
        # Before it takes a place, which the renewal may be waiting for.
        await self._answered(held, patience_s)
        async with self._place(held):
            await self._requests.give_back(held.receipt, held.topic, held.group)

    async def _renew(self, renewal: Renewal) -> None:
        held = renewal.held
        # Set this before the first await: an ack that comes at once then waits.
        done = self._under_way[held] = asyncio.get_running_loop().create_future()
        try:
            async with self._place(held):
                await self._carry_out(renewal)
        finally:
            # Also when cancelled: otherwise an ack would wait for its whole patience.
            del self._under_way[held]
            done.set_result(None)

    async def _carry_out(self, renewal: Renewal) -> None:
        held, invisible_ms = renewal.held, renewal.invisible_ms
        try:
            if renewal.kind is Kind.STOP:
                config = await self._group_config(held.group)
                # Without the group's backoff nobody knows when to show the message: it comes again
                # when the last renewal ends.
                if config is None:
                    self.held.ended(held)
                    return
                invisible_ms = server_delay_ms(config, held.reconsume_times)
            receipt = await self._requests.change(
                held.receipt, held.topic, held.group, invisible_ms
            )
        # The same request would be refused again; another delivery has the message by now, or will.
        except Refusal as exc:  # refused: expired, or no such broker
            log.info("handle.renewal_refused", group=held.group, code=exc.code, reason=str(exc))
            self.held.ended(held)
        except PocketMQError as exc:
            log.info("handle.renewal_failed", group=held.group, reason=str(exc))
            # A message whose renewal stops has had its time. The next round renews any other again,
            # while its handle holds.
            if renewal.kind is Kind.STOP:
                self.held.ended(held)
            else:
                self.held.failed(held)
        else:
            if renewal.kind is Kind.STOP:
                self.held.ended(held)
            else:
                self.held.renewed(held, receipt)

"""One receive: a pop that waits at a broker, and what becomes of the messages (G-82 to G-85).

    pop          by the group's order, its filter and the client's patience
    tag differs  the hash of another tag collided: acknowledged, nobody wants it
    tried often  more than the group allows: to the dead letters
    the others   get a handle of nine words, and are renewed if the client wants it

The broker waits on the cluster's clock, the client on the real one. Whoever has gone or was
answered meanwhile gets nothing: what the broker pops for it then is given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import msgspec
import structlog

from pocketmq.client.consumer.popping.receipts import handle_of
from pocketmq.protocol.headers.pop import PopMessageRequestHeader
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.proxy.consuming.renewing import Renewing
from pocketmq.proxy.consuming.requests import PopRequests
from pocketmq.proxy.handles.held import Held
from pocketmq.proxy.handles.polling import Polling
from pocketmq.proxy.handles.receipts import Receipt, make_receipt
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

MOST_MESSAGES: Final = 32
"""Of one receive (`MAX_MSG_NUMS_FOR_POP_REQUEST`)."""

FROM_THE_LAST: Final = 1
"""Where a group begins that is new (`ConsumeInitMode.MAX`, G-82)."""


class Receive(msgspec.Struct, frozen=True):
    """What one receive asks for."""

    client_id: str
    group: str
    topic: str
    broker_name: str
    batch_size: int
    invisible_ms: int
    polling: Polling
    subscription: SubscriptionData
    fifo: bool
    max_attempts: int
    attempt_id: str | None
    auto_renew: bool


class Handed(msgspec.Struct, frozen=True):
    """One message for a client."""

    message: MessageExt
    receipt: Receipt


class Receiving:
    """Carries out receives.

    Args:
        requests: Asks the brokers.
        renewing: Renews what clients hold.
        tasks: Owns what goes on when a client has gone.
    """

    def __init__(self, requests: PopRequests, renewing: Renewing, tasks: TaskOwner) -> None:
        self._requests = requests
        self._renewing = renewing
        self._tasks = tasks
        self.pops = 0
        """That wait at brokers; a pop whose client has gone waits there still."""

    async def receive(self, wanted: Receive) -> list[Handed] | None:
        """Messages for a client; None when none came, an empty list when none was for it.

        Raises:
            BrokerError: the broker refused.
            RemotingError: it could not be asked.
            TimeoutError: it did not answer.
        """
        # A task of its own: if the client goes, only this call is cancelled. The pop must finish,
        # as it has hidden its messages at the broker already.
        pop = self._tasks.start(self._pop(wanted), name=f"receive {wanted.topic}")
        self.pops += 1
        pop.add_done_callback(self._popped)
        limit_ms = wanted.polling.limit_ms
        try:
            done, _ = await asyncio.wait(
                {pop}, timeout=None if limit_ms is None else limit_ms / 1000
            )
        except asyncio.CancelledError:
            self._give_back_when_it_comes(pop, wanted)
            raise
        if not done:
            self._give_back_when_it_comes(pop, wanted)
            return None
        # Broker faults are returned as values: asyncio would log a task whose exception nobody
        # fetches, as when the client has gone.
        found = pop.result()
        if isinstance(found, Exception):
            raise found
        return self._sorted(wanted, found) if found else None

    def give_back(self, wanted: Receive, handed: Sequence[Handed]) -> None:
        """These were not told to the client after all, which has gone."""
        # Stop renewing first: a renewal that falls due meanwhile would hide the message again.
        for each in handed:
            self._renewing.held.take(
                wanted.client_id, wanted.group, each.message.msg_id, each.receipt.text
            )
            self._later(
                self._requests.give_back(each.receipt, wanted.topic, wanted.group), "give back"
            )

    def _popped(self, _pop: asyncio.Task[list[MessageExt] | Exception]) -> None:
        self.pops -= 1

    async def _pop(self, wanted: Receive) -> list[MessageExt] | Exception:
        header = PopMessageRequestHeader(
            consumer_group=wanted.group,
            topic=wanted.topic,
            # The broker chooses the queue: gRPC's clients name none.
            queue_id=-1,
            max_msg_nums=min(wanted.batch_size, MOST_MESSAGES),
            invisible_time=wanted.invisible_ms,
            poll_time=wanted.polling.poll_ms,
            # From the last message, or from 0 where that is still in the broker's memory (G-82).
            init_mode=FROM_THE_LAST,
            exp_type=wanted.subscription.expression_type,
            exp=wanted.subscription.sub_string,
            order=wanted.fifo,
            attempt_id=wanted.attempt_id,
            bname=wanted.broker_name,
        )
        try:
            return await self._requests.pop(wanted.broker_name, header)
        except (PocketMQError, TimeoutError) as exc:
            return exc  # for who waits; the task itself did its work

    def _sorted(self, wanted: Receive, found: Sequence[MessageExt]) -> list[Handed]:
        """What of it the client gets (G-84); the rest is acknowledged or given up meanwhile."""
        handed: list[Handed] = []
        topic, group, requests = wanted.topic, wanted.group, self._requests
        for message in found:
            receipt = _receipt(message)
            # Brokers compare hashes of tags only, so a message of another tag may come along.
            if not wanted.subscription.matches_tag(message.tags):
                self._later(requests.ack(receipt, topic, group), "ack")
            elif message.reconsume_times >= wanted.max_attempts:
                self._later(
                    requests.to_dead_letters(receipt, topic, group, message.msg_id), "dead letter"
                )
            else:
                message.topic = topic  # of a retry topic some brokers say its own name
                handed.append(Handed(message, receipt))
                if wanted.auto_renew:
                    self._hold(wanted, message, receipt)
        return handed

    def _hold(self, wanted: Receive, message: MessageExt, receipt: Receipt) -> None:
        held = Held(
            wanted.client_id,
            wanted.group,
            wanted.topic,
            message.msg_id,
            receipt,
            message.reconsume_times,
        )
        # The message is delivered all the same: without renewal it comes again after its 60 s.
        if not self._renewing.held.add(held):
            log.warning("handle.not_renewed", client_id=wanted.client_id, group=wanted.group)

    def _give_back_when_it_comes(
        self, pop: asyncio.Task[list[MessageExt] | Exception], wanted: Receive
    ) -> None:
        def give_back(ended: asyncio.Task[list[MessageExt] | Exception]) -> None:
            # A pop is cancelled only when the proxy ends: nobody knows what it took.
            found = [] if ended.cancelled() or ended.exception() else ended.result()
            if isinstance(found, list):
                self.give_back(wanted, [Handed(each, _receipt(each)) for each in found])

        pop.add_done_callback(give_back)

    def _later(self, request: Coroutine[Any, Any, None], what: str) -> None:
        """Ask without anybody waiting; a message about which nobody was asked comes again."""

        async def ask() -> None:
            try:
                await request
            except PocketMQError as exc:
                log.info("message.request_failed", what=what, reason=str(exc))

        try:
            self._tasks.start(ask(), name=what)
        except RuntimeError:  # the proxy stops: it comes again when its time is over
            # Else Python warns of a coroutine that was never awaited.
            request.close()


def _receipt(message: MessageExt) -> Receipt:
    return make_receipt(handle_of(message), message.commit_log_offset)

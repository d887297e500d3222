"""A prepared message on its way: one try at one broker, and the tries after it (P-40 to P-42).

Delivery.anywhere       the strategy names a:1
  _try                  SEND_MESSAGE_V2 (310) to the master of a; it answers SYSTEM_BUSY (2)
                        `SendTries`: another broker may take it; the strategy names b:0
  _try                  to the master of b; it answers SUCCESS (0): the send ends with that
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import structlog

from pocketmq.client.instance import ClientInstance
from pocketmq.client.producer.fault_strategy import FaultStrategy
from pocketmq.client.producer.prepare import Prepared, Preparer
from pocketmq.client.producer.send_events import NO_SEND_EVENTS, SendEvents
from pocketmq.client.producer.send_result import STATUS_BY_CODE, SendResult, SendStatus
from pocketmq.client.producer.send_tries import SendTries, first_try_s
from pocketmq.client.producer.settings import ProducerSettings
from pocketmq.client.routes import RouteTable, TopicPublishInfo
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.errors import (
    BrokerError,
    ClientError,
    FrameError,
    RemotingError,
)
from pocketmq.protocol.headers.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.send_template import SendTemplate
from pocketmq.protocol.transport.channel import Channel
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

SendHeader: TypeAlias = SendMessageRequestHeaderV2 | SendMessageRequestHeader

MOST_TARGETS: Final = 4_096
"""Queues of which more is remembered than their brokers."""


class Target(NamedTuple):
    """How plain messages to one queue are sent, as long as nothing has changed."""

    channel: Channel
    template: SendTemplate
    changes: int
    """`RouteTable.changes` when the queue's master had that channel."""


class Delivery:
    """Sends one producer's messages to brokers.

    Args:
        started: The producer's instance; raises `ClientError` once it is stopped.
        preparer: Makes the header of each try.
        settings: How many tries, and how long they may take.
        routes: Of the instance.
        strategy: Chooses the broker of each further try, and learns from all.
        real_time: Seconds that timeouts and latencies are counted in.
        now: Monotonic seconds of the clock, for the strategy.
        busy_again: Whether a busy broker's answer is tried again (P-41).
        events: Told of each try and its answer.
    """

    def __init__(
        self,
        started: Callable[[], ClientInstance],
        preparer: Preparer,
        settings: ProducerSettings,
        strategy: FaultStrategy,
        routes: RouteTable,
        *,
        real_time: Callable[[], float],
        now: Callable[[], float],
        busy_again: bool,
        events: SendEvents = NO_SEND_EVENTS,
    ) -> None:
        self.events = events
        self._started = started
        self._preparer = preparer
        self._settings = settings
        self._strategy = strategy
        self._routes = routes
        self._real_time = real_time
        self._now = now
        self._busy_again = busy_again
        self._targets: dict[MessageQueue, Target] = {}

    # -- one try --------------------------------------------------------------------------------

    async def _try(self, prepared: Prepared, queue: MessageQueue, timeout_s: float) -> SendResult:
        """Send to one queue and wait for the answer.

        Raises:
            BrokerError: the broker does not say "stored".
            RemotingError, ClientError: it could not be asked, or did not answer.
        """
        events = self.events
        if events.sink.is_on:
            events.sent(prepared, queue)
        try:
            target = self._targets.get(queue)
            if (
                target is not None
                and prepared.is_plain
                and target.changes == self._routes.changes
                and target.channel.is_open
                and target.channel.encoding is Encoding.MSGPACK
            ):
                response = await target.channel.request_alike(
                    target.template,
                    self._preparer.time_ms(),
                    prepared.properties,
                    prepared.body,
                    timeout_s,
                )
            else:
                channel = self.open_channel(queue) or await self.connect(queue)
                header = self._preparer.header(prepared, queue)
                if (
                    prepared.is_plain
                    and channel.encoding is Encoding.MSGPACK
                    and channel.credentials is None  # a signature is of one request
                ):
                    self._note_target(queue, channel, header)
                response = await channel.request(header, prepared.body, timeout_s=timeout_s)
        except PocketMQError as exc:
            if events.sink.is_on:
                events.failed(prepared, queue, exc)
            raise
        if events.sink.is_on:
            events.answered(prepared, queue, response)
        return result_of(response, prepared, queue)

    def _note_target(self, queue: MessageQueue, channel: Channel, header: SendHeader) -> None:
        """Have the next messages to the queue copy this header in place of encoding their own."""
        if len(self._targets) >= MOST_TARGETS:
            self._targets.clear()
        with contextlib.suppress(FrameError):
            template = SendTemplate(header, channel.version)
            self._targets[queue] = Target(channel, template, self._routes.changes)

    def open_channel(self, queue: MessageQueue) -> Channel | None:
        """The channel to the queue's master; None if there is none yet, or none that is known."""
        instance = self._started()
        address = instance.routes.master(queue.broker_name)
        return None if address is None else instance.remoting.open_channel(address)

    async def connect(self, queue: MessageQueue) -> Channel:
        """The channel to the queue's master, after a look at the route and a connection if need be.

        Raises:
            BrokerNotFoundError: the topic's route names no master of that broker.
            ConnectError: it cannot be reached.
        """
        instance = self._started()
        return await instance.api.channel(await instance.addresses.master(queue))

    # -- all tries ------------------------------------------------------------------------------

    async def to_queue(
        self, prepared: Prepared, queue: MessageQueue, timeout_s: float
    ) -> SendResult:
        """The one try of a send to a named queue; raises as `Producer.send`."""
        try:
            return await self._try(prepared, queue, timeout_s)
        except (BrokerError, RemotingError, ClientError):
            self._started().lookups.suspect_broker(queue)  # W-12
            raise

    async def anywhere(
        self, info: TopicPublishInfo, prepared: Prepared, timeout_s: float
    ) -> SendResult:
        """All tries of a send that leaves the queue to us; raises as `Producer.send`.

        Args:
            info: Where the message may go.
            prepared: What every try sends.
            timeout_s: Real seconds for all tries together.
        """
        strategy = self._strategy
        began_at = try_began_at = self._real_time()
        left_s = first_try_s(self._settings, timeout_s)
        queue = strategy.choose(info, None, self._now())
        tries: SendTries | None = None
        outcome: SendResult | BrokerError | RemotingError | ClientError
        while True:
            try:
                outcome = await self._try(prepared, queue, left_s)
            except (BrokerError, RemotingError, ClientError) as exc:
                outcome = exc
                self._failed(queue.broker_name, try_began_at, exc)
                # The route may be old: the broker has another master, or the queues are gone.
                self._started().lookups.suspect_route(info.topic)
            else:
                if strategy.enabled:
                    latency_ms = (self._real_time() - try_began_at) * 1000
                    strategy.answered(queue.broker_name, latency_ms, self._now())
                if outcome.status is SendStatus.SEND_OK:
                    return outcome  # nearly every send; so `SendTries` is made only for others
            now = self._real_time()
            if tries is None:
                tries = SendTries(
                    info.topic,
                    self._settings,
                    timeout_s,
                    began_at,
                    busy_again=self._busy_again,
                )
                tries.begin_try(queue.broker_name, began_at)
            final = tries.ended(outcome, now)
            if final is not None:
                return final
            log.debug("send.retried", topic=info.topic, broker=queue.broker_name, why=str(outcome))
            queue = strategy.choose(info, queue.broker_name, self._now(), retry=True)
            try_began_at = now
            left_s = tries.begin_try(queue.broker_name, now)

    def _failed(self, broker_name: str, try_began_at: float, error: PocketMQError) -> None:
        strategy = self._strategy
        latency_ms = (self._real_time() - try_began_at) * 1000
        if isinstance(error, RemotingError):
            strategy.remoting_failed(broker_name, latency_ms, self._now())
        elif isinstance(error, BrokerError):
            strategy.broker_failed(broker_name, latency_ms, self._now())
        else:
            strategy.client_failed(broker_name, latency_ms, self._now())


def result_of(response: Command, prepared: Prepared, queue: MessageQueue) -> SendResult:
    """What a broker's answer to one try says.

    Raises:
        BrokerError: it does not say "stored".
    """
    status = STATUS_BY_CODE.get(response.code)
    if status is None:
        raise BrokerError(response.code, response.remark, address=f"broker {queue.broker_name}")
    header = response.header(SendMessageResponseHeader)
    if header.queue_id != queue.queue_id:
        # A negative id left the choice to the broker.
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    return SendResult(
        status,
        prepared.uniq_key,
        header.msg_id,
        queue,
        header.queue_offset,
        header.transaction_id,
        header.recall_handle,
    )

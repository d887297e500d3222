"""A prepared message on its way: one try at one broker, and the tries after it (P-40 to P-42).

The first try of a send, which is nearly always the only one, awaits the future of the answer
itself; only a try that did not end well brings in a `SendTries`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

import structlog

from pocketmq.client.instance import ClientInstance
from pocketmq.client.producer.fault_strategy import FaultStrategy
from pocketmq.client.producer.prepare import Prepared, Preparer
from pocketmq.client.producer.send_events import NO_SEND_EVENTS, SendEvents
from pocketmq.client.producer.send_result import STATUS_BY_CODE, SendResult
from pocketmq.client.producer.send_tries import SendTries
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

Outcome: TypeAlias = SendResult | BrokerError | RemotingError | ClientError
"""What a try ends with; other errors are not tried again."""


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
        self._targets: dict[MessageQueue, Target] = {}
        per_try_ms = settings.send_timeout_per_request_ms
        self._per_try_s = None if per_try_ms is None else per_try_ms / 1000
        is_last = settings.retry_times_when_send_failed == 0
        self.first_try_limit_s = math.inf if is_last or self._per_try_s is None else self._per_try_s
        """Real seconds that the first try of a send may take at most."""

    # -- one try --------------------------------------------------------------------------------

    def request(
        self, prepared: Prepared, queue: MessageQueue, timeout_s: float
    ) -> Awaitable[Command]:
        """One try: the future of the answer itself while the channel is open."""
        if self.events.sink.is_on:
            return self._told_request(prepared, queue, timeout_s)
        return self._request(prepared, queue, timeout_s)

    def _request(
        self, prepared: Prepared, queue: MessageQueue, timeout_s: float
    ) -> Awaitable[Command]:
        """The same whether somebody watches or not: a recorded run is the same run."""
        if prepared.is_plain:
            target = self._targets.get(queue)
            if (
                target is not None
                and target.changes == self._routes.changes
                and target.channel.is_open
                and target.channel.encoding is Encoding.MSGPACK
            ):
                return target.channel.request_alike(
                    target.template,
                    self._preparer.time_ms(),
                    prepared.properties,
                    prepared.body,
                    timeout_s,
                )
        channel = self.open_channel(queue)
        if channel is None:
            return self._connect_and_request(prepared, queue, timeout_s)
        header = self._preparer.header(prepared, queue)
        if (
            prepared.is_plain
            and channel.encoding is Encoding.MSGPACK
            and channel.credentials is None  # a signature is of one request
        ):
            self._note_target(queue, channel, header)
        return channel.request(header, prepared.body, timeout_s=timeout_s)

    def _note_target(self, queue: MessageQueue, channel: Channel, header: SendHeader) -> None:
        """Have the next messages to the queue take a shorter way."""
        if len(self._targets) >= MOST_TARGETS:
            self._targets.clear()
        with contextlib.suppress(FrameError):
            template = SendTemplate(header, channel.version)
            self._targets[queue] = Target(channel, template, self._routes.changes)

    async def _told_request(
        self, prepared: Prepared, queue: MessageQueue, timeout_s: float
    ) -> Command:
        """The same while somebody watches."""
        self.events.sent(prepared, queue)
        try:
            response = await self._request(prepared, queue, timeout_s)
        except PocketMQError as exc:
            self.events.failed(prepared, queue, exc)
            raise
        self.events.answered(prepared, queue, response)
        return response

    async def _connect_and_request(
        self, prepared: Prepared, queue: MessageQueue, timeout_s: float
    ) -> Command:
        channel = await self.connect(queue)
        header = self._preparer.header(prepared, queue)
        return await channel.request(header, prepared.body, timeout_s=timeout_s)

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

    async def _outcome(self, prepared: Prepared, queue: MessageQueue, timeout_s: float) -> Outcome:
        try:
            return result_of(await self.request(prepared, queue, timeout_s), prepared, queue)
        except (BrokerError, RemotingError, ClientError) as exc:
            return exc

    async def once(self, prepared: Prepared, queue: MessageQueue, timeout_s: float) -> SendResult:
        """The one try of a send to a named queue; raises as `Producer.send`."""
        try:
            return result_of(await self.request(prepared, queue, timeout_s), prepared, queue)
        except (BrokerError, RemotingError, ClientError):
            self._started().lookups.suspect_broker(queue)  # W-12
            raise

    # -- all tries ------------------------------------------------------------------------------

    async def anywhere(
        self, info: TopicPublishInfo, prepared: Prepared, timeout_s: float
    ) -> SendResult:
        """All tries of a send that leaves the queue to us; raises as `Producer.send`."""
        began_at = self._real_time()
        queue = self._strategy.choose(info, None, self._now())
        outcome = await self._outcome(prepared, queue, min(timeout_s, self.first_try_limit_s))
        return await self.go_on(info, prepared, queue, began_at, timeout_s, outcome)

    async def go_on(
        self,
        info: TopicPublishInfo,
        prepared: Prepared,
        queue: MessageQueue,
        began_at: float,
        timeout_s: float,
        outcome: Outcome,
    ) -> SendResult:
        """Learn from a first try, and try again if it did not end well.

        Args:
            info: Where else the message may go.
            prepared: What every try sends.
            queue: Of the first try.
            began_at: When it began, in real seconds.
            timeout_s: For all tries together.
            outcome: What it ended with.

        Raises:
            Others: see `Producer.send`.
        """
        settings, strategy = self._settings, self._strategy
        tries = SendTries(
            info.topic,
            tries=1 + settings.retry_times_when_send_failed,
            timeout_s=timeout_s,
            began_at=began_at,
            retry_when_not_stored_ok=settings.retry_another_broker_when_not_store_ok,
            max_timeout_per_try_s=self._per_try_s,
        )
        tries.begin_try(queue.broker_name, began_at)
        try_began_at = began_at
        while True:
            now = self._real_time()
            latency_ms = (now - try_began_at) * 1000
            if isinstance(outcome, SendResult):
                strategy.answered(queue.broker_name, latency_ms, self._now())
                final = tries.answered(outcome, now)
            else:
                self._learn(queue.broker_name, latency_ms, outcome)
                self._started().lookups.suspect_route(info.topic)
                final = tries.failed(outcome, now)
            if final is not None:
                return final
            log.debug("send.retried", topic=info.topic, broker=queue.broker_name, why=str(outcome))
            queue = strategy.choose(info, tries.last_broker, self._now(), retry=True)
            try_began_at = now
            left_s = tries.begin_try(queue.broker_name, now)
            outcome = await self._outcome(prepared, queue, left_s)

    def _learn(self, broker_name: str, latency_ms: float, error: PocketMQError) -> None:
        strategy = self._strategy
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

"""The requests that brokers send to a client, and the processors that answer them (E-28).

A client instance refuses to start when a code in `COMMANDS` has no processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from pocketmq.operation.events.groups import NotificationHeard
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.bodies.clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from pocketmq.protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from pocketmq.protocol.body import decode_body, encode_body, mq_key, parse_mq_key
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.headers.clients import (
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
)
from pocketmq.protocol.headers.offsets import (
    GetConsumerStatusRequestHeader,
    ResetConsumerClientOffsetRequestHeader,
)
from pocketmq.protocol.headers.transactions import CheckTransactionStateRequestHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.stored.record import decode_record, decode_records
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

MAX_DIRECT: Final = 64
"""Calls of listeners for tools (309) at once: one that hangs must not gather tasks without end."""

COMMANDS: Final = frozenset(
    {
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
    }
)
"""Request codes that every client answers; any other gets REQUEST_CODE_NOT_SUPPORTED (3)."""


class ConsumesDirectly(Protocol):
    """Calls a consumer's listener by hand (309)."""

    async def consume(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """What the listener makes of the message."""
        ...


class CommandedConsumer(Protocol):
    """The methods of a consumer that brokers' requests call."""

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move to these offsets; returns at once, the work follows (C-70)."""
        ...

    def offsets_in_memory(self, topic: str) -> Mapping[MessageQueue, int]:
        """The next offset to consume of each owned queue of a topic."""
        ...

    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing."""
        ...

    @property
    def direct(self) -> ConsumesDirectly | None:
        """Calls its listener with one message; None where there is no listener."""
        ...


class CommandedProducer(Protocol):
    """The methods of a producer that brokers' requests call."""

    def check_transaction(
        self, peer: Peer, header: CheckTransactionStateRequestHeader, message: MessageExt
    ) -> None:
        """Check a half message's transaction; returns at once, the answer follows (P-62)."""
        ...


class CommandProcessor:
    """Answers brokers; all work is left to the client's services.

    Args:
        find_consumer: Consumer of a group, or None.
        find_producer: Producer of a group, or None.
        wake_rebalance: Lets the whole instance rebalance.
        take_reply: Takes a reply that a broker pushes; False when nobody waits for it.
        tasks: Run what takes time.
        events: Told of notifications.
        client_id: Of the client.
    """

    def __init__(
        self,
        find_consumer: Callable[[str], CommandedConsumer | None],
        find_producer: Callable[[str], CommandedProducer | None],
        wake_rebalance: Callable[[], None],
        take_reply: Callable[[Command], bool],
        tasks: TaskOwner,
        *,
        events: EventSink = NO_EVENTS,
        client_id: str = "",
    ) -> None:
        self._events = events
        self._client_id = client_id
        self._take_reply = take_reply
        self._tasks = tasks
        self._find_consumer = find_consumer
        self._find_producer = find_producer
        self._wake_rebalance = wake_rebalance
        self._direct = 0
        """Messages that listeners were given because tools asked, and have not answered."""

    @handles(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    def members_changed(self, peer: Peer, request: Command) -> Reply:
        """Members of a group joined or left: rebalance every consumer (C-21, T-5).

        The group in the request only serves the log.
        """
        group = request.header(NotifyConsumerIdsChangedRequestHeader).consumer_group
        log.debug("consumer_ids.changed", group=group, broker=peer.address)
        if self._events.is_on:
            stamp = self._events.stamp()
            self._events.emit(NotificationHeard(*stamp, group=group, client_id=self._client_id))
        self._wake_rebalance()
        return None

    @handles(RequestCode.CHECK_TRANSACTION_STATE)
    def check_transaction(self, peer: Peer, request: Command) -> Reply:
        """A half message is undecided: the body is its record, a property names the group."""
        header = request.header(CheckTransactionStateRequestHeader)
        [message] = decode_records(bytes(request.body_view), broker_name=header.bname or "")
        group = message.properties.get(names.PRODUCER_GROUP, "")
        producer = self._find_producer(group)
        if producer is None:
            log.warning("transaction.check_for_nobody", group=group, broker=peer.address)
        else:
            producer.check_transaction(peer, header, message)
        return None

    @handles(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    def take_reply(self, peer: Peer, request: Command) -> Reply:
        """A reply to one of our requests; a late one is answered with success too (R-15)."""
        if not self._take_reply(request):
            log.info("reply.unexpected", broker=peer.address)
        return request.reply()

    @handles(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    def reset_offset(self, peer: Peer, request: Command) -> Reply:
        """An operator moved the group."""
        header = request.header(ResetConsumerClientOffsetRequestHeader)
        body = decode_body(request.body_view, ResetOffsetBody, request.encoding)
        consumer = self._find_consumer(header.group)
        if consumer is not None:
            offsets = {parse_mq_key(key): offset for key, offset in body.offset_table.items()}
            log.info(
                "offsets.reset_received",
                group=header.group,
                topic=header.topic,
                queues=len(offsets),
                broker=peer.address,
            )
            consumer.reset_offsets(header.topic, offsets)
        return None

    @handles(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
    def consumer_status(self, _peer: Peer, request: Command) -> Reply:
        """The consumer's own offsets."""
        header = request.header(GetConsumerStatusRequestHeader)
        offsets = self._consumer(header.group).offsets_in_memory(header.topic)
        body = GetConsumerStatusBody(
            message_queue_table={mq_key(queue): offset for queue, offset in offsets.items()}
        )
        return request.reply(body=encode_body(body, request.encoding))

    @handles(RequestCode.GET_CONSUMER_RUNNING_INFO)
    def running_info(self, _peer: Peer, request: Command) -> Reply:
        """What the consumer is doing."""
        header = request.header(GetConsumerRunningInfoRequestHeader)
        info = self._consumer(header.consumer_group).running_info()
        return request.reply(body=encode_body(info, request.encoding))

    @handles(RequestCode.CONSUME_MESSAGE_DIRECTLY)
    def consume_directly(self, peer: Peer, request: Command) -> Reply:
        """A tool wants one message consumed here, whose record is the body (M-32)."""
        header = request.header(ConsumeMessageDirectlyRequestHeader)
        consumer = self._find_consumer(header.consumer_group)
        direct = None if consumer is None else consumer.direct
        if direct is None:  # as in RocketMQ, where only push consumers have a listener
            raise BrokerError(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer Group <{header.consumer_group}> not exist in this consumer",
            )
        if self._direct >= MAX_DIRECT:
            raise BrokerError(
                ResponseCode.SYSTEM_ERROR,
                f"{MAX_DIRECT} messages from tools are already waiting for this client's "
                "listeners; try again later",
            )
        message = decode_record(bytes(request.body_view), broker_name=header.broker_name or "")

        async def consume() -> None:
            try:
                result = await direct.consume(message)
                reply = request.reply(body=encode_body(result, request.encoding))
            except Exception as exc:  # noqa: BLE001 - the tool is told of any failure
                reply = error_reply(peer, request, exc)
            finally:
                self._direct -= 1
            peer.reply(request, reply)

        self._direct += 1  # here: of many requests in one turn no task has begun yet
        self._tasks.start(consume(), name=f"consume directly {header.consumer_group}")
        return None

    def _consumer(self, group: str) -> CommandedConsumer:
        consumer = self._find_consumer(group)
        if consumer is None:
            raise BrokerError(
                ResponseCode.SYSTEM_ERROR, f"this client has no consumer of group {group}"
            )
        return consumer

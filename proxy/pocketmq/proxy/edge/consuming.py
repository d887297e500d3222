"""ReceiveMessage, AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue and
QueryAssignment (G-62, G-80 to G-95)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import structlog

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError, SubscriptionError
from pocketmq.protocol.messages.subscription import SQL92, TAG, SubscriptionData
from pocketmq.proxy.codes.names import check_group, check_topic
from pocketmq.proxy.codes.refusals import OK, Refusal, status, status_of
from pocketmq.proxy.consuming.receiving import Handed, Receive, Receiving
from pocketmq.proxy.consuming.renewing import Renewing
from pocketmq.proxy.consuming.requests import PopRequests
from pocketmq.proxy.conversion.delivering import delivered
from pocketmq.proxy.edge.callers import Caller
from pocketmq.proxy.edge.parts import Parts
from pocketmq.proxy.handles.polling import knows_polling_time, polling
from pocketmq.proxy.handles.receipts import Receipt
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, Code, FilterType
from pocketmq.proxy.routes.endpoints import endpoints_for
from pocketmq.proxy.routes.queues import assignments
from pocketmq.proxy.settings.clients import Client
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

RENEWED_MS: Final = 60_000
"""How long a message is invisible at first whose handle is renewed, whatever was asked."""

SHORTEST_INVISIBLE_MS: Final = 10_000
LONGEST_INVISIBLE_MS: Final = 12 * 3_600_000

DEFAULT_REQUEST_TIMEOUT_MS: Final = 3_000
"""Of a client that has sent no settings yet; all SDKs' default."""

MOST_RECEIVES: Final = 20_000
"""Pops that wait at brokers at once, also those whose clients have gone; a receive beyond them is
refused as RocketMQ's proxy does when its queues are full."""

MAX_EXPRESSION_CHARS: Final = 65_536
MAX_WORD_CHARS: Final = 1_024
"""Of an attempt's or a message's id. RocketMQ's proxy sends on what comes, however long it is; but
a broker closes a connection for too long a frame, and all clients share it."""

MOST_ACKS: Final = 32_768
"""Of one AckMessage; an SDK holds 4,096 messages at most."""

ACKS_AT_ONCE: Final = 256
"""Of one AckMessage; the others wait until these are answered."""


class Consuming:
    """What consumers ask.

    Args:
        parts: Of the proxy.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        instance = parts.brokers.instance
        self._requests = PopRequests(instance, instance.config.max_body_bytes)
        self.renewing = Renewing(
            parts.clock, self._requests, self._is_online, parts.brokers.group, parts.tasks
        )
        self._receiving = Receiving(self._requests, self.renewing, parts.tasks)
        self._turn = count()
        self.waiting = 0
        """Receives that wait for their broker."""

    def ended(self, client: Client) -> None:
        """A client has gone: others get what it held, after a second."""
        # Tasks, as the call that ends a client does not wait for brokers.
        for group in client.groups:
            self._parts.tasks.start(
                self.renewing.leave(client.client_id, group), name=f"leave {group}"
            )

    def _is_online(self, client_id: str, group: str) -> bool:
        client = self._parts.clients.get(client_id)
        return client is not None and group in client.groups

    # -- assignments ----------------------------------------------------------------------------

    async def query_assignment(self, _caller: Caller, request: Any) -> Any:
        """What a push consumer receives from; raises `Refusal`."""
        topic, group = _names(request.topic, request.group)
        brokers = self._parts.brokers
        route, config = await brokers.route(topic), await brokers.group(group)
        return pb.QueryAssignmentResponse(
            status=OK,
            assignments=assignments(
                request.topic,
                endpoints_for(request.endpoints, self._parts.advertise),
                route,
                fifo=config is not None and config.consume_message_orderly,
            ),
        )

    # -- receiving ------------------------------------------------------------------------------

    async def receive_message(self, request: Any, context: Any) -> None:
        """Answer a stream: a status, the messages, and when they were delivered (G-85).

        One that is denied is told the status alone (G-5).
        """
        wanted: Receive | None = None
        handed: Sequence[Handed] = ()
        told = 0
        # Checked separately: a client that is denied gets a status and no time of delivery.
        try:
            if not isinstance(request, Refusal):
                await self._parts.guard.check(context, request)
        except Refusal as exc:
            await context.write(pb.ReceiveMessageResponse(status=status_of(exc)))
            return
        try:
            try:
                if isinstance(request, Refusal):
                    raise request
                wanted = await self._wanted(Caller.of(context), request, context.time_remaining())
                handed = await self._handed(wanted)
                result = OK
            except PocketMQError as exc:
                result = _receive_status(exc)
            except Exception as exc:
                log.exception("proxy.call_failed", rpc="ReceiveMessage")
                result = status_of(exc)
            # The status goes first, as SDKs take the first message of the stream for it.
            await context.write(pb.ReceiveMessageResponse(status=result))
            for each in handed:
                # Make the answers one by one: 32 messages of 4 MiB must not lie in memory twice.
                message = delivered(each.message, self._parts.clock.time_ms(), each.receipt.text)
                await context.write(pb.ReceiveMessageResponse(message=message))
                told += 1
        finally:
            # A cancelled stream ends in one of these writes; what was not written is given back at
            # once. could be better: what gRPC took and never sent comes again only when its time is
            # over.
            if wanted is not None and told < len(handed):
                self._receiving.give_back(wanted, handed[told:])
        ended = pb.ReceiveMessageResponse()
        ended.delivery_timestamp.FromMilliseconds(self._parts.clock.time_ms())
        await context.write(ended)

    async def _wanted(self, caller: Caller, request: Any, remaining_s: float | None) -> Receive:
        """What a receive asks for, checked in the order of RocketMQ's proxy."""
        settings: Any = await self._parts.settings_of(self._client(caller, request))
        timeout_ms = DEFAULT_REQUEST_TIMEOUT_MS
        if settings.HasField("request_timeout"):
            timeout_ms = settings.request_timeout.ToMilliseconds()
        asked_ms = None
        if request.HasField("long_polling_timeout"):
            asked_ms = request.long_polling_timeout.ToMilliseconds()
        try:
            waits = polling(
                asked_ms, None if remaining_s is None else int(remaining_s * 1_000), timeout_ms
            )
        except ValueError as exc:
            knows = knows_polling_time(caller.version or None)
            raise Refusal(
                Code.ILLEGAL_POLLING_TIME if knows else Code.BAD_REQUEST, str(exc)
            ) from exc
        topic, group = _names(request.message_queue.topic, request.group)
        invisible_ms = RENEWED_MS
        if not request.auto_renew:
            invisible_ms = request.invisible_duration.ToMilliseconds()
            _check_invisible(invisible_ms, SHORTEST_INVISIBLE_MS)
        # An attempt id is kept at the broker for orderly groups, so it is bounded.
        if len(request.attempt_id) > MAX_WORD_CHARS:
            raise Refusal(
                Code.BAD_REQUEST, f"the attempt id has more than {MAX_WORD_CHARS} characters"
            )
        subscription = _subscription(topic, request.filter_expression)
        return Receive(
            client_id=caller.client_id,
            group=group,
            topic=topic,
            broker_name=await self._broker(topic, request.message_queue.broker.name),
            batch_size=request.batch_size,
            invisible_ms=invisible_ms,
            polling=waits,
            subscription=subscription,
            fifo=settings.subscription.fifo,
            max_attempts=settings.backoff_policy.max_attempts,
            attempt_id=request.attempt_id if request.HasField("attempt_id") else None,
            auto_renew=request.auto_renew,
        )

    async def _handed(self, wanted: Receive) -> Sequence[Handed]:
        """Messages for the client.

        Raises:
            Refusal: MESSAGE_NOT_FOUND: there is none, or the client has ended meanwhile;
                TOO_MANY_REQUESTS: too many wait.
        """
        # Count pops instead of calls: a client that hangs up leaves its pop at the broker.
        if self._receiving.pops >= MOST_RECEIVES:
            raise Refusal(Code.TOO_MANY_REQUESTS, "flow limit")
        self.waiting += 1
        try:
            handed = await self._receiving.receive(wanted)
        except TimeoutError as exc:
            raise Refusal(Code.PROXY_TIMEOUT, f"broker {wanted.broker_name}: {exc}") from exc
        finally:
            self.waiting -= 1
        if handed is None:
            raise Refusal(Code.MESSAGE_NOT_FOUND, "no new message")
        # The client has ended while the pop waited: nobody would acknowledge these messages.
        if self._parts.clients.get(wanted.client_id) is None:
            self._receiving.give_back(wanted, handed)
            raise Refusal(Code.MESSAGE_NOT_FOUND, "no match message")
        if not handed:
            raise Refusal(Code.MESSAGE_NOT_FOUND, "no match message")
        return handed

    def _client(self, caller: Caller, request: Any) -> Client:
        """Who receives; one who is not known yet is entered as its group's member.

        RocketMQ's proxy fails here. But SDKs receive before their settings were sent, and after a
        restart of the proxy some send them minutes later (G-25, G-27).
        """
        client = self._parts.clients.get(caller.client_id)
        if client is not None:
            return client
        # Only push consumers have their handles renewed, so this tells them apart.
        kind = ClientType.PUSH_CONSUMER if request.auto_renew else ClientType.SIMPLE_CONSUMER
        return self._parts.consumer(caller, kind, request.group.name)

    async def _broker(self, topic: str, wanted: str) -> str:
        """The broker to pop from: the one that the client names, or any if it has nothing."""
        # This refuses unknown topics, and updates the routes that are read below.
        await self._parts.brokers.route(topic)
        readable = self._parts.brokers.instance.routes.readable_brokers(topic)
        if not readable:
            raise Refusal(Code.FORBIDDEN, "no readable queue")
        # In turn, so that receives that name no broker do not all wait at the first.
        return wanted if wanted in readable else readable[next(self._turn) % len(readable)]

    # -- what becomes of messages ---------------------------------------------------------------

    async def ack_message(self, caller: Caller, request: Any) -> Any:
        """Messages are consumed; each has its own status (G-92)."""
        topic, group = _names(request.topic, request.group)
        if len(request.entries) > MOST_ACKS:
            raise Refusal(Code.BAD_REQUEST, f"there are more than {MOST_ACKS} entries")
        entries: list[Any] = []
        # In parts: one call of all entries would hold tens of thousands of tasks and requests at
        # once.
        for at in range(0, len(request.entries), ACKS_AT_ONCE):
            some = request.entries[at : at + ACKS_AT_ONCE]
            entries += await asyncio.gather(
                *(self._acknowledged(caller, topic, group, entry) for entry in some)
            )
        codes = {entry.status.code for entry in entries}
        if len(codes) > 1:
            codes = {Code.MULTIPLE_RESULTS}
        if not codes:
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "ack message result is empty")
        return pb.AckMessageResponse(status=status(Code(codes.pop())), entries=entries)

    async def _acknowledged(self, caller: Caller, topic: str, group: str, entry: Any) -> Any:
        try:
            receipt = await self.renewing.newest(
                caller.client_id, group, entry.message_id, entry.receipt_handle
            )
            await self._requests.ack(receipt, topic, group)
            result = OK
        except PocketMQError as exc:
            result = status_of(exc)
        return pb.AckMessageResultEntry(
            message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=result
        )

    async def change_invisible_duration(self, caller: Caller, request: Any) -> Any:
        """A message is wanted later again; the client gets a new handle (G-93)."""
        topic, group = _names(request.topic, request.group)
        invisible_ms = request.invisible_duration.ToMilliseconds()
        # No minimum here: with a short time, clients make a message visible at once.
        _check_invisible(invisible_ms, 0)
        # Check the handle first: an invalid one must not end the renewal of the message.
        Receipt.parse(request.receipt_handle)
        # This ends the renewal: from now on the client's own time counts.
        receipt = await self.renewing.newest(
            caller.client_id, group, request.message_id, request.receipt_handle
        )
        changed = await self._requests.change(receipt, topic, group, invisible_ms)
        return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=changed.text)

    async def forward_message_to_dead_letter_queue(self, caller: Caller, request: Any) -> Any:
        """A message is given up (G-94)."""
        topic, group = _names(request.topic, request.group)
        # The id goes to the broker as it is, so its length is bounded here.
        if len(request.message_id) > MAX_WORD_CHARS:
            raise Refusal(
                Code.ILLEGAL_MESSAGE_ID, f"the message id has more than {MAX_WORD_CHARS} characters"
            )
        receipt = await self.renewing.newest(
            caller.client_id, group, request.message_id, request.receipt_handle
        )
        await self._requests.to_dead_letters(receipt, topic, group, request.message_id)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=OK)


def _names(topic: Any, group: Any) -> tuple[str, str]:
    """The names of a topic and a group; raises `Refusal` for those that SDKs may not use."""
    check_topic(topic.name)
    check_group(group.name)
    return topic.name, group.name


def _check_invisible(invisible_ms: int, shortest_ms: int) -> None:
    code = Code.ILLEGAL_INVISIBLE_TIME
    if invisible_ms < shortest_ms:
        raise Refusal(code, f"the invisibleTime is too small. min is {shortest_ms}")
    if invisible_ms > LONGEST_INVISIBLE_MS:
        raise Refusal(code, f"the invisibleTime is too large. max is {LONGEST_INVISIBLE_MS}")


def _subscription(topic: str, expression: Any) -> SubscriptionData:
    if len(expression.expression) > MAX_EXPRESSION_CHARS:
        raise Refusal(
            Code.ILLEGAL_FILTER_EXPRESSION,
            f"the expression has more than {MAX_EXPRESSION_CHARS} characters",
        )
    kind = SQL92 if expression.type == FilterType.SQL else TAG
    try:
        return SubscriptionData.parse(topic, expression.expression, 0, expression_type=kind)
    except SubscriptionError as exc:
        raise Refusal(
            Code.ILLEGAL_FILTER_EXPRESSION,
            "subString split error" if kind == TAG else f"Expression can't be null! {kind}",
        ) from exc


def _receive_status(error: PocketMQError) -> Any:
    """The status of a receive that brought nothing."""
    # SDKs know this code as flow control; the broker's own number would become
    # INTERNAL_SERVER_ERROR.
    if isinstance(error, BrokerError) and error.code == ResponseCode.POLLING_FULL:
        return status(Code.TOO_MANY_REQUESTS, "polling full")
    return status_of(error)

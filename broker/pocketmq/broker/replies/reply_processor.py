"""SEND_REPLY_MESSAGE (324, 325): pushes a reply to its requester, then stores it (R-10 to R-14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.broker.replies.reply_messages import SendHeader, pushed, requester_of, stored
from pocketmq.broker.sending.incoming import packed_address
from pocketmq.broker.sending.send_checks import SendChecks
from pocketmq.broker.sending.stamp import REGION, TRACE_ON
from pocketmq.broker.store import PutStatus
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.broker.subject import Service
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import RemotingError
from pocketmq.protocol.headers.replies import (
    SendReplyMessageRequestHeader,
    SendReplyMessageRequestHeaderV2,
)
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.transport.channel import Channel
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()

PUSH_TIMEOUT_S = 10.0
"""How long a requester may take to answer the push."""


class ReplyProcessor(Service):
    """Pushes and stores replies; refuses them before `start` and after `leave`.

    Args:
        producers: connections by client id.
        checks: those of sends.
        puts: store replies.
        address: of this broker.
        clock: the time.
        added: what replies get (`stamp.traced`).
        store_replies: whether replies are stored, too (`storeReplyMessageEnable`).
    """

    def __init__(
        self,
        producers: ProducerManager,
        checks: SendChecks,
        puts: SafePuts,
        address: BrokerAddress,
        clock: Clock,
        *,
        added: dict[str, str],
        store_replies: Callable[[], bool],
    ) -> None:
        self._producers = producers
        self._checks = checks
        self._puts = puts
        self._address = address
        self._clock = clock
        self._added = added
        self._store_replies = store_replies
        self._is_open = False

    async def start(self) -> None:
        """Take replies from now on."""
        self._is_open = True

    async def leave(self) -> None:
        """Take no more replies."""
        self._is_open = False

    @handles(RequestCode.SEND_REPLY_MESSAGE)
    def reply(self, peer: Peer, request: Command) -> Reply:
        """A reply under long names."""
        return self._pass_on(peer, request, request.header(SendReplyMessageRequestHeader))

    @handles(RequestCode.SEND_REPLY_MESSAGE_V2)
    def reply_v2(self, peer: Peer, request: Command) -> Reply:
        """A reply under one-letter names."""
        return self._pass_on(peer, request, request.header(SendReplyMessageRequestHeaderV2))

    # -- inside ---------------------------------------------------------------------------------

    def _pass_on(self, peer: Peer, request: Command, header: SendHeader) -> Reply:
        queue_id = self._check(header)
        client_id = requester_of(header)
        body = bytes(request.body_view)
        channel = None if client_id is None else self._producers.channel_of(client_id)
        if client_id is None:
            outcome = "reply message properties[REPLY_TO_CLIENT] is null"
        elif channel is None or not channel.is_open:
            outcome = (
                f"push reply message fail, channel of <{client_id}> not found. The requester has "
                "left, or waits no more; sending the reply again does not help"
            )
        else:
            assert isinstance(channel, Channel), "producers are connected by channels"
            future = channel.request(
                pushed(
                    header, peer.address, str(self._address), self._clock.time_ms(), self._added
                ),
                body,
                timeout_s=PUSH_TIMEOUT_S,
            )

            def answered(future: asyncio.Future[Command]) -> None:
                remark = f"push reply message to {client_id} fail."
                try:
                    code = future.result().code
                    remark = remark if code else ""
                except (RemotingError, asyncio.CancelledError) as exc:
                    log.warning("reply.push_failed", client_id=client_id, reason=str(exc))
                self._answer(peer, request, header, queue_id, body, remark)

            future.add_done_callback(answered)
            # The answer follows when the requester has answered, or when its time is over.
            return None
        self._answer(peer, request, header, queue_id, body, outcome)
        return None

    def _check(self, header: SendHeader) -> int:
        """The queue to store in.

        Raises:
            RequestRefusedError: as of a send (R-10).
        """
        try:
            if not self._is_open:
                raise RequestRefusedError(
                    ResponseCode.SYSTEM_ERROR, "the broker is starting or stopping; try again"
                )
            plan = self._checks.plan_for(header, self._clock.time_ms())
            if header.queue_id >= plan.queue_limit:
                raise self._checks.bad_queue(plan, header.queue_id)
        except RequestRefusedError as exc:
            exc.header = {"MSG_REGION": REGION, "TRACE_ON": TRACE_ON}
            raise
        return plan.queue_of(header.queue_id)

    def _answer(
        self,
        peer: Peer,
        request: Command,
        header: SendHeader,
        queue_id: int,
        body: bytes,
        failure: str,
    ) -> None:
        """Answer with the push's outcome and the place where the reply is stored (R-12, R-13).

        As with a send, what is said to be stored is as safe as the flush mode promises; a reply
        that could not be made safe is answered as one that is not stored.
        """
        # RocketMQ's values for a reply that has no place in the store.
        place = SendMessageResponseHeader(
            msg_id="0", queue_id=queue_id, queue_offset=0, region=REGION, trace=TRACE_ON
        )
        code = ResponseCode.SYSTEM_ERROR if failure else ResponseCode.SUCCESS
        answer = request.reply(place, code=code, remark=failure or None)
        # A reply is stored whatever the outcome of its push.
        if self._store_replies():
            host = self._address.packed
            message = stored(
                header, body, queue_id, packed_address(peer.address), host, self._added
            )
            result = self._puts.put(message)

            def stored_safely(status: PutStatus) -> None:
                if status is PutStatus.PUT_OK:
                    place.msg_id = offset_msg_id(host, result.physical_offset)
                    place.queue_offset = result.queue_offset
                else:
                    # The code is that of the push, so only the missing place shows this.
                    log.warning("reply.not_stored", topic=header.topic, status=status.name)
                peer.reply(request, answer)

            if result.status is PutStatus.PUT_OK:
                self._puts.when_safe([result], stored_safely)
            else:
                stored_safely(result.status)
            return
        peer.reply(request, answer)

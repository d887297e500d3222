"""Acks of popped messages: those of one turn of the loop that go to one broker are one request.

One ack alone is ACK_MESSAGE (200051); several are BATCH_ACK_MESSAGE (200151), with an entry for
what one pop took of one queue, as the body demands (K-52). Each caller hears of its own message:

    the broker takes the batch         all are done
    it refuses what the batch names    each is asked for alone, and has its own answer
    it does not know the request (3)   the same, and on this connection nothing is gathered any more
    it cannot serve, or be asked       all have the error

A broker skips offsets in a batch that its queue does not have, and says nothing (K-53). So a handle
that is not the one its message came with, and one of an ordered pop, is acknowledged alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from pocketmq.client.consumer.popping.receipts import PoppedQueue, handle_of
from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError, ConnectError
from pocketmq.protocol.headers.pop import AckMessageRequestHeader, BatchAckMessageRequestHeader
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.messages.message_runs import noted_alike_until
from pocketmq.protocol.messages.properties import POP_CK
from pocketmq.protocol.messages.receipts import (
    NORMAL,
    ORDERED_QUEUE,
    RETRY_V2,
    ReceiptHandle,
    marked_topic,
    user_topic,
)
from pocketmq.protocol.transport.channel import Channel

MOST_ACKS: Final = 256
"""In one request: eight full pops. What else a turn brings is in requests of its own."""

MOST_DISTANCE: Final = 4096
"""Longest bit set; in a pop that passed over more, the messages behind are acknowledged alone."""

_OF_ONE: Final = (
    ResponseCode.MESSAGE_ILLEGAL,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.NO_MESSAGE,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
)
"""Answers to a batch that may be wrong for some of its messages."""


class Popped(NamedTuple):
    """What is acknowledged of the messages that one pop took of one queue."""

    topic: str
    """The application's."""
    queue: PoppedQueue
    offsets: list[int]


class PendingAcks(NamedTuple):
    """What one call acknowledges at one broker."""

    acks: Sequence[Popped]
    done: asyncio.Future[None]


class PopAcks:
    """Acknowledges what one group has popped.

    Args:
        group: Consumer group.
        instance: Its connections, routes and tasks.
    """

    def __init__(self, group: str, instance: ClientInstance) -> None:
        self._group = group
        self._instance = instance
        self._gathered: dict[str, list[PendingAcks]] = {}
        self._only_alone: dict[str, Channel] = {}
        """Connections to brokers that do not know batches, by broker name."""

    def ack(self, messages: Iterable[MessageExt]) -> Sequence[asyncio.Future[None]]:
        """Acknowledge messages at the end of this turn of the loop.

        The futures, one for each request that has some of them, end when the broker has answered:
        with `BrokerError` if it refused one, with `RemotingError` if it could not be asked. That
        message comes again then.

        Raises:
            BadRequestError: one was not popped; none is acknowledged.
        """
        together, alone = self._sorted(list(messages))
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[None]] = []
        # In a batch, the answers of these could not be told apart (`_may_be_gathered`).
        for popped in alone:
            pending = PendingAcks([popped], loop.create_future())
            futures.append(pending.done)
            self._start(popped.queue.broker_name, [pending])
        for broker_name, acks in together.items():
            if broker_name not in self._gathered:
                self._gathered[broker_name] = []
                # Send at the end of the turn: acks of other calls, and of other listeners, join the
                # request.
                loop.call_soon(self._send, broker_name)
            for share in _shares(acks):
                pending = PendingAcks(share, loop.create_future())
                futures.append(pending.done)
                self._gathered[broker_name].append(pending)
        return futures

    def _sorted(
        self, messages: Sequence[MessageExt]
    ) -> tuple[dict[str, list[Popped]], list[Popped]]:
        """What may go together to each broker, and what goes alone."""
        together: dict[str, list[Popped]] = {}
        alone: list[Popped] = []
        at, count = 0, len(messages)
        while at < count:
            message = messages[at]
            handle = handle_of(message)
            noted = message.noted(POP_CK)
            # With popResponseReturnActualRetryTopic a retried message has its retry topic's name.
            topic = user_topic(message.topic, self._group) if handle.mark else message.topic
            if not _may_be_gathered(message, handle):
                alone.append(Popped(topic, PoppedQueue.of(handle), [handle.queue_offset]))
                at += 1
                continue
            of_broker = together.setdefault(handle.broker_name, [])
            if not isinstance(noted, PoppedQueue):
                of_broker.append(Popped(topic, PoppedQueue.of(handle), [handle.queue_offset]))
                at += 1
                continue
            end = noted_alike_until(messages, at, POP_CK)  # of the same pop and queue
            offsets = [each.queue_offset for each in messages[at:end]]
            near = range(noted.start_offset, noted.start_offset + MOST_DISTANCE)
            # The batch's bit set counts from the pop's start offset and has a bounded length; what
            # is further away goes into the next entry.
            if min(offsets) not in near or max(offsets) not in near:
                offsets = list(takewhile(near.__contains__, offsets))
            of_broker.append(Popped(topic, noted, offsets))
            at += len(offsets)
        return together, alone

    def _send(self, broker_name: str) -> None:
        share: list[PendingAcks] = []
        count = 0
        for pending in self._gathered.pop(broker_name):
            size = sum([len(popped.offsets) for popped in pending.acks])
            # A broker processes a request at once; a larger one would hold others up.
            if count + size > MOST_ACKS:
                self._start(broker_name, share)
                share, count = [], 0
            share.append(pending)
            count += size
        self._start(broker_name, share)

    def _start(self, broker_name: str, share: Sequence[PendingAcks]) -> None:
        try:
            self._instance.tasks.start(self._ask(broker_name, share), name=f"ack {broker_name}")
        except RuntimeError:
            _fail(share, ConnectError(broker_name, "this client is closed"))

    async def _ask(self, broker_name: str, share: Sequence[PendingAcks]) -> None:
        acks = [popped for pending in share for popped in pending.acks]
        try:
            queue = MessageQueue(acks[0].topic, broker_name, 0)
            address = await self._instance.addresses.master(queue)
            several = len(acks) > 1 or len(acks[0].offsets) > 1
            if several and await self._together(address, broker_name, acks):
                for pending in share:
                    _succeed(pending)
            else:
                await asyncio.gather(*(self._each_alone(address, pending) for pending in share))
        except Exception as exc:  # noqa: BLE001 - whoever waits has it
            _fail(share, exc)
        finally:  # what nobody answered: the client stops
            _fail(share, ConnectError(broker_name, "this client is closed"))

    async def _together(self, address: str, broker_name: str, acks: Sequence[Popped]) -> bool:
        """Whether the broker took them in one request."""
        api = self._instance.api
        channel = await api.channel(address)
        # Remembered by connection: after a restart the broker may be a newer release.
        if self._only_alone.get(broker_name) is channel:
            return False
        body = batch_body(self._group, broker_name, acks)
        try:
            await api.call(address, BatchAckMessageRequestHeader(), body)
        except BrokerError as exc:
            # The broker is busy or broken: asking for each message alone would only add to it.
            if exc.code not in _OF_ONE:
                raise
            if exc.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                self._only_alone[broker_name] = channel
            return False
        return True

    async def _each_alone(self, address: str, pending: PendingAcks) -> None:
        # Go on after a failure: the other messages must not come again because of it.
        answers = await asyncio.gather(
            *(
                self._alone(address, popped, offset)
                for popped in pending.acks
                for offset in popped.offsets
            ),
            return_exceptions=True,
        )
        error = next((each for each in answers if each is not None), None)
        if error is None:
            _succeed(pending)
        else:
            _fail([pending], error)

    async def _alone(self, address: str, popped: Popped, offset: int) -> None:
        handle = popped.queue.handle(offset)
        header = AckMessageRequestHeader(
            consumer_group=self._group,
            topic=marked_topic(popped.topic, self._group, handle.mark),
            queue_id=handle.queue_id,
            extra_info=str(handle),
            offset=handle.queue_offset,
            bname=handle.broker_name,
        )
        await self._instance.api.call(address, header)


def _shares(acks: list[Popped]) -> Iterator[list[Popped]]:
    """The same in parts of up to `MOST_ACKS` messages."""
    share: list[Popped] = []
    room = MOST_ACKS
    for topic, queue, offsets in acks:
        for at in range(0, len(offsets), MOST_ACKS):
            left = offsets[at : at + MOST_ACKS]
            if len(left) > room:
                share.append(Popped(topic, queue, left[:room]))
                left = left[room:]
                yield share
                share, room = [], MOST_ACKS
            if left:
                share.append(Popped(topic, queue, left))
                room -= len(left)
    if share:
        yield share


def batch_body(group: str, broker_name: str, acks: Iterable[Popped]) -> BatchAckBody:
    """BATCH_ACK_MESSAGE's body: an entry for each pop and queue, in the order of their first."""
    entries: dict[tuple[str, PoppedQueue], list[int]] = {}
    for topic, queue, offsets in acks:
        entries.setdefault((topic, queue), []).extend(offsets)
    return BatchAckBody(
        broker_name=broker_name,
        acks=[
            BatchAck(
                consumer_group=group,
                topic=topic,
                retry=str(queue.mark),
                start_offset=queue.start_offset,
                queue_id=queue.queue_id,
                revive_queue_id=queue.revive_queue_id,
                pop_time=queue.pop_time_ms,
                invisible_time=queue.invisible_ms,
                bits=ack_bits([offset - queue.start_offset for offset in offsets]),
            )
            for (topic, queue), offsets in entries.items()
        ],
    )


def _may_be_gathered(message: MessageExt, handle: ReceiptHandle) -> bool:
    """Whether a broker that takes a batch with it has acknowledged this message."""
    offset = handle.queue_offset
    return (
        offset == message.queue_offset
        and handle.queue_id == message.queue_id
        and 0 <= offset - handle.start_offset < MOST_DISTANCE
        and NORMAL <= handle.mark <= RETRY_V2
        and handle.revive_queue_id != ORDERED_QUEUE
    )


def _succeed(pending: PendingAcks) -> None:
    if not pending.done.done():
        pending.done.set_result(None)


def _fail(share: Iterable[PendingAcks], error: BaseException) -> None:
    for pending in share:
        if not pending.done.done():
            pending.done.set_exception(error)

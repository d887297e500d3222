"""Pop requests of a client: take messages, hand them back by their receipts (K-45 to K-48).

Shared by `SimpleConsumer` and by a push consumer whose queues the broker assigns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from pocketmq.client.consumer.popping.acks import PopAcks
from pocketmq.client.consumer.popping.receipts import handle_of, put_handles_on
from pocketmq.client.instance import ClientInstance
from pocketmq.client.pulling.pull_service import NO_REAL_TIMEOUT_S
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.headers.pop import (
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.messages.properties import POP_CK
from pocketmq.protocol.messages.receipts import ReceiptHandle, marked_topic, user_topic
from pocketmq.protocol.stored.record import decode_records

ANSWER_S: Final = 10.0
"""Seconds that an answer may take beyond what the broker was asked to wait."""

NOTHING: Final = (
    ResponseCode.POLLING_TIMEOUT,
    ResponseCode.POLLING_FULL,
    ResponseCode.PULL_NOT_FOUND,
)
"""Answers that say: there is no message now."""


class PopClient:
    """Sends pop requests of one group.

    Args:
        group: who pops.
        instance: connections, routes and the clock.
        max_body_bytes: longest body that is inflated.
    """

    def __init__(self, group: str, instance: ClientInstance, max_body_bytes: int) -> None:
        self._group = group
        self._instance = instance
        self._max_body_bytes = max_body_bytes
        self._acks = PopAcks(group, instance)

    async def pop(
        self, broker_name: str, header: PopMessageRequestHeader, *, full_is_error: bool = False
    ) -> list[MessageExt]:
        """Take messages of one broker; none when there are none.

        Args:
            broker_name: Who is asked.
            header: What is wanted.
            full_is_error: Whether POLLING_FULL (209) is refused and not "nothing": whoever asks
                again at once must know that the broker did not wait.

        Raises:
            BrokerError: the broker refused.
            RemotingError: it could not be asked.
            TimeoutError: no answer came in time on the clock.
        """
        instance = self._instance
        channel = await instance.api.channel(await self._address(broker_name, header.topic))
        answer = channel.request(header, timeout_s=NO_REAL_TIMEOUT_S)
        try:
            async with instance.clock.timeout(header.poll_time / 1000 + ANSWER_S):
                with instance.clock.peer_wait():
                    response = await answer
        finally:
            answer.cancel()
        if response.code in NOTHING and not (
            full_is_error and response.code == ResponseCode.POLLING_FULL
        ):
            return []
        if response.code != ResponseCode.SUCCESS:
            raise BrokerError(response.code, response.remark)
        found = response.header(PopMessageResponseHeader)
        messages = decode_records(
            response.body_view, broker_name=broker_name, max_body_bytes=self._max_body_bytes
        )
        put_handles_on(messages, found, broker_name)
        return messages

    async def ack(self, *messages: MessageExt) -> None:
        """The messages are consumed.

        Raises:
            BadRequestError: one was not popped; none is acknowledged.
            BrokerError: the broker refused one; it comes again.
            RemotingError: it could not be asked.
        """
        await asyncio.gather(*self._acks.ack(messages))

    def acks(self, messages: Sequence[MessageExt]) -> Sequence[asyncio.Future[None]]:
        """`ack`, without waiting for the answers: the futures have them.

        Raises:
            BadRequestError: one was not popped; none is acknowledged.
        """
        return self._acks.ack(messages)

    async def change_invisible(
        self, message: MessageExt, invisible_ms: int, *, suspend: bool = False
    ) -> None:
        """The message is to be seen again after this time; it gets a new receipt handle.

        Args:
            message: That was popped.
            invisible_ms: From now on.
            suspend: Whether its coming again counts as no try; brokers before 5.5 count it.

        Raises:
            BrokerError: the broker refused; the old time holds.
            RemotingError: it could not be asked.
        """
        handle = handle_of(message)
        header = ChangeInvisibleTimeRequestHeader(
            consumer_group=self._group,
            topic=marked_topic(user_topic(message.topic, self._group), self._group, handle.mark),
            queue_id=handle.queue_id,
            extra_info=str(handle),
            offset=handle.queue_offset,
            invisible_time=invisible_ms,
            suspend=suspend or None,
            bname=handle.broker_name,
        )
        address = await self._address(handle.broker_name, message.topic)
        response = await self._instance.api.call(address, header)
        changed = response.header(ChangeInvisibleTimeResponseHeader)
        renewed = ReceiptHandle(
            handle.queue_offset,
            changed.pop_time,
            changed.invisible_time,
            changed.revive_qid,
            handle.mark,
            handle.broker_name,
            handle.queue_id,
            handle.queue_offset,
        )
        message.note(POP_CK, renewed)

    async def _address(self, broker_name: str, topic: str) -> str:
        return await self._instance.addresses.master(MessageQueue(topic, broker_name, 0))

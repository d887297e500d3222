"""What is asked of a broker about popped messages, by their receipt handles (G-92 to G-94)."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import structlog

from pocketmq.client.consumer.popping.requests import PopClient
from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import BrokerError, ClientError, RemotingError
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    PopMessageRequestHeader,
)
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.handles.receipts import Receipt
from pocketmq.proxy.protos.enums import Code

log = structlog.get_logger()

ANSWER_S: Final = 2.0
"""Real seconds for an answer (`DEFAULT_TIMEOUT_MILLS`)."""

GIVE_BACK_MS: Final = 1_000
"""Until a message is seen again that was popped for nobody."""

TO_DEAD_LETTERS: Final = -1
"""Delay level that sends a message there at once (B-80)."""


class PopRequests:
    """Pops, and what is said of popped messages.

    Args:
        instance: Connections, routes and the clock.
        max_body_bytes: How far a compressed body may grow.
    """

    def __init__(self, instance: ClientInstance, max_body_bytes: int) -> None:
        self._instance = instance
        self._max_body_bytes = max_body_bytes

    async def pop(self, broker_name: str, header: PopMessageRequestHeader) -> list[MessageExt]:
        """Take messages; none when none came in time.

        Raises:
            BrokerError: the broker refused, with POLLING_FULL (209) too.
            RemotingError: it could not be asked.
            TimeoutError: it did not answer.
        """
        pops = PopClient(header.consumer_group, self._instance, self._max_body_bytes)
        try:
            # A broker with too many polls is an error here: after "no message", an SDK would poll
            # again at once.
            return await pops.pop(broker_name, header, full_is_error=True)
        except RemotingError:
            self._instance.lookups.suspect_route(header.topic)
            raise

    async def ack(self, receipt: Receipt, topic: str, group: str) -> None:
        """A message is consumed.

        Args:
            receipt: The newest.
            topic: Its topic, as the client names it.
            group: Whose message it is.

        Raises:
            Refusal: the handle is expired or names no broker, or the broker refused.
            RemotingError: the broker could not be asked.
        """
        self._check(receipt)
        header = AckMessageRequestHeader(
            consumer_group=group,
            # A retried message lies in the retry topic, of which the client does not know.
            topic=receipt.real_topic(topic, group),
            queue_id=receipt.queue_id,
            extra_info=receipt.text,
            offset=receipt.queue_offset,
        )
        try:
            await self._ask(receipt, topic, header)
        except BrokerError as exc:
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "ack failed: status is abnormal") from exc

    async def change(self, receipt: Receipt, topic: str, group: str, invisible_ms: int) -> Receipt:
        """A message is to be seen again after this time; the handle that holds then.

        Raises:
            Refusal: the handle is expired or names no broker, or the broker refused.
            RemotingError: the broker could not be asked.
        """
        self._check(receipt)
        header = ChangeInvisibleTimeRequestHeader(
            consumer_group=group,
            topic=receipt.real_topic(topic, group),
            queue_id=receipt.queue_id,
            extra_info=receipt.text,
            offset=receipt.queue_offset,
            invisible_time=invisible_ms,
        )
        try:
            response = await self._ask(receipt, topic, header)
        except BrokerError as exc:
            raise Refusal(
                Code.INTERNAL_SERVER_ERROR, "changeInvisibleDuration failed: status is abnormal"
            ) from exc
        changed = response.header(ChangeInvisibleTimeResponseHeader)
        return receipt.renewed(changed.pop_time, changed.invisible_time, changed.revive_qid)

    async def to_dead_letters(
        self, receipt: Receipt, topic: str, group: str, message_id: str
    ) -> None:
        """A message is given up: it goes to `%DLQ%group`, and is acknowledged.

        Raises:
            Refusal: the handle does not say where the message lies, or names no broker.
            BrokerError: the broker refused.
            RemotingError: it could not be asked.
        """
        # A broker finds the record by this place alone, and handles of eight words lack it.
        if receipt.commit_log_offset < 0:
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, "commit log offset is empty")
        header = ConsumerSendMsgBackRequestHeader(
            offset=receipt.commit_log_offset,
            group=group,
            delay_level=TO_DEAD_LETTERS,
            origin_msg_id=message_id,
            origin_topic=receipt.real_topic(topic, group),
            # A negative delay level or a maximum of 0 retries: each alone sends the message to the
            # dead letters (B-83).
            max_reconsume_times=0,
        )
        await self._ask(receipt, topic, header)
        # It lies among the dead letters now. If the ack fails it comes once more, as in RocketMQ.
        with suppress(Refusal, RemotingError):
            await self.ack(receipt, topic, group)

    async def give_back(self, receipt: Receipt, topic: str, group: str) -> None:
        """Nobody works on a message that was popped: it is to be seen again soon; never fails."""
        try:
            await self.change(receipt, topic, group, GIVE_BACK_MS)
        # could be better: it is tried once, so a broker that hangs shows the message only after its
        # time.
        except (Refusal, RemotingError) as exc:  # it is seen again when its time is over
            log.info("message.give_back_failed", topic=topic, group=group, reason=str(exc))

    async def _ask(self, receipt: Receipt, topic: str, header: Header) -> Command:
        instance = self._instance
        try:
            address = await instance.addresses.master(MessageQueue(topic, receipt.broker_name, 0))
        except (BrokerError, ClientError, RemotingError) as exc:
            raise Refusal(
                Code.INVALID_RECEIPT_HANDLE, f"cannot find broker {receipt.broker_name}"
            ) from exc
        try:
            return await instance.api.call(address, header, timeout_s=ANSWER_S)
        except RemotingError:
            instance.lookups.suspect_route(topic)  # another may be master by now
            raise

    def _check(self, receipt: Receipt) -> None:
        if receipt.expired(self._instance.clock.time_ms()):
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired")

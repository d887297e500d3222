"""SendMessage, EndTransaction, RecallMessage (G-64 to G-75)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pocketmq.client.producer.send_result import STATUS_BY_CODE, SendStatus
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.send import (
    SendBatchMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pocketmq.protocol.headers.timers import (
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
)
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.ids import offset_of_msg_id
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.receipts import RecallHandle
from pocketmq.protocol.messages.validation import AUTO_CREATE_TOPIC, is_dlq, is_retry
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.proxy.codes.names import check_topic, is_blank
from pocketmq.proxy.codes.refusals import OK, Refusal, status
from pocketmq.proxy.codes.topic_types import check_type, type_of_message
from pocketmq.proxy.conversion.sending import stored, sys_flag
from pocketmq.proxy.edge.callers import Caller
from pocketmq.proxy.edge.parts import Parts
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import (
    Code,
    MessageType,
    TransactionResolution,
    TransactionSource,
)
from pocketmq.proxy.routes.hashing import consistent_hash

MOST_MESSAGES: Final = 1_024
"""Of one send, which are checked at one go; it takes 30 ms."""

_STORED: Final = tuple(code for code in STATUS_BY_CODE if code != 0)
_NOT_SAFE: Final = {
    SendStatus.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    SendStatus.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    SendStatus.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}
_RESOLUTIONS: Final = {
    int(TransactionResolution.COMMIT): MessageSysFlag.TRANSACTION_COMMIT,
    int(TransactionResolution.ROLLBACK): MessageSysFlag.TRANSACTION_ROLLBACK,
}


class Producing:
    """What producers ask for.

    Args:
        parts: Of the proxy.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def send_message(self, caller: Caller, request: Any) -> Any:
        """Store messages of one topic; SDKs send one at a time."""
        messages = request.messages
        if not messages:
            raise Refusal(Code.MESSAGE_CORRUPTED, "no message to send")
        if len(messages) > MOST_MESSAGES:
            raise Refusal(Code.BAD_REQUEST, f"there are more than {MOST_MESSAGES} messages")
        topic, parts = messages[0].topic.name, self._parts
        check_topic(topic)
        made = stored(
            messages, peer=caller.address, now_ms=parts.clock.time_ms(), limits=parts.limits
        )
        for message in made:
            message.properties.pop(names.WAIT, None)  # which only remoting clients say
        # Retry topics and dead letters have no type of their own; RocketMQ's proxy leaves them out,
        # too.
        if not is_retry(topic) and not is_dlq(topic):
            # The first message stands for all, as in RocketMQ's proxy.
            check_type(await parts.brokers.topic_type(topic), type_of_message(made[0].properties))
        # A batch goes to one queue whichever groups its messages have, so the group decides for
        # single ones only (G-65).
        group = messages[0].system_properties.message_group if len(messages) == 1 else ""
        queue = await self._queue(topic, group)
        flag = sys_flag(messages[0])
        answer = await self._send(made, queue, flag)
        entry = self._entry(answer, made, queue, flag)
        return pb.SendMessageResponse(status=status(Code(entry.status.code)), entries=[entry])

    async def end_transaction(self, _caller: Caller, request: Any) -> Any:
        """Have a broker commit or roll back a half message; nobody learns how it went (G-71)."""
        topic, transaction_id = request.topic.name, request.transaction_id
        check_topic(topic)
        if is_blank(transaction_id):
            raise Refusal(Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
        brokers = self._parts.brokers
        # `take` removes it, so that a second end of the same transaction is refused.
        half = self._parts.transactions.take(topic, transaction_id)
        header = EndTransactionRequestHeader(
            producer_group=topic,
            tran_state_table_offset=half.table_offset,
            commit_log_offset=half.commit_log_offset,
            # An unspecified resolution leaves the message undecided: the broker asks again.
            commit_or_rollback=_RESOLUTIONS.get(
                request.resolution, MessageSysFlag.TRANSACTION_NONE
            ),
            msg_id=request.message_id,
            from_transaction_check=request.source == TransactionSource.SOURCE_SERVER_CHECK,
            transaction_id=transaction_id,
            topic=topic,
            bname=half.broker_name,
        )
        address = await brokers.master(half.broker_name, topic)
        # One-way as in RocketMQ: if a commit is lost, the broker's next check asks.
        await brokers.instance.api.oneway(address, header)
        return pb.EndTransactionResponse(status=OK)

    async def recall_message(self, _caller: Caller, request: Any) -> Any:
        """Take a message back that waits for its delivery time (G-74)."""
        topic, brokers = request.topic.name, self._parts.brokers
        check_topic(topic)
        check_type(await brokers.topic_type(topic), MessageType.DELAY.name)
        try:
            # The handle names the broker: any other would not find the timer.
            named = RecallHandle.decode(request.recall_handle)
        except BadRequestError:
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "recall handle is invalid") from None
        header = RecallMessageRequestHeader(
            producer_group=topic,
            topic=topic,
            recall_handle=request.recall_handle,
            bname=named.broker_name,
        )
        answer = await brokers.call(named.broker_name, topic, header)
        return pb.RecallMessageResponse(
            status=OK, message_id=answer.header(RecallMessageResponseHeader).msg_id
        )

    # -- inside ---------------------------------------------------------------------------------

    async def _queue(self, topic: str, message_group: str) -> MessageQueue:
        """Where a send goes (G-65)."""
        brokers = self._parts.brokers
        await brokers.route(topic)
        info = brokers.instance.routes.publish_info(topic)
        if info is None or not info.queues:
            raise Refusal(Code.FORBIDDEN, "no writable queue")
        # The hash depends on the number of queues: more queues move some groups and break their
        # order.
        if message_group:
            return info.queues[consistent_hash(java_hash(message_group), len(info.queues))]
        return info.next_queue()

    async def _send(self, messages: Sequence[Message], queue: MessageQueue, flag: int) -> Command:
        first, is_batch = messages[0], len(messages) > 1
        reconsume_times = 0
        if is_retry(first.topic):  # the count of a retry travels in the header (C-55)
            reconsume_times = int(first.properties.pop(names.RECONSUME_TIME, "0"))
        header_type = SendBatchMessageRequestHeader if is_batch else SendMessageRequestHeaderV2
        header = header_type(
            producer_group=first.topic,
            topic=first.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=4,
            queue_id=queue.queue_id,
            sys_flag=flag,
            born_timestamp=int(first.properties[names.BORN_TIMESTAMP]),
            flag=0,
            # The messages of a batch carry their own properties in the body.
            properties=encode_properties({} if is_batch else first.properties),
            reconsume_times=reconsume_times,
            batch=is_batch,
            broker_name=queue.broker_name,
        )
        body = encode_batch(messages) if is_batch else first.body
        return await self._parts.brokers.call(
            queue.broker_name, first.topic, header, body, ok=_STORED
        )

    def _entry(
        self, answer: Command, messages: Sequence[Message], queue: MessageQueue, flag: int
    ) -> Any:
        """What became of a send; the place of a half message is noted (G-68, G-70)."""
        send_status = STATUS_BY_CODE[answer.code]
        if send_status is not SendStatus.SEND_OK:
            return pb.SendResultEntry(
                status=status(
                    _NOT_SAFE[send_status], f"send message failed, sendStatus={send_status.value}"
                )
            )
        header = answer.header(SendMessageResponseHeader)
        transaction_id = header.transaction_id or ""
        # An answer may name no transaction: then nobody can end it by its id, and nothing is noted.
        if flag & MessageSysFlag.TRANSACTION_PREPARED and transaction_id:
            self._parts.transactions.add(
                messages[0].topic,
                transaction_id,
                broker_name=queue.broker_name,
                table_offset=header.queue_offset,
                # The answer has the place in the log only within the message's id.
                commit_log_offset=offset_of_msg_id(header.msg_id),
            )
        return pb.SendResultEntry(
            status=OK,
            message_id=",".join(each.properties[names.UNIQ_KEY] for each in messages),
            transaction_id=transaction_id,
            offset=header.queue_offset,
            recall_handle=header.recall_handle or "",
        )

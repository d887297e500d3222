"""Consuming one message because a tool asks for it: CONSUME_MESSAGE_DIRECTLY (309, M-32).

The listener is called once, past queues, locks and offsets: nothing is committed, sent back or
noted. The answer says what it said.
"""

from __future__ import annotations

from typing import Final

import structlog

from pocketmq.client.consumer.consuming.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    ListenerCall,
)
from pocketmq.protocol.bodies.clients import ConsumeMessageDirectlyResult
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.messages.receipts import user_topic
from pocketmq.protocol.messages.validation import retry_topic
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()

THROWN: Final = "CR_THROW_EXCEPTION"
RESULTS: Final = {
    None: "CR_SUCCESS",  # Java's null is CR_RETURN_NULL: there it is no success
    ConsumeConcurrentlyStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeConcurrentlyStatus.RECONSUME_LATER: "CR_LATER",
}
ORDERLY_RESULTS: Final = {
    None: "CR_SUCCESS",
    ConsumeOrderlyStatus.SUCCESS: "CR_SUCCESS",
    ConsumeOrderlyStatus.COMMIT: "CR_COMMIT",
    ConsumeOrderlyStatus.ROLLBACK: "CR_ROLLBACK",
    ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: "CR_LATER",
}


class DirectConsumption:
    """Calls a consumer's listener with a message that was read elsewhere.

    Args:
        group: Consumer group.
        clock: For how long the listener takes.
        listener: The consumer's.
        orderly: Whether it gets messages in order.
    """

    def __init__(self, group: str, clock: Clock, listener: ListenerCall, *, orderly: bool) -> None:
        self._group = group
        self._clock = clock
        self._listener = listener
        self._orderly = orderly

    async def consume(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """What the listener makes of it."""
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        context = (
            ConsumeOrderlyContext(queue) if self._orderly else ConsumeConcurrentlyContext(queue)
        )
        self._show_original_topic(message)
        began = self._clock.monotonic()
        remark: str | None = None
        result: str | None
        try:
            with self._clock.peer_wait():  # a listener may wait for anything
                status = await self._listener([message], context)
        except Exception as exc:  # noqa: BLE001 - the tool is told of it
            result, remark = THROWN, f"{type(exc).__name__}: {exc}"
        else:
            result, remark = self._result_of(status)
        log.info(
            "message.consumed_directly",
            group=self._group,
            queue=str(queue),
            offset=message.queue_offset,
            result=result,
        )
        return ConsumeMessageDirectlyResult(
            order=self._orderly,
            auto_commit=context.auto_commit if isinstance(context, ConsumeOrderlyContext) else True,
            consume_result=result,
            remark=remark,
            spent_time_mills=round((self._clock.monotonic() - began) * 1000),
        )

    def _result_of(self, status: object) -> tuple[str | None, str | None]:
        """RocketMQ's word for an answer, and a remark; no word for one that is no status."""
        for each, word in (ORDERLY_RESULTS if self._orderly else RESULTS).items():
            if each is status:
                return word, None
        return None, f"the listener answered {status!r:.100}, which is no status"

    def _show_original_topic(self, message: MessageExt) -> None:
        topic, retries = message.topic, retry_topic(self._group)
        message.topic = (
            message.properties.get(names.RETRY_TOPIC, topic)
            if topic == retries
            else user_topic(topic, self._group)
        )

"""What becomes of messages by the answer of a concurrent listener (C-55, C-56, K-170).

    success                       out of the process queue; the offset moves to the first one left
    failure, CLUSTERING           CONSUMER_SEND_MSG_BACK (36): the broker delivers it again later;
                                  if that fails, sent to %RETRY%group as a plain message;
                                  if that fails too, kept
    failure, BROADCASTING         logged, and lost
    popped                        ACK_MESSAGE (200051), or after a failure hidden for longer

What is kept is handed to the listener again, which is the caller's part.
"""

from __future__ import annotations

from typing import Final

import structlog

from pocketmq.client.consumer.consuming.batch_records import BatchRecords, Holder
from pocketmq.client.consumer.consuming.listener import (
    ALL_ACKED,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
)
from pocketmq.client.consumer.consuming.send_back import SendBack
from pocketmq.client.consumer.popping.popped_queue import PopQueue
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.protocol.messages.message import MessageExt

log = structlog.get_logger()

LATER: Final = ConsumeConcurrentlyStatus.RECONSUME_LATER


class ConcurrentAnswers:
    """Acts on what a listener answered.

    Args:
        group: Consumer group.
        listener: The listener's name, for logs.
        batch_records: Where messages are removed that are done.
        sends_back: For failures.
        is_broadcasting: Failures are lost.
        skips_dropped: Failures of a queue that was given up are not sent back (C-56).
    """

    def __init__(
        self,
        group: str,
        listener: str,
        batch_records: BatchRecords,
        sends_back: SendBack,
        *,
        is_broadcasting: bool,
        skips_dropped: bool,
    ) -> None:
        self._group = group
        self._listener = listener
        self._batch_records = batch_records
        self._sends_back = sends_back
        self._is_broadcasting = is_broadcasting
        self._skips_dropped = skips_dropped

    async def settle(
        self,
        messages: list[MessageExt],
        buffer: Holder,
        status: object,
        context: ConsumeConcurrentlyContext,
    ) -> list[MessageExt]:
        """Remove the messages, or give them back.

        Returns:
            Those that could not be given back: hand them out again later.
        """
        first_failed = self._first_failed(len(messages), status, context.ack_index)
        if isinstance(buffer, PopQueue):
            done, failed = messages[:first_failed], messages[first_failed:]
            buffer.settle(done, failed, context.delay_level_when_next_consume)
            return []
        kept: list[MessageExt] = []
        done = messages
        if first_failed < len(messages):
            kept = await self._give_back(messages[first_failed:], buffer, context)
            if kept:
                done = [message for message in messages if message not in kept]
        self._batch_records.remove(done, buffer)
        return kept

    def _first_failed(self, count: int, status: object, ack_index: int) -> int:
        if status is None or status is ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
            return count if ack_index == ALL_ACKED else min(count, ack_index + 1)
        if status is not LATER:
            log.error(
                "listener.answer_unknown",
                group=self._group,
                listener=self._listener,
                answer=repr(status)[:100],
                advice="return None or a ConsumeConcurrentlyStatus",
            )
        return 0

    async def _give_back(
        self,
        failed: list[MessageExt],
        buffer: ProcessQueue,
        context: ConsumeConcurrentlyContext,
    ) -> list[MessageExt]:
        """Give failed messages back for redelivery; returns those that could not be given back."""
        if self._is_broadcasting:
            for message in failed:
                log.warning(
                    "message.lost",
                    group=self._group,
                    queue=str(buffer.queue),
                    offset=message.queue_offset,
                    reason="a broadcasting listener failed",
                )
            return []
        kept = []
        for message in failed:
            if self._skips_dropped and message.queue_offset not in buffer:
                continue
            if not await self._sends_back.send_back(message, context.delay_level_when_next_consume):
                message.reconsume_times += 1
                kept.append(message)
        return kept

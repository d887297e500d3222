"""`async for message in consumer`: the previous message is done when the next is asked for."""

from __future__ import annotations

from typing import Self

from pocketmq.client.consumer.concurrent import ConcurrentConsumeService
from pocketmq.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
)
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.protocol.message import MessageExt, MessageQueue


class MessageIterator:
    """Takes messages out of a consume service that has no listener.

    Several iterators of one consumer share its messages. Leaving the loop early leaves the last
    message undone: its offset is not committed, so it comes again to somebody.
    """

    def __init__(self, service: ConcurrentConsumeService) -> None:
        self._service = service
        self._last: tuple[list[MessageExt], ProcessQueue, MessageQueue] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageExt:
        last, self._last = self._last, None
        if last is not None and not last[1].dropped:
            messages, held, queue = last
            await self._service.settle(
                messages,
                held,
                queue,
                ConsumeConcurrentlyStatus.CONSUME_SUCCESS,
                ConsumeConcurrentlyContext(queue),
            )
        work = await self._service.next_work()
        if work is None:
            raise StopAsyncIteration
        self._last = work
        return work[0][0]

"""`async for message in consumer`: the previous message is done when the next is asked for.

What was pulled is handed out without a turn of the loop for each message, but the loop gets one
after `MESSAGES_PER_TURN`: a body that never waits would keep heartbeats and pulls from it.

async for message in consumer: ...            for as long as the consumer runs
async for message in consumer.take(10): ...   ten messages, the tenth is done as well
"""

from __future__ import annotations

from typing import Final, Self

from pocketmq.client.consumer.consuming.concurrent import ConcurrentConsumeService, One
from pocketmq.client.consumer.consuming.consume_events import NO_CONSUME_EVENTS, ConsumeEvents
from pocketmq.protocol.messages.message import MessageExt

MESSAGES_PER_TURN: Final = 256
"""Messages after which everything else on the loop gets a turn."""


class MessageIterator:
    """Takes messages out of a consume service that has no listener.

    Several iterators of one consumer share its messages. Leaving the loop early leaves the last
    message undone: its offset is not committed, so it is delivered again. To avoid that, call
    `done` before leaving, or say beforehand how many messages are wanted (`take`).

    Args:
        service: Where the messages wait.
        count: End after so many messages, all of them done; None: never.
        events: Told of messages that are done.
    """

    def __init__(
        self,
        service: ConcurrentConsumeService,
        count: int | None = None,
        events: ConsumeEvents = NO_CONSUME_EVENTS,
    ) -> None:
        self._events = events
        self._sink = events.sink
        self._service = service
        self._done_one = service.batch_records.done_one
        self._left = count
        self._handed_out = 0
        self._last: One | None = None

    def __aiter__(self) -> Self:
        return self

    async def done(self) -> None:
        """The message that was handed out last is consumed: it does not come again."""
        last, self._last = self._last, None
        if last is not None:
            if self._sink.is_on:
                self._tell(last)
            self._done_one(*last)

    async def __anext__(self) -> MessageExt:
        last = self._last
        if last is not None:
            self._last = None
            if self._sink.is_on:
                self._tell(last)
            self._done_one(*last)
        if self._left is not None and self._left <= 0:
            raise StopAsyncIteration
        self._handed_out += 1
        if self._handed_out % MESSAGES_PER_TURN == 0:
            await self._service.let_others_run()
        found = self._service.next_now() or await self._service.next_message()
        if found is None:
            raise StopAsyncIteration
        if self._left is not None:
            self._left -= 1
        self._last = found
        return found[0]

    def _tell(self, done: One) -> None:
        message, holder = done
        self._events.consumed([message], holder.queue, "success")

"""The clients of `pocketmq.client.sync` as tests use them, in the thread of their cluster.

They are made by `cluster.sync.producer(...)` and `cluster.sync.consumer(...)`.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Unpack

from pocketmq.client import MessageExt, sync
from pocketmq.client.consumer.consuming.message_iterator import MessageIterator
from pocketmq.client.producer.options import ProducerOptions
from pocketmq.cluster.durations import as_number
from pocketmq.cluster.steering.errors import NotReachedError
from pocketmq.cluster.steering.waiting import WAIT_LIMIT_S, Missing
from pocketmq.protocol.errors import ClientError
from pocketmq.runtime.arguments import names_checked
from pocketmq.runtime.loop_thread import LoopThread


class SyncProducer(sync.Producer):
    """A `Producer` whose calls block; use it in `with`.

    Args:
        thread: The thread of its loop.
        group: Producer group.
        options: Those of `Producer`.
    """

    def __init__(self, thread: LoopThread, group: str, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(group, loop_thread=thread, **options)


class SyncConsumer(sync.PushConsumer):
    """A `PushConsumer` with a call that receives one message; use it in `with`.

    A message counts as consumed when the next one is received, or the block ends without an error.
    With a listener, which the message goes to, there is nothing to receive.

    Args:
        thread: The thread of its loop.
        group: Consumer group.
        topic: The topic to consume.
        expression: Tags such as `a || b`; `*` for all.
        hint: The end of a sentence about a message that did not come.
        options: Those of `PushConsumer`.
    """

    def __init__(
        self,
        thread: LoopThread,
        group: str,
        topic: str,
        expression: str,
        *,
        hint: Missing,
        **options: Any,
    ) -> None:
        super().__init__(group, loop_thread=thread, **options)
        self._hint = hint
        self._topic = topic
        self._messages: sync.MessageIterator | None = None
        self.subscribe(topic, expression)

    @names_checked
    def receive(self, *, limit_s: float = WAIT_LIMIT_S) -> MessageExt:
        """Wait for the next message; the one before counts as consumed.

        Raises:
            NotReachedError: None came within `limit_s` real seconds.
            ClientError: A listener gets the messages, or the consumer is not running.
        """
        limit = as_number("limit_s", limit_s)
        if not self.is_running:
            raise ClientError("the consumer is not running; use it in a `with` block")
        # Made on first use: for a consumer with a listener an iterator is an error.
        if self._messages is None:
            self._messages = iter(self)
        return self.loop_thread.result(self._next(self._messages.asynchronous, limit))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an error the last message stays unconsumed, and is delivered again.
        if kind is None and self._messages is not None:
            self._messages.done()
        super().__exit__(kind, exc, traceback)

    async def _next(self, messages: MessageIterator, limit_s: float) -> MessageExt:
        try:
            # From here on the previous message counts as consumed, even if no next one comes.
            async with asyncio.timeout(limit_s):
                return await anext(messages)
        except TimeoutError:
            owned = [
                f"{q.topic} {q.broker_name}/{q.queue_id}" for q in self.asynchronous.assignment
            ]
            # The usual mistake on a shared cluster: the topic's name was written without its
            # prefix.
            none = f"it has no queue of {self._topic}; create_topic returns a topic's full name"
            found = f"its queues: {', '.join(owned)}" if owned else none
            raise NotReachedError("a message", limit_s, found + await self._hint()) from None

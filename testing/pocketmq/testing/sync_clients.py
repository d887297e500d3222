"""Blocking versions of producer and consumer, for code without an event loop.

They are made by `cluster.sync.producer(...)` and `cluster.sync.consumer(...)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from pocketmq.client import Message, MessageExt, Producer, PushConsumer, SendResult
from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.consuming.message_iterator import MessageIterator
from pocketmq.cluster.durations import as_number
from pocketmq.cluster.steering.errors import NotReachedError
from pocketmq.cluster.steering.waiting import WAIT_LIMIT_S, Missing
from pocketmq.protocol.errors import ClientError
from pocketmq.testing.loop_thread import LoopThread


class SyncProducer:
    """A `Producer` whose calls block; use it in `with`.

    Args:
        thread: The thread of its loop.
        group: Producer group.
        options: Those of `Producer`.
    """

    def __init__(self, thread: LoopThread, group: str, **options: Unpack[ClientOptions]) -> None:
        self._thread = thread
        self._producer = Producer(group, **options)

    def send(self, message: Message, *, key: str | None = None) -> SendResult:
        """Send and wait for the broker's answer; see `Producer.send`."""
        return self._thread.result(self._producer.send(message, key=key))

    def send_batch(self, messages: Sequence[Message]) -> SendResult:
        """Send several messages of one topic in one request; see `Producer.send_batch`."""
        return self._thread.result(self._producer.send_batch(messages))

    def __enter__(self) -> Self:
        self._thread.result(self._producer.start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.result(self._producer.stop())


class SyncConsumer:
    """A `PushConsumer` with a call that receives one message; use it in `with`.

    A message counts as consumed when the next one is received, or the block ends without an error.

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
        self._thread = thread
        self._hint = hint
        self._topic = topic
        self._consumer = PushConsumer(group, **options)
        self._consumer.subscribe(topic, expression)
        self._messages: MessageIterator | None = None

    def receive(self, *, limit_s: float = WAIT_LIMIT_S) -> MessageExt:
        """Wait for the next message; the one before counts as consumed.

        Raises:
            NotReachedError: None came within `limit_s` real seconds.
        """
        return self._thread.result(self._receive(as_number("limit_s", limit_s)))

    def __enter__(self) -> Self:
        self._thread.result(self._consumer.start())
        self._messages = aiter(self._consumer)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.result(self._end(is_last_done=kind is None))

    async def _receive(self, limit_s: float) -> MessageExt:
        if self._messages is None:
            raise ClientError("the consumer is not running; use it in a `with` block")
        try:
            async with asyncio.timeout(limit_s):
                return await anext(self._messages)
        except TimeoutError:
            owned = [f"{q.topic} {q.broker_name}/{q.queue_id}" for q in self._consumer.assignment]
            none = f"it has no queue of {self._topic}; create_topic returns a topic's full name"
            found = f"its queues: {', '.join(owned)}" if owned else none
            raise NotReachedError("a message", limit_s, found + await self._hint()) from None

    async def _end(self, *, is_last_done: bool) -> None:
        if is_last_done and self._messages is not None:
            await self._messages.done()
        await self._consumer.stop()

"""Blocking versions of cluster, producer and consumer, for code without an event loop.

    with cluster.sync.producer("orders-producers") as producer:
        producer.send(Message("orders", b"hello"))
    with cluster.sync.consumer("billing", "orders") as consumer:
        message = consumer.receive()

They use the asynchronous clients, which run in a loop of a separate thread. Any thread may call
them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from pocketmq.client import (
    ConsumeFromWhere,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    SendResult,
)
from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.message_iterator import MessageIterator
from pocketmq.client.instances import runs_clients
from pocketmq.cluster.steering.errors import NotReachedError
from pocketmq.cluster.steering.group_state import GroupState
from pocketmq.cluster.steering.waiting import WAIT_LIMIT_S, Missing
from pocketmq.protocol.errors import ClientError
from pocketmq.runtime.errors import CallerError
from pocketmq.testing.cluster import Cluster
from pocketmq.testing.faults import Faults
from pocketmq.testing.loop_thread import LoopThread


class SyncCluster:
    """A `Cluster` whose calls block; they are documented there.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._thread = LoopThread("pocketmq clients")

    def close(self) -> None:
        """End the thread of the clients, which must be stopped before."""
        self._thread.stop()

    # -- names ------------------------------------------------------------------------------

    @property
    def nameservers(self) -> str:
        """`host:port;host:port`."""
        return self._cluster.nameservers

    @property
    def time_ms(self) -> int:
        """The cluster's time in epoch ms."""
        return self._cluster.time_ms

    def topic_name(self, name: str) -> str:
        """A topic name that no other test has."""
        return self._cluster.topic_name(name)

    def group_name(self, name: str) -> str:
        """A group name that no other test has."""
        return self._cluster.group_name(name)

    # -- control ----------------------------------------------------------------------------

    def create_topic(self, name: str, *, queues: int = 4) -> str:
        """Create a topic; returns its full name when every nameserver has its route."""
        return self._thread.result(self._cluster.create_topic(name, queues=queues))

    def group(self, name: str) -> SyncGroup:
        """A consumer group, to wait for."""
        return SyncGroup(self._cluster, self._thread, name)

    def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0) -> None:
        """Move the clocks of all roles and clients.

        Raises:
            CallerError: Clients run in the caller's event loop, which would stand still meanwhile.
        """
        _check_no_client_waits("advance")
        self._thread.result(self._cluster.advance(seconds, minutes=minutes, hours=hours))

    def advance_until(self, condition: Callable[[], bool], *, limit_s: float = 3600.0) -> float:
        """Move time from deadline to deadline until a condition holds.

        The condition is called in the calling thread, so it may use the other calls here.

        Raises:
            NotReachedError: The condition did not hold after `limit_s`.
            CallerError: Clients run in the caller's event loop, which would stand still meanwhile.
        """
        _check_no_client_waits("advance_until")
        name = getattr(condition, "__name__", repr(condition))
        if inspect.iscoroutinefunction(condition):
            raise CallerError(
                f"{name} is a coroutine function; write a plain one, or await "
                "cluster.advance_until(...), without sync"
            )
        began_ms = self.time_ms
        until_ms = began_ms + round(limit_s * 1000)
        self.advance(0)
        while not condition():
            if self.time_ms >= until_ms:
                raise NotReachedError(name, limit_s, "it does not hold; this is cluster time")
            control = self._cluster.control
            self._cluster.thread.result(control.step(until_ms))
        return (self.time_ms - began_ms) / 1000

    @property
    def faults(self) -> Faults:
        """The cluster's fault rules."""
        return self._cluster.faults

    def freeze(self, role: str) -> None:
        """Stop a role's reading and timers."""
        self._thread.result(self._cluster.freeze(role))

    def thaw(self, role: str) -> None:
        """Let a frozen role go on."""
        self._thread.result(self._cluster.thaw(role))

    def kill(self, role: str) -> None:
        """End a role at once, like kill -9."""
        self._thread.result(self._cluster.kill(role))

    def restart(self, role: str) -> None:
        """Start a killed role again."""
        self._thread.result(self._cluster.restart(role))

    def save_snapshot(self, folder: Path) -> None:
        """Copy all data into a new folder."""
        self._thread.result(self._cluster.save_snapshot(folder))

    def load_snapshot(self, folder: Path) -> None:
        """Begin again with what was saved."""
        self._thread.result(self._cluster.load_snapshot(folder))

    def reset(self) -> None:
        """Begin again without any data."""
        self._thread.result(self._cluster.reset())

    # -- clients ----------------------------------------------------------------------------

    def producer(self, group: str = "test-producers", **options: Any) -> SyncProducer:
        """A producer, to be used in `with`. Options are those of `pocketmq.client.Producer`."""
        options.setdefault("nameservers", self.nameservers)
        options.setdefault("events", self._cluster.control.events.clients.sink)
        return SyncProducer(self._thread, group, **options)

    def consumer(
        self,
        group: str,
        topic: str,
        expression: str = "*",
        **options: Any,
    ) -> SyncConsumer:
        """A consumer, to be used in `with`. Options are those of `pocketmq.client.PushConsumer`.

        A new group begins with the first stored message, so that a test may send before the
        consumer owns its queues.
        """
        options.setdefault("nameservers", self.nameservers)
        options.setdefault("events", self._cluster.control.events.clients.sink)
        options.setdefault("consume_from_where", ConsumeFromWhere.FIRST_OFFSET)
        return SyncConsumer(self._thread, group, topic, expression, hint=self._hint, **options)

    async def _hint(self) -> str:
        return await self._cluster.thread.run(self._cluster.control.hint())


class SyncGroup:
    """A `Group` for synchronous code."""

    def __init__(self, cluster: Cluster, thread: LoopThread, name: str) -> None:
        self._group = cluster.group(name)
        self._thread = thread

    def assigned(self, *, members: int | None = None, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until each queue has an owner."""
        _check_no_client_waits("group(...).assigned")
        self._thread.result(self._group.assigned(members=members, limit_s=limit_s))

    def consumed_all(self, *, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until the group has consumed all messages in its topics."""
        _check_no_client_waits("group(...).consumed_all")
        self._thread.result(self._group.consumed_all(limit_s=limit_s))

    def state(self) -> GroupState:
        """Members, queues and offsets."""
        return self._thread.result(self._group.state())


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
        return self._thread.result(self._receive(limit_s))

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


def _check_no_client_waits(call: str) -> None:
    """Refuse to block an event loop in which clients run: they could do nothing meanwhile."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if runs_clients(loop):
        raise CallerError(
            f"sync.{call} blocks the event loop in which the test's clients run, so they would "
            f"stand still; write `await cluster.{call}(...)`, without sync"
        )

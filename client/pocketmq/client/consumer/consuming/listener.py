"""Listeners: the application's code that consumes messages, and what it may answer (C-54, C-59).

An async function runs on the loop. A plain function runs in a thread, because it may block. What
is raised counts as "again, later". Unlike RocketMQ's null, Python's None counts as success: it is
what a function that simply ends returns.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import structlog

from pocketmq.client.consumer.consuming.consume_events import NO_CONSUME_EVENTS, ConsumeEvents
from pocketmq.client.listener_threads import ListenerThreads
from pocketmq.protocol.messages.message import MessageExt, MessageQueue

log = structlog.get_logger()

T = TypeVar("T")


class ConsumeConcurrentlyStatus(Enum):
    """What became of messages consumed concurrently."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    """Deliver them again after a delay that grows with each time (B-83)."""


class ConsumeOrderlyStatus(Enum):
    """What became of messages consumed in order (C-59)."""

    SUCCESS = "SUCCESS"
    ROLLBACK = "ROLLBACK"
    """Without auto-commit: hand out again what was not committed."""
    COMMIT = "COMMIT"
    """Without auto-commit: everything up to here is done."""
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    """Hand the same messages out again, after a moment."""


ALL_ACKED = 2**31 - 1


class ConsumeConcurrentlyContext(msgspec.Struct, gc=False):
    """What a batch listener may look at and set.

    A msgspec struct because one is made per call of a listener.
    """

    message_queue: MessageQueue
    delay_level_when_next_consume: int = 0
    """-1: straight to the dead letter topic; 0: the broker decides; above: that delay level."""
    ack_index: int = ALL_ACKED
    """Index of the last message that succeeded; those after it are delivered again (C-55)."""


@dataclass(slots=True)
class ConsumeOrderlyContext:
    """What an orderly listener may look at and set."""

    message_queue: MessageQueue
    auto_commit: bool = True
    """False: offsets move only on COMMIT (C-59)."""
    suspend_current_queue_time_ms: int = -1
    """-1 takes the consumer's setting (C-61)."""


MessageListener: TypeAlias = Callable[[MessageExt], Any]
"""`listener(message)`, async or plain; returns None or a status."""

BatchListener: TypeAlias = Callable[[list[MessageExt], ConsumeConcurrentlyContext], Any]
"""`listener(messages, context)`, async or plain; returns None or a status."""

OrderlyListener: TypeAlias = Callable[[list[MessageExt], ConsumeOrderlyContext], Any]
"""`listener(messages, context)`, async or plain; returns None or a `ConsumeOrderlyStatus`."""


BLOCKED_S: Final = 0.1
"""A listener that keeps the loop to itself for longer is named in a warning."""


Began: TypeAlias = tuple[float, int]
"""When a call of a listener began: the loop's seconds, and its turn."""


class ListenerCall:
    """Calls a listener the way it wants to be called.

    Args:
        listener: `(message)` with `one_by_one`, else `(messages, context)`.
        one_by_one: See `listener`.
        threads: Where a plain function runs.
        events: Told by the caller what the listener said.
    """

    def __init__(
        self,
        listener: Callable[..., Any],
        *,
        one_by_one: bool,
        threads: ListenerThreads,
        events: ConsumeEvents = NO_CONSUME_EVENTS,
    ) -> None:
        self.events = events
        self.name = getattr(listener, "__qualname__", None) or type(listener).__qualname__
        self.calls = 0
        """How often it was called."""
        self._listener = listener
        self.one_by_one = one_by_one
        """Whether it gets single messages."""
        self._threads = threads
        self._is_async = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
            getattr(listener, "__call__", None)  # noqa: B004 - an object with an async __call__
        )
        self._longest_s = BLOCKED_S / 2
        self._watched = False
        """A call took long and waited: from now on each of its steps is measured."""
        self._turns = 0
        """How many turns of the loop were noticed; only those of calls count."""
        self._turn_noted = False
        self._loop_time: Callable[[], float] = lambda: 0.0

    async def __call__(self, messages: list[MessageExt], context: object) -> Any:
        """Hand messages over; the listener's answer or error."""
        began = self.began()
        try:
            return await self.begin(messages, context)
        finally:
            self.ended(began)

    def began(self) -> Began:
        """The moment to tell `ended`."""
        if not self._turn_noted:
            self._turn_noted = True
            loop = asyncio.get_running_loop()  # a system call, on Python 3.11
            self._loop_time = loop.time
            loop.call_soon(self._turned)
        return self._loop_time(), self._turns

    def begin(self, messages: list[MessageExt], context: object) -> Awaitable[Any]:
        """Hand messages over, with no coroutine of ours around the listener's.

        Await the result, then call `ended`, whatever it ended with.
        """
        if self.one_by_one:
            return self.begin_one(messages[0])
        self.calls += 1
        listener = self._listener
        if self._is_async:
            coroutine = listener(messages, context)
            return _Watched(coroutine, self._check) if self._watched else coroutine
        return self._threads.run(lambda: listener(messages, context))

    def begin_one(self, message: MessageExt) -> Awaitable[Any]:
        """Call a listener of single messages; for the rest see `begin`."""
        self.calls += 1
        listener = self._listener
        if self._is_async:
            coroutine = listener(message)
            return _Watched(coroutine, self._check) if self._watched else coroutine
        return self._threads.run(lambda: listener(message))

    def ended(self, began: Began) -> None:
        """The call that began then has ended: find out whether it kept the loop to itself."""
        began_at, turns = began
        took_s = self._loop_time() - began_at
        if took_s > BLOCKED_S and self._is_async and not self._watched:
            if turns == self._turns:  # it never waited
                self._check(took_s)
            else:
                self._watched = True

    def _turned(self) -> None:
        self._turn_noted = False
        self._turns += 1

    def _check(self, step_s: float) -> None:
        """Warn of a step that blocked the loop, and again when one takes twice as long."""
        if step_s > 2 * self._longest_s:
            self._longest_s = step_s
            log.warning(
                "listener.blocked_loop",
                listener=self.name,
                blocked_s=round(step_s, 3),
                advice="await what takes time, or make it a plain function: those run in threads",
            )


class _Watched:
    """Awaits a coroutine and measures how long each of its steps keeps the loop.

    That costs several times what calling a small listener does.
    """

    __slots__ = ("_check", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], check: Callable[[float], None]) -> None:
        self._coroutine = coroutine
        self._check = check

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, time = self._coroutine, asyncio.get_running_loop().time
        value: Any = None
        error: BaseException | None = None
        while True:
            began_at = time()
            try:
                if error is None:
                    waits_for = coroutine.send(value)
                else:
                    waits_for = coroutine.throw(error)
                    error = None
            except StopIteration as ended:
                return ended.value
            finally:
                step_s = time() - began_at
                if step_s > BLOCKED_S:
                    self._check(step_s)
            try:
                value = yield waits_for
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as exc:  # noqa: BLE001 - a cancel, say: the coroutine decides
                error = exc

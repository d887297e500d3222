"""Makes a synchronous class of an asynchronous one: the mechanism of `pocketmq.client.sync`.

Nothing about a client is written twice. The class that `blocking` makes has each public name of the
asynchronous class; a call runs there, in the thread of a loop, and the caller's thread waits:

    async def send(self, ...)        def send(self, ...)         waits for the coroutine
    def subscribe(self, ...)         def subscribe(self, ...)    called in the loop's thread
    assignment  (a property)         assignment                  read in the loop's thread
    async with, async for            with, for

All synchronous clients of a process share one daemon thread, which starts with the first of them:
the one thread outside of the seams (docs/architecture.md). What a type checker sees is written by
`make docs`, from the same classes, into `sync/__init__.pyi`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from pocketmq.client.consumer.consuming.message_iterator import MessageIterator
from pocketmq.runtime.loop_thread import LoopThread, SharedLoopThread

DERIVED: Final = (
    "Admin",
    "LitePullConsumer",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "SimpleConsumer",
    "TransactionProducer",
)
"""Classes that are made of the asynchronous ones; all other names are the same objects."""

NOT_FOR_APPLICATIONS: Final = frozenset(
    {
        *("KIND", "attach", "change_listening", "check_transaction", "consume_type", "direct"),
        *("offsets_in_memory", "persist_at_once", "rebalance", "reset_offsets"),
    }
)
"""Public names that a client has for its client instance, and not for who uses it."""

shared_thread: Final = SharedLoopThread("pocketmq clients")
"""The thread of this process's synchronous clients."""


class BlockingObject:
    """An asynchronous object, and the thread of its loop."""

    def __init__(self, asynchronous: Any, loop_thread: LoopThread) -> None:
        self.asynchronous = asynchronous
        """What does the work; to be used in the loop only."""
        self.loop_thread = loop_thread
        """Runs coroutines that use it: `loop_thread.result(coroutine)`."""


class BlockingIterator(BlockingObject):
    """Messages one by one, in a plain `for`; each is done when the next one is asked for."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self.loop_thread.result(self.asynchronous.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def done(self) -> None:
        """The message that was handed out last is consumed: it does not come again."""
        self.loop_thread.result(self.asynchronous.done())


class BlockingClient(BlockingObject):
    """A client whose calls block; `blocking` makes its subclasses.

    Args:
        loop_thread: The thread of its loop; by default the one of all synchronous clients.
        arguments: Those of the asynchronous class.
    """

    ASYNCHRONOUS: type[Any]

    def __init__(
        self, *arguments: Any, loop_thread: LoopThread | None = None, **options: Any
    ) -> None:
        made = self.ASYNCHRONOUS(*arguments, **options)  # here, so that its errors name this line
        super().__init__(made, loop_thread or shared_thread())

    def __enter__(self) -> Self:
        self.loop_thread.result(self.asynchronous.start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.loop_thread.result(self.asynchronous.stop())


def public_names(kind: type[Any]) -> list[str]:
    """What an application may use of an asynchronous class, sorted."""
    return [
        each for each in dir(kind) if not each.startswith("_") and each not in NOT_FOR_APPLICATIONS
    ]


def blocking(kind: type[Any], module: str) -> type[BlockingClient]:
    """The synchronous class of an asynchronous one, under the same name.

    Args:
        kind: The asynchronous class.
        module: Where the new one is found.
    """
    members: dict[str, Any] = {
        name: _blocking_member(name, inspect.getattr_static(kind, name))
        for name in public_names(kind)
    }
    if hasattr(kind, "__aiter__"):
        members["__iter__"] = _called("__aiter__", kind.__aiter__)
    members.update(ASYNCHRONOUS=kind, __module__=module, __doc__=kind.__doc__)
    return type(kind.__name__, (BlockingClient,), members)


def _blocking_member(name: str, member: Any) -> Any:
    if isinstance(member, property):
        return property(_read(name), doc=member.__doc__)
    if inspect.iscoroutinefunction(member):
        return _awaited(name, member)
    return _called(name, member)


def _read(name: str) -> Callable[[BlockingClient], Any]:
    return lambda self: self.loop_thread.call(lambda: getattr(self.asynchronous, name))


def _awaited(name: str, member: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(member)
    def call(self: BlockingClient, *arguments: Any, **options: Any) -> Any:
        return self.loop_thread.result(getattr(self.asynchronous, name)(*arguments, **options))

    return call


def _called(name: str, member: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(member)
    def call(self: BlockingClient, *arguments: Any, **options: Any) -> Any:
        found = self.loop_thread.call(
            lambda: getattr(self.asynchronous, name)(*arguments, **options)
        )
        is_iterator = isinstance(found, MessageIterator)
        return BlockingIterator(found, self.loop_thread) if is_iterator else found

    return call

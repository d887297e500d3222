"""The interface of consumption for the parts of a push consumer, concurrent or orderly."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.protocol.messages.message import MessageExt, MessageQueue


class ConsumeService(Protocol):
    """Concurrent (concurrent.py) or orderly (orderly.py) consumption."""

    def start(self) -> None:
        """Begin; listener calls come with messages."""
        ...

    async def stop(self, await_termination_s: float = 0.0) -> None:
        """End: no listener call begins from now on, running async ones are cancelled.

        Args:
            await_termination_s: Real seconds for running calls to end by themselves (C-71).
        """
        ...

    def submit(self, messages: list[MessageExt], buffer: ProcessQueue, *, dispatch: bool) -> None:
        """Consume messages that were put into a process queue.

        Args:
            messages: Those that are new.
            buffer: Where they are.
            dispatch: Whether the process queue asks for an orderly run (C-50).
        """
        ...

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Lock newly assigned queues at their brokers; returns those granted (C-25.3)."""
        ...

    async def release(self, buffer: ProcessQueue) -> bool:
        """Release a dropped queue; False while a listener still works on it (C-30)."""
        ...

    async def unlock_all(self) -> None:
        """Unlock all queues at once (C-71)."""
        ...

"""PopQueue: what a client has popped of one assigned queue and not yet settled (K-165, K-169).

Nothing is committed and nothing is owned: other members pop the same queue. So there are no
offsets here, only a count for flow control. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pocketmq.client.consumer.popping.receipts import handle_of
from pocketmq.protocol.messages.message import MessageExt, MessageQueue


class SettlesPopped(Protocol):
    """Tells brokers what became of popped messages."""

    def ack(self, messages: Sequence[MessageExt]) -> None:
        """They are consumed; returns at once."""
        ...

    def later(self, message: MessageExt, delay_level: int) -> None:
        """It failed; returns at once."""
        ...


class PopQueue:
    """One queue that a broker said to pop.

    Args:
        queue: Queue id -1 stands for all queues of the broker.
        settles: Acknowledges, or has messages come again.
        now: The caller's monotonic seconds.
    """

    __slots__ = ("_settles", "dropped", "last_pop_at", "queue", "waiting")

    def __init__(self, queue: MessageQueue, settles: SettlesPopped, now: float) -> None:
        self.queue = queue
        self.dropped = False
        """Not ours any more: nothing of it is handed to the listener from now on."""
        self.waiting = 0
        """Popped and neither acknowledged nor given back; flow control looks at it."""
        self.last_pop_at = now
        self._settles = settles

    def drop(self) -> None:
        """The broker took the queue away; a pop under way ends, and what it brings comes again."""
        self.dropped = True

    def popping(self, now: float) -> None:
        """The queue was looked at, whether a pop was sent or put off."""
        self.last_pop_at = now

    def put(self, count: int) -> None:
        """So many messages go to the listener."""
        self.waiting += count

    def lapsed(self, messages: Sequence[MessageExt], now_ms: int) -> bool:
        """Whether the listener's answer does not count any more (K-169); such messages come again.

        The queue was dropped, or the invisible time is over: another member may have them.
        Settles them here if so: neither acknowledged nor given back.
        """
        if not self.dropped and now_ms < due_ms(messages[0]):
            return False
        self.waiting -= len(messages)
        return True

    def settle(
        self, done: Sequence[MessageExt], failed: Sequence[MessageExt], delay_level: int
    ) -> None:
        """The listener has answered: acknowledge, and have come again what failed (K-170)."""
        self.waiting -= len(done) + len(failed)
        if done:
            self._settles.ack(done)
        for message in failed:
            self._settles.later(message, delay_level)


def due_ms(message: MessageExt) -> int:
    """When a popped message is seen by others again, epoch ms."""
    return handle_of(message).due_ms

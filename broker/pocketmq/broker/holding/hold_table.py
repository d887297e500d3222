"""Requests that wait for messages, as in RocketMQ's PullRequestHoldService (B-70 to B-74).

A request that found nothing new is held until a message arrives that it may want, until a look
every 5 s finds that its queue grew, until its time is up, or until its connection ends. Whatever
ends the wait, the whole request runs again and is answered; it is not held a second time.

Three pulls of one queue, which ends at offset 5, are held for 15 s each:

    at       what happens                                        waits then
     0.0 s   A pulls from 5, every tag                           A
     0.0 s   B pulls from 5, tag paid                            A B
     0.0 s   C pulls from 6                                      A B C
     1.0 s   message 5 arrives, tag new: `arrived` returns A     B C
     5.0 s   the look: the queue ends at 6, `due` returns B      C
    15.0 s   its time is up: `due` returns C                     nobody

B finds no message of its tag at 5, and is told to pull again from 6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Generic, Protocol, TypeVar

from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer

HELD_REQUEST_BYTES = 1536
"""About the memory that a held request takes."""

QueueKey = tuple[str, int]


class Held(Protocol):
    """One request that waits on a queue."""

    @property
    def peer(self) -> Peer:
        """The connection that the request came from."""
        ...

    @property
    def request(self) -> Command:
        """The request."""
        ...

    @property
    def queue(self) -> QueueKey:
        """(topic, queue id) that it waits on."""
        ...

    @property
    def deadline_at(self) -> float:
        """The caller's monotonic seconds at which it must be answered."""
        ...

    def wants(self, first_offset: int, codes: Sequence[int]) -> bool:
        """Whether any of these messages, the first at `first_offset`, may be for this request."""
        ...

    def is_behind(self, max_offset: int) -> bool:
        """Whether a queue that ends at `max_offset` has something new for this request."""
        ...


HeldT = TypeVar("HeldT", bound=Held)


class HoldTable(Generic[HeldT]):
    """(topic, queue) -> waiting requests, in the order in which they came."""

    def __init__(self, budget: BudgetSource = default_budget) -> None:
        self._budget = budget
        self._held: dict[str, dict[int, dict[HeldT, int]]] = {}
        """By topic and queue id, with the bytes that each is counted as."""
        self._of_peer: dict[Peer, set[HeldT]] = {}
        self._to_look_at: deque[QueueKey] = deque()
        """What `due` has yet to look at."""

    def __bool__(self) -> bool:
        return bool(self._held)

    def __len__(self) -> int:
        return sum(len(waiting) for queues in self._held.values() for waiting in queues.values())

    def hold(self, held: HeldT, extra_bytes: int = 0) -> None:
        """Hold a request.

        Args:
            held: the request.
            extra_bytes: memory beyond `HELD_REQUEST_BYTES`, for a long subscription.

        Raises:
            OverBudgetError: its connection has as many waiting as it may.
        """
        own = self._of_peer.get(held.peer)
        if own is not None:
            self._budget().check(
                "held_pulls_per_connection",
                len(own) + 1,
                "pulls of this connection that wait",
                advice="pull again later, or over more connections",
                code=ResponseCode.SYSTEM_BUSY,
            )
        size_bytes = HELD_REQUEST_BYTES + extra_bytes
        # Charged to the connection until the request is answered: a peer may hold thousands.
        held.peer.keep(size_bytes)
        topic, queue_id = held.queue
        self._held.setdefault(topic, {}).setdefault(queue_id, {})[held] = size_bytes
        self._of_peer.setdefault(held.peer, set()).add(held)

    def arrived(
        self, topic: str, queue_id: int, max_offset: int, codes: Sequence[int]
    ) -> list[HeldT]:
        """Messages became readable: remove and return the requests that may want one (B-72).

        Args:
            topic: of the queue.
            queue_id: of the queue.
            max_offset: the offset after the last of them.
            codes: their tag hashes, in order.
        """
        queues = self._held.get(topic)
        waiting = None if queues is None else queues.get(queue_id)
        if waiting is None:
            return []
        # The offset of the first message that arrived.
        first = max_offset - len(codes)
        return self._release([held for held in waiting if held.wants(first, codes)])

    def due(
        self, now: float, max_offset: Callable[[str, int], int], most: float = inf
    ) -> list[HeldT]:
        """Remove and return the requests whose time is up or whose queue grew (B-71, B-73).

        No tag is looked at: a consumer behind a run of messages that it filters out gets past it
        only because this wakes it.

        Args:
            now: the caller's monotonic seconds.
            max_offset: where (topic, queue id) ends.
            most: requests to look at, or a few more: those of a queue belong together. While
                `is_looking` after it, the next call goes on behind them.
        """
        # All were looked at: begin the next round.
        if not self._to_look_at:
            self._to_look_at.extend(
                (topic, queue_id) for topic, queues in self._held.items() for queue_id in queues
            )
        ready: list[HeldT] = []
        looked_at = 0
        while self._to_look_at and looked_at < most:
            topic, queue_id = self._to_look_at.popleft()
            looked_at += 1
            queues = self._held.get(topic)
            waiting = None if queues is None else queues.get(queue_id)
            if waiting is None:
                continue  # answered since
            newest = max_offset(topic, queue_id)
            ready += [held for held in waiting if now >= held.deadline_at or held.is_behind(newest)]
            looked_at += len(waiting)
        return self._release(ready)

    @property
    def is_looking(self) -> bool:
        """Whether `due` has not come to the end."""
        return bool(self._to_look_at)

    def forget_peer(self, peer: Peer) -> None:
        """Drop the held requests of a closed connection."""
        self._release(list(self._of_peer.get(peer, ())))

    def release_topic(self, topic: str) -> list[HeldT]:
        """Remove and return everything that waits on a topic, which was deleted or changed."""
        queues = self._held.get(topic, {})
        return self._release([held for waiting in queues.values() for held in waiting])

    def release_all(self) -> list[HeldT]:
        """Remove and return everything."""
        return [held for topic in list(self._held) for held in self.release_topic(topic)]

    def _release(self, requests: Iterable[HeldT]) -> list[HeldT]:
        # Copy first: releasing changes the tables that the requests come from.
        released = list(requests)
        for held in released:
            topic, queue_id = held.queue
            queues = self._held[topic]
            waiting = queues[queue_id]
            size_bytes = waiting.pop(held)
            if not waiting:
                del queues[queue_id]
                if not queues:
                    del self._held[topic]
            own = self._of_peer[held.peer]
            own.discard(held)
            held.peer.keep(-size_bytes)
            if not own:
                del self._of_peer[held.peer]
        return released

"""Pulls that wait for messages, as in RocketMQ's PullRequestHoldService (B-70 to B-74).

A pull that found nothing new is held until a message arrives that it may want, until a look every
5 s finds that its queue grew, until its time is up, or until its connection ends. Whatever ends the
wait, the whole pull runs again and is answered; it is not held a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.subscription import SubscriptionData

HELD_PULL_BYTES = 1536
"""About what a held pull takes."""

QueueKey = tuple[str, int]


class HeldPull:
    """One waiting pull."""

    __slots__ = ("deadline_at", "header", "peer", "request", "subscription")

    def __init__(
        self,
        peer: Peer,
        request: Command,
        header: PullMessageRequestHeader,
        subscription: SubscriptionData,
        deadline_at: float,
    ) -> None:
        self.peer = peer
        self.request = request
        self.header = header
        self.subscription = subscription
        self.deadline_at = deadline_at
        """The caller's monotonic seconds at which it must be answered."""

    def wants(self, first_offset: int, codes: Sequence[int]) -> bool:
        """Whether any of these messages, the first at `first_offset`, may be for this pull."""
        skip = self.header.queue_offset - first_offset
        if skip >= len(codes):
            return False
        subscription = self.subscription
        if subscription.subscribes_all:
            return True
        return any(map(subscription.matches, codes[skip:] if skip > 0 else codes))


class PullRequestHoldTable:
    """(topic, queue) -> waiting pulls, in the order in which they came."""

    def __init__(self, budget: Budget = DEFAULT_BUDGET) -> None:
        self._budget = budget
        self._held: dict[QueueKey, dict[HeldPull, None]] = {}
        self._of_peer: dict[Peer, set[HeldPull]] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def waiting_on(self, topic: str, queue_id: int) -> bool:
        """Whether any pull waits on the queue."""
        return (topic, queue_id) in self._held

    def hold(self, pull: HeldPull) -> None:
        """Let `pull` wait.

        Raises:
            OverBudgetError: its connection has as many waiting as it may.
        """
        own = self._of_peer.get(pull.peer)
        if own is not None:
            self._budget.check(
                "held_pulls_per_connection",
                len(own) + 1,
                "pulls of this connection that wait",
                advice="pull again later, or over more connections",
                code=ResponseCode.SYSTEM_BUSY,
            )
        pull.peer.keep(HELD_PULL_BYTES)
        key = (pull.header.topic, pull.header.queue_id)
        self._held.setdefault(key, {})[pull] = None
        self._of_peer.setdefault(pull.peer, set()).add(pull)

    def arrived(
        self, topic: str, queue_id: int, max_offset: int, codes: Sequence[int]
    ) -> list[HeldPull]:
        """Messages became readable: remove and return the pulls that may want one (B-72).

        Args:
            topic: of the queue.
            queue_id: of the queue.
            max_offset: one behind the last of them.
            codes: their tag hashes, in order.
        """
        waiting = self._held.get((topic, queue_id))
        if waiting is None:
            return []
        first = max_offset - len(codes)
        return self._release([pull for pull in waiting if pull.wants(first, codes)])

    def due(self, now: float, max_offset: Callable[[str, int], int]) -> list[HeldPull]:
        """Remove and return the pulls whose time is up or whose queue grew (B-71, B-73).

        No tag is looked at: a consumer behind a run of messages that it filters out gets past it
        only because this wakes it. O(held pulls).
        """
        ready: list[HeldPull] = []
        for (topic, queue_id), waiting in self._held.items():
            newest = max_offset(topic, queue_id)
            ready += [
                pull
                for pull in waiting
                if now >= pull.deadline_at or newest > pull.header.queue_offset
            ]
        return self._release(ready)

    def forget_peer(self, peer: Peer) -> None:
        """Drop what a closed connection had waiting."""
        self._release(list(self._of_peer.get(peer, ())))

    def release_topic(self, topic: str) -> list[HeldPull]:
        """Remove and return everything that waits on a topic, which was deleted or changed."""
        return self._release(
            [pull for key, waiting in self._held.items() if key[0] == topic for pull in waiting]
        )

    def release_all(self) -> list[HeldPull]:
        """Remove and return everything; the broker stops."""
        return self._release([pull for waiting in self._held.values() for pull in waiting])

    def _release(self, pulls: Iterable[HeldPull]) -> list[HeldPull]:
        released = list(pulls)
        for pull in released:
            key = (pull.header.topic, pull.header.queue_id)
            waiting = self._held[key]
            del waiting[pull]
            if not waiting:
                del self._held[key]
            own = self._of_peer[pull.peer]
            own.discard(pull)
            pull.peer.keep(-HELD_PULL_BYTES)
            if not own:
                del self._of_peer[pull.peer]
        return released

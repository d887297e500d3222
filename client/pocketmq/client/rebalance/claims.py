"""Claims: the queues that one consumer owns, and what is known of each (C-25, C-30, C-43, C-52).

A claim says "this queue is ours". What was pulled from the queue is elsewhere: in its process
queue (pulling/process_queue.py), which holds the claim and only reads it. `Claims` is the one
place that writes claims, and the planner owns it; others report to it what they learn (a pull was
sent, a broker granted a lock). Pure: moments are the caller's monotonic seconds.

The life of one claim of an orderly consumer, which needs a lock on the broker:

     0.0 s   take        the rebalance assigned the queue and the broker granted its lock
     0.5 s   pulled      the first pull; from now on every pull is noted
    20.0 s   lock_answered(granted)         the renewal; the lock counts as held until 50 s
    40.0 s   (no answer)                    nothing is noted, nothing changes
    50.1 s   is_lock_expired                the listener is not called any more
    60.0 s   lock_answered(refused)         another member has the queue: `locked` is False
    60.5 s   drop        the next rebalance gives it up: nothing is consumed or committed from now
    60.6 s   release     offset written down, lock given back: the claim is over

A queue that comes back to us gets a new claim, so that late events of the old one (an answer to a
pull, a listener that ends) are told apart by identity.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, Protocol

from pocketmq.protocol.allocation.strategy import sorted_queues
from pocketmq.protocol.messages.message import MessageQueue

PULL_MAX_IDLE_S: Final = 120.0
"""A queue that was not pulled for longer is given up and taken again (C-25.2)."""
LOCK_MAX_LIVE_S: Final = 30.0
"""How long a queue lock counts as held after its last renewal (C-52)."""


class Claim(Protocol):
    """One claim, as everybody but `Claims` sees it: to be read only."""

    @property
    def queue(self) -> MessageQueue: ...
    @property
    def dropped(self) -> bool:
        """Not ours any more: nothing of it is consumed or committed from now on (C-44)."""
        ...

    @property
    def correcting(self) -> bool:
        """Dropped, and about to be taken anew with a corrected offset: rebalances wait (C-43)."""
        ...

    @property
    def locked(self) -> bool:
        """Whether the broker granted us its lock, the last time it was asked (C-52)."""
        ...

    @property
    def last_lock_at(self) -> float: ...
    @property
    def last_pull_at(self) -> float: ...
    @property
    def release_tries(self) -> int:
        """How often a running listener prevented giving it up (C-30)."""
        ...

    def is_pull_expired(self, now: float) -> bool:
        """Whether the last pull is too long ago (C-25.2)."""
        ...

    def is_lock_expired(self, now: float) -> bool:
        """Whether the lock was not renewed in time (C-52)."""
        ...


class _Claim:
    """A claim that can be written."""

    __slots__ = (
        "correcting",
        "dropped",
        "last_lock_at",
        "last_pull_at",
        "locked",
        "queue",
        "release_tries",
    )

    def __init__(self, queue: MessageQueue, now: float, *, locked: bool) -> None:
        self.queue = queue
        self.dropped = False
        self.correcting = False
        self.locked = locked
        self.last_lock_at = now
        self.last_pull_at = now
        self.release_tries = 0

    def is_pull_expired(self, now: float) -> bool:
        return now - self.last_pull_at > PULL_MAX_IDLE_S

    def is_lock_expired(self, now: float) -> bool:
        return now - self.last_lock_at > LOCK_MAX_LIVE_S


class Claims:
    """The claims of one consumer, and everything that can happen to them."""

    def __init__(self) -> None:
        self._claims: dict[MessageQueue, _Claim] = {}
        self._of_topics: dict[str, dict[MessageQueue, _Claim]] = {}
        """The same by topic: a rebalance looks at one topic after the other."""
        self._dropped = 0

    # -- reading --------------------------------------------------------------------------------

    def __contains__(self, queue: MessageQueue) -> bool:
        return queue in self._claims

    def __iter__(self) -> Iterator[Claim]:
        return iter(list(self._claims.values()))

    def __len__(self) -> int:
        return len(self._claims)

    def get(self, queue: MessageQueue) -> Claim | None:
        """The claim to a queue; dropped ones count until they are released."""
        return self._claims.get(queue)

    def of_topic(self, topic: str) -> list[Claim]:
        """The claims to queues of a topic, dropped ones too."""
        return list(self._of_topics.get(topic, {}).values())

    def owned(self, topic: str | None = None) -> list[MessageQueue]:
        """Queues that are ours and not on their way out, sorted (A-1)."""
        claims = self._claims if topic is None else self._of_topics.get(topic, {})
        return sorted_queues(queue for queue, claim in claims.items() if not claim.dropped)

    @property
    def owned_count(self) -> int:
        """How many these are, over all topics. O(1)."""
        return len(self._claims) - self._dropped

    # -- the rebalance --------------------------------------------------------------------------

    def take(self, queue: MessageQueue, now: float, *, locked: bool = False) -> Claim:
        """The queue is ours from now on; being taken counts as its first pull and lock."""
        self.release(queue)
        claim = self._claims[queue] = _Claim(queue, now, locked=locked)
        self._of_topics.setdefault(queue.topic, {})[queue] = claim
        return claim

    def drop(self, queue: MessageQueue) -> None:
        """The claim is being given up: `release` follows once its offset is persisted."""
        claim = self._claims.get(queue)
        if claim is not None:
            self._drop(claim)

    def release(self, queue: MessageQueue) -> bool:
        """Forget the claim, dropping it first if need be; whether there was one."""
        claim = self._claims.get(queue)
        if claim is None:
            return False
        self._drop(claim)
        self._dropped -= 1
        del self._claims[queue]
        of_topic = self._of_topics[queue.topic]
        del of_topic[queue]
        if not of_topic:
            del self._of_topics[queue.topic]
        return True

    def release_refused(self, queue: MessageQueue) -> None:
        """A running listener holds a dropped queue: the next round tries again (C-30)."""
        claim = self._claims.get(queue)
        if claim is not None:
            claim.release_tries += 1

    # -- what others report ---------------------------------------------------------------------

    def pulled(self, claim: Claim, now: float) -> None:
        """A pull of the queue was looked at, whether it was sent or put off (C-25.2)."""
        own = self._claims.get(claim.queue)
        if own is claim:
            own.last_pull_at = now

    def locks_answered(
        self, asked: Collection[MessageQueue], granted: Collection[MessageQueue], now: float
    ) -> list[MessageQueue]:
        """A broker answered a request for locks (C-52); those that we had and lost."""
        lost = []
        for queue in asked:
            claim = self._claims.get(queue)
            if claim is None:
                continue
            if queue in granted:
                claim.locked = True
                claim.last_lock_at = now
            elif claim.locked:
                claim.locked = False
                lost.append(queue)
        return lost

    def correct(self, claim: Claim) -> None:
        """Its offset is illegal: drop it, and let no rebalance take it before it is corrected."""
        own = self._claims.get(claim.queue)
        if own is not None and own is claim:
            self._drop(own)
            own.correcting = True

    def _drop(self, claim: _Claim) -> None:
        if not claim.dropped:
            claim.dropped = True
            self._dropped += 1

"""Pops that wait for a message (K-130 to K-134), without I/O; the service around it is `waking.py`.

A pop waits under (topic, group, requested queue id); -1, "any queue", is a key of its own. A new
message wakes the pop with the earliest deadline. It takes what is there; if messages are left, the
next pop is woken.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

from pocketmq.broker.pop.deadlines import Deadlines
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.messages.receipts import pop_retry_topic

HeaderT = TypeVar("HeaderT")

EARLY_MS = 50
"""A deadline counts as reached this much earlier, because answering takes time."""

WAITING_BYTES = 1024
"""About the memory that a waiting request takes."""

_DEADLINE = attrgetter("deadline_ms")

WaitKey = tuple[str, str, int]
"""Topic, group, queue id."""


class WaitingPop(Generic[HeaderT]):
    """One request that waits."""

    __slots__ = ("accept", "deadline_ms", "header", "key", "peer", "request")

    def __init__(
        self,
        peer: Peer,
        request: Command,
        header: HeaderT,
        key: WaitKey,
        deadline_ms: int,
        accept: Callable[[int], bool] | None,
    ) -> None:
        self.peer = peer
        self.request = request
        self.header = header
        self.key = key
        self.deadline_ms = deadline_ms
        """Epoch ms at which it must be answered."""
        self.accept = accept
        """Takes or refuses a tag hash; None takes all."""


class WaitingPops(Generic[HeaderT]):
    """All waiting pops.

    Args:
        most: in all.
        most_per_key: with the same topic, group and queue id, and one more.
    """

    def __init__(self, most: int = 100_000, most_per_key: int = 1024) -> None:
        self._most = most
        self._most_per_key = most_per_key
        self.total = 0
        """How many wait."""
        self._waiting: dict[WaitKey, list[WaitingPop[HeaderT]]] = {}
        """The earliest deadline first."""
        self._deadlines: Deadlines[WaitingPop[HeaderT]] = Deadlines()
        self._of_peer: dict[Peer, dict[WaitingPop[HeaderT], int]] = {}
        """With the bytes that each is counted as."""
        self._groups: dict[str, dict[str, dict[int, None]]] = {}
        """Topic -> group -> queue ids that it waits under."""
        self._retries: dict[str, tuple[str, str]] = {}
        """Retry topic -> topic and group."""

    def __len__(self) -> int:
        return self.total

    def count(self, key: WaitKey) -> int:
        """How many wait under exactly this key (POLLING_INFO)."""
        return len(self._waiting.get(key, ()))

    def refusal(self, key: WaitKey, deadline_ms: int, now_ms: int) -> ResponseCode | None:
        """Why a request cannot wait: POLLING_FULL (209) or POLLING_TIMEOUT (210) (K-130)."""
        if self.total >= self._most:
            return ResponseCode.POLLING_FULL
        # With less than 50 ms left, answer at once instead of waiting.
        if now_ms >= deadline_ms - EARLY_MS:
            return ResponseCode.POLLING_TIMEOUT
        if self.count(key) > self._most_per_key:  # RocketMQ compares so: one more may wait
            return ResponseCode.POLLING_FULL
        return None

    def hold(self, pop: WaitingPop[HeaderT], extra_bytes: int = 0) -> None:
        """Let a request wait, after `refusal` returned None; it counts as its peer's memory.

        Args:
            pop: the request.
            extra_bytes: memory beyond `WAITING_BYTES`, for long texts.
        """
        topic, group, queue_id = pop.key
        waiting = self._waiting.get(pop.key)
        if waiting is None:
            # For a new key, register the topic, the group and both names of its retry topic.
            waiting = self._waiting[pop.key] = []
            self._groups.setdefault(topic, {}).setdefault(group, {})[queue_id] = None
            for v2 in (False, True):
                self._retries[pop_retry_topic(topic, group, v2=v2)] = (topic, group)
        # The pop with the earliest deadline is woken first (K-132).
        insort(waiting, pop, key=_DEADLINE)
        self._deadlines.set(pop, pop.deadline_ms)
        size_bytes = WAITING_BYTES + extra_bytes
        self._of_peer.setdefault(pop.peer, {})[pop] = size_bytes
        self.total += 1
        # Count it as its peer's memory, which is limited.
        pop.peer.keep(size_bytes)

    def arrived(self, topic: str, queue_id: int, codes: Sequence[int]) -> list[WaitingPop[HeaderT]]:
        """Messages arrived: remove and return the requests to run again, at most one per group.

        Retry topics, of either naming, wake the group that they belong to.
        """
        retry = self._retries.get(topic)
        if retry is not None:
            woken = self.wake(*retry, None, ())
            return [] if woken is None else [woken]
        groups = self._groups.get(topic)
        if groups is None:
            return []
        # One for each group: it wakes the next one if it leaves messages.
        found = (self.wake(topic, group, queue_id, codes) for group in list(groups))
        return [pop for pop in found if pop is not None]

    def wake(
        self, topic: str, group: str, queue_id: int | None, codes: Sequence[int] = ()
    ) -> WaitingPop[HeaderT] | None:
        """Remove and return one request that waits for this queue: any-queue requests first.

        Args:
            topic: of the messages.
            group: whose request.
            queue_id: of the messages; None wakes all that wait for the topic.
            codes: their tag hashes; empty: wake without comparing tags.
        """
        # Pops of any queue first, as in RocketMQ (K-132).
        keys: list[WaitKey] = [(topic, group, -1)]
        if queue_id is None:
            of_group = self._groups.get(topic, {}).get(group, ())
            keys += [(topic, group, each) for each in of_group if each >= 0]
        elif queue_id >= 0:
            keys.append((topic, group, queue_id))
        for key in keys:
            first = next((pop for pop in self._waiting.get(key, ()) if _wants(pop, codes)), None)
            if first is not None:
                self._remove(first)
                return first
        return None

    def due(self, now_ms: int) -> list[WaitingPop[HeaderT]]:
        """Remove and return the requests whose time is up."""
        # Answer a little early, before the client gives up (K-130).
        late = self._deadlines.take_due(now_ms + EARLY_MS)
        for pop in late:
            self._remove(pop)
        return late

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline."""
        first = self._deadlines.first_ms()
        return None if first is None else first - EARLY_MS

    def forget_peer(self, peer: Peer) -> None:
        """Drop the waiting requests of a closed connection."""
        for pop in list(self._of_peer.get(peer, ())):
            self._remove(pop)

    def release_topic(self, topic: str) -> list[WaitingPop[HeaderT]]:
        """Remove and return all that wait for a topic: it was deleted."""
        keys = [
            (topic, group, each) for group, of in self._groups.get(topic, {}).items() for each in of
        ]
        gone = [pop for key in keys for pop in self._waiting[key]]
        for pop in gone:
            self._remove(pop)
        return gone

    def _remove(self, pop: WaitingPop[HeaderT]) -> None:
        waiting = self._waiting[pop.key]
        waiting.remove(pop)
        self._deadlines.drop(pop)
        own = self._of_peer[pop.peer]
        pop.peer.keep(-own.pop(pop))
        if not own:
            del self._of_peer[pop.peer]
        self.total -= 1
        if waiting:
            return
        del self._waiting[pop.key]
        topic, group, queue_id = pop.key
        groups = self._groups[topic]
        del groups[group][queue_id]
        if groups[group]:
            return
        del groups[group]
        if not groups:
            del self._groups[topic]
        for v2 in (False, True):
            self._retries.pop(pop_retry_topic(topic, group, v2=v2), None)


def _wants(pop: WaitingPop[HeaderT], codes: Sequence[int]) -> bool:
    # A closed connection must not use up the wake.
    if not pop.peer.is_open:
        return False
    return pop.accept is None or not codes or any(map(pop.accept, codes))

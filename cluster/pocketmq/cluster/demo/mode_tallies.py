"""What the consumers' files must say in the other modes: in order, everything each, or at last.

All three are told which consumer was killed: only of that one may the others repeat messages, and
only that one may lack some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from pocketmq.cluster.demo.tally import FlightId, Identity, Place, Tally

Queue = tuple[str, int]
"""Broker name and queue id."""


@dataclass(slots=True)
class OrderedTally(Tally):
    """Checks that every queue had one consumer at a time, which read it in order.

    In each file the offsets of a queue go up one by one, in runs; between two runs another consumer
    had the queue. Progress that is committed never passes what was consumed, so a second consumer
    beside the first would read some of its messages again: runs of consumers that live may not
    overlap. A killed consumer had not committed its last messages; these come again.
    """

    inversions: int = 0
    """Messages that came to a consumer after a later one of the same queue."""
    _runs: dict[tuple[str, Queue], list[list[int]]] = field(default_factory=dict, repr=False)

    def count(self, consumer: str, identity: Identity, flight: FlightId) -> None:
        Tally.count(self, consumer, identity, flight)
        assert isinstance(identity, Place)
        runs = self._runs.setdefault((consumer, (identity.broker, identity.queue)), [])
        if runs and identity.offset < runs[-1][1]:
            self.inversions += 1
        elif runs and identity.offset == runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([identity.offset, identity.offset + 1])

    @property
    def shared(self) -> int:
        """Messages that two consumers had, neither of which was killed."""
        return sum(
            self._overlap(one, other)
            for one, other in self._pairs()
            if not {one[0], other[0]} & self.killed
        )

    def notes(self) -> list[str]:
        queues = {queue for _, queue in self._runs}
        repeated = sum(self._overlap(one, other) for one, other in self._pairs()) - self.shared
        return [
            f"each of the {len(queues)} queues was consumed in order, by one consumer at a time"
            if not self.complaints()
            else "the queues were not consumed in order",
            f"{repeated:,} messages that the killed consumer had not committed came again",
        ]

    def complaints(self) -> list[str]:
        found = []
        if self.inversions:
            found.append(f"{self.inversions:,} messages came after a later one of their queue")
        if self.shared:
            found.append(f"{self.shared:,} messages had two living consumers")
        return found

    def _pairs(self) -> Iterator[tuple[tuple[str, Queue], tuple[str, Queue]]]:
        for one, other in combinations(sorted(self._runs), 2):
            if one[1] == other[1]:
                yield one, other

    def _overlap(self, one: tuple[str, Queue], other: tuple[str, Queue]) -> int:
        return sum(
            max(0, min(one_end, other_end) - max(one_start, other_start))
            for one_start, one_end in self._runs[one]
            for other_start, other_end in self._runs[other]
        )


@dataclass(slots=True)
class BroadcastTally(Tally):
    """Checks that every consumer that stayed has every message."""

    _offsets: dict[str, dict[Queue, set[int]]] = field(default_factory=dict, repr=False)

    def count(self, consumer: str, identity: Identity, flight: FlightId) -> None:
        Tally.count(self, consumer, identity, flight)
        assert isinstance(identity, Place)
        queues = self._offsets.setdefault(consumer, {})
        queues.setdefault((identity.broker, identity.queue), set()).add(identity.offset)

    @property
    def redelivered(self) -> int:
        """Consumptions beyond the first of the same message by the same consumer."""
        return self.lines - sum(self.consumed_by(consumer) for consumer in self._offsets)

    def consumed_by(self, consumer: str) -> int:
        """Distinct messages in one consumer's file."""
        return sum(map(len, self._offsets.get(consumer, {}).values()))

    def unread(self, stored: Mapping[Queue, int]) -> int:
        """Stored messages that a consumer that stayed does not have; the sum over all of these."""
        return sum(
            max(0, end - len(self._offsets.get(consumer, {}).get(queue, ())))
            for consumer in self._stayed()
            for queue, end in stored.items()
        )

    def notes(self) -> list[str]:
        stayed = ", ".join(
            f"{consumer} {self.consumed_by(consumer):,}" for consumer in self._stayed()
        )
        killed = ", ".join(
            f"{consumer} {self.consumed_by(consumer):,}" for consumer in sorted(self.killed)
        )
        return [f"distinct messages per consumer: {stayed}; killed before the end: {killed}"]

    def _stayed(self) -> list[str]:
        return sorted(set(self.per_consumer) - self.killed)


@dataclass(slots=True)
class RetriedTally(Tally):
    """Goes by message ids: a retry is stored in another place than the message it repeats.

    Args:
        total: Messages that producers send.
    """

    total: int = 0

    def unread(self, stored: Mapping[Queue, int]) -> int:
        """Messages that were not consumed with success yet, wherever they are."""
        return max(0, self.total - self.distinct)

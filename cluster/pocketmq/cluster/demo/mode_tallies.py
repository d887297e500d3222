"""Checks the consumers' files in the other modes: ordered, broadcasting, with retries.

All three know which consumer was killed: others may repeat only its messages, and only its file may
lack some.
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
    """Checks that every queue had one consumer at a time, which consumed it in order.

    In each file the offsets of a queue ascend one by one, in runs; between two runs another
    consumer owned the queue. A consumer commits only offsets that it has consumed, so a second
    owner at the same time would get some of the messages again: runs of consumers that were not
    killed may not overlap. What a killed consumer had not committed is consumed again.
    """

    inversions: int = 0
    """Number of messages that a consumer got after a later one of the same queue."""
    _runs: dict[tuple[str, Queue], list[list[int]]] = field(default_factory=dict, repr=False)

    def count(self, consumer: str, identity: Identity, flight: FlightId) -> None:
        Tally.count(self, consumer, identity, flight)
        assert isinstance(identity, Place)
        runs = self._runs.setdefault((consumer, (identity.broker, identity.queue)), [])
        # An offset before the end of the last run: for this consumer the queue went backwards.
        if runs and identity.offset < runs[-1][1]:
            self.inversions += 1
        elif runs and identity.offset == runs[-1][1]:
            runs[-1][1] += 1
        else:
            # A gap begins a new run: meanwhile another consumer had the queue.
            runs.append([identity.offset, identity.offset + 1])

    @property
    def shared(self) -> int:
        """Number of messages that two consumers got, neither of which was killed."""
        return sum(
            self._overlap(one, other)
            for one, other in self._pairs()
            # Messages that a killed consumer had not committed come again, which is no fault.
            if not {one[0], other[0]} & self.killed
        )

    def notes(self) -> list[str]:
        queues = {queue for _, queue in self._runs}
        repeated = sum(self._overlap(one, other) for one, other in self._pairs()) - self.shared
        return [
            f"each of the {len(queues)} queues was consumed in order, by one consumer at a time"
            if not self.complaints()
            else "the queues were not consumed in order",
            f"{repeated:,} messages that the killed consumer had not committed were consumed again",
        ]

    def complaints(self) -> list[str]:
        found = []
        if self.inversions:
            found.append(f"{self.inversions:,} messages were consumed after a later one")
        if self.shared:
            found.append(f"{self.shared:,} messages were consumed by two running consumers")
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
    """Checks that every consumer that was not killed has every message."""

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
        """Stored messages missing in files of consumers that were not killed, summed over files."""
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
    """Identifies messages by id: a retry is stored at another place than the failed message.

    Args:
        total: Messages that producers send.
    """

    total: int = 0

    def unread(self, stored: Mapping[Queue, int]) -> int:
        """Messages that were not yet consumed with success, wherever they are stored."""
        # Counted by id, as a message and its retries have different places.
        return max(0, self.total - self.distinct)

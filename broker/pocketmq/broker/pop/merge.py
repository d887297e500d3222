"""Check points and acks kept in memory first: RocketMQ's PopBufferMergeService (K-100 to K-104).

What is acknowledged within seconds is never written. What is not is written in time: the check
point before its messages are due, and an ack record for each that was acknowledged until then.

The group's offset follows in the order of the pops: it passes a check point that is settled, which
means acknowledged as a whole, or as safe on the disk as the flush mode promises. So a kill loses
acks and check points that were only in memory, and the messages are handed out again. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pocketmq.broker.pop.deadlines import Deadlines
from pocketmq.broker.pop.progress import QueueOf
from pocketmq.broker.pop.records import CheckPoint, MergeKey

MARGIN_MS = 1_500
"""So long before a check point leaves memory no more acks are taken there (K-100, K-101)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """What the options say."""

    enabled: bool
    stay_ms: int
    """How long a check point stays in memory (`popCkStayBufferTime`)."""
    before_due_ms: int
    """It leaves so long before its messages are due (`popCkStayBufferTimeOut`)."""
    max_points: int
    max_points_of_queue: int


class Held:
    """A check point whose pop was answered.

    Args:
        point: which messages are out.
        revive_queue: where its records go.
        next_offset: where its queue is read on.
        since_ms: when it was handed out.
    """

    __slots__ = ("is_safe", "next_offset", "point", "revive_queue", "since_ms")

    def __init__(
        self, point: CheckPoint, revive_queue: int, next_offset: int, since_ms: int
    ) -> None:
        self.point = point
        self.revive_queue = revive_queue
        self.next_offset = next_offset
        self.since_ms = since_ms
        self.is_safe = False
        """Its record is as safe as the flush mode promises."""

    @property
    def queue(self) -> QueueOf:
        """Whose offset it moves."""
        return self.point.group, self.point.topic, self.point.queue_id


class PopMerge:
    """Check points in memory, and the order in which offsets follow.

    Args:
        limits: by the options now.
    """

    def __init__(self, limits: Callable[[], MergeLimits]) -> None:
        self._limits = limits
        self._in_memory: dict[MergeKey, Held] = {}
        """Not written; in the order of their pops."""
        self._limits_of_leaving = limits()
        self._leaving: Deadlines[MergeKey] = Deadlines()
        """When each of them must be written, by these limits."""
        self._order: dict[QueueOf, deque[Held]] = {}

    def __len__(self) -> int:
        """Check points that are only in memory."""
        return len(self._in_memory)

    def forget(self) -> None:
        """Drop everything: another broker writes the log from now on."""
        self._in_memory.clear()
        self._leaving = Deadlines()
        self._order.clear()

    @property
    def ordered(self) -> int:
        """Pops whose offset the groups have not reached."""
        return sum(map(len, self._order.values()))

    @property
    def is_on(self) -> bool:
        """Whether check points are kept here at all; the order is kept until it is empty."""
        return self._limits().enabled or bool(self._order)

    def takes(self, point: CheckPoint, now_ms: int) -> bool:
        """Whether a check point need not be written now (K-100)."""
        limits = self._limits()
        queue = point.group, point.topic, point.queue_id
        return (
            limits.enabled
            # A check point that is due soon has to be written soon in any case (K-100).
            and point.revive_time_ms - now_ms >= limits.before_due_ms + MARGIN_MS
            and len(self._in_memory) < limits.max_points
            # A limit for each queue, so that one queue cannot use up the memory of all.
            and len(self._order.get(queue, ())) < limits.max_points_of_queue
            # Acks could not tell two check points with the same key apart (K-74).
            and point.key not in self._in_memory
        )

    def add(self, held: Held, *, in_memory: bool) -> None:
        """A check point was handed out; `in_memory`: and is not written."""
        if in_memory:
            self.keep(held)
        # Written ones too: the group's offset follows the order of the pops (K-103).
        self._order.setdefault(held.queue, deque()).append(held)

    def acknowledge(self, key: MergeKey, offsets: Iterable[int], now_ms: int) -> Held | None:
        """Take acks in memory; the check point, or None when they must be written (K-101).

        Offsets that it does not hold are passed over, as in RocketMQ.
        """
        held, limits = self._in_memory.get(key), self._limits()
        if (
            # Keep a margin: too late, the check point may be written without this ack.
            held is None
            or held.point.revive_time_ms - now_ms < limits.before_due_ms + MARGIN_MS
            or now_ms - held.since_ms > limits.stay_ms - MARGIN_MS
        ):
            return None
        for offset in offsets:
            held.point.acknowledge(offset)
        if held.point.is_done:
            # All acknowledged before it was due: nothing is written (K-102).
            self.take(key)
        return held

    def take(self, key: MergeKey) -> Held | None:
        """One that must be written now, whatever its age; it is not in memory any more."""
        self._leaving.drop(key)
        return self._in_memory.pop(key, None)

    def keep(self, held: Held | None) -> None:
        """What `take` gave could not be written: it stays in memory."""
        if held is not None:
            self._in_memory[held.point.key] = held
            self._leaving.set(held.point.key, _leaves_ms(held, self._limits_of_leaving))

    def next_due(self, now_ms: float) -> Held | None:
        """One that must be written now (K-102), until there is none; `written` follows.

        Args:
            now_ms: the time; infinite when all must be written.
        """
        limits, leaving = self._limits(), self._leaving
        # The options have changed: compute all times anew.
        if limits != self._limits_of_leaving:
            self._limits_of_leaving = limits
            for key, held in self._in_memory.items():
                leaving.set(key, _leaves_ms(held, limits))
        first_ms = leaving.first_ms()
        # Switched off: every check point is due.
        if first_ms is None or (limits.enabled and first_ms > now_ms):
            return None
        first = leaving.first()
        return None if first is None else self._in_memory[first]

    def written(self, held: Held) -> None:
        """Its records are in the log."""
        self.take(held.point.key)

    def settled(self, queue: QueueOf) -> int | None:
        """The offset that the group reaches now; None when the first pop is still open (K-103)."""
        order = self._order.get(queue)
        offset: int | None = None
        # The first open pop holds the others back, or the group could skip its messages (K-103).
        while order and (order[0].is_safe or order[0].point.is_done):
            offset = order.popleft().next_offset
        # Remove empty queues, so that `is_on` becomes false when none is left.
        if order is not None and not order:
            del self._order[queue]
        return offset

    def reset(self, queue: QueueOf) -> None:
        """A tool moved the group: what is out moves its offset no more."""
        self._order.pop(queue, None)

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._in_memory.values()))


def _leaves_ms(held: Held, limits: MergeLimits) -> int:
    """When a check point must be written."""
    stays_until_ms = held.since_ms + limits.stay_ms
    # Plus 1 ms, because the limits themselves still count as in time.
    return min(stays_until_ms, held.point.revive_time_ms - limits.before_due_ms) + 1

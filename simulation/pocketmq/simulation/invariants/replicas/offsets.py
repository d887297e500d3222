"""Committed consumer offsets: they fall back little at a failover, and are never beyond the queue
(I-10)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

Offsets = Mapping[tuple[str, int], int]
"""Group and queue -> committed offset."""


class OffsetLedger:
    """What was committed at masters.

    Args:
        violations: Gets one line for each.
        period_s: Of the timer that carries tables to slaves, with what its requests may take.
    """

    def __init__(self, violations: list[str], period_s: float) -> None:
        self.seen: Counter[str] = Counter()
        self._violations = violations
        self._period_s = period_s
        self._history: deque[tuple[float, Offsets]] = deque()
        self._troubles: list[tuple[float, float]] = []

    def troubled(self, began: float, ended: float) -> None:
        """The network or a machine is in trouble until then: copies may come late."""
        self._troubles.append((began, ended))

    def committed(self, now: float, offsets: Offsets) -> None:
        """What the master has now."""
        self._history.append((now, offsets))
        while self._history and now - self._history[0][0] > self._period_s * 4:
            self._history.popleft()

    def leads(self, now: float, name: str, offsets: Offsets, ends: Mapping[int, int]) -> None:
        """A new master begins, with these offsets and queues."""
        for (group, queue_id), offset in offsets.items():
            if offset > ends.get(queue_id, 0):
                self._violations.append(
                    f"{now:.3f} {name} leads, and {group} has consumed queue {queue_id} up to"
                    f" {offset}, which ends at {ends.get(queue_id, 0)}"
                )
        if not self._history:
            return
        last = self._history[-1][0]  # what ended the old master came later, and spoils no copy
        before = [each for at, each in self._history if at <= last - self._period_s]
        quiet_from = last - 2 * self._period_s
        if not before or any(a < last and b > quiet_from for a, b in self._troubles):
            return
        self.seen["offsets compared"] += 1
        for place, offset in before[-1].items():
            if offsets.get(place, 0) < offset:
                self._violations.append(
                    f"{now:.3f} {name} leads, and {place[0]} falls back from {offset} to"
                    f" {offsets.get(place, 0)} in queue {place[1]}, by more than a period"
                )

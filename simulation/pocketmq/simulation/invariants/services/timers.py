"""Timers: never early, never lost, one copy in the log for each, none of what was recalled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from pocketmq.simulation.invariants.services.base import ServiceLedger

RECALL_MARGIN_MS = 3_000
"""A recall that is answered so long before the time must have its way."""


@dataclass(slots=True)
class _Timed:
    due_ms: int
    broker: str
    recalled: bool = False
    """By an answer that came early enough."""


class TimerLedger(ServiceLedger):
    """Messages with a time, and what lies in their topic."""

    ABOUT: ClassVar[frozenset[str]] = frozenset(
        {"timers sent", "timers delivered", "timers recalled"}
    )

    def __init__(self, violations: list[str]) -> None:
        super().__init__(violations)
        self._timed: dict[str, _Timed] = {}
        self._due_ms: dict[str, int] = {}
        self._maybe_recalled: set[str] = set()
        self._copies: Counter[str] = Counter()

    def attempted(self, key: str, due_ms: int) -> None:
        """A send begins."""
        self._due_ms[key] = due_ms

    def sent(self, key: str, broker: str) -> None:
        """The producer was told that it is stored."""
        self._timed[key] = _Timed(self._due_ms[key], broker)
        self.seen["timers sent"] += 1

    def recalling(self, key: str) -> None:
        """A recall begins; it may have its way whatever its answer is."""
        self._maybe_recalled.add(key)

    def recalled(self, key: str, now_ms: int) -> None:
        """The broker answered the recall with success."""
        timed = self._timed[key]
        self.seen["timers recalled"] += 1
        timed.recalled = now_ms + RECALL_MARGIN_MS < timed.due_ms

    def found(self, key: str, broker: str, stored_ms: int) -> None:
        """A message was read in the log of its topic; each copy is told once."""
        self._copies[key] += 1
        self.seen["timers delivered"] += 1
        timed = self._timed.get(key)
        if stored_ms < self._due_ms[key]:
            early = self._due_ms[key] - stored_ms
            self.violated(f"{key} was delivered {early} ms early", stored_ms)
        if self.was_killed(broker):
            return
        if self._copies[key] > 1:
            self.violated(f"{key} was delivered {self._copies[key]} times to the log", stored_ms)
        if timed is not None and timed.recalled:
            self.violated(f"{key} was recalled in time, and delivered", stored_ms)

    def told_anew(self, key: str) -> None:
        """A broker was killed; what it still has will be told again."""
        self._copies[key] -= 1

    def open(self) -> list[str]:
        """What was to be delivered and is not in the log."""
        return [
            f"{key} waits for its time for ever or is lost"
            for key in self._timed
            if self._copies[key] <= 0 and key not in self._maybe_recalled
        ]

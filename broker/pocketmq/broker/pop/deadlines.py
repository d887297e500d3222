"""When each of many things is due; the first is found without a look at the others. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

_SPARE = 64
"""Outdated entries that are kept in any case."""


@dataclass(slots=True)
class Deadlines(Generic[KeyT]):
    """Key -> epoch ms. Each step takes as long as the logarithm of how many there are."""

    _at: dict[KeyT, int] = field(default_factory=dict)
    _heap: list[tuple[int, int, KeyT]] = field(default_factory=list)
    """(when, number, key): also of keys that have another time by now, or none."""
    _next: int = 0
    """Numbers keep keys of the same time in the order in which they came."""

    def set(self, key: KeyT, at_ms: int) -> None:
        """The key is due then, and no more when it was before."""
        # Often the time has not changed: add no further entry.
        if self._at.get(key) == at_ms:
            return
        self._at[key] = at_ms
        heappush(self._heap, (at_ms, self._next, key))
        # The number orders equal times, so that keys are never compared.
        self._next += 1
        self._tidy()

    def drop(self, key: KeyT) -> None:
        """The key is not due any more, if it was."""
        if self._at.pop(key, None) is not None:
            self._tidy()

    def first_ms(self) -> int | None:
        """When the first is due; None when there is none."""
        heap = self._heap
        # A heap cannot remove from its middle, so outdated entries are dropped at its top.
        while heap and self._at.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def first(self) -> KeyT | None:
        """The one that is due first; None when there is none."""
        return None if self.first_ms() is None else self._heap[0][2]

    def take_due(self, now_ms: int) -> list[KeyT]:
        """Remove and return all that are due, the earliest first."""
        due: list[KeyT] = []
        while (first_ms := self.first_ms()) is not None and first_ms <= now_ms:
            # `first_ms` has dropped outdated entries, so the top one is due.
            key = heappop(self._heap)[2]
            del self._at[key]
            due.append(key)
        self._tidy()
        return due

    def _tidy(self) -> None:
        """Let go of outdated entries when they are the most, so that they hold no memory."""
        if not self._at:
            self._heap.clear()
            self._next = 0
        # Rebuild only when half of the entries are outdated, as a rebuild copies all others.
        elif len(self._heap) > 2 * len(self._at) + _SPARE:
            known = self._at
            self._heap = [entry for entry in self._heap if known.get(entry[2]) == entry[0]]
            heapify(self._heap)

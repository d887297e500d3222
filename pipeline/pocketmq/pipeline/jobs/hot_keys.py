"""The most frequent keys of a topic in bounded memory (Misra and Gries)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

MOST_KEYS: Final = 100_000


@dataclass(slots=True)
class HotKeys:
    """Counts keys; beyond `most` different ones, rare keys are forgotten."""

    most: int = MOST_KEYS
    messages: int = 0
    """Messages with a key."""
    short: int = 0
    """By at most so many a count may be too low."""
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, counts: Iterable[tuple[str, int]]) -> None:
        """Count keys of a batch."""
        for key, count in counts:
            self.counts[key] += count
            self.messages += count
        if len(self.counts) > 2 * self.most:
            cut = self.counts.most_common(self.most + 1)[-1][1]
            self.short += cut
            self.counts = Counter(
                {key: count - cut for key, count in self.counts.items() if count > cut}
            )

    def top(self, number: int) -> list[tuple[str, int]]:
        """The most frequent keys with their counts."""
        return self.counts.most_common(number)

"""Topics of a slave: it never lacks one that it had, not even for a moment (I-12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable


class TopicLedger:
    """Which replicas have the topic of a run, which nobody deletes.

    Args:
        violations: Gets one line for each.
        topic: The topic.
    """

    def __init__(self, violations: list[str], topic: str) -> None:
        self.seen: Counter[str] = Counter()
        self._violations = violations
        self._topic = topic
        self._have: set[Hashable] = set()

    def looked(self, now: float, name: str, process: Hashable, topics: Collection[str]) -> None:
        """A replica's table after a step of its process."""
        if self._topic in topics:
            if process not in self._have:
                self._have.add(process)
                self.seen["replicas that learned of a topic"] += 1
        elif process in self._have:
            self._violations.append(f"{now:.3f} {name} had the topic {self._topic}, and lacks it")

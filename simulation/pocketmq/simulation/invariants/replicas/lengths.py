"""With default acknowledgements the longest log of those in sync is elected (D-32)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

HEARTBEAT_AGE_S = 11.0
"""A controller counts a replica as alive for 10 s after its last heartbeat, which told its end."""

SAMPLE_S = 0.5


class LengthLedger:
    """How long logs were, and who is elected.

    Args:
        violations: Gets one line for each.
    """

    def __init__(self, violations: list[str]) -> None:
        self.seen: Counter[str] = Counter()
        self._violations = violations
        self._ends: dict[str, deque[tuple[float, int]]] = {}

    def grew(self, now: float, name: str, end: int) -> None:
        """A replica's log ends there now; also when it was cut."""
        ends = self._ends.setdefault(name, deque())
        while ends and ends[-1][1] > end:
            ends.pop()  # what was cut was never in anybody's way
        if not ends or now - ends[-1][0] >= SAMPLE_S:
            ends.append((now, end))
        while len(ends) > 1 and ends[1][0] <= now - HEARTBEAT_AGE_S:
            ends.popleft()

    def leads(self, now: float, name: str, epoch: int, end: int, electable: Iterable[str]) -> None:
        """A replica was elected; these were in sync with its predecessor, and count as alive."""
        for other in electable:
            ends = self._ends.get(other)
            if other == name or not ends or ends[0][0] > now - HEARTBEAT_AGE_S:
                continue
            self.seen["lengths compared"] += 1
            if ends[0][1] > end:
                self._violations.append(
                    f"{now:.3f} {name} is elected in epoch {epoch} with a log up to {end}, and"
                    f" {other}, alive and in sync, had more: {ends[0][1]}"
                )

"""What the ledgers of services have in common: violations, and when brokers were killed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from typing import ClassVar


class ServiceLedger(ABC):
    """One service of a run.

    Args:
        violations: Gets one line for each.
    """

    ABOUT: ClassVar[frozenset[str]] = frozenset()
    """Names in `seen` that the seeds of CI must bring up, or the ledger has proved nothing."""

    def __init__(self, violations: list[str]) -> None:
        self.seen: Counter[str] = Counter()
        """How often each thing came up that the invariants are about."""
        self._violations = violations
        self._killed_ms: dict[str, list[int]] = defaultdict(list)

    def killed(self, broker: str, at_ms: int) -> None:
        """A broker's process ended without having saved what it knew, or was started after that."""
        self._killed_ms[broker].append(at_ms)

    def was_killed(self, broker: str, since_ms: int = 0) -> bool:
        """Whether that happened at or after a moment."""
        return any(at_ms >= since_ms for at_ms in self._killed_ms[broker])

    @abstractmethod
    def open(self) -> list[str]:
        """What must still happen; a run ends when nothing is left, and fails when something is."""

    def close(self) -> None:  # noqa: B027 - most have nothing to add up
        """The run is over: add up what is counted at its end."""

    def violated(self, text: str, now_ms: int) -> None:
        """Report."""
        self._violations.append(f"{(now_ms - START_MS) / 1000:.3f} {text}")


START_MS = 1_700_000_000_000
"""Epoch ms at which a simulation begins."""

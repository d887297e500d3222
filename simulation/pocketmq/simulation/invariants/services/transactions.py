"""Transactions: committed exactly once to the log, rolled back never, unknown asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum, unique
from typing import ClassVar

from pocketmq.simulation.invariants.services.base import ServiceLedger


@unique
class Fate(Enum):
    """What becomes of a message; its key ends with the value."""

    COMMIT = "c"
    ROLLBACK = "r"
    COMMIT_WHEN_ASKED = "u"
    """The local transaction does not tell; the answer to the broker's question commits."""
    ROLLBACK_WHEN_ASKED = "v"

    @property
    def commits(self) -> bool:
        """Whether it is delivered in the end."""
        return self in (Fate.COMMIT, Fate.COMMIT_WHEN_ASKED)

    @property
    def must_be_asked(self) -> bool:
        """Whether the broker has to ask."""
        return self in (Fate.COMMIT_WHEN_ASKED, Fate.ROLLBACK_WHEN_ASKED)


def fate_of(key: str) -> Fate:
    """As the key says."""
    return Fate(key[-1])


@dataclass(slots=True)
class _Half:
    asked: int = 0


class TransactionLedger(ServiceLedger):
    """Half messages that were stored, and what lies in the real topic."""

    ABOUT: ClassVar[frozenset[str]] = frozenset(
        {"halves stored", "transactions asked for", "committed to the log", "halves rolled back"}
    )

    def __init__(self, violations: list[str]) -> None:
        super().__init__(violations)
        self._halves: dict[str, _Half] = {}
        self._copies: Counter[str] = Counter()

    def stored(self, key: str) -> None:
        """The half message is stored, and its local transaction runs."""
        self._halves[key] = _Half()
        self.seen["halves stored"] += 1

    def asked(self, key: str) -> None:
        """A broker asked one of the group for the outcome."""
        self.seen["transactions asked for"] += 1
        half = self._halves.get(key)
        if half is not None:
            half.asked += 1

    def found(self, key: str, broker: str, now_ms: int) -> None:
        """A message of the real topic was read in the log; each copy is told once."""
        self._copies[key] += 1
        self.seen["committed to the log"] += 1
        if not fate_of(key).commits:
            self.violated(f"{key} was rolled back, and is in the log of {broker}", now_ms)
        elif fate_of(key).must_be_asked and key in self._halves and not self._halves[key].asked:
            self.violated(f"{key} is in the log before anybody decided it", now_ms)
        if self._copies[key] > 1 and not self.was_killed(broker):
            self.violated(f"{key} was committed {self._copies[key]} times to the log", now_ms)

    def told_anew(self, key: str) -> None:
        """A broker was killed; what it still has will be told again."""
        self._copies[key] -= 1

    def open(self) -> list[str]:
        """What has not come to its end: not committed, or not asked for."""
        waiting = []
        for key, half in self._halves.items():
            fate = fate_of(key)
            if fate.commits and self._copies[key] <= 0:
                waiting.append(f"{key} was to be committed and is not in the log")
            elif fate.must_be_asked and not half.asked:
                waiting.append(f"{key} is undecided, and nobody was asked")
        return waiting

    def close(self) -> None:
        """The run is over."""
        self.seen["halves rolled back"] += sum(
            not fate_of(key).commits and not self._copies[key] for key in self._halves
        )

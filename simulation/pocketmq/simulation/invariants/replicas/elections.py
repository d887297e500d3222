"""Controllers: one leader per term, leader completeness, equal logs, equal states (I-14, I-15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

KEPT_ENTRIES = 64
"""So many committed entries a new leader's log is compared with."""


class SeenEntry(NamedTuple):
    """An entry of a controller's log."""

    at: int
    """Its index."""
    term: int
    command: str


class SeenController(NamedTuple):
    """A controller after a step."""

    name: str
    term: int
    leads: bool
    commit_index: int
    first_index: int
    """Of its entries: older ones are in its snapshot."""
    entries: Sequence[SeenEntry]
    """From `first_index` on."""


class ElectionLedger:
    """What all controllers of a run said.

    Args:
        violations: Gets one line for each.
    """

    def __init__(self, violations: list[str]) -> None:
        self.seen: Counter[str] = Counter()
        self._violations = violations
        self._leaders: dict[int, str] = {}
        self._committed: dict[int, SeenEntry] = {}
        self._commands: dict[tuple[int, int], str] = {}
        self._states: dict[int, str] = {}
        self._terms: dict[str, int] = {}
        self._commits: dict[str, int] = {}

    def restarted(self, name: str) -> None:
        """A new process: what was not on its disk is forgotten."""
        self._terms.pop(name, None)
        self._commits.pop(name, None)

    def looked(self, now: float, each: SeenController) -> None:
        """A controller has changed."""
        say = self._violations.append
        if each.term < self._terms.get(each.name, 0):
            say(f"{now:.3f} the term of {each.name} falls to {each.term}")
        self._terms[each.name] = each.term
        if each.leads:
            self._leads(now, each)
        for entry in each.entries[-KEPT_ENTRIES:]:
            command = self._commands.setdefault((entry.at, entry.term), entry.command)
            if command != entry.command:
                say(f"{now:.3f} logs differ at entry {entry.at} of term {entry.term}")
        self._commit(now, each)

    def _leads(self, now: float, each: SeenController) -> None:
        leader = self._leaders.get(each.term)
        if leader is None:
            self._leaders[each.term] = each.name
            self.seen["terms with a leader"] += 1
            self._check_complete(now, each)
        elif leader != each.name:
            self._violations.append(
                f"{now:.3f} term {each.term} has two leaders: {leader} and {each.name}"
            )

    def _check_complete(self, now: float, each: SeenController) -> None:
        terms = {entry.at: entry.term for entry in each.entries}
        for index in sorted(self._committed)[-KEPT_ENTRIES:]:
            if index >= each.first_index and terms.get(index) != self._committed[index].term:
                self._violations.append(
                    f"{now:.3f} {each.name} leads term {each.term} without the committed entry"
                    f" {index}"
                )
                return

    def _commit(self, now: float, each: SeenController) -> None:
        before = self._commits.get(each.name, 0)
        if each.commit_index < before:
            self._violations.append(f"{now:.3f} the commit index of {each.name} falls")
        self._commits[each.name] = each.commit_index
        for entry in each.entries:
            if before < entry.at <= each.commit_index:
                known = self._committed.setdefault(entry.at, entry)
                self.seen["entries committed"] += known is entry
                if known != entry:
                    self._violations.append(
                        f"{now:.3f} entry {entry.at} is committed in terms {known.term} and"
                        f" {entry.term}"
                    )

    def applied(self, now: float, name: str, index: int, state: str) -> None:
        """A controller's state after the entry at `index`."""
        known = self._states.setdefault(index, state)
        if known != state:
            self._violations.append(
                f"{now:.3f} after entry {index} the state of {name} is another than elsewhere"
            )

    def leaders(self) -> Iterable[tuple[int, str]]:
        """(term, name) of all leaders."""
        return self._leaders.items()

"""Differences that stay, each with its reason: `ledger.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from parity.compare import Difference

FILE = Path(__file__).with_name("ledger.toml")
MOST, MOST_OF_PROFILES, MOST_OF_CONTROLLERS = 60, 12, 18
"""More entries than this fail the tests: of 5.3.3, of other releases alone, and of controllers."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One difference that stays.

    Attributes:
        code: request code.
        field: path of the field that differs; no wild card.
        reason: why it stays.
        source: place in RocketMQ's source, `Class#method`.
        ours, theirs: only where the values are these; empty for any.
        of: whom it is asked of: `broker`, `nameserver` or `controller`; `client`: what that asks.
        profile: only of releases that this profile follows, which CI does not ask; empty: of 5.3.
        shown_by: name of the one sequence of `found.py` in which it may show; empty: of any.
    """

    code: str
    field: str
    reason: str
    source: str
    ours: str = ""
    theirs: str = ""
    shown_by: str = ""
    of: str = "broker"
    profile: str = ""

    def covers(self, found: Difference, sequence: str = "") -> bool:
        """Whether a difference of a sequence is this one."""
        return (
            self.shown_by in ("", sequence)
            and (self.code, self.field) == found.kind
            and self.ours in ("", found.ours)
            and self.theirs in ("", found.theirs)
        )


@dataclass
class Ledger:
    """All entries, and those that were met."""

    entries: tuple[Entry, ...]
    met: dict[Entry, int] = field(default_factory=dict)

    def unexplained(self, found: Iterable[Difference], sequence: str = "") -> list[Difference]:
        """Those that no entry covers; entries that cover one are noted as met.

        Args:
            found: of one pair.
            sequence: its name, if it is one of `found.py`.
        """
        left = []
        for each in found:
            entry = next((entry for entry in self.entries if entry.covers(each, sequence)), None)
            if entry is None:
                left.append(each)
            else:
                self.met[entry] = self.met.get(entry, 0) + 1
        return left

    def stale(self) -> list[Entry]:
        """Entries that no difference has met."""
        return [entry for entry in self.entries if entry not in self.met]


def read(text: str | None = None, *, of: str = "broker", profile: str = "5.3") -> Ledger:
    """The ledger of the file, or of a text: what it says of brokers, or of others.

    Other releases than 5.3.3 are asked by hand, and have what stays with 5.3.3 and their own.

    Raises:
        ValueError: an entry lacks a reason or a source, or holds a wild card.
    """
    read_in = tomllib.loads(FILE.read_text() if text is None else text)
    entries = tuple(Entry(**each) for each in read_in.get("stays", []))
    for entry in entries:
        if len(entry.reason) < 20 or not entry.source:
            raise ValueError(f"{entry.code} {entry.field}: write its reason and RocketMQ's place")
        if "*" in entry.code + entry.field or entry.field in ("", "body", "ext"):
            raise ValueError(f"{entry.code} {entry.field}: an entry names one field of one code")
    special = sum(1 for each in entries if each.profile)
    controllers = sum(1 for each in entries if each.of == "controller")
    told = len(entries) - special - controllers, special, controllers
    most = MOST, MOST_OF_PROFILES, MOST_OF_CONTROLLERS
    if any(count > limit for count, limit in zip(told, most, strict=True)):
        raise ValueError(f"{told} entries: mend some, at most {most} stay")
    return Ledger(
        tuple(each for each in entries if each.of == of and each.profile in ("", profile))
    )

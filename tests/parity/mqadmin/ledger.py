"""Differences that stay, each with its reason: `ledger.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from parity.mqadmin.fields import Difference

FILE = Path(__file__).with_name("ledger.toml")
MOST = 40
"""More entries than this fail the tests."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One difference that stays.

    Attributes:
        command: the subcommand.
        fields: those that differ, each named: see `fields_of`.
        reason: why it stays.
        source: place in RocketMQ's source, `Class#method`.
        line: only this run; empty for any.
    """

    command: str
    fields: tuple[str, ...]
    reason: str
    source: str
    line: str = ""

    def explains(self, found: Difference) -> bool:
        """Whether a difference is this one."""
        return (
            self.command == found.command
            and found.field in self.fields
            and self.line in ("", found.line)
        )


@dataclass
class Ledger:
    """All entries, and those that were met, each with its fields that were."""

    entries: tuple[Entry, ...]
    met: dict[Entry, set[str]] = field(default_factory=dict)

    def explains(self, found: Difference) -> bool:
        """Whether an entry explains a difference; it is noted as met."""
        entry = next((each for each in self.entries if each.explains(found)), None)
        if entry is not None:
            self.met.setdefault(entry, set()).add(found.field)
        return entry is not None

    def reasons(self) -> dict[str, str]:
        """Subcommand to the reasons that were met, in the ledger's order."""
        told: dict[str, list[str]] = {}
        for entry in self.entries:
            if entry in self.met and entry.reason not in told.setdefault(entry.command, []):
                told[entry.command].append(entry.reason)
        return {command: "; ".join(reasons) for command, reasons in told.items()}

    def stale(self) -> list[str]:
        """Fields of entries that no difference has met."""
        return [
            f"{entry.command} {each}"
            for entry in self.entries
            for each in entry.fields
            if each not in self.met.get(entry, set())
        ]


def read(text: str | None = None) -> Ledger:
    """The ledger of the file, or of a text.

    Raises:
        ValueError: an entry lacks a reason or a source or holds a wild card; or there are many.
    """
    read_in = tomllib.loads(FILE.read_text() if text is None else text)
    stays = read_in.get("stays", [])
    entries = tuple(Entry(**each | {"fields": tuple(each["fields"])}) for each in stays)
    for entry in entries:
        if len(entry.reason) < 20 or not entry.source:
            raise ValueError(f"{entry.command} {entry.fields}: write its reason and its place")
        if not entry.fields or any("*" in each for each in entry.fields):
            raise ValueError(f"{entry.command} {entry.fields}: name each field that differs")
    if len(entries) > MOST:
        raise ValueError(f"{len(entries)} entries: mend some, at most {MOST} stay")
    return Ledger(entries)

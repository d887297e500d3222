"""The ledger of the suites of others, `docs/compat_suites.toml`: which rows pass, and which fail.

A row that fails is there with its reason, which a person writes. `make compat` compares a run with
it, and writes the dates and the rows that pass.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "docs" / "compat_suites.toml"

OK = "ok"
ABSENT = "absent"
"""This version has no such call: neither passed nor failed."""

HEAD = """\
# The suites of others in `make compat`: by suite and version the rows that pass, and those that
# fail with the reason. `make compat` writes `date` and `passed`; people write `failed`.
# docs/compatibility.md shows it, made by docs/compatibility_page.py.
"""


@dataclass(frozen=True, slots=True)
class Known:
    """One suite in one version.

    Attributes:
        title: What was run, for the page.
        date: Of the last run that was as expected, `2026-11-30`; empty before the first.
        passed: Rows that pass.
        failed: Row -> why it fails.
    """

    title: str = ""
    date: str = ""
    passed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


Ledger = dict[str, dict[str, Known]]
"""Suite -> version -> what is known."""


def read(path: Path = FILE) -> Ledger:
    """The ledger; empty if there is none.

    Raises:
        ValueError: a failure has no reason.
    """
    if not path.exists():
        return {}
    found: Ledger = {}
    for suite, versions in tomllib.loads(path.read_text(encoding="utf-8")).items():
        for version, facts in versions.items():
            failed = {row: str(why).strip() for row, why in facts.get("failed", {}).items()}
            if unexplained := [row for row, why in failed.items() if not why]:
                raise ValueError(f"{path}: {suite} {version}: no reason for {unexplained}")
            found.setdefault(suite, {})[version] = Known(
                facts.get("title", ""), facts.get("date", ""), tuple(facts["passed"]), failed
            )
    return found


def written(ledger: Ledger) -> str:
    """The ledger as TOML."""
    lines = [HEAD]
    for suite, versions in ledger.items():
        for version, known in versions.items():
            lines += [
                f"[{suite}.{_text(version)}]",
                f"title = {_text(known.title)}",
                f"date = {_text(known.date)}",
                f"passed = [{', '.join(map(_text, known.passed))}]",
            ]
            if known.failed:
                lines.append(f"[{suite}.{_text(version)}.failed]")
                lines += [f"{_text(row)} = {_text(why)}" for row, why in known.failed.items()]
            lines.append("")
    return "\n".join(lines)


def _text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def objections(rows: Iterable[str], told: Mapping[str, str], known: Known) -> list[str]:
    """What of a run is not as the ledger says, a line each.

    Args:
        rows: That the suite has.
        told: Row -> `ok`, `absent`, or `failed` and why.
        known: What passes, and what may fail.
    """
    found = []
    for row in [*rows, *(row for row in told if row not in set(rows))]:
        said = told.get(row, "failed: the program ended without a word of it")
        if said == OK:
            if row in known.failed:
                found.append(f"{row} passes: take it out of the failures ({known.failed[row]})")
        elif said == ABSENT:
            if row in known.passed:
                found.append(f"{row} is absent, and has passed before")
        elif row not in known.failed:
            found.append(f"{row} {said}")
    return [*found, *(f"{row} is no row" for row in known.failed if row not in set(rows))]


def renewed(known: Known, told: Mapping[str, str], *, title: str, date: str) -> Known:
    """What is known after a run without objections."""
    return Known(title, date, tuple(row for row, said in told.items() if said == OK), known.failed)

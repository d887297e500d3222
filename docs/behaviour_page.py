"""docs/behaviour.md: which code and which test stands for each of the 70 behaviours.

The texts come from behaviour_rows.toml, everything else from citations (rule_scan.py).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from docs.rule_pages import read_rules
from docs.rule_scan import Citations, Test, scan

ROWS = Path(__file__).with_name("behaviour_rows.toml")

INTRODUCTION = """\
# The 70 behaviours

Made by `make docs` from rule ids cited in code and tests; do not edit.
Texts: `docs/behaviour_rows.toml`. Scanner: `docs/rule_scan.py`.

PocketMQ was asked for 70 behaviours of RocketMQ, collected from four texts about it (the *seeds*).
RocketMQ's source (4.9.8 and 5.3) was then read for each. Where the two disagree (**≠**), PocketMQ
does what the source does; the test asserts that value and names the seed's.

- *rules*: what RocketMQ does; each links its text in [rules/](rules/README.md). The second table
  goes by rule.
- *code*: the one place where the behaviour is done, marked there by `# behaviour <number>`.
- *tests*: tests that say `behaviour <number>`. A test's name is its sentence, with underscores for
  spaces.
- **gap**: not marked in code, no test says so, or a rule is cited by no code or by no test.

`make mutants` breaks one line of the code for each row and shows that the row's tests notice
(`tests/mutants/mutants.toml`).
"""


@dataclass(frozen=True)
class Row:
    """One behaviour."""

    number: int
    text: str
    rules: tuple[str, ...]
    source: str = ""
    """What RocketMQ's source does, where the seed says otherwise."""
    seed: str = ""
    """What the seed says, where the source does otherwise."""
    later: str = ""
    """Why there is nothing yet."""

    @property
    def differs(self) -> bool:
        """Whether seed and source disagree."""
        return bool(self.seed)


def read_rows() -> list[Row]:
    """All rows, in order."""
    with ROWS.open("rb") as file:
        entries = tomllib.load(file)["row"]
    return [Row(**(entry | {"rules": tuple(entry["rules"])})) for entry in entries]


def gaps_of(row: Row, found: Citations) -> list[str]:
    """What is missing for a behaviour, in words."""
    gaps = []
    if not found.places.get(row.number):
        gaps.append("not marked in code")
    if not found.proofs.get(row.number):
        gaps.append("no test")
    for rule in row.rules:
        if not found.code.get(rule):
            gaps.append(f"{rule} is cited by no code")
        if not found.tests.get(rule):
            gaps.append(f"{rule} is cited by no test")
    return gaps


def behaviour_page() -> str:
    """The page."""
    rows, found = read_rows(), scan()
    links = {rule.id: rule.link for rule in read_rules().values()}
    with_gap = [row.number for row in rows if gaps_of(row, found)]
    proved = len(rows) - len(with_gap)
    lines = [
        *INTRODUCTION.splitlines(),
        "",
        f"{proved} of {len(rows)} behaviours have code and tests."
        + (f" Gaps: {', '.join(map(str, with_gap))}." if with_gap else ""),
        "",
        "| # | behaviour | rules | code | tests |",
        "|---|---|---|---|---|",
        *(_row(row, found, links) for row in rows),
        "",
        "## By rule",
        "",
        "The rules behind the rows, and every test that cites them.",
        "",
        "| rule | cited in | tests |",
        "|---|---|---|",
        *(_rule(rule, found, links) for rule in _rules_of(rows)),
    ]
    return "\n".join([*lines, ""])


def _row(row: Row, found: Citations, links: Mapping[str, str]) -> str:
    text = row.text
    if row.differs:
        text += f"<br>**≠** source: {row.source}<br>seed: {row.seed}"
    elif row.source:
        text += f"<br>{row.source[0].upper()}{row.source[1:]}."
    gaps = gaps_of(row, found)
    tests = _tests(found.proofs.get(row.number, ()))
    if gaps:
        why = f"{row.later}; " if row.later else ""
        note = f"**gap**: {why}{'; '.join(gaps)}"
        tests = f"{tests}<br>{note}" if tests else note
    rules = " ".join(f"[{rule}]({links[rule]})" for rule in row.rules)
    places = "<br>".join(
        f"[{_short(place.path)}](../{place.path}) `{place.name}`"
        for place in found.places.get(row.number, ())
    )
    return f"| {row.number} | {text} | {rules} | {places} | {tests} |"


def _rule(rule: str, found: Citations, links: Mapping[str, str]) -> str:
    code = _files(found.code.get(rule, ())) or "**gap**"
    tests = _tests(found.tests.get(rule, ())) or "**gap**"
    return f"| [{rule}]({links[rule]}) | {code} | {tests} |"


def _rules_of(rows: Iterable[Row]) -> list[str]:
    def order(rule: str) -> tuple[str, float]:
        return rule[0], float(rule[2:])

    return sorted({rule for row in rows for rule in row.rules}, key=order)


def _files(paths: Iterable[str]) -> str:
    return "<br>".join(f"[{_short(path)}](../{path})" for path in sorted(paths))


def _short(path: str) -> str:
    return path.split("/pocketmq/", 1)[-1]


def _tests(tests: Iterable[Test]) -> str:
    return "<br>".join(f"[{test.sentence}](../{test.path})" for test in sorted(tests))

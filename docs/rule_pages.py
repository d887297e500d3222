"""Reads the rule book, docs/rules/: which rules there are, and where each one is explained.

A rule is a paragraph that begins with its anchor and id and ends with a line that names its source:

    **<a id="n-1"></a>N-1.** A nameserver listens on port 9876.
    *Source:* `NamesrvStartup`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("rules")

PAGE_OF_LETTER = {
    "N": "nameserver.md",
    "B": "broker.md",
    "S": "store.md",
    "P": "producer.md",
    "C": "consumer.md",
    "L": "consumer.md",
    "A": "allocation.md",
    "E": "wire.md",
    "T": "traps.md",
    "K": "pop.md",
    "X": "transactions.md",
    "Q": "filters.md",
    "R": "requests.md",
    "V": "requests.md",
    "G": "grpc.md",
    **dict.fromkeys("HDZIFW", "replication.md"),
    **dict.fromkeys("MOY", "admin.md"),
}
"""Where a rule that is missing has to be added; but T-101 and above are those of timers."""

TIMERS = "timers.md"
_FIRST_OF_TIMERS = 101

_START = re.compile(r'^\*\*<a id="([\w-]+)"></a>(\S+)\.\*\* (\S.*)$')


class RulePageError(Exception):
    """A page of the rule book that cannot be read: the message says where and what to write."""


@dataclass(frozen=True)
class Rule:
    """One rule of the book."""

    id: str
    text: str
    """Its sentences, as Markdown."""
    source: str
    """RocketMQ's classes and methods, as Markdown."""
    page: str
    """File name in docs/rules/."""

    @property
    def link(self) -> str:
        """Relative to docs/."""
        return f"rules/{self.page}#{anchor_of(self.id)}"


def anchor_of(rule: str) -> str:
    """`C-25.3` is at `#c-25-3`."""
    return rule.lower().replace(".", "-")


def page_for(rule: str) -> str:
    """The page that a rule belongs to, whether it is there or not."""
    page = PAGE_OF_LETTER.get(rule[0], "README.md")
    if rule[0] == "T" and int(rule[2:]) >= _FIRST_OF_TIMERS:
        page = TIMERS
    return f"docs/rules/{page}"


def read_rules(folder: Path = FOLDER) -> dict[str, Rule]:
    """Every rule by its id.

    Raises:
        RulePageError: two rules have one id, or a rule lacks its anchor, source or text.
    """
    rules: dict[str, Rule] = {}
    for page in sorted(folder.glob("*.md")):
        for paragraph in page.read_text(encoding="utf-8").split("\n\n"):
            if not paragraph.startswith("**<a id="):
                continue
            rule = _rule(paragraph.rstrip("\n"), page)
            if rule.id in rules:
                other = rules[rule.id].page
                raise RulePageError(f"{page.name}: {rule.id} is already explained in {other}")
            rules[rule.id] = rule
    return rules


def _rule(paragraph: str, page: Path) -> Rule:
    first, *rest = paragraph.split("\n")
    found = _START.match(first)
    if not found:
        raise RulePageError(f'{page.name}: write **<a id="x-1"></a>X-1.** and a text: {first}')
    anchor, rule_id, text = found.groups()
    if anchor != anchor_of(rule_id):
        raise RulePageError(f"{page.name}: the anchor of {rule_id} is {anchor_of(rule_id)}")
    if not rest or not rest[-1].startswith("*Source:* "):
        raise RulePageError(f"{page.name}: {rule_id} ends without a line *Source:* `Class.method`")
    text = " ".join([text, *rest[:-1]])
    return Rule(rule_id, text, rest[-1].removeprefix("*Source:* "), page.name)

"""No message for people says `1 queues`: where one is possible, `counted` writes the noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_OUT = (
    "/cluster/demo/",
    "/cluster/spec.py",
    "/cli/jobs/demo.py",
)
"""Messages about large numbers, or numbers that are not 1, and those for who changes the code."""

FOLDERS = (
    "runtime", "protocol", "operation", "nameserver", "controller", "broker", "client", "cluster",
    "testing",
)  # fmt: skip

NOUNS = (
    "queue", "message", "member", "topic", "broker", "connection", "group", "role", "record",
    "file", "letter", "rule", "event", "offset", "nameserver", "line", "time", "client",
    "consumer", "producer", "step", "problem", "snapshot", "slave", "replica", "key", "call",
    "fault", "retrie", "operation", "controller",
)  # fmt: skip
BEGINS = re.compile(rf"^ (?:\w+ )?({'|'.join(NOUNS)})s\b").match
"""What follows a number: ` queues`, ` right steps`."""


def plurals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and noun of each number in an f-string that a noun in the plural follows.

    A constant, in capitals, is known to be more than one; `len(...)`, names and fields are not.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            found = None if _is_word(value.value) else BEGINS(str(after.value))
            shown = value.value
            is_constant = isinstance(shown, ast.Name) and shown.id.isupper()
            if found and not is_constant:
                yield node.lineno, found[0].strip()


def _is_word(shown: ast.expr) -> bool:
    return isinstance(shown, ast.Name) and shown.id == "verb"


def sources() -> list[Path]:
    """Of the package."""
    found = [path for name in FOLDERS for path in sorted((ROOT / name / "pocketmq").rglob("*.py"))]
    return [path for path in found if not any(part in path.as_posix() for part in LEFT_OUT)]


def test_a_number_that_may_be_one_has_its_noun_from_counted() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {noun}"
        for path in sources()
        for line, noun in plurals(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "see pocketmq/runtime/words.py:\n" + "\n".join(found)

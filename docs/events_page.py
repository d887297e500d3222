"""The page on events, made from the declarations in `operation/events/`; see `generate.py`."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from typing import Any

from pocketmq.operation.events import VOCABULARY, Event

_TITLES = {
    "messages": "Messages",
    "groups": "Consumer groups",
    "roles": "Roles, clock, faults",
}


def events_page() -> str:
    """Every event with its fields."""
    lines = [
        "# Events",
        "",
        "Made by `make docs` from the declarations in `operation/events/`; do not edit.",
        "[events.md](../events.md) explains who reports events, and how they are recorded.",
        "The JSON leaves out fields that have their default value.",
        "",
        "Every event has the field `event`, its name, and these fields:",
        "",
        *_table(Event),
    ]
    title = ""
    for kind in VOCABULARY:
        module = kind.__module__.rpartition(".")[2]
        if _TITLES[module] != title:
            title = _TITLES[module]
            lines += ["", f"## {title}"]
        rule = f" ({kind.RULE})" if kind.RULE else ""
        lines += ["", f"### `{kind.name()}`{rule}", "", _one_line(kind.__doc__ or ""), ""]
        lines += _table(kind)
    return "\n".join([*lines, ""])


def _table(kind: type[Event]) -> list[str]:
    """The fields of an event, those that it shares with others included."""
    bases = [each for each in kind.__mro__ if issubclass(each, Event) and each is not Event]
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    return rows + [row for each in reversed(bases or [Event]) for row in _rows(each)]


def _rows(kind: type[Event]) -> list[str]:
    """The fields that a class declares itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    rows = []
    for at, node in enumerate(tree.body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        annotation = ast.unparse(node.annotation)
        if annotation.startswith("ClassVar"):
            continue
        behind = tree.body[at + 1] if at + 1 < len(tree.body) else None
        meaning = ""
        if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
            meaning = _one_line(str(behind.value.value))
        default = f"`{ast.unparse(node.value)}`" if node.value is not None else ""
        named: Any = getattr(sys.modules[kind.__module__], annotation, None)
        if hasattr(named, "__args__"):  # an alias of a Literal
            annotation = " ".join(named.__args__)
        annotation = (
            annotation.replace("Literal[", "").replace("]", "").replace("list[", "list of ")
        )
        annotation = annotation.replace("'", "").replace(", ", " ").replace(" | ", " or ")
        rows.append(f"| `{node.target.id}` | {annotation} | {default} | {meaning} |")
    return rows


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

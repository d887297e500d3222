"""Wiring: in the broker nothing is assigned into an object after it was made."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "broker" / "pocketmq" / "broker").rglob("*.py"))


def test_no_hook_is_assigned_into_another_object() -> None:
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            targets = node.targets if isinstance(node, ast.Assign) else []
            found += [
                f"{path.name}:{node.lineno}: {ast.unparse(target)}"
                for target in targets
                if isinstance(target, ast.Attribute)
                and target.attr.startswith("on_")
                and not (isinstance(target.value, ast.Name) and target.value.id == "self")
            ]
    assert not found, found

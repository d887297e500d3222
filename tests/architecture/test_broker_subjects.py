"""Wiring: few arguments, and in the broker nothing assigned into an object after it was made."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALL_FILES = sorted(ROOT.glob("*/pocketmq/**/*.py"))
FILES = sorted((ROOT / "broker" / "pocketmq" / "broker").rglob("*.py"))
MOST_ARGUMENTS = 8
VALUES = {"Message", "MessageExt"}
"""What RocketMQ says of a message is one argument each."""


def test_no_constructor_has_more_than_eight_arguments() -> None:
    long = []
    assert len(ALL_FILES) > 700
    for path in ALL_FILES:
        for made in ast.walk(ast.parse(path.read_text())):
            if not isinstance(made, ast.ClassDef) or made.name in VALUES:
                continue
            for part in made.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    count = len(part.args.args) - 1 + len(part.args.kwonlyargs)
                    if count > MOST_ARGUMENTS:
                        long.append(f"{path.name}: {made.name} has {count}")
    assert not long, long


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

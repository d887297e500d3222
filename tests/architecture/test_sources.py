"""Rules of the code that no linter knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOURCES = sorted(
    path
    for folder in ROOT.glob("*/pocketmq")
    for path in folder.rglob("*.py")
    if "__pycache__" not in path.parts
)

TIMER_SEAMS = (
    "runtime/pocketmq/runtime/",
    "protocol/pocketmq/protocol/transport/",  # requests time out on real time
    "operation/pocketmq/operation/faulty_network/",  # a fault rule delays in real time
    "simulation/pocketmq/simulation/loop_clock.py",  # the loop's time is the seam there
)


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def raw_timers(tree: ast.AST) -> Iterator[int]:
    """Lines with `anything.call_later(...)` or `<some loop>.call_at(...)`; a Clock has call_at."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if node.func.attr == "call_later" or (
                node.func.attr == "call_at" and "loop" in owner.lower()
            ):
                yield node.lineno


def swallowed(tree: ast.AST) -> Iterator[int]:
    """Lines with `except Exception: pass`, in any of its spellings."""
    broad = {"Exception", "BaseException"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = node.type
            kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
            catches_all = caught is None or any(
                isinstance(kind, ast.Name) and kind.id in broad for kind in kinds
            )
            silent = all(
                isinstance(line, (ast.Pass, ast.Continue))
                or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
                for line in node.body
            )
            if catches_all and silent:
                yield node.lineno
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).endswith("suppress")
            and any(isinstance(arg, ast.Name) and arg.id in broad for arg in node.args)
        ):
            yield node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_source_keeps_the_rules_of_the_code(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    if not place(path).startswith(TIMER_SEAMS):
        lines = list(raw_timers(tree))
        assert not lines, f"a protocol timer belongs on a Clock: {place(path)} lines {lines}"
    lines = list(swallowed(tree))
    assert not lines, f"an error is swallowed: {place(path)} lines {lines}"
    assert ast.get_docstring(tree) or not text.strip(), f"{place(path)} does not say what it is for"


@pytest.mark.parametrize(
    ("find", "code", "lines"),
    [
        (
            raw_timers,
            "loop.call_later(1, f)\nself._loop.call_at(1, f)\nclock.call_at(1, f)",
            [1, 2],
        ),
        (raw_timers, "asyncio.get_running_loop().call_at(1, f)", [1]),
        (swallowed, "try: f()\nexcept Exception: pass", [2]),
        (swallowed, "try: f()\nexcept: ...", [2]),
        (swallowed, "try: f()\nexcept (OSError, BaseException):\n  '''x'''", [2]),
        (swallowed, "with contextlib.suppress(Exception): f()", [1]),
        (swallowed, "try: f()\nexcept OSError: pass\ntry: f()\nexcept Exception: log()", []),
    ],
)
def test_the_rules_find_what_they_look_for(find, code: str, lines: list[int]) -> None:  # type: ignore[no-untyped-def]
    assert list(find(ast.parse(code))) == lines

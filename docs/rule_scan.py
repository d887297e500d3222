"""Finds where rules of docs/rules/ are cited: `B-70`, `C-25.3`, `L-1a`, `C-22..C-30`, `S-1 to S-4`.

In code a citation anywhere counts for its file. In tests it counts for the test function that it
stands in, or right above: a rule that only a module's docstring names is proved by no test. Tests
also say which of the 70 behaviours they prove: `# behaviour 24: C-33`. tests/architecture, which
tests this very file, is left out.

Code marks the one place where a behaviour is done by a comment right above a function, class or
assignment. The mark moves with the code:

    # behaviour 24
    def start_of(...): ...
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_ID = r"([A-Z])-(\d+)(?:\.(\d+))?"
_RULE = re.compile(r"\b([A-Z])-(\d+)(?:\.(\d+))?([a-z])?\b")
_RANGE = re.compile(rf"\b{_ID}\s*(?:\.\.|…|to)\s*{_ID}\b")
_BEHAVIOUR = re.compile(r"\bbehaviours? (\d+(?:(?:, | and )\d+)*)")


def rules_in(text: str) -> set[str]:
    """Every rule that a text cites; `C-25.3` also cites `C-25`, `L-1a` also `L-1`.

    Of a range, this is every number between its ends, whether there is such a rule or not.
    """
    found = rules_named_in(text)
    for letter, first, _, other, last, _ in _RANGE.findall(text):
        if letter == other:
            found |= {f"{letter}-{number}" for number in range(int(first), int(last) + 1)}
    return found


def rules_named_in(text: str) -> set[str]:
    """Every rule whose id stands in a text; of a range, its ends."""
    found = set()
    for letter, number, part, suffix in _RULE.findall(text):
        found.add(f"{letter}-{number}")
        if part:
            found.add(f"{letter}-{number}.{part}")
        if suffix:
            found.add(f"{letter}-{number}{suffix}")
    return found


def behaviours_in(text: str) -> set[int]:
    """Every behaviour that a text says it proves."""
    return {
        int(number) for group in _BEHAVIOUR.findall(text) for number in re.findall(r"\d+", group)
    }


@dataclass(frozen=True, order=True)
class Place:
    """A function, class or assignment that code marked as where a behaviour is done."""

    path: str
    """Relative to the root of the repository."""
    name: str
    """`RouteTable.register`; a name that is assigned for an assignment."""


@dataclass(frozen=True, order=True)
class Test:
    """One test function."""

    __test__ = False  # for pytest

    path: str
    """Relative to the root of the repository."""
    name: str

    @property
    def node_id(self) -> str:
        """As pytest takes it."""
        return f"{self.path}::{self.name}"

    @property
    def sentence(self) -> str:
        """The name as people read it."""
        return self.name.removeprefix("test_").replace("_", " ")


@dataclass
class Citations:
    """Who cites what."""

    code: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Rule -> files."""
    places: dict[int, list[Place]] = field(default_factory=lambda: defaultdict(list))
    """Behaviour -> where it is marked as done; there should be one."""
    tests: dict[str, set[Test]] = field(default_factory=lambda: defaultdict(set))
    """Rule -> tests."""
    proofs: dict[int, set[Test]] = field(default_factory=lambda: defaultdict(set))
    """Behaviour -> tests."""


def scan(root: Path = ROOT) -> Citations:
    """Read all code and tests."""
    found = Citations()
    for path in _python_files(root, "*/pocketmq"):
        source, name = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        for rule in rules_in(source):
            found.code[rule].add(name)
        for marked, numbers in marks_in(source):
            for number in numbers:
                found.places[number].append(Place(name, marked))
    for path in _python_files(root, "tests"):
        if path.name.startswith("test_") and "architecture" not in path.parts:
            for name, text in test_texts(path.read_text(encoding="utf-8")):
                test = Test(path.relative_to(root).as_posix(), name)
                for rule in rules_in(text):
                    found.tests[rule].add(test)
                for number in behaviours_in(text):
                    found.proofs[number].add(test)
    return found


def marks_in(source: str) -> Iterator[tuple[str, set[int]]]:
    """Qualified names with a `# behaviour <number>` right above them, and the numbers."""
    if "# behaviour" not in source:
        return
    lines = source.splitlines()
    stack: list[tuple[ast.AST, str]] = [(ast.parse(source), "")]
    while stack:
        parent, prefix = stack.pop()
        for node in ast.iter_child_nodes(parent):
            if not isinstance(node, ast.stmt):
                continue
            name = prefix + _name_of(node)
            first = min(
                [node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]
            )
            numbers: set[int] = set()
            while first > 1 and lines[first - 2].lstrip().startswith("#"):
                first -= 1
                numbers |= behaviours_in(lines[first - 1])
            if numbers:
                yield name, numbers
            if isinstance(node, ast.ClassDef):
                stack.append((node, f"{name}."))


def _name_of(node: ast.stmt) -> str:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) else f"line {node.lineno}"


def test_texts(source: str) -> Iterator[tuple[str, str]]:
    """Each test function's name and its lines, with comments and decorators right above it."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if not node.name.startswith("test_"):
            continue
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        while first > 1 and lines[first - 2].lstrip().startswith("#"):
            first -= 1
        yield node.name, "\n".join(lines[first - 1 : node.end_lineno])


test_texts.__test__ = False  # type: ignore[attr-defined]  # for pytest


def _python_files(root: Path, folders: str) -> Iterator[Path]:
    for folder in sorted(root.glob(folders)):
        yield from sorted(folder.rglob("*.py"))

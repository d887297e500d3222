"""How long files and functions are, here and in other code bases: docs/walks.md tells.

    python scripts/code_figures.py                         the package's folders together
    python scripts/code_figures.py --beside DIR [DIR ...]  and installed packages, as pip puts them

    pip install --no-deps --target /tmp/others h11 websockets distributed
    python scripts/code_figures.py --beside /tmp/others/{h11,websockets,distributed}

Tests are left out. A function's length is counted from its `def` to its last line, its docstring
included; its parameters without `self`, for constructors only, dataclasses' included.
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
MOST_ARGUMENTS = 8


class Figures(NamedTuple):
    """Of one code base."""

    files: list[int]
    """Lines of each."""
    functions: list[int]
    """Lines of each."""
    public: list[bool]
    """Whether each public class and function has a docstring."""
    constructors: list[int]
    """Parameters of each `__init__`."""


def figures_of(paths: Sequence[Path]) -> Figures:
    """Read all Python files below these folders."""
    found = Figures([], [], [], [])
    for path in sorted({file for folder in paths for file in folder.rglob("*.py")}):
        if {"tests", "test"} & set(path.parts[len(ROOT.parts) :]):
            continue
        text = path.read_text(encoding="utf-8")
        found.files.append(text.count("\n"))
        for node, is_public in _definitions(ast.parse(text), is_public=True):
            if is_public:
                found.public.append(ast.get_docstring(node) is not None)
            if isinstance(node, ast.ClassDef):
                continue
            assert node.end_lineno is not None
            found.functions.append(node.end_lineno - node.lineno + 1)
            if node.name == "__init__":
                spelt = node.args
                named = len(spelt.posonlyargs) + len(spelt.args) + len(spelt.kwonlyargs)
                found.constructors.append(named - 1)
    return found


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _definitions(tree: ast.AST, *, is_public: bool) -> Iterator[tuple[Definition, bool]]:
    """Each class and function, and whether it can be reached by public names alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            shown = is_public and not node.name.startswith("_")
            yield node, shown
            inner = shown and isinstance(node, ast.ClassDef)
            yield from _definitions(node, is_public=inner)
        else:
            yield from _definitions(node, is_public=is_public)


def spread(lengths: Sequence[int]) -> str:
    """Median, nine tenths and most."""
    ordered = sorted(lengths)
    return f"{statistics.median(ordered):.0f}, {ordered[len(ordered) * 9 // 10]}, {ordered[-1]}"


def main() -> None:
    """Print a table with a column for each code base."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", nargs="+", type=Path, default=[], metavar="DIR")
    folders = parser.parse_args().beside
    bases = {"PocketMQ": figures_of(sorted(ROOT.glob("*/pocketmq")))}
    bases |= {folder.name: figures_of([folder.resolve()]) for folder in folders}
    table = Table("", *bases)
    for what, told in {
        "files": lambda base: f"{len(base.files):,}",
        "lines a file: median, p90, most": lambda base: spread(base.files),
        "lines a function: median, p90, most": lambda base: spread(base.functions),
        "public names without docstring": lambda base: f"{1 - statistics.mean(base.public):.0%}",
        f"constructors with over {MOST_ARGUMENTS} arguments": lambda base: str(
            sum(count > MOST_ARGUMENTS for count in base.constructors)
        ),
    }.items():
        table.add_row(what, *map(told, bases.values()))
    Console().print(table)


if __name__ == "__main__":
    main()

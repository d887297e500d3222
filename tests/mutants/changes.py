"""What faults are made of: one change of a syntax tree, and what no behaviour hangs on."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

QUIET = frozenset({"log", "logger", "warnings"})
NOT_RUN = frozenset({"__repr__", "__str__"})


@dataclass(frozen=True)
class Change:
    """One place of a tree, and how to break it."""

    function: str
    """Qualified name of the function or class around it."""
    line: int
    old: str
    new: str
    apply: Callable[[], None]
    """Breaks the tree; to be called once."""


def is_protocol(node: ast.ClassDef) -> bool:
    """Whether a class only describes others."""
    return any(ast.unparse(base).split("[")[0].endswith("Protocol") for base in node.bases)


def is_left_alone(statement: ast.stmt) -> bool:
    """Whether nothing that is done hangs on a statement: texts, imports, logs."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in QUIET
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name)))) if (
            name == "log"
        ):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__" | "__all__")]):
            return True
        case _:
            return False


def short(text: str) -> str:
    """The first line of a piece of code."""
    first, _, rest = text.partition("\n")
    return f"{first} ..." if rest else first

"""Small faults that a module's code could have, made from its syntax tree.

    for mutant in mutants_of(source, "client/pocketmq/client/routes.py"):
        compile(mutant.tree(source), mutant.file, "exec")

A mutant changes one place: a comparison, a number, `and` for `or`, a call or an assignment that is
left out, a value that is not returned. Left alone is what no behaviour hangs on: docstrings,
annotations, what is logged, texts, and blocks for type checkers.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass
from types import CodeType

from mutants.changes import NOT_RUN, Change, is_left_alone, is_protocol, short
from mutants.edges import Edges

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
DECLARING = frozenset({"field", "option", "TypeVar"})


@dataclass(frozen=True)
class CodeMutant:
    """One fault."""

    file: str
    """Path below the root of the repository."""
    function: str
    """Qualified name of the function or class around it; empty for the module itself."""
    line: int
    old: str
    """The changed piece of code, as Python writes it."""
    new: str
    nth: int
    """Which of several equal changes in the function, from 0."""
    place: int
    """Which of the module's changes, from 0."""
    is_edge: bool = False
    """Whether it is one of those of `edges.py`."""

    @property
    def name(self) -> str:
        """What it is called in lists; stays when lines around it move."""
        return f"{self.file}::{self.function}::{self.old} -> {self.new}#{self.nth}"


def mutants_of(source: str, file: str, *, is_edge: bool = False) -> list[CodeMutant]:
    """All mutants of a module, in the order of its lines; with `is_edge` those of `edges.py`."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for place, each in enumerate(_changes(ast.parse(source), is_edge=is_edge)):
        key = (each.function, each.old, each.new)
        found.append(
            CodeMutant(
                file, each.function, each.line, each.old, each.new, seen[key], place, is_edge
            )
        )
        seen[key] += 1
    return found


def mutated(source: str, mutant: CodeMutant) -> ast.Module:
    """The module's tree with the fault in it."""
    tree = ast.parse(source)
    for place, change in enumerate(_changes(tree, is_edge=mutant.is_edge)):
        if place == mutant.place:
            change.apply()
            return ast.fix_missing_locations(tree)
    raise ValueError(f"{mutant.file} has no change number {mutant.place}")


class Breakable:
    """A module's tree, parsed once, of which a forked process makes one mutant."""

    def __init__(self, source: str, path: str, *, is_edge: bool = False) -> None:
        self.whole = compile(source, path, "exec", dont_inherit=True)
        self._path = path
        self._tree = ast.parse(source)
        self._changes = [each.apply for each in _changes(self._tree, is_edge=is_edge)]

    def broken(self, place: int) -> CodeType:
        """The module's code with a fault in it, which stays in the tree: call it once."""
        self._changes[place]()
        return compile(ast.fix_missing_locations(self._tree), self._path, "exec", dont_inherit=True)


def _changes(tree: ast.Module, *, is_edge: bool) -> Iterator[Change]:
    return Edges(tree).all() if is_edge else _Changes(tree).all()


class _Changes:
    """Walks a tree; a change keeps the place where it would put its new node."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._function: list[str] = []

    def all(self) -> Iterator[Change]:
        yield from self._body(self._tree.body)

    # -- statements -----------------------------------------------------------------------------

    def _body(self, body: list[ast.stmt]) -> Iterator[Change]:
        for at, statement in enumerate(body):
            if is_left_alone(statement):
                continue
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if statement.name in NOT_RUN:
                    continue
                self._function.append(statement.name)
                if not isinstance(statement, ast.ClassDef):
                    yield from self._defaults(statement.args)
                elif is_protocol(statement):
                    self._function.pop()
                    continue
                yield from self._body(statement.body)
                self._function.pop()
                continue
            yield from self._left_out(body, at, statement)
            yield from self._inside(statement)

    def _left_out(self, body: list[ast.stmt], at: int, statement: ast.stmt) -> Iterator[Change]:
        """The statement is not there, or a weaker one is."""
        new: ast.stmt | None = None
        match statement:
            case ast.Expr(value=ast.Call() | ast.Await()):
                new = ast.Pass()
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
                new = ast.Pass()
            case ast.AugAssign():
                new = ast.Pass()
            case ast.Raise() if self._function:
                new = ast.Pass()
            case ast.Continue():
                new = ast.Break()
            case ast.Break():
                new = ast.Continue()
            case ast.Return(value=value) if value is not None and not _is_false(value):
                new = ast.Return(value=ast.Constant(value=None))
            case _:
                pass
        if new is not None:
            made = ast.copy_location(new, statement)

            def apply() -> None:
                body[at] = made

            yield self._change(statement, made, apply)

    def _defaults(self, arguments: ast.arguments) -> Iterator[Change]:
        for defaults in (arguments.defaults, arguments.kw_defaults):
            for at, default in enumerate(defaults):
                if isinstance(default, ast.Constant):
                    yield from self._constant_in_list(defaults, at, default)
                elif default is not None:
                    yield from self._inside(default, itself=True)

    # -- expressions ----------------------------------------------------------------------------

    def _inside(self, node: ast.AST, *, itself: bool = False) -> Iterator[Change]:
        """Changes of `node`'s parts, and of itself where it is an expression."""
        if isinstance(node, ast.Call) and ast.unparse(node.func) in DECLARING:
            return
        if itself and isinstance(node, ast.expr):
            yield from self._expression(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_comment", "decorator_list"):
                continue
            if isinstance(value, ast.AST):
                if name == "test" and isinstance(value, ast.Name | ast.Call | ast.Attribute):
                    yield self._replaced(node, name, ast.UnaryOp(op=ast.Not(), operand=value))
                if isinstance(value, ast.Constant):
                    yield from self._constant(node, name, value)
                else:
                    yield from self._inside(value, itself=True)
            elif isinstance(value, list):
                if value and isinstance(value[0], ast.stmt):
                    yield from self._body(value)
                    continue
                for at, each in enumerate(value):
                    if isinstance(each, ast.Constant):
                        yield from self._constant_in_list(value, at, each)
                    elif isinstance(each, ast.AST):
                        yield from self._inside(each, itself=True)

    def _expression(self, node: ast.expr) -> Iterator[Change]:
        match node:
            case ast.Compare(ops=ops):
                for at, op in enumerate(ops):
                    yield self._listed(node, ops, at, COMPARED[type(op)]())
            case ast.BoolOp(op=op):
                yield self._replaced(
                    node, "op", ast.Or() if isinstance(op, ast.And) else ast.And(), shown=node
                )
            case ast.BinOp(op=op) if type(op) in COMPUTED and not _is_text(node):
                yield self._replaced(node, "op", COMPUTED[type(op)](), shown=node)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._replaced(
                    node, "operand", ast.UnaryOp(op=ast.Not(), operand=operand), shown=node
                )
            case _:
                pass

    def _constant(self, parent: ast.AST, name: str, old: ast.Constant) -> Iterator[Change]:
        new = _other(old)
        if new is not None:
            yield self._replaced(parent, name, new, shown=parent)

    def _constant_in_list(
        self, values: MutableSequence[ast.expr | None], at: int, old: ast.Constant
    ) -> Iterator[Change]:
        new = _other(old)
        if new is not None:

            def apply() -> None:
                values[at] = ast.copy_location(new, old)

            yield self._change(old, new, apply)

    # -- making ---------------------------------------------------------------------------------

    def _replaced(
        self, parent: ast.AST, name: str, new: ast.AST, shown: ast.AST | None = None
    ) -> Change:
        old = getattr(parent, name)
        before = ast.unparse(shown or old)
        setattr(parent, name, new)
        after = ast.unparse(shown or new)
        setattr(parent, name, old)

        def apply() -> None:
            setattr(parent, name, new)

        line = getattr(old, "lineno", 0) or getattr(parent, "lineno", 0)
        return Change(".".join(self._function), line, short(before), short(after), apply)

    def _listed(self, shown: ast.expr, ops: list[ast.cmpop], at: int, new: ast.cmpop) -> Change:
        old, before = ops[at], ast.unparse(shown)
        ops[at] = new
        after = ast.unparse(shown)
        ops[at] = old

        def apply() -> None:
            ops[at] = new

        return Change(".".join(self._function), shown.lineno, short(before), short(after), apply)

    def _change(self, old: ast.stmt | ast.expr, new: ast.AST, apply: Callable[[], None]) -> Change:
        return Change(
            ".".join(self._function),
            old.lineno,
            short(ast.unparse(old)),
            short(ast.unparse(new)),
            apply,
        )


def _other(constant: ast.Constant) -> ast.Constant | None:
    value = constant.value
    if isinstance(value, bool):
        return ast.Constant(value=not value)
    if isinstance(value, int | float):
        return ast.Constant(value=value + 1)
    return None


def _is_false(node: ast.expr) -> bool:
    """Whether it is `None`, `False`, `0` or empty: nearly always the same as `None`."""
    match node:
        case ast.Constant(value=value):
            return not value
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return True
        case _:
            return False


def _is_text(node: ast.BinOp) -> bool:
    """Whether it puts texts or types together."""
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes | None))
        for side in (node.left, node.right)
    )

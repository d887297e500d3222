"""Small faults where the work is done: in processors, services, files and servers.

    mutants_of(source, "broker/pocketmq/broker/pop/service.py", is_edge=True)

A fault there is something forgotten or done in the wrong order, and most of them leave every value
right. The kinds:

| kind | example |
|---|---|
| an effect is left out | `await self._log.sync()` -> `pass`; also `close`, `put_back`, ... |
| two effects change places | `await write(); send()` -> `send(); await write()` |
| a branch is left out | `if torn: ...` -> `pass`; an `else`, and a `case` |
| a bound is off by one | `<` -> `<=` |
| a check of epoch, generation or role is left out | `if self.epoch == epoch and ...` -> `if ...` |
| a counter is not lowered | `self._waiting -= 1` -> `pass` |
| a `finally` is skipped | `finally: lock.release()` -> `finally: pass` |
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from mutants.changes import NOT_RUN, Change, is_left_alone, is_protocol, short

EFFECTS = frozenset(
    {"cancel", "clear", "close", "commit", "discard", "flush", "forget", "note", "persist"}
    | {"release", "remove", "save", "stop", "sync", "unlock", "wake", "wakeup"}
)
"""Words in the name of a call that is made for what it does; `put_back` is one by itself."""

IN_MEMORY = frozenset({"clear", "discard", "forget"})
"""Two of them beside each other may come in either order."""

WHOLE_NAMES = frozenset({"put_back", "still_dirty", "answer_later", "call_soon", "set"})

GUARDS = re.compile(
    r"(?:\b|_)(epoch|generation|term|role|leads|leader|leading|master|slave|version|serves)"
    r"(?:s?\b|_)"
)
"""Names by which somebody says on whose behalf, or of when, something is."""

TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


class Edges:
    """The faults of a module's tree, in the order of its lines."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._function: list[str] = []

    def all(self) -> Iterator[Change]:
        """Each once; the tree stays as it is until one is applied."""
        yield from self._body(self._tree.body)

    def _body(self, body: list[ast.stmt]) -> Iterator[Change]:
        for at, statement in enumerate(body):
            if is_left_alone(statement):
                continue
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from self._inside_of(statement)
                continue
            if self._function:
                yield from self._left_out(body, at, statement)
                if at + 1 < len(body) and _may_swap(statement, body[at + 1]):
                    yield self._swapped(body, at)
            yield from self._branches(statement)
            yield from self._conditions(statement)

    def _inside_of(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> Iterator[Change]:
        if node.name in NOT_RUN or (isinstance(node, ast.ClassDef) and is_protocol(node)):
            return
        self._function.append(node.name)
        yield from self._body(node.body)
        self._function.pop()

    # -- statements -----------------------------------------------------------------------------

    def _left_out(self, body: list[ast.stmt], at: int, statement: ast.stmt) -> Iterator[Change]:
        is_lowered = isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Sub)
        if is_lowered or _is_effect(statement):
            yield self._put(body, at, ast.Pass())

    def _swapped(self, body: list[ast.stmt], at: int) -> Change:
        first, second = body[at], body[at + 1]

        def apply() -> None:
            body[at], body[at + 1] = second, first

        old, new = short(ast.unparse(first)), short(ast.unparse(second))
        return self._change(first, f"{old}; {new}", f"{new}; {old}", apply)

    def _branches(self, statement: ast.stmt) -> Iterator[Change]:
        """What is left out of a statement that holds others, and what is in it."""
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                if self._function and not all(map(_is_quiet, body)):
                    yield self._emptied(body, f"if {ast.unparse(test)}: ...")
                yield from self._body(body)
                is_elif = len(orelse) == 1 and isinstance(orelse[0], ast.If)
                if orelse and self._function and not is_elif and not all(map(_is_quiet, orelse)):
                    yield self._emptied(orelse, f"if {ast.unparse(test)} else: ...")
                yield from self._body(orelse)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
                yield from self._body(body)
                for handler in handlers:
                    yield from self._body(handler.body)
                yield from self._body(orelse)
                if finalbody and self._function:
                    shown = short(ast.unparse(finalbody[0]))
                    yield self._emptied(finalbody, f"finally: {shown}")
                yield from self._body(finalbody)
            case ast.Match(cases=cases):
                for case in cases:
                    if not all(map(_is_quiet, case.body)):
                        shown = f"case {ast.unparse(case.pattern)}: ..."
                        yield self._emptied(case.body, shown)
                    yield from self._body(case.body)
            case (
                ast.For(body=body, orelse=orelse)
                | ast.AsyncFor(body=body, orelse=orelse)
                | ast.While(body=body, orelse=orelse)
            ):
                yield from self._body(body)
                yield from self._body(orelse)
            case ast.With(body=body) | ast.AsyncWith(body=body):
                yield from self._body(body)
            case _:
                pass

    # -- conditions -----------------------------------------------------------------------------

    def _conditions(self, statement: ast.stmt) -> Iterator[Change]:
        """Of a statement itself, and not of those in it."""
        for field, value in ast.iter_fields(statement):
            if field in ("body", "orelse", "handlers", "finalbody", "cases", "annotation"):
                continue
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.AST):
                    for each in ast.walk(node):
                        yield from self._condition(each)

    def _condition(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare(ops=ops):
                for at, op in enumerate(ops):
                    if type(op) in TURNED:
                        yield self._turned(node, ops, at)
            case ast.BoolOp(values=values):
                for at, value in enumerate(values):
                    if GUARDS.search(ast.unparse(value)):
                        yield self._unguarded(node, values, at)
            case _:
                pass

    def _turned(self, node: ast.Compare, ops: list[ast.cmpop], at: int) -> Change:
        old = ops[at]
        new, before = TURNED[type(old)](), ast.unparse(node)
        ops[at] = new
        after = ast.unparse(node)
        ops[at] = old

        def apply() -> None:
            ops[at] = new

        return self._change(node, before, after, apply)

    def _unguarded(self, node: ast.BoolOp, values: list[ast.expr], at: int) -> Change:
        old, new = values[at], ast.Constant(value=isinstance(node.op, ast.And))
        ast.copy_location(new, old)
        before = ast.unparse(node)
        values[at] = new
        after = ast.unparse(node)
        values[at] = old

        def apply() -> None:
            values[at] = new

        return self._change(old, before, after, apply)

    # -- making ---------------------------------------------------------------------------------

    def _put(self, body: list[ast.stmt], at: int, new: ast.stmt) -> Change:
        old = body[at]
        ast.copy_location(new, old)

        def apply() -> None:
            body[at] = new

        return self._change(old, short(ast.unparse(old)), ast.unparse(new), apply)

    def _emptied(self, body: list[ast.stmt], shown: str) -> Change:
        node = body[0]
        made = ast.copy_location(ast.Pass(), node)

        def apply() -> None:
            body[:] = [made]

        return self._change(node, shown, "pass", apply)

    def _change(
        self, node: ast.stmt | ast.expr, old: str, new: str, apply: Callable[[], None]
    ) -> Change:
        return Change(".".join(self._function), node.lineno, old, new, apply)


def _call_of(statement: ast.stmt) -> tuple[ast.Call | None, bool]:
    """The call that a statement is, and whether it is awaited."""
    match statement:
        case ast.Expr(value=ast.Await(value=ast.Call() as call)):
            return call, True
        case ast.Expr(value=ast.Call() as call):
            return call, False
        case _:
            return None, False


def _name_of(statement: ast.stmt) -> str:
    """Of the function that a statement calls; empty if it is no call."""
    call, _ = _call_of(statement)
    if call is None:
        return ""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def _held(statement: ast.stmt) -> list[ast.stmt]:
    """What an `if` without `else` or a loop does."""
    match statement:
        case ast.If(body=body, orelse=[]) | ast.For(body=body, orelse=[]):
            return body
        case _:
            return []


def _is_effect(statement: ast.stmt) -> bool:
    """Whether it is a call that is made for what it does, or waits for something."""
    call, is_awaited = _call_of(statement)
    if call is None:
        return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Await)
    if is_awaited:
        return True
    name = _name_of(statement)
    return name in WHOLE_NAMES or bool(EFFECTS.intersection(name.strip("_").split("_")))


def _is_quiet(statement: ast.stmt) -> bool:
    return is_left_alone(statement) or isinstance(statement, ast.Pass)


def _may_swap(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether two neighbours both do something, and one of them is waited for or undoes."""
    if is_left_alone(second) or ast.dump(first) == ast.dump(second):
        return False
    if IN_MEMORY.issuperset([_name_of(first), _name_of(second)]):
        return False
    return _does(first) and _does(second) and (_holds_effect(first) or _holds_effect(second))


def _holds_effect(statement: ast.stmt) -> bool:
    return _is_effect(statement) or any(map(_holds_effect, _held(statement)))


def _does(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Await() | ast.Call()) | ast.AugAssign(target=ast.Attribute()):
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case _:
            held = _held(statement)
            return bool(held) and all(map(_does, held))

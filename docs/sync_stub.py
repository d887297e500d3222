"""Writes the stub of `pocketmq.client.sync`: what type checkers see of the synchronous clients.

Signatures are those in the source of the asynchronous classes, without `async`, `await` and
`Awaitable`; the first paragraph of each docstring comes with them.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import subprocess
import sys
import textwrap
from functools import cache
from typing import Any

from pocketmq import client
from pocketmq.client.blocking import DERIVED, public_names
from pocketmq.client.consumer.consuming.message_iterator import MessageIterator
from pocketmq.runtime.loop_thread import LoopThread

HEAD = '''"""Made by `make docs` from the asynchronous clients; do not edit."""'''

COMMON = '''
class MessageIterator:
    """Messages one by one; each is done when the next one is asked for."""
    asynchronous: AsyncMessageIterator
    loop_thread: LoopThread
    def __iter__(self) -> Self: ...
    def __next__(self) -> MessageExt: ...
    def done(self) -> None:
        """The message that was handed out last is consumed: it does not come again."""
'''

BLOCK = """
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
"""

ALWAYS = {
    "Self": "typing",
    "TracebackType": "types",
    "LoopThread": LoopThread.__module__,
}


def sync_stub() -> str:
    """The text of `sync/__init__.pyi`."""
    imports: dict[str, str] = dict(ALWAYS)
    bodies = [_class(getattr(client, name), imports) for name in DERIVED]
    for name in importlib.import_module(client.__name__).__all__:
        if name not in DERIVED:
            imports[name] = "pocketmq.client"
    for name in ("MessageIterator", *DERIVED):
        imports.pop(name, None)
    lines = [f"from pocketmq.client import {name} as Async{name}" for name in DERIVED]
    lines.append(
        f"from {MessageIterator.__module__} import MessageIterator as AsyncMessageIterator"
    )
    lines += [f"from {module} import {name} as {name}" for name, module in sorted(imports.items())]
    text = "\n".join([HEAD, *lines, COMMON, *bodies])
    return _formatted(text)


def _class(kind: type[Any], imports: dict[str, str]) -> str:
    names = ["__init__", *(["__iter__"] if hasattr(kind, "__aiter__") else []), *public_names(kind)]
    members = [_member(kind, name, imports) for name in names]
    doc = (kind.__doc__ or "").split("\n\n")[0].strip()
    fields = [f"asynchronous: Async{kind.__name__}", "loop_thread: LoopThread"]
    body = "\n".join([f'"""{doc}"""', *fields, *members]) + textwrap.dedent(BLOCK)
    return f"class {kind.__name__}:\n{textwrap.indent(body, '    ')}"


def _member(kind: type[Any], name: str, imports: dict[str, str]) -> str:
    written = "__aiter__" if name == "__iter__" else name
    home = next(each for each in kind.__mro__ if written in vars(each))
    member = vars(home)[written]
    function: Any = member.fget if isinstance(member, property) else member
    source = inspect.getsource(function)
    (node,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = node.args
    if name == "__init__":
        extra = ast.parse("def f(*, loop_thread: LoopThread | None = None): ...").body[0]
        assert isinstance(extra, ast.FunctionDef)
        arguments.kwonlyargs += extra.args.kwonlyargs
        arguments.kw_defaults += extra.args.kw_defaults
    arguments.defaults = [_default(each) for each in arguments.defaults]
    arguments.kw_defaults = [each and _default(each) for each in arguments.kw_defaults]
    doc = (ast.get_docstring(node) or "").split("\n\n")[0]
    plain = ast.parse("def f(): ...").body[0]
    assert isinstance(plain, ast.FunctionDef)
    plain.name, plain.args, plain.returns = name, arguments, node.returns
    if doc:
        plain.body = [ast.Expr(ast.Constant(doc))]
    if isinstance(member, property):
        plain.decorator_list = [ast.Name("property")]
    for used in ast.walk(ast.Module([plain], [])):
        if isinstance(used, ast.Name) and not hasattr(builtins, used.id):
            _find(used.id, home.__module__, imports)
    return ast.unparse(ast.fix_missing_locations(plain))


def _default(node: ast.expr) -> ast.expr:
    return node if isinstance(node, ast.Constant) else ast.Constant(...)


def _find(name: str, module: str, imports: dict[str, str]) -> None:
    """Note where a name that a signature has is imported from."""
    found = ALWAYS.get(name) or _imported(module).get(name, module)
    known = imports.setdefault(name, found)
    assert known == found, f"{name} is imported from {known} and from {found}"


@cache
def _imported(module: str) -> dict[str, str]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        alias.asname or alias.name: str(each.module)
        for each in ast.walk(tree)
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }


def _formatted(text: str) -> str:
    for options in (["check", "--fix-only", "--select", "I"], ["format"]):
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "ruff", *options, "-q", "--stdin-filename", "sync.pyi", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text

"""Runs tests against mutants in forks of one process that has collected all tests.

    with CollectedRunner(copy, ["tests/client"], "not cluster") as runner:
        result = runner.run(mutant, "pocketmq.client.routes", tests, 60)

The process imports the modules and the tests once. For each mutant it forks, and the child gives
the functions that the fault changes their new code: some milliseconds, where `forked.Runner`
imports everything anew. What a fault changes outside of functions (a constant, a default, a base
class) has been used by others by then; the verdict for it is `outside`, and `forked.Runner` has to
try it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import sys
import types
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.forked import MEMORY_BYTES, First, Result, Runner, child_status, limit_processor
from mutants.generate import Breakable, CodeMutant
from mutants.outside import replace

OUTSIDE = 77
"""Exit status of a child that could not put the fault in."""

OPTIMIZED = 0x1
"""Flag of the code of functions, which bodies of modules and classes lack."""

LOCAL = ".<locals>."
"""In the qualified name of what a function makes, which its own code holds."""

Key = tuple[str, int]


class CollectedRunner(Runner):
    """A process that has collected tests and runs some of them for each fault.

    Args:
        copy: a copy of the code and its tests; nothing in it is written.
        modules: dotted names of all modules that mutants will be made of.
        tests: files or folders with the tests.
        markers: pytest's expression that chooses among them.
    """

    def __init__(
        self, copy: Path, modules: Sequence[str], tests: Sequence[str], markers: str
    ) -> None:
        super().__init__(copy, "collected.py", json.dumps([list(modules), list(tests), markers]))

    def _ask(
        self, mutant: CodeMutant | None, module: str, tests: Sequence[str], limit_s: float
    ) -> Result:
        result = super()._ask(mutant, module, tests, limit_s)
        # The modules were imported without the fault, so that an import cannot have failed by it.
        return Result("outside", "", result.seconds) if result.verdict == "broken" else result


# -- in the runner's process ----------------------------------------------------------------------


def changed_functions(
    before: types.CodeType, after: types.CodeType
) -> dict[Key, types.CodeType] | None:
    """Key -> new code of each function that differs; None when more than functions does."""
    old, new = dict(_codes(before)), dict(_codes(after))
    if any(LOCAL not in name for name, _ in old.keys() ^ new.keys()):
        return None
    changed: dict[Key, types.CodeType] = {}
    for key, code in old.items():
        if key not in new or code == new[key]:
            continue
        if code.co_flags & OPTIMIZED:
            changed[key] = new[key]
        elif _without_functions(code) != _without_functions(new[key]):
            return None
    return changed


def _codes(code: types.CodeType) -> Iterator[tuple[Key, types.CodeType]]:
    yield (code.co_qualname, code.co_firstlineno), code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _without_functions(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(
        "code" if isinstance(each, types.CodeType) else (type(each), each)
        for each in code.co_consts
    )
    return code.co_code, code.co_names, constants


class _Serving:
    """Instead of running all tests, runs those that are asked for, each time in a fork."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules
        self._functions: dict[str, list[types.FunctionType]] = defaultdict(list)
        self._breakable: dict[tuple[str, bool], Breakable] = {}

    def pytest_runtestloop(self, session: object) -> bool:
        items = defaultdict(list)
        for item in session.items:  # type: ignore[attr-defined]
            items[item.nodeid.split("[")[0]].append(item)
            items[item.nodeid.split("::")[0]].append(item)
        for name in self._modules:
            importlib.import_module(name)
        root = f"{Path.cwd()}{os.sep}"
        gc.unfreeze()  # what is frozen, as by tests/conftest.py, is in no list of objects
        for each in gc.get_objects():
            if isinstance(each, types.FunctionType) and each.__code__.co_filename.startswith(root):
                self._functions[each.__code__.co_filename].append(each)
        gc.collect()
        gc.freeze()
        for line in sys.stdin:
            self._serve(json.loads(line), items)
        return True

    def _serve(self, job: dict[str, object], items: dict[str, list[object]]) -> None:
        began = perf_counter()
        file, is_edge = str(job["file"]), bool(job["is_edge"])
        if file and (file, is_edge) not in self._breakable:
            path = Path(file).resolve()
            source = path.read_text(encoding="utf-8")
            self._breakable[file, is_edge] = Breakable(source, str(path), is_edge=is_edge)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            os.close(reading)
            try:
                status = self._run(job, items, writing)
            except BaseException:  # noqa: BLE001
                status = 1
            os._exit(status)
        os.close(writing)
        limit_s = float(str(job["limit_s"]))
        hung = child_status(child, began + limit_s)
        with os.fdopen(reading, "rb") as pipe:
            by = pipe.read(2000).decode(errors="replace").strip()
        if by:
            verdict = "caught"
        elif hung == 0:
            verdict = "survived"
        elif hung == OUTSIDE:
            verdict = "outside"
        else:
            verdict = "timeout"
        answer = {"verdict": verdict, "by": by, "seconds": round(perf_counter() - began, 2)}
        os.write(_ANSWERS, (json.dumps(answer) + "\n").encode())

    def _run(self, job: dict[str, object], items: dict[str, list[object]], writing: int) -> int:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit_processor(float(str(job["limit_s"])))
        try:
            is_in = self._break(job)
        except Exception:  # noqa: BLE001 - what runs once more is not made for it
            is_in = False
        if job["file"] and not is_in:
            return OUTSIDE
        tests = job["tests"]
        assert isinstance(tests, list)
        first = First(writing)
        chosen = list({id(item): item for test in tests for item in items.get(test, [])}.values())
        if not chosen:
            return 0
        config = chosen[0].config  # type: ignore[attr-defined]
        config.pluginmanager.register(first, "first")
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if first.has_failed:
                break
        return 0

    def _break(self, job: dict[str, object]) -> bool:
        """Put the fault into what is imported already; False if that cannot be done."""
        file, module = str(job["file"]), str(job["module"])
        if not file:
            return False
        breakable = self._breakable[file, bool(job["is_edge"])]
        path = breakable.whole.co_filename
        broken = breakable.broken(int(str(job["place"])))
        changed = changed_functions(breakable.whole, broken)
        if changed is None:
            return replace(sys.modules[module], broken)
        is_found = False
        for function in self._functions[path]:
            code = function.__code__
            new = changed.get((code.co_qualname, code.co_firstlineno))
            if new is None:
                continue
            try:
                function.__code__ = new
            except ValueError:  # it closes over other variables now
                return False
            is_found = True
        return is_found


_ANSWERS = -1


def _collect_and_serve(modules: list[str], tests: list[str], markers: str) -> None:
    global _ANSWERS
    import pytest

    _ANSWERS = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    options = ["-q", "-s", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += [
        "-p",
        "no:pocketmq",
        "-p",
        "no:standstill",
        "--loops",
        "one",
        "--timeout=60",
        "-m",
        markers,
    ]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    pytest.main([*options, *tests], plugins=[_Serving(modules)])


if __name__ == "__main__":
    _collect_and_serve(*json.loads(sys.argv[1]))

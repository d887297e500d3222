"""A fault in the very process that runs its seed.

The functions that hold the broken line get other code while a block runs. A process of its own with
a copy of the package (`faults.overlay`) imports everything anew first, which takes a second of
processor time: as long as most seeds take.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import CodeType, FunctionType, ModuleType

from pocketmq.simulation.play import Result
from simulation.faults import ROOT, Break, Fault, overlay, run_fault

Key = tuple[str, int]
"""Qualified name and first line of a function."""


def violation_with(fault: Fault, run: Callable[[int], Result], *switches: str) -> str | None:
    """What the fault's seed violates while the fault is there.

    Args:
        fault: Tried in this process if its lines are in functions, else in one of its own.
        run: Runs a seed here.
        switches: Of `scripts/simulate.py`, for a process of its own.
    """
    broken = [_broken_functions(each) for each in _by_file(fault.breaks)]
    if all(broken):
        with _exchanged([each for some in broken for each in some]):
            return run(fault.seed).violation
    with overlay(fault) as packages:
        return run_fault(fault, packages, *switches)


@contextmanager
def exchanged(breaks: Sequence[Break]) -> Iterator[None]:
    """Have lines of functions broken for the length of a block.

    Raises:
        ValueError: A line is not there, or in no function.
    """
    broken = [_broken_functions(each) for each in _by_file(breaks)]
    if not all(broken):
        raise ValueError(f"{breaks[0].file}: no function holds the line")
    with _exchanged([each for some in broken for each in some]):
        yield


def _by_file(breaks: Sequence[Break]) -> list[list[Break]]:
    """Lines, those of a file together."""
    files: dict[str, list[Break]] = {}
    for each in breaks:
        files.setdefault(each.file, []).append(each)
    return list(files.values())


def _broken_functions(breaks: Sequence[Break]) -> list[tuple[FunctionType, CodeType]]:
    """The functions of a file that hold the lines, each with its broken code."""
    name = breaks[0].file
    module = name.split("/", 1)[1].removesuffix(".py").replace("/", ".")
    import_module(module)
    path = str(ROOT / name)
    text = without = (ROOT / name).read_text(encoding="utf-8")
    for each in breaks:
        text = each.applied_to(text)
    whole = _functions(compile(without, path, "exec", dont_inherit=True))
    broken = _functions(compile(text, path, "exec", dont_inherit=True))
    changed = {key: code for key, code in broken.items() if code != whole.get(key)}
    return [
        (each, changed[_key(each.__code__)])
        for each in _members(sys.modules[module])
        if isinstance(each, FunctionType)
        and each.__code__.co_filename == path
        and _key(each.__code__) in changed
    ]


@contextmanager
def _exchanged(broken: Sequence[tuple[FunctionType, CodeType]]) -> Iterator[None]:
    """Give functions other code for the length of a block."""
    before = [(function, function.__code__) for function, _ in broken]
    try:
        for function, code in broken:
            function.__code__ = code
        _forget_results()
        yield
    finally:
        for function, code in before:
            function.__code__ = code
        _forget_results()


def _functions(code: CodeType) -> dict[Key, CodeType]:
    """The functions in compiled code, at any depth."""
    found = {}
    if code.co_flags & inspect.CO_OPTIMIZED:  # neither a module nor the body of a class
        found[_key(code)] = code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= _functions(each)
    return found


def _key(code: CodeType) -> Key:
    return code.co_qualname, code.co_firstlineno


def _members(module: ModuleType) -> Iterator[object]:
    """What a module and its classes define, functions as they are below what wraps them."""
    for each in list(vars(module).values()):
        defined = vars(each).values() if isinstance(each, type) else ()
        for found in (each, *defined):
            yield found
            if isinstance(found, property):
                yield from (found.fget, found.fset)
            yield getattr(found, "__wrapped__", None) or getattr(found, "__func__", None)


def _forget_results() -> None:
    """Results that were kept with the fault are none without it, and the other way round."""
    for name, module in list(sys.modules.items()):
        if name.startswith("pocketmq."):
            for each in _members(module):
                if isinstance(each, functools._lru_cache_wrapper):
                    each.cache_clear()

"""Puts what a fault changes outside of functions into modules that are imported already.

    changed = replace(module, code_with_the_fault)

The code runs once more, in a module of its own; then defaults of functions, generated functions of
dataclasses and constants that came out differently are put in the place of those that are there:
in the module, in its classes, and in all modules that have imported the constant. What others have
computed from a constant before stays as it was, so that a fault which nobody notices here may be
noticed when everything is imported anew.
"""

from __future__ import annotations

import struct
import sys
import types
from collections.abc import Iterator

CONSTANTS = (int, float, str, bytes, tuple, frozenset, dict, list, set, struct.Struct, type(None))


def replace(module: types.ModuleType, broken: types.CodeType) -> bool:
    """Whether something came out differently and was replaced."""
    shadow = types.ModuleType(module.__name__)
    shadow.__dict__.update(
        {name: value for name, value in vars(module).items() if name.startswith("__")}
    )
    live = sys.modules[module.__name__]
    sys.modules[module.__name__] = shadow  # dataclasses look their module up
    try:
        exec(broken, shadow.__dict__)
    finally:
        sys.modules[module.__name__] = live
    return _names(module, shadow) + _functions(module, shadow) > 0


def _names(module: types.ModuleType, shadow: types.ModuleType) -> int:
    count = 0
    for name, old in list(vars(module).items()):
        new = vars(shadow).get(name)
        if name.startswith("__") or not _differ(old, new):
            continue
        count += 1
        for other in list(sys.modules.values()):
            if other is not shadow and vars(other).get(name) is old:
                setattr(other, name, new)
    return count


def _functions(module: types.ModuleType, shadow: types.ModuleType) -> int:
    count = 0
    new_functions = dict(_all(shadow, module.__name__, shadow.__name__))
    for path, old in _all(module, module.__name__, module.__name__):
        new = new_functions.get(path)
        if isinstance(old, type):
            count += _attributes(old, new)
        if not isinstance(old, types.FunctionType) or not isinstance(new, types.FunctionType):
            continue
        if old.__defaults__ != new.__defaults__:
            old.__defaults__ = new.__defaults__
            count += 1
        if old.__kwdefaults__ != new.__kwdefaults__:
            old.__kwdefaults__ = new.__kwdefaults__
            count += 1
        if old.__code__ != new.__code__:
            old.__code__ = new.__code__
            count += 1
    return count


def _attributes(old: type, new: object) -> int:
    count = 0
    for name, value in list(vars(old).items()):
        other = vars(new).get(name) if isinstance(new, type) else None
        if not name.startswith("__") and other is not None and _differ(value, other):
            setattr(old, name, other)
            count += 1
    return count


def _differ(old: object, new: object) -> bool:
    if type(old) is not type(new) or not isinstance(old, CONSTANTS):
        return False
    if isinstance(old, struct.Struct) and isinstance(new, struct.Struct):
        return old.format != new.format
    return old != new and repr(old) != repr(new)


def _all(owner: object, module: str, path: str) -> Iterator[tuple[str, object]]:
    """Path -> each class and function that the module defines."""
    for name, value in list(vars(owner).items()):
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        if not isinstance(value, type | types.FunctionType) or value.__module__ != module:
            continue
        yield f"{path}.{name}", value
        if isinstance(value, type):
            yield from _all(value, module, f"{path}.{name}")

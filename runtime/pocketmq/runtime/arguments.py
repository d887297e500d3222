"""Names of keyword arguments: a wrong one is a `TypeError` that suggests the right one."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Set
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_LISTED: Final = 4
"""Where nothing is alike and there are no more names than these, all of them are said."""


def check_names(who: str, given: Iterable[str], known: Set[str]) -> None:
    """Refuse names of options that there are not.

    Args:
        who: The class or the call, for the error.
        given: Names as the caller wrote them.
        known: All that there are.

    Raises:
        TypeError: One is not known.
    """
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.4)
            hint = f"; did you mean {near[0]}?" if near else ""
            if not near and 0 < len(known) <= MOST_LISTED:
                hint = f"; it has {', '.join(sorted(known))}"
            raise TypeError(f"{who} has no option {name}{hint}")


def names_checked(function: Callable[P, T]) -> Callable[P, T]:
    """A function, or method, whose wrong keyword arguments are refused as `check_names` does it."""
    known = inspect.signature(function).parameters.keys() - {"self"}

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        check_names(function.__name__, options, known)
        return function(*arguments, **options)

    return call

"""`compile_sql92`: text to filter, at a cost that the text's length bounds (Q-4, Q-12)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from pocketmq.protocol.errors import FilterError
from pocketmq.protocol.filters.nodes import Closure
from pocketmq.protocol.filters.values import NotComparableError

MAX_CHARS: Final = 16 * 1024
"""Longest expression; RocketMQ takes any."""

CACHED_CHARS: Final = 256 * 1024
"""Expressions of so many characters together are kept compiled."""


class Sql92Filter:
    """A compiled expression.

    Attributes:
        text: the expression.
    """

    __slots__ = ("_evaluate", "text")

    def __init__(self, text: str, evaluate: Closure) -> None:
        self.text = text
        self._evaluate = evaluate

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties is wanted.

        What is not known (a property that is not there), and what cannot be compared, is not.
        """
        try:
            return self._evaluate(properties) is True
        except NotComparableError:
            return False


def compile_sql92(text: str, *, text_tests: bool = True) -> Sql92Filter:
    """Compile an expression.

    As in RocketMQ it ends where a token cannot go on with it: `a = 1 foo` is `a = 1` (Q-2).

    Args:
        text: the expression.
        text_tests: CONTAINS, STARTSWITH and ENDSWITH are words of the language, as from RocketMQ
            5.1.4 on, and no names (Q-3).

    Raises:
        FilterError: it is none; or it is longer than `MAX_CHARS`, or deeper than `nodes.MAX_DEPTH`.
    """
    if len(text) > MAX_CHARS:
        reason = f"{len(text)} characters; at most {MAX_CHARS} are compiled"
        raise FilterError(text, MAX_CHARS + 1, reason)
    # lark and its tables take 60 ms, which a broker without such a subscription never spends.
    from pocketmq.protocol.filters.parser import parse

    return Sql92Filter(text, parse(text, text_tests=text_tests).evaluate)


class CompiledFilters:
    """Filters by their text, the latest asked for; for those who are handed texts again and again.

    Args:
        max_chars: as many characters of expressions are kept.
        text_tests: See `compile_sql92`.
    """

    def __init__(self, max_chars: int = CACHED_CHARS, *, text_tests: bool = True) -> None:
        self._max_chars = max_chars
        self._text_tests = text_tests
        self._chars = 0
        self._filters: OrderedDict[str, Sql92Filter | FilterError] = OrderedDict()

    def get(self, text: str) -> Sql92Filter:
        """The filter of the text, compiled unless it is known.

        Raises:
            FilterError: as `compile_sql92`; remembered as well.
        """
        found = self._filters.pop(text, None)
        if found is None:
            try:
                found = compile_sql92(text, text_tests=self._text_tests)
            except FilterError as exc:
                found = exc
            if len(text) > self._max_chars:
                return _given(found)
            self._chars += len(text)
        self._filters[text] = found
        while self._chars > self._max_chars:
            oldest, _ = self._filters.popitem(last=False)
            self._chars -= len(oldest)
        return _given(found)


def _given(found: Sql92Filter | FilterError) -> Sql92Filter:
    if isinstance(found, FilterError):
        raise FilterError(found.expression, found.position, found.reason)
    return found

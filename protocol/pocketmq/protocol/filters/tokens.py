"""Cuts SQL92 text into tokens, the longest that fits each time (Q-1).

Lazily: what stands behind the first token that cannot follow is never looked at, and so may be
anything (Q-2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pocketmq.protocol.errors import FilterError

TEXT_TESTS: Final = ("CONTAINS", "STARTSWITH", "ENDSWITH")
"""Keywords from RocketMQ 5.1.4 on; before they are names as any other (Q-3)."""

KEYWORDS: Final = (
    "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", *TEXT_TESTS
)  # fmt: skip
"""In any case; nothing else may be called so."""

SYMBOLS: Final = {
    "=": "EQUAL", "<>": "NOT_EQUAL", ">": "GREATER", ">=": "NOT_LESS", "<": "LESS",
    "<=": "NOT_GREATER", "(": "OPEN", ")": "CLOSE", ",": "COMMA", "+": "PLUS", "-": "MINUS",
}  # fmt: skip


def _pattern(line_comment: str) -> re.Pattern[str]:
    return re.compile(
        rf"""
    (?P<SKIP> [ \t\n\r\f]+
            {line_comment}
            | /\*[^*]*\*(?:\*|[^*/][^*]*\*)*/ )
  | (?P<NAME> [A-Za-z_$][A-Za-z0-9_$]* )
  | (?P<FLOAT> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)?
             | [0-9]+[eE][+-]?[0-9]+ )
  | (?P<DECIMAL> 0 | [1-9][0-9]*[lL]? )
  | (?P<STRING> '(?:''|[^'])*' )
  | (?P<SYMBOL> <> | >= | <= | [=<>(),+-] )
    """,
        re.VERBOSE,
    )


_TOKEN: Final = _pattern(r"| --[^\n\r]*(?:\r\n|\n|\r)")
_TOKEN_OF_LAST_LINE: Final = _pattern("")
"""A comment ends with its line, so there is none; to look for its end behind each of thousands of
signs would take the square of the time."""


class SqlToken(NamedTuple):
    """One token of an expression."""

    type: str
    """`NAME`, `FLOAT`, `DECIMAL`, `STRING`, one of `KEYWORDS`, or the name of a symbol."""
    text: str
    position: int
    """Of its first character, from 1."""


def tokens(text: str, *, text_tests: bool = True) -> Iterator[SqlToken]:
    """The tokens of an expression, one by one.

    Args:
        text: the expression.
        text_tests: `TEXT_TESTS` are keywords, not names.

    Raises:
        FilterError: a character begins no token, or a quote is not closed.
    """
    at = 0
    last_line = max(text.rfind("\n"), text.rfind("\r")) + 1
    while at < len(text):
        match = (_TOKEN if at < last_line else _TOKEN_OF_LAST_LINE).match(text, at)
        if match is None:
            raise FilterError(text, at + 1, _why_not(text[at]))
        kind, image = str(match.lastgroup), match.group()
        if kind == "NAME" and (word := image.upper()) in KEYWORDS:
            if text_tests or word not in TEXT_TESTS:
                kind = word
        elif kind == "SYMBOL":
            kind = SYMBOLS[image]
        if kind != "SKIP":
            yield SqlToken(kind, image, at + 1)
        at = match.end()


def _why_not(character: str) -> str:
    if character == "'":
        return "this quote is not closed"
    if character == '"':
        return "texts stand in single quotes"
    if character == "!":
        return "write <> for unequal"
    return f"{character!r} means nothing here"

"""What may follow what in an SQL92 expression (Q-1), as a grammar for lark's LALR parser.

Each rule's name is the method of `nodes.Build` that makes a node of its parts. Both chains of AND
and chains of OR are one node each: left-associative pairs would give the same answers, deeper.
NOT binds tighter than a comparison. There is no end token: the caller decides where it ends (Q-2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lark import Lark, Token, UnexpectedInput
from lark.lexer import Lexer

from pocketmq.protocol.errors import FilterError
from pocketmq.protocol.filters.nodes import MAX_DEPTH, Build, Node
from pocketmq.protocol.filters.tokens import KEYWORDS, SYMBOLS, SqlToken, tokens

_DECLARED: Final = " ".join([*KEYWORDS, *SYMBOLS.values(), "STRING", "DECIMAL", "FLOAT", "NAME"])

GRAMMAR: Final = f"""
start: _or

_or: any | _and
any: _and (OR _and)+

_and: all | _equality
all: _equality (AND _equality)+

_equality: equal | not_equal | is_null | is_not_null | _comparison
equal: _equality EQUAL _comparison
not_equal: _equality NOT_EQUAL _comparison
is_null: _equality IS NULL
is_not_null: _equality IS NOT NULL

_comparison: ordered | between | not_between | inside | not_inside | text_test | not_text_test
    | _unary
ordered: _comparison (GREATER | NOT_LESS | LESS | NOT_GREATER) _unary
between: _comparison BETWEEN _unary AND _unary
not_between: _comparison NOT BETWEEN _unary AND _unary
inside: _comparison IN OPEN STRING (COMMA STRING)* CLOSE
not_inside: _comparison NOT IN OPEN STRING (COMMA STRING)* CLOSE
text_test: _comparison (CONTAINS | STARTSWITH | ENDSWITH) STRING
not_text_test: _comparison NOT (CONTAINS | STARTSWITH | ENDSWITH) STRING

_unary: negated | inverted | plus | _primary
negated: MINUS _unary
inverted: NOT _unary
plus: PLUS _unary

_primary: string | decimal | floating | true | false | null | name | grouped
string: STRING
decimal: DECIMAL
floating: FLOAT
true: TRUE
false: FALSE
null: NULL
name: NAME
grouped: OPEN _or CLOSE

%declare {_DECLARED}
"""


MAX_TOKENS: Final = 4000
"""Of one expression; so many take about 30 ms to compile."""


def parse(text: str, *, text_tests: bool = True) -> Node:
    """The expression as a node.

    Args:
        text: the expression.
        text_tests: See `tokens`.

    Raises:
        FilterError: it is none, or too long or too deep.
    """
    try:
        return _parse(text, text_tests)
    except FilterError as exc:
        if exc.expression:
            raise
        raise FilterError(text, exc.position, exc.reason) from None  # of a node, which has no text


def _parse(text: str, text_tests: bool) -> Node:
    parser = _PARSER.parse_interactive()
    opened = 0
    beyond: SqlToken | None = None
    for number, token in enumerate(tokens(text, text_tests=text_tests)):
        if number == MAX_TOKENS:
            raise FilterError(text, token.position, f"more than {MAX_TOKENS} words and signs")
        # Each bracket becomes a nested call, so the depth is limited.
        opened += (token.type == "OPEN") - (token.type == "CLOSE")
        if opened > MAX_DEPTH:
            raise FilterError(text, token.position, f"more than {MAX_DEPTH} brackets deep")
        try:
            parser.feed_token(token)  # type: ignore[arg-type]  # all it needs is a `type`
        except UnexpectedInput:
            # If the tokens so far are a whole expression, the rest is ignored.
            beyond = token
            break
    try:
        node = parser.feed_eof()  # type: ignore[no-untyped-call]
    except UnexpectedInput:
        if beyond is None:
            raise FilterError(text, len(text) + 1, "the expression breaks off here") from None
        raise FilterError(
            text, beyond.position, f"{beyond.text[:30]!r} cannot stand here"
        ) from None
    assert isinstance(node, Node)
    return node


class _Fed(Lexer):
    """Tokens are fed to the parser one by one; lark wants a lexer all the same."""

    def __init__(self, _conf: Any) -> None: ...

    def lex(self, *_args: Any) -> Iterator[Token]:
        """None."""
        return iter(())


_PARSER: Final = Lark(GRAMMAR, parser="lalr", lexer=_Fed, transformer=Build())

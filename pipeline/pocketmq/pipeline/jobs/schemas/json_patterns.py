"""Regular expressions of JSON schemas, searched for with a bound.

Python's `re` tries every way through a text: `^(a+)+$` takes 2 to the power of 60 steps on 60
letters `a` and a `b`. Three packages have a bound:

    regex           a timeout: it reads a clock, and a body would be bad on slow machines only
    google-re2      a time that grows with the text; but it knows no lookaround, no back references,
                    no `\\u00e4` and no `{1,2048}`, all of which schemas have
    jsonschema-rs   reads nearly all of ECMA 262, which is what JSON Schema means by a regular
                    expression. What can be searched for without steps back is; else these are
                    counted

so it is the last. Of ECMA 262 it refuses `\\k<name>`, `\\0`, `[\\b]`, halves of surrogate pairs,
and letters and braces that stand for themselves (`\\h`, `a{,3}`, `{a}`). What it takes beyond that,
as Rust has it, is refused or rewritten here (`_as_meant`).

Nothing else of it is used: `jsonschema` says better why a body does not fit, and its work can be
counted as well (`json_words`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError
from pocketmq.runtime.errors import CallerError

MOST_STEPS_BACK: Final = 1_000_000
MOST_WORK: Final = 4_000_000_000
"""Steps back times characters, as each may look at all of a text: some seconds at most."""

MOST_BYTES: Final = 4 * 1024 * 1024
"""So large a compiled expression may be: repetitions of repetitions multiply."""

_TOKEN: Final = re.compile(
    r"""\\u\{[0-9a-fA-F]+\}
      | (?P<rusty> \\[AUz] | \\[bB]\{ | \(\?P | \(\?[a-zA-Z-]*[RUux]
                 | (?:[*+?]|\{\d+(?:,\d*)?\})\??+(?=[*+?]|\{\d) )
      | (?P<class> \[(?:\\.|[^\]\\])*\] )
      | \\(?P<angle> [<>] )
      | \\. | \(\? | .""",
    re.DOTALL | re.VERBOSE,
)
"""Parts of an expression.

`rusty` is what Rust has and ECMA 262 has not: `\\A`, `\\b{start}`, `(?P<n>a)`, `(?x)`, `a++`.
"""

_ANGLE: Final = re.compile(r"\\(?:([<>])|(.))", re.DOTALL)
_DASH: Final = re.compile(r"((?:^|[^\\])(?:\\\\)*\\[dDsSwW])-")


@lru_cache(maxsize=1024)
def pattern_of(text: str) -> Pattern:
    """A regular expression.

    Raises:
        CallerError: It is none, or too large a one.
    """
    return Pattern(text)


class Pattern:
    """A regular expression of ECMA 262.

    Args:
        text: The expression.

    Raises:
        CallerError: It is none, or too large a one.
    """

    def __init__(self, text: str) -> None:
        self._shown = text[:60]
        # `[\w-.]` is none, strictly; browsers and validators take the dash as one
        plain = _as_meant(text)
        # The strict reading goes first, so that a dash is escaped only where it must be.
        for meant in (plain, _DASH.sub(r"\1\\-", plain)) if plain is not None else ():
            self._text = meant
            self._is_linear = _searcher(meant, 0) is not None
            if self._is_linear or _searcher(meant, MOST_STEPS_BACK) is not None:
                return
        raise CallerError(
            f"the JSON schema is not valid: its pattern {text[:60]!r} is not a regular "
            "expression of ECMA 262, or is too large"
        )

    def is_in(self, text: str) -> bool:
        """Whether it matches somewhere in a text.

        Raises:
            BadBodyError: It takes too much work to tell.
        """
        from jsonschema_rs import ValidationError, ValidationErrorKind

        steps_back = 0
        # Longer texts get fewer steps, as each step may look at all of the text.
        if not self._is_linear:
            steps_back = min(MOST_STEPS_BACK, MOST_WORK // _power_of_two(len(text)))
        try:
            _searcher(self._text, steps_back).validate(_characters(text))
        except ValidationError as exc:
            # This error means no match; any other means that the search was given up.
            if isinstance(exc.kind, ValidationErrorKind.Pattern):
                return False
            problem = f"it takes too many steps to search for {self._shown!r}"
            raise BadBodyError(problem) from exc
        return True


def _as_meant(text: str) -> str | None:
    """An expression that means in Rust what it means in ECMA 262; None if there is none.

    `\\<` is a character in ECMA 262, and the beginning of a word in Rust.
    """
    found = []
    for token in _TOKEN.finditer(text):
        if token["rusty"]:
            return None
        angle, several = token["angle"], token["class"]
        found.append(angle or (_unescaped(several) if several else token[0]))
    return "".join(found)


def _unescaped(several: str) -> str:
    """A class of characters, with plain angles."""
    return _ANGLE.sub(lambda each: each[1] or each[0], several)


@lru_cache(maxsize=1024)
def _searcher(text: str, steps_back: int) -> Any:
    """A validator that knows only this pattern; None if there is none.

    Args:
        text: The pattern.
        steps_back: So many at most; 0: without.
    """
    from jsonschema_rs import FancyRegexOptions, RegexOptions, ValidationError, validator_for

    options: Any = RegexOptions(size_limit=MOST_BYTES)
    if steps_back:
        options = FancyRegexOptions(backtrack_limit=steps_back, size_limit=MOST_BYTES)
    try:
        # A validator with `pattern` alone: the package has no plain search.
        return validator_for({"pattern": text}, pattern_options=options)
    except (UnicodeError, ValidationError):
        return None


def _power_of_two(count: int) -> int:
    """The next one, so that texts of many lengths share a few searchers."""
    return 1 << count.bit_length()


def _characters(text: str) -> str:
    """The text; half a character of UTF-16, which JSON may have, is the one for unknown ones."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

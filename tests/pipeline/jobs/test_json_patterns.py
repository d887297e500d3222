"""Regular expressions of JSON schemas: what they mean, and which are refused."""

from __future__ import annotations

import string

import pytest

from pocketmq.pipeline.jobs.schemas.json_patterns import pattern_of
from pocketmq.runtime.errors import CallerError

MARKS = string.punctuation + " "


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_behind_a_backslash_is_that_mark(mark: str) -> None:
    for pattern in (rf"^\{mark}$", rf"^[\{mark}]$", rf"^[x\{mark}y]$", rf"^\w?\{mark}+$"):
        assert pattern_of(pattern).is_in(mark), pattern
        assert not pattern_of(pattern).is_in("z"), pattern
    assert not pattern_of(rf"^[^\{mark}]$").is_in(mark)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        (r"^\<b\>$", "<b>", "b"),
        (r"^\\<$", "\\<", "<"),
        (r"^\\A$", "\\A", "A"),
        (r"^[\w-.]+$", "a-.", "!"),
        (r"^[+]+\++$", "+++", "+"),
        (r"^a+?b*?c??$", "aab", "b"),
        (r"^\u{1234}+$", "\u1234\u1234", "u"),
        (r"^\p{L}+$", "äb", "1"),
        (r"^(?<year>\d)\1$", "11", "12"),
        (r"^(?:a|(?=b)b){2}$", "ab", "a"),
        (r"^[a&&b]$", "&", "c"),
    ],
)
def test_patterns_mean_what_they_mean_in_ecma_262(pattern: str, fitting: str, other: str) -> None:
    assert pattern_of(pattern).is_in(fitting)
    assert not pattern_of(pattern).is_in(other)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\Aa", r"a\z", r"[\z]", r"\b{start}a", r"a\b{end-half}", r"\U00000041"),
        *("(?P<n>a)", "(?x)a b", "(?i-x:a)", "(?U)a", "a++", "a*+", "a?+", "a{2}+", "(a|b){1,2}+"),
        *("(?>a)", r"\h", r"a\Z", "a{,3}", "{a}"),
    ],
)
def test_patterns_of_other_languages_are_refused(pattern: str) -> None:
    with pytest.raises(CallerError, match="not a regular expression of ECMA 262"):
        pattern_of(pattern)

"""SQL92 over properties: RocketMQ's own answers, its refusals, and what one text may cost (Q-)."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import FilterError
from pocketmq.protocol.filters import CompiledFilters, compile_sql92
from pocketmq.protocol.filters.nodes import MAX_DEPTH
from pocketmq.protocol.filters.parser import MAX_TOKENS
from pocketmq.protocol.filters.sql92 import MAX_CHARS
from pocketmq.protocol.filters.tokens import tokens
from support.cost import cost_s, least_and_bound_s
from support.golden import GOLDEN
from support.java import run_java
from support.sql_cases import SqlCases


def judged(messages: list[dict[str, str]], text: str) -> str:
    """As `JudgeSql.java` prints it."""
    try:
        wanted = compile_sql92(text)
    except FilterError:
        return "refused"
    return "".join("01"[wanted.matches(message)] for message in messages)


def test_2000_expressions_are_answered_as_rocketmq_5_3_3_answered_them() -> None:
    golden: dict[str, Any] = json.loads((GOLDEN / "sql92/answers.json").read_text())
    messages, answers = golden["messages"], golden["answers"]
    assert len(answers) == 2000
    assert {text: judged(messages, text) for text in answers} == answers


@pytest.mark.java
@pytest.mark.timeout(1200)  # a first run downloads the filter
def test_rocketmq_s_filter_answers_the_same_to_expressions_drawn_now(tmp_path: Any) -> None:
    cases = SqlCases(seed=13)
    messages, expressions = cases.messages(20), cases.expressions(1500)
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"messages": messages, "expressions": expressions}))
    theirs = run_java("JudgeSql", path).stdout.splitlines()
    ours = [judged(messages, text) for text in expressions]
    assert dict(zip(expressions, ours, strict=True)) == dict(zip(expressions, theirs, strict=True))


@pytest.mark.parametrize(
    ("expression", "properties", "matches"),
    [
        ("a > 5", {"a": "6"}, True),
        ("a > 5", {"a": "6.5"}, False),  # no integer
        ("a > 5.0", {"a": "6.5"}, True),
        ("a <> 5", {}, False),  # not known
        ("a NOT IN ('x')", {}, False),
        ("a = 'it''s'", {"a": "it's"}, True),
        ("NOT a = 5", {"a": "6"}, False),  # (NOT a) = 5
        ("NOT (a = 5)", {"a": "6"}, True),
        ("a = 1 OR b > 2", {"a": "1", "b": "x"}, True),
        ("b > 2 OR a = 1", {"a": "1", "b": "x"}, False),  # what cannot be compared ends it
        ("a = 1 foo bar #", {"a": "1"}, True),  # what cannot follow is not read
        ("a = 1 -- why\n AND b = 2", {"a": "1", "b": "3"}, False),
        ("A = 1", {"a": "1"}, False),
    ],
)
def test_what_often_surprises(expression: str, properties: dict[str, str], matches: bool) -> None:
    assert compile_sql92(expression).matches(properties) is matches


PAIRS = [
    {},
    {"a": "5"},
    {"a": "7"},
    {"a": "x"},
    {"a": "abc"},
    {"a": ""},
    {"a": "x", "b": "x"},
    {"a": "5", "b": "7"},
    {"a": "5", "b": "5.0"},
]


@pytest.mark.parametrize(
    ("expression", "answers"),
    [
        ("a > 5", "001000000"),
        ("a >= 5", "011000011"),
        ("a < 7", "010000011"),
        ("a <= 7", "011000011"),
        ("a = 5", "010000011"),
        ("a <> 5", "001000000"),
        ("a = -5", "000000000"),
        ("-a = 5", "000000000"),
        ("a BETWEEN 5 AND 6", "010000011"),
        ("a BETWEEN 4 AND 5", "010000011"),
        ("a NOT BETWEEN 5 AND 6", "001000000"),
        ("a NOT BETWEEN 6 AND 7", "010000011"),
        ("a IN ('x','5')", "010100111"),
        ("a NOT IN ('x','5')", "001011000"),
        ("a CONTAINS 'b'", "000010000"),
        ("a NOT CONTAINS 'b'", "011101111"),
        ("a STARTSWITH 'ab'", "000010000"),
        ("a NOT STARTSWITH 'ab'", "011101111"),
        ("a ENDSWITH 'bc'", "000010000"),
        ("a NOT ENDSWITH 'bc'", "011101111"),
        ("a CONTAINS ''", "000000000"),
        ("a NOT CONTAINS ''", "000000000"),
        ("a IS NULL", "100000000"),
        ("a IS NOT NULL", "011111111"),
        ("a", "000000000"),
        ("NOT a", "011111111"),
        ("NOT (a = 5)", "001000000"),
        ("a = b", "100000100"),
        ("NOT (a = b)", "011111011"),
        ("b = a", "100000100"),
        ("a < b", "000000010"),
        ("a <= b", "000000011"),
        ("a > b", "000000000"),
        ("a >= b", "000000001"),
        ("a > 4 AND a < 6", "010000011"),
        ("a > 6 OR a < 6", "011000011"),
        ("b = 1 OR a = 5", "010000010"),
        ("NOT (b = 1 AND a = 5)", "001000010"),
        ("NOT (b = 1 OR a = 5)", "000000000"),
        ("a = 'x' OR b IS NULL", "111111100"),
        ("(a = 5) = TRUE", "010000011"),
        ("(a = 5) = (a = 5)", "111000011"),
        ("(a IS NULL) = b", "000000000"),
        ("NOT ((a IS NULL) = 5)", "111111111"),
        ("NOT (5 = (a IS NULL))", "111111111"),
        ("-(a > 5) IS NULL", "111000011"),
        ("a BETWEEN 4 AND b", "000000011"),
        ("a BETWEEN 5 AND 5", "010000011"),
        ("TRUE", "111111111"),
        ("NOT FALSE", "111111111"),
        ("NULL", "000000000"),
        ("'5' = 5 AND 5 = '5' AND 5 = 5.0 AND 'x' = 'x'", "111111111"),
        ("5 > 4.5 AND 4 < 5 AND NOT (5 < 5) AND NOT (5 = 6)", "111111111"),
    ],
)
def test_what_each_operator_answers(expression: str, answers: str) -> None:
    assert judged(PAIRS, expression) == answers


@pytest.mark.parametrize(
    ("expression", "those", "not_those"),
    [
        ("a = 1.0", ["1", " 1 ", "1d", "1.D", "1e0F", "0x1p0", "0X.8P1d", "+1", "01", ".1e1"],
         ["1x", "d", "", "0x1", "1e", "NaN", "1dd", "1. .", "1!"]),
        ("a > 1.0", ["NaN", "Infinity", "0x1p99999", "1.5f"], ["NaNd", "-0x1p99999", "-Infinity"]),
        ("a < 1.0", ["-0x1p99999", "-Infinity", "-1e999"], ["NaN", "1"]),
        ("a = 5", ["5", "+5", "05", "0" * 639 + "5"], [" 5", "5.0", "5L", "0" * 640 + "5"]),
        ("a <= 5", ["-2147483648", "-5"], ["-2147483649"]),
        ("a > 5", ["2147483647"], ["2147483648"]),
        ("a > 2147483647", [], ["2147483648"]),
        ("a >= 2147483648", ["2147483648", "9223372036854775807"], ["9223372036854775808"]),
        ("a < 2147483648", ["-9223372036854775808"], ["-9223372036854775809", "2147483648"]),
        ("a = 9223372036854775807", ["9223372036854775807"], ["9223372036854775806"]),
        ("a = 2147483647l", ["2147483647"], ["2147483646"]),
        ("a > 4.9e-324", ["1e-300"], ["4.9e-324", "0"]),
        ("a > -5", ["-4", "0"], ["-5", "-6"]),
        ("a > +5", ["6"], ["5"]),
        ("a = TRUE", ["true", "TRUE"], ["yes", ""]),
        ("a = FALSE", ["false", "x"], ["true"]),
        ("a = 'it''s'", ["it's"], ["it''s", "its"]),
    ],
)  # fmt: skip
def test_which_texts_are_which_values(
    expression: str, those: list[str], not_those: list[str]
) -> None:
    wanted = compile_sql92(expression)
    assert [text for text in those if not wanted.matches({"a": text})] == []
    assert [text for text in not_those if wanted.matches({"a": text})] == []


def test_decimal_numbers_are_ordered_as_in_java() -> None:
    least_to_greatest = ["-Infinity", "-1", "-0.0", "0", "1e-9", "Infinity", "NaN"]
    for at, low in enumerate(least_to_greatest):
        for high in least_to_greatest[at + 1 :]:
            assert judged([{"a": low, "b": high}], "a < b") == "1"
            assert judged([{"a": high, "b": low}], "a <= b") == "0"
        assert judged([{"a": low, "b": low}], "a >= b AND a <= b") == "1"


def test_the_deepest_expressions_that_are_compiled() -> None:
    for opening, most, reason in (("NOT (", 98, "100 operations"), ("(", 100, "100 brackets")):
        deepest = opening * most + "a = 1" + ")" * most
        assert compile_sql92(deepest).matches({"a": "1"})
        with pytest.raises(FilterError, match=f"more than {reason} deep"):
            compile_sql92(opening + deepest + ")")
    assert compile_sql92(" AND ".join(["(a = 1)"] * 101)).matches({"a": "1"})


@pytest.mark.parametrize(
    ("expression", "position", "reason"),
    [
        ("", 1, "breaks off"),
        ("a = 1 AND", 10, "breaks off"),
        ("a = 1 ;", 7, "';' means nothing"),
        ("a = 'x", 5, "quote is not closed"),
        ('a = "x"', 5, "single quotes"),
        ("a != 1", 3, "write <>"),
        ("a = = 1", 5, "'=' cannot stand here"),
        ("a = 1 AND b > 'x'", 15, "only numbers and properties"),
        ("a BETWEEN 5 AND 1", 17, "must not be less than the number before AND"),
        ("a = NULL", 5, "IS NULL"),
        ("'x' IN ('x')", 1, "the left side of IN must be a property"),
        ("a = 9223372036854775808", 5, "beyond 64 bits"),
        ("a > 0.0", 5, "zero is 0"),
        ("5", 1, "this value is not a condition"),
        ("TRUE = 1", 8, "cannot be a number or a text"),
        ("a = 1 AND (a = 1 AND b = 2) > 5", 12, "only numbers and properties"),
        ("a = 1 AND 5", 11, "this value is not a condition"),
        ("-5", 1, "this value is not a condition"),
        ("-a", 1, "this value is not a condition"),
        ("a > (NOT b)", 6, "only numbers and properties"),
        ("a = 123456789012345678901", 5, "123456789012345678901 is beyond 64 bits"),
        ("a > 1e400", 5, "1e400 is no number between"),
        ("a BETWEEN 'x' AND 5", 11, "numbers or properties"),
    ],
)
def test_a_refusal_names_the_character_and_the_reason(
    expression: str, position: int, reason: str
) -> None:
    with pytest.raises(FilterError, match=reason) as caught:
        compile_sql92(expression)
    assert caught.value.position == position
    assert caught.value.expression == expression
    assert f"at character {position}:" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "'" + "x" * 1_000_000 + "'",
        "(" * 1000 + "a = 1" + ")" * 1000,
        "NOT " * 1000 + "a",
        "a" + " IS NULL" * 1000,
        "a = 1" + " = TRUE" * 1000,
        "+" * 15_000 + "a = 1",
        "/*" * 8000,
        "-" * 8000 + "\n",
    ],
    ids=lambda text: f"{text[:6]}-{len(text)}",
)
def test_text_of_a_megabyte_and_nesting_of_a_thousand_are_refused(text: str) -> None:
    before = sys.getrecursionlimit()
    with pytest.raises(FilterError) as caught:
        compile_sql92(text)
    assert len(str(caught.value)) < 400
    assert sys.getrecursionlimit() == before


def test_what_is_just_within_the_limits_is_compiled() -> None:
    deep = "NOT (" * (MAX_DEPTH - 2) + "a = 1" + ")" * (MAX_DEPTH - 2)
    assert compile_sql92(deep).matches({"a": "1"})
    pairs = (MAX_TOKENS + 1) // 4
    wide = " OR ".join(f"a={number % 10}" for number in range(pairs))
    assert compile_sql92(wide).matches({"a": "9"})
    assert not compile_sql92(wide).matches({"a": "10"})
    long = "a IN ('" + "x" * (MAX_CHARS - 9) + "')"
    assert not compile_sql92(long).matches({"a": "y"})


@given(st.text(max_size=60))
def test_any_text_is_compiled_or_refused_and_nothing_else(text: str) -> None:
    judged([{}, {"a": text}], text)


@given(st.text(max_size=30))
def test_a_property_is_compared_whatever_it_is(value: str) -> None:
    messages = [{"a": value}]
    for expression in ("a > 5", "a = 5.0", "a < b", "-a = 1", "a = TRUE", "a BETWEEN 1 AND 2"):
        assert judged(messages, expression) in ("0", "1")


def test_an_expression_has_16384_characters_at_most() -> None:
    longest = "a = '" + "x" * (16_384 - 6) + "'"
    assert compile_sql92(longest).matches({"a": "x" * (16_384 - 6)})
    with pytest.raises(FilterError, match="16385 characters; at most 16384") as caught:
        compile_sql92(longest + " ")
    assert caught.value.position == 16_385


@pytest.mark.parametrize(
    ("expression", "properties", "matches"),
    [
        ("a CONTAINS 'b'", {"a": "abc"}, False),  # the same as `a`
        ("a IS NOT NULL CONTAINS 'b'", {"a": "x"}, True),
        ("CONTAINS = 'b'", {"CONTAINS": "b"}, True),
        ("startsWith > 5 OR EndsWith IN ('b')", {"EndsWith": "b"}, True),
        ("a = 1 AND ENDSWITH NOT IN ('b')", {"a": "1", "ENDSWITH": "c"}, True),
        ("NOT CONTAINS IS NULL", {}, True),  # NOT is stronger
        ("a NOT CONTAINS 'b'", {}, None),
        ("CONTAINS 'b'", {"CONTAINS": "b"}, False),
    ],
)
def test_before_5_1_4_the_tests_of_texts_are_names_as_any_other(
    expression: str, properties: dict[str, str], matches: bool | None
) -> None:  # Q-3; the answers are those of 4.9.8's own filter
    if matches is None:
        with pytest.raises(FilterError):
            compile_sql92(expression, text_tests=False)
    else:
        assert compile_sql92(expression, text_tests=False).matches(properties) is matches


def test_kept_filters_read_the_language_of_their_release() -> None:
    message = {"a": "abc"}
    older, newer = CompiledFilters(text_tests=False), CompiledFilters()
    assert not older.get("a CONTAINS 'b'").matches(message)
    assert newer.get("a CONTAINS 'b'").matches(message)


def test_what_is_asked_for_is_kept_unless_told_otherwise() -> None:
    filters = CompiledFilters()
    assert filters.get("a = 1") is filters.get("a = 1")


def test_texts_asked_for_again_are_not_compiled_again() -> None:
    filters = CompiledFilters(max_chars=20)
    first = filters.get("a = 1")
    for text in ("b = 1", "b = 2", "b = 3"):
        filters.get(text)
    assert filters.get("a = 1") is first  # 20 characters
    for text in ("b = 4", "b = 5", "b = 6", "b = 7"):
        filters.get(text)
    assert filters.get("a = 1") is not first  # forgotten: 25 characters
    longest = filters.get("a = 12345678901234.5")
    assert filters.get(longest.text) is longest
    assert filters.get("a = 12345678901234.56") is not filters.get("a = 12345678901234.56")
    for _ in range(2):
        with pytest.raises(FilterError, match="breaks off"):
            filters.get("a =")


@pytest.mark.parametrize(
    "hostile",
    ["a=" + "-" * MAX_CHARS, "a=" + "-0" * MAX_CHARS, "a=1\n AND b=" + "-" * MAX_CHARS,
     "(" * MAX_CHARS, "a='" + "''" * MAX_CHARS, "/*" + "*" * MAX_CHARS, "a=" + "0" * MAX_CHARS],
    ids=lambda each: repr(each[:14]),
)  # fmt: skip
def test_no_text_takes_the_square_of_its_length(hostile: str) -> None:
    def read() -> None:
        with suppress(FilterError):
            compile_sql92(hostile[:MAX_CHARS])

    took_s, bound_s = least_and_bound_s(cost_s(read), lambda: cost_s(read), 5)
    assert took_s < bound_s


def test_a_comment_ends_with_its_line() -> None:
    def words(text: str) -> list[str]:
        return [each.text for each in tokens(text)]

    assert words("a -- five\r 5 -- and no more\n") == ["a", "5"]
    assert words("a -- five\n 5 -- c") == ["a", "5", "-", "-", "c"]
    assert words("-- b") == ["-", "-", "b"]

"""SQL92 over properties: RocketMQ's own answers, its refusals, and what one text may cost (Q-)."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import FilterError
from pocketmq.protocol.filters import CompiledFilters, compile_sql92
from pocketmq.protocol.filters.nodes import MAX_DEPTH
from pocketmq.protocol.filters.parser import MAX_TOKENS
from pocketmq.protocol.filters.sql92 import MAX_CHARS
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
        ("a BETWEEN 5 AND 1", 17, "less than the number before AND"),
        ("a = NULL", 5, "IS NULL"),
        ("'x' IN ('x')", 1, "only a property"),
        ("a = 9223372036854775808", 5, "beyond 64 bits"),
        ("a > 0.0", 5, "zero is 0"),
        ("5", 1, "neither true nor false"),
        ("TRUE = 1", 8, "cannot be compared"),
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


def test_texts_asked_for_again_are_not_compiled_again() -> None:
    filters = CompiledFilters(max_chars=20)
    first = filters.get("a = 1")
    assert filters.get("a = 1") is first
    for text in ("b = 1", "b = 2", "b = 3", "b = 4"):
        filters.get(text)
    assert filters.get("a = 1") is not first  # forgotten: 25 characters
    for _ in range(2):
        with pytest.raises(FilterError, match="breaks off"):
            filters.get("a =")

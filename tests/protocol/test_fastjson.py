"""The JSON dialect of fastjson: what is read, what is written, what is refused (E-60)."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.fastjson import FastjsonError, dump, parse, quote_integer_keys
from support.cost import cost_s, slowest_s

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts.filter(lambda key: key != "$ref"), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values)
def test_standard_json_is_read_as_any_reader_reads_it(value: Any) -> None:
    assert parse(json.dumps(value)) == value
    assert parse(json.dumps(value, indent=2, ensure_ascii=False)) == value


@given(values)
def test_what_is_written_without_integer_keys_is_standard_json(value: Any) -> None:
    assert json.loads(dump(value)) == value


@given(st.dictionaries(st.integers(-(2**63), 2**63), texts))
def test_integer_keys_are_written_raw_and_read_as_their_text(table: dict[int, str]) -> None:
    text = dump(table)
    assert parse(text) == {str(key): value for key, value in table.items()}
    assert text.startswith('{"') is False


@given(st.dictionaries(st.integers(-(2**63), 2**63), st.dictionaries(texts, values)))
def test_quoting_integer_keys_makes_standard_json_of_it(table: dict[int, Any]) -> None:
    expected = {str(key): value for key, value in table.items()}
    assert json.loads(quote_integer_keys(dump(table).encode())) == expected


@given(values)
def test_quoting_changes_nothing_in_standard_json(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1)):
        assert quote_integer_keys(text.encode()) == text.encode()


def test_quoting_steps_over_texts_that_look_like_keys() -> None:
    text = b'{0:"{1:2}",\n 7 :{-3:"\\"{4:"}}'
    assert quote_integer_keys(text) == b'{"0":"{1:2}",\n "7":{"-3":"\\"{4:"}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        ('{{"brokerName":"b","queueId":0,"topic":"T"}:7}',
         {'{"brokerName":"b","queueId":0,"topic":"T"}': 7}),
        ('{{"topic":"T","queueId":0,"brokerName":"b"}:7}',
         {'{"brokerName":"b","queueId":0,"topic":"T"}': 7}),
        ('{"a":{"x":1},"b":{"$ref":"$.a"}}', {"a": {"x": 1}, "b": {"x": 1}}),
        ('[{"x":1},{"$ref":"$[0]"}]', [{"x": 1}, {"x": 1}]),
        ('{"t":{"a":[5]},"b":{"$ref":"$.t.a[0]"}}', {"t": {"a": [5]}, "b": 5}),
        ("1.50", 1.5),
        ("-3", -3),
        ("1e3", 1000.0),
        (' { "a" : [ ] } ', {"a": []}),
        ('"\\u00e9\\n\\ud83d\\udeeb"', "é\n\U0001f6eb"),
    ],
)  # fmt: skip
def test_what_java_writes_is_read(text: str, expected: object) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[", '"', "{]", "[1,]", '{"a"}', '{"a":}', "nul", "1 2", "NaN", "Infinity",
        "1" * 5000, "-", '{"a":1,,}', '{"$ref":"$"}', '[{"$ref":"$[1]"},{"$ref":"$[0]"}]',
        '{"a":{"$ref":"$.nowhere"}}', '"\\x"', '"\\ud800"', "\x00", "{" * 100_000, "[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_json_in_any_dialect_is_refused_quickly(text: str) -> None:
    def refused() -> None:
        with pytest.raises(FastjsonError):
            parse(text)

    assert cost_s(refused) < slowest_s()


def test_references_cannot_unfold_without_end() -> None:
    layers = ",".join(
        f'"l{n}":[' + ",".join([f'{{"$ref":"$.l{n - 1}"}}'] * 10) + "]" for n in range(1, 12)
    )
    with pytest.raises(FastjsonError, match="stand for too many values"):
        parse('{"l0":["x"],' + layers + "}")


@given(st.text() | st.text('{}[]",:0123456789.-+eE$ref\\u truefalsn \n', max_size=60))
def test_arbitrary_text_is_a_value_or_an_error_with_a_position(text: str) -> None:
    with suppress(FastjsonError):  # anything else fails the test
        parse(text)


@given(values, st.data())
def test_mutated_json_is_a_value_or_an_error(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    changed = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
    with suppress(FastjsonError):  # anything else fails the test
        parse(changed)


def test_words_and_empty_tables_stand_anywhere_in_a_list() -> None:
    assert parse("[true,false,null,[],{},1]") == [True, False, None, [], {}, 1]
    assert parse('{"a":[],"b":{},"c":false}') == {"a": [], "b": {}, "c": False}


def test_integer_keys_are_sorted_by_their_text() -> None:
    assert dump({10: "x", 9: [True, None], "b": {}}) == '{"b":{},10:"x",9:[true,null]}'


def test_control_characters_may_stand_in_a_text_as_they_are() -> None:
    assert parse('"a\tb\nc"') == "a\tb\nc"


def test_a_number_has_at_most_40_characters() -> None:
    assert parse("9" * 40) == 10**40 - 1
    with pytest.raises(FastjsonError, match="a value at character 0"):
        parse("9" * 41)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[1;2]", r"expected ',' or '\]' at character 2"),
        ('{"a" 1}', "expected ':' at character 5"),
        ('{"a"=1}', "expected ':' at character 4"),
        ('{"a":1;"b":2}', "expected ',' or '}' at character 6"),
        ("1 2", "expected the end at character 2"),
        ('["a', "expected a closed string at character 1"),
        ('{"a":{"$ref":"$.nowhere"}}', "leads nowhere"),
    ],
)
def test_an_error_says_what_was_expected_and_where(text: str, error: str) -> None:
    with pytest.raises(FastjsonError, match=error):
        parse(text)


@pytest.mark.parametrize(
    ("opening", "inmost", "closing"),
    [("[", "[]", "]"), ('{"a":', "{}", "}")],
    ids=["lists", "objects"],
)
def test_nesting_ends_at_65_levels(opening: str, inmost: str, closing: str) -> None:
    assert parse(opening * 64 + inmost + closing * 64)
    with pytest.raises(FastjsonError, match="at most 64 levels"):
        parse(opening * 65 + inmost + closing * 65)


def test_a_key_is_one_level_deeper_than_its_object() -> None:
    assert parse("{" + "[" * 64 + "]" * 64 + ":1}") == {"[" * 64 + "]" * 64: 1}
    with pytest.raises(FastjsonError, match="at most 64 levels"):
        parse("{" + "[" * 65 + "]" * 65 + ":1}")


def test_a_key_holds_texts_and_numbers_as_keys_and_no_objects() -> None:
    assert parse('{{1:"a","b":{2:3}}:4,{"c":5}:6}') == {'{"1":"a","b":{"2":3}}': 4, '{"c":5}': 6}
    # Each level would double the backslashes: 200 characters would take all memory.
    for text in ("{" * 50 + "{}" + ":1}" * 50, "[" + "{[" * 30 + "1" + "]:1}" * 30 + "]"):

        def refused(text: str = text) -> None:
            with pytest.raises(FastjsonError, match="is used as a key inside another key"):
                parse(text)

        assert cost_s(refused) < slowest_s()


def _chain(references: int) -> list[object]:
    """Each refers to the one before it; the first is a value."""
    return ["x", *({"$ref": f"$[{n}]"} for n in range(references))]


def test_a_reference_may_lead_over_62_others() -> None:
    assert parse(json.dumps(_chain(63))) == ["x"] * 64
    in_table = {f"l{n}": value for n, value in enumerate(_chain(63))}
    text = re.sub(r"\$\[(\d+)\]", r"$.l\1", json.dumps(in_table))
    assert set(parse(text).values()) == {"x"}
    for too_long in (json.dumps(_chain(64)), text[:-1] + ',"l64":{"$ref":"$.l63"}}'):
        with pytest.raises(FastjsonError, match="form a circle"):
            parse(too_long)


def test_references_unfold_to_four_values_for_each_character_at_most() -> None:
    def referring(items: int) -> str:
        return f"[[{','.join(['0'] * items)}]" + ',{"$ref":"$[0]"}' * 8 + "]"

    # The list itself and nine lists: 4,572 values of 1,143 characters.
    assert parse(referring(506)) == [[0] * 506] * 9
    with pytest.raises(FastjsonError, match="stand for too many values"):
        parse(referring(507))

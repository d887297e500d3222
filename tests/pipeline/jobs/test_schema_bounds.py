"""Bodies and schemas that would take for ever, or end the job: a bad row or an error in a line."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.pipeline.jobs.schemas.avro import avro_schema
from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError, Decoder
from pocketmq.pipeline.jobs.schemas.decoders import decoder_of
from pocketmq.pipeline.jobs.schemas.json_words import MOST_STEPS, Words
from pocketmq.pipeline.jobs.schemas.registry import Reference, Schema
from pocketmq.runtime.errors import CallerError
from support.growth import least_s

NEWEST = "https://json-schema.org/draft/2020-12/schema"
BEFORE = "https://json-schema.org/draft/2019-09/schema"
LINEAR = "^(a+)+$"
"""Python's `re` would try 2 ** 60 ways through SLOW."""
BACKTRACKING = "^(?:(a+)+(?=a))+$"
SLOW = "a" * 60 + "b"


def reads(said: Any, *, draft: str = "") -> Decoder:
    named = {"$schema": draft, **said} if draft else said
    return decoder_of(Schema("JSON", json.dumps(named)))


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


# -- regular expressions --------------------------------------------------------------------------


@pytest.mark.parametrize("draft", [BEFORE, NEWEST])
@pytest.mark.parametrize(
    "said",
    [
        {"patternProperties": {LINEAR: True, "b$": False}},
        {"patternProperties": {LINEAR: True}, "additionalProperties": False},
        {"propertyNames": {"pattern": LINEAR}},
        {"allOf": [{"patternProperties": {LINEAR: True}}], "unevaluatedProperties": False},
    ],
)
def test_names_of_fields_are_searched_with_a_bound_too(said: Any, draft: str) -> None:
    read = reads(said, draft=draft)
    assert read(body(aa=1))
    with pytest.raises(BadBodyError, match="breaks the schema's rule"):
        read(body(**{SLOW: 1}))


@pytest.mark.parametrize("draft", ["", BEFORE, NEWEST])
def test_a_reference_that_names_its_draft_has_the_same_bounds(draft: str) -> None:
    inner = {"pattern": BACKTRACKING} | ({"$schema": draft} if draft else {})
    one = Reference("one.json", Schema("JSON", json.dumps(inner)))
    said = json.dumps({"properties": {"a": {"$ref": "one.json"}}})
    with pytest.raises(BadBodyError, match="takes too many steps"):
        decoder_of(Schema("JSON", said, references=(one,)))(body(a=SLOW))


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        (r"^\d+$", "12", "\N{ARABIC-INDIC DIGIT ONE}"),
        ("^a$", "a", "a\n"),
        (r"^\p{Lu}$", "\N{LATIN CAPITAL LETTER A WITH DIAERESIS}", "a"),
        (r"^(?!.*\.\.)[^/]+$", "a.b", "a..b"),
        (r"^(['\"])x\1$", "'x'", "'x\""),
        ("^(?<year>[0-9]{4})$", "2026", "x"),
        (r"^\u00e4\/$", "\N{LATIN SMALL LETTER A WITH DIAERESIS}/", "a/"),
        ("^.{1,2048}$", "x" * 2048, "x" * 2049),
        (r"^[\w-.]+$", "a-b.c", "a+b"),
    ],
)
def test_patterns_are_those_of_json_schema(pattern: str, fits: str, does_not: str) -> None:
    """ECMA 262's, and not Python's."""
    read = reads({"properties": {"a": {"pattern": pattern}}})
    assert read(body(a=fits)) == {"a": fits}
    with pytest.raises(BadBodyError, match=r"\$\.a breaks the schema's rule `pattern`"):
        read(body(a=does_not))


def test_half_a_character_is_none_for_a_pattern() -> None:
    read = reads({"properties": {"a": {"pattern": "^x.y$"}}})
    assert read(rb'{"a": "x\ud800y"}')
    with pytest.raises(BadBodyError, match="breaks the schema's rule `pattern`"):
        read(rb'{"a": "\ud800"}')


@pytest.mark.parametrize("pattern", ["[", r"a\Z", "a{,}{2}", "((a{1,900}){1,900}){1,900}"])
@pytest.mark.parametrize("word", ["pattern", "patternProperties"])
def test_a_pattern_that_is_none_is_told_before_the_first_body(word: str, pattern: str) -> None:
    inner = {word: {pattern: {}} if word == "patternProperties" else pattern}
    with pytest.raises(
        CallerError, match=r"the JSON schema is not valid: .* is not a regular expression"
    ):
        reads({"properties": {"a": inner}})


# -- work -----------------------------------------------------------------------------------------


def nested(depth: int, leaf: Any) -> bytes:
    return b'{"child": ' * depth + json.dumps(leaf).encode() + b"}" * depth


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_a_body_whose_choices_multiply_with_its_depth_is_a_bad_body(word: str) -> None:
    """A schema as one may write it: two kinds of node, which hold nodes."""
    kinds = [
        {"properties": {"child": {"$ref": "#"}, "kind": {"const": kind}}, "type": "object"}
        for kind in ("a", "b")
    ]
    read = reads({word: [*kinds, {"type": "string"}]} if word == "anyOf" else {word: kinds})
    with pytest.raises(BadBodyError, match="takes too many steps"):
        read(nested(40, 1))


def test_a_large_body_may_take_more_steps() -> None:
    count = MOST_STEPS
    read = reads({"properties": {"a": {"items": {"type": "integer", "minimum": 1}}}})
    assert len(read(b'{"a": [' + b"1," * count + b"1]}")["a"]) == count + 1


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ("", {"uniqueItems": True}),
        (NEWEST, {"prefixItems": [{}], "unevaluatedItems": {"type": ["integer", "string"]}}),
        (BEFORE, {"items": [{}], "unevaluatedItems": {"type": ["integer", "string"]}}),
    ],
)
def test_lists_take_as_long_as_they_are(draft: str, said: Any) -> None:
    """Numbers and texts, which cannot be sorted, and so were compared each with each."""
    read = reads({"properties": {"a": said}}, draft=draft)

    def took_s(count: int) -> float:
        found = body(a=[each for number in range(count) for each in (number, f"{number}")])
        return least_s(lambda: read(found), runs=3, steps=1)

    assert took_s(6_000) < 10 * took_s(1_500)


def test_many_listed_values_are_equal_as_json_means_it() -> None:
    read = reads({"properties": {"a": {"enum": [*range(30), "x", None, [1], {"b": 2}]}}})
    for value in (1, 1.0, "x", None, [1.0], {"b": 2}):
        assert read(body(a=value)) == {"a": value}
    for value in (True, False, 30, "1", [True], {}):
        with pytest.raises(BadBodyError, match=r"\$\.a breaks the schema's rule `enum`"):
            read(body(a=value))


@pytest.mark.parametrize(
    ("values", "are_unlike"),
    [
        ([1, True, "1", None, [], {}, [1], {"a": 1}], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
        ([[1, [2]], [1, [2]]], False),
    ],
)
def test_items_are_unlike_as_json_means_it(values: list[Any], are_unlike: bool) -> None:
    read = reads({"properties": {"a": {"uniqueItems": True}}})
    if are_unlike:
        assert read(body(a=values))
        return
    with pytest.raises(BadBodyError, match="breaks the schema's rule `uniqueItems`"):
        read(body(a=values))


@pytest.mark.parametrize("draft", [BEFORE, NEWEST])
def test_what_no_schema_has_looked_at_is_unevaluated(draft: str) -> None:
    inner = {"properties": {"b": {}}, "required": ["b"]}
    choice = {"anyOf": [inner, {"properties": {"c": {}}, "required": ["c"]}]}
    then = {"if": {"required": ["d"]}, "then": {"properties": {"d": {}}}}
    said = {
        "$defs": {"x": {"patternProperties": {"^x": {}}}},
        "$ref": "#/$defs/x",
        **choice,
        **then,
    }
    read = reads({**said, "properties": {"a": {}}, "unevaluatedProperties": False}, draft=draft)
    assert read(body(a=1, b=1, x1=1, d=1))
    with pytest.raises(
        BadBodyError, match=r"\$ breaks the schema's rule `unevaluatedProperties`: .* at 'e'"
    ):
        read(body(b=1, e=1))


LEAVES = st.sampled_from(
    [
        *({}, True, False, {"type": "integer"}, {"type": "string"}, {"pattern": "^a"}),
        *({"uniqueItems": True}, {"maxLength": 1}, {"enum": ["a", [1], None]}, {"const": 1}),
    ]
)
NAMES = st.sampled_from(["a", "b", "ab", "x"])


def inner_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several, one = st.lists(inner, min_size=1, max_size=2), inner
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, one, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), one, max_size=2),
            "dependentSchemas": st.dictionaries(NAMES, one, max_size=1),
            **dict.fromkeys(("additionalProperties", "items", "contains", "not"), one),
            **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), one),
            **dict.fromkeys(("if", "then", "else", "propertyNames"), one),
            **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
        },
    )


SCHEMAS = st.recursive(LEAVES, inner_schemas, max_leaves=8)
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, "", "a", "ab", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(SCHEMAS, VALUES)
@pytest.mark.parametrize("kind", [jsonschema.Draft7Validator, jsonschema.Draft202012Validator])
def test_what_is_checked_with_a_bound_fits_as_it_would_without(
    kind: Any, said: Any, value: Any
) -> None:
    words = Words()
    words.work.begin(0)
    assert words.kind(kind)(said).is_valid(value) == kind(said).is_valid(value)


# -- Avro and Protobuf ----------------------------------------------------------------------------


def avro(said: Any) -> Decoder:
    return decoder_of(Schema("AVRO", json.dumps(said)))


def a_record(name: str, **fields: Any) -> dict[str, Any]:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "fixed", "name": "F", "size": 0},
        a_record("E"),
        a_record("N", a="null", b=a_record("M", c="null")),
    ],
)
def test_a_list_of_items_without_bytes_is_refused(items: Any) -> None:
    """Ten bytes may say that it has 2 ** 62 items."""
    with pytest.raises(CallerError, match=r"no Avro schema: .* take no bytes"):
        avro(a_record("R", a={"type": "array", "items": items}))


@pytest.mark.parametrize("depth", [2_000, 200_000])
def test_an_avro_body_that_is_nested_too_deeply_is_a_bad_body(depth: int) -> None:
    read = avro(a_record("R", a=["null", "R"]))
    assert read(b"\x02" * 3 + b"\x00") == {"a": {"a": {"a": {"a": None}}}}
    with pytest.raises(BadBodyError, match="nested too deeply"):
        read(b"\x02" * depth + b"\x00")
    with pytest.raises(BadBodyError, match="nested too deeply"):
        avro(a_record("R", a="R"))(b"")


def test_an_avro_body_of_very_many_types_within_each_other_is_a_bad_body() -> None:
    """A record of a record, and so on: each of them named before."""
    records = [a_record("R0", a="int")]
    records += [a_record(f"R{number}", a=f"R{number - 1}") for number in range(1, 7_000)]
    whole = avro_schema(Schema("AVRO", json.dumps(records)))
    found = whole.decoder(20)(b"\x02")
    for _ in range(20):
        found = found["a"]
    assert found == {"a": 1}
    with pytest.raises(BadBodyError, match="nested too deeply"):
        whole.decoder(6_999)(b"\x02")


def with_decimal(kind: dict[str, Any]) -> Decoder:
    return avro(a_record("R", a={**kind, "logicalType": "decimal", "precision": 9, "scale": 2}))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"type": "bytes", "precision": 2, "scale": 5}, "scale must be less than or equal"),
        ({"type": "bytes", "precision": 4, "scale": "x"}, "scale must be a positive integer"),
        ({"type": "bytes", "precision": "4", "scale": 1}, "precision must be a positive integer"),
        ({"type": "fixed", "name": "F", "size": 1, "precision": 9}, "doesn't fit into array"),
    ],
)
def test_avro_decimals_that_cannot_be_are_refused(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(CallerError, match=f"no Avro schema: decimal .*{problem}"):
        avro(a_record("R", a={**said, "logicalType": "decimal"}))


def test_an_avro_decimal_without_a_scale_has_no_places() -> None:
    said = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": None}
    assert avro(a_record("R", a=said))(b"\x02\x07") == {"a": Decimal(7)}


def test_avro_decimals_are_read_up_to_a_length_that_takes_no_time() -> None:
    for kind, head in (
        ({"type": "bytes"}, b"\x04"),
        ({"type": "fixed", "name": "F", "size": 5}, b"\xff\xff\xff"),
    ):
        assert with_decimal(kind)(head + b"\xff\x85") == {"a": Decimal("-1.23")}
    read = with_decimal({"type": "bytes"})
    found = read(b"\x80\x10" + b"\x7f" * 1024)["a"]
    assert str(found).replace(".", "") == str(int.from_bytes(b"\x7f" * 1024))
    with pytest.raises(BadBodyError, match="a decimal has 1025 bytes"):
        read(b"\x82\x10" + b"\x7f" * 1025)


PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/duration.proto";
message M {
  google.protobuf.Timestamp at = 1;
  google.protobuf.Any any = 2;
  google.protobuf.Value value = 3;
  google.protobuf.Duration lasts = 4;
  M inner = 5;
}
"""


@pytest.mark.parametrize(
    "wrong",
    [
        "0a0a08ffffffffffffffff7f",  # a time in no calendar
        "12040a02612f",  # a type that nobody knows
        "1a0911000000000000f87f",  # NaN, which JSON has not
        "220a08ffffffffffffffff7f",  # a duration of 292 thousand million years
    ],
)
def test_a_protobuf_body_that_is_no_json_is_a_bad_body(wrong: str) -> None:
    read = decoder_of(Schema("PROTOBUF", PROTO))
    assert read(bytes.fromhex("0a020801")) == {"at": "1970-01-01T00:00:01Z"}
    with pytest.raises(BadBodyError, match="no M: "):
        read(bytes.fromhex(wrong))


def test_a_protobuf_body_that_is_nested_too_deeply_is_a_bad_body() -> None:
    found = b""
    for _ in range(200):
        size = len(found)
        head = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
        found = b"\x2a" + head + found
    with pytest.raises(BadBodyError, match="no M: "):
        decoder_of(Schema("PROTOBUF", PROTO))(found)

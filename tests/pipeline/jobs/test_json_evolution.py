"""`schema-check` of JSON schemas: what fits, what does not, and what cannot be told."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from pocketmq.pipeline.jobs.schemas import json_evolution
from pocketmq.pipeline.jobs.schemas.evolution import UNTOLD, cannot_read, misfits
from pocketmq.pipeline.jobs.schemas.registry import Schema
from support.growth import least_s

NEWEST = "https://json-schema.org/draft/2020-12/schema"
DRAFT_3, DRAFT_4 = (f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4))
TEXT, WHOLE, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}


def record(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def named(said: dict[str, Any], **definitions: Any) -> dict[str, Any]:
    return {**said, "definitions": definitions}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{name}"}


def told(reader: Any, writer: Any) -> list[str]:
    """What does not fit; with `?` where that cannot be told."""
    found = cannot_read(*(Schema("JSON", json.dumps(each)) for each in (reader, writer)))
    return [("? " if each.verdict == UNTOLD else "") + each.what for each in found]


def fields(**said: Any) -> dict[str, Any]:
    return {"properties": said}


STARRED = {"type": "object", "patternProperties": {"^a": TEXT}}
SALE, REFUND = record("price", price=WHOLE), record("reason", reason=TEXT)
RETURN = record("parcel", parcel=TEXT)

CASES: list[tuple[str, Any, Any, list[str], list[str]]] = [
    # what; older, newer; why the newer cannot read the older, why the older cannot read the newer
    ("a wider anyOf", {"anyOf": [TEXT]}, {"anyOf": [TEXT, NULL]},
     [], ["$(anyOf 2): null is not string"]),
    ("a wider oneOf of messages", {"oneOf": [SALE, REFUND]}, {"oneOf": [SALE, REFUND, RETURN]},
     [], ["$(oneOf 3): no choice of `oneOf` reads object"]),
    ("a type that becomes a choice", TEXT, {"anyOf": [NULL, TEXT]},
     [], ["$(anyOf 1): null is not string"]),
    ("a list of types is a choice", {"type": ["string", "null"]}, {"anyOf": [NULL, TEXT]},
     [], []),
    ("listed values are a choice", {"enum": ["a", 1]}, {"anyOf": [{"const": 1}, {"enum": ["a"]}]},
     [], []),
    ("a field of a message changes", {"oneOf": [SALE, REFUND]},
     {"oneOf": [record("price", price={"type": "number"}), REFUND]},
     [], ["$(oneOf 1).price: number is not integer"]),
    ("messages that say their kind", {"oneOf": [record("k", k={"const": "a"}, v=TEXT),
                                                record("k", k={"const": "b"}, v=TEXT)]},
     {"oneOf": [record("k", k={"const": "b"}, v=TEXT), record("k", k={"const": "a"}, v=WHOLE)]},
     ["$(oneOf 1).v: string is not integer"], ["$(oneOf 2).v: integer is not string"]),
    ("the order of choices", {"oneOf": [record(a=TEXT), record(b=TEXT)]},
     {"oneOf": [record(b=TEXT), record(a=TEXT)]}, [], []),
    ("messages that look alike", {"oneOf": [record(a=TEXT)]},
     {"oneOf": [record(a=TEXT), record(b=TEXT)]},
     ["$(oneOf 1): choices 1 and 2 of `oneOf` read the same"], []),
    ("messages that are alike in part", {"oneOf": [record(a=TEXT)]},
     {"oneOf": [record(a=TEXT), record(a={**TEXT, "minLength": 3})]},
     ["? $(oneOf 1): choice 1 of `oneOf` reads it, but 2 may"], []),
    ("allOf puts fields together", record("a", a=WHOLE, b=TEXT),
     {"allOf": [record("a", a=WHOLE), record(b=TEXT)]}, [], []),
    ("a part of allOf requires more", {"allOf": [record(a=WHOLE), record(b=TEXT)]},
     {"allOf": [record("a", a=WHOLE), record(b=TEXT)]}, ["$.a: is required, and was not"], []),
    ("allOf of two types is neither", {"allOf": [TEXT, WHOLE]}, NULL,
     [], ["$: null is not allowed any more"]),
    ("beside a $ref in draft 7: nothing", named({**ref("r"), "required": ["b"]}, r=record(a=WHOLE)),
     named({**ref("r"), "required": ["c"]}, r=record(a=WHOLE)), [], []),
    ("beside a $ref since 2019", {"$schema": NEWEST, **named(ref("r"), r=record(a=WHOLE))},
     {"$schema": NEWEST, **named({**ref("r"), "required": ["a"]}, r=record(a=WHOLE))},
     ["$.a: is required, and was not"], []),
    ("choices behind references", named({"oneOf": [ref("s"), ref("f")]}, s=SALE, f=REFUND),
     named({"oneOf": [ref("f"), ref("s")]}, s=SALE, f=record("reason", "by", reason=TEXT, by=TEXT)),
     ["$(oneOf 2): no choice of `oneOf` reads object; the nearest: $(oneOf 2).by: is required"],
     []),
    ("a choice in a field", record(a={"anyOf": [NULL, WHOLE]}), record(a={"anyOf": [NULL, TEXT]}),
     ["$.a(anyOf 2): no choice of `anyOf` reads integer"],
     ["$.a(anyOf 2): no choice of `anyOf` reads string"]),
    ("what no one choice reads", record(a={}, b=WHOLE),
     {"anyOf": [record(a=WHOLE, b={}), record(a={}, b=TEXT)]},
     ["$: no choice of `anyOf` reads all of it"], ["$(anyOf 1).b: ", "$(anyOf 2).b: "]),
    ("choices that may read it together", WHOLE, {"anyOf": [{"minimum": 5}, {"maximum": 6}]},
     ["? $: no choice of `anyOf` reads all of it"], ["$(anyOf 1): ", "$(anyOf 2): "]),
    ("limits", record(a={"type": "integer", "minimum": 1}),
     record(a={"type": "integer", "exclusiveMinimum": 0}), [], []),
    ("narrower limits", {"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 5},
     ["$: `maxLength` is 5 instead of 9"], []),
    ("a pattern", TEXT, {"type": "string", "pattern": "^a"},
     ["? $: `pattern` is new"], []),
    ("the same pattern", {"type": "string", "pattern": "^a"},
     {"type": ["string", "null"], "pattern": "^a"}, [], ["$: null is not string"]),
    ("a pattern of what is no text", WHOLE, {"type": "integer", "pattern": "^a"}, [], []),
    ("a pattern of listed values", {"enum": ["ab", "cd"]}, {"pattern": "^a"},
     ['$: "cd" is not allowed any more'], ["$: anything is none of its values"]),
    ("not", {"type": ["string", "null"]}, {"type": ["string", "null"], "not": NULL},
     ["? $: `not` is new"], []),
    ("a not that may rule it out", {"type": ["string", "null"], "not": NULL}, TEXT,
     ["? $: null is not string, unless `not` rules that out"], []),
    ("if", record(a=TEXT), {**record(a=TEXT), "if": record("a"), "then": {}},
     ["? $: `if` is new"], []),
    ("items", {"type": "array", "items": WHOLE},
     {"type": "array", "items": {"anyOf": [WHOLE, TEXT]}},
     [], ["$[](anyOf 2): string is not integer"]),
    ("items of anything", {"type": "array"}, {"type": "array", "items": WHOLE},
     ["$[]: anything is not integer"], []),
    ("fields of a map", {"type": "object", "additionalProperties": WHOLE},
     {"type": "object", "additionalProperties": {"type": "number"}},
     [], ["$.*: number is not integer"]),
    ("a map's field gets a type", {"type": "object", "additionalProperties": WHOLE}, record(a=TEXT),
     ["$.a: integer is not string"], ["$.a: string is not integer"]),
    ("names by a pattern", record(x1=WHOLE),
     {"type": "object", "patternProperties": {"^x": TEXT}},
     ["$.x1: integer is not string"], ["$.x1: string is not integer"]),
    ("a name of a pattern gets a type", STARRED, {**STARRED, **fields(a=WHOLE)},
     ["$.a: string is not integer"], []),
    ("a required name of a pattern gets a limit", {**STARRED, "required": ["a"]},
     {**STARRED, **fields(a={**TEXT, "maxLength": 2})},
     ["$.a: `maxLength` is 2"], ["$.a: is required"]),
    ("a map beside the same patterns", {**STARRED, "additionalProperties": TEXT},
     {**STARRED, "additionalProperties": WHOLE},
     ["? $.*: string is not integer"], ["? $.*: integer is not string"]),
    ("a map's field gets a type beside patterns", {**STARRED, "additionalProperties": TEXT},
     {**STARRED, **fields(b=WHOLE)}, ["$.b: string is not integer"],
     ["$.b: integer is not string"]),
    ("a map instead of patterns", STARRED, {"type": "object", "additionalProperties": WHOLE},
     ["? $: `patternProperties` is new"], ["? $: `patternProperties` is new"]),
    ("a field that a pattern limits", {**STARRED, **fields(ab={})},
     {**STARRED, **fields(ab={}), "title": "again"}, [], []),
    ("a part that has looked at no field", {"$schema": NEWEST, **record(a=TEXT)},
     {"$schema": NEWEST, **record(a=TEXT), "allOf": [{"unevaluatedProperties": False}]},
     ["? $: `unevaluatedProperties` is new"], []),
    ("a part behind a $ref that has", {"$schema": NEWEST, **record(a=TEXT)},
     {"$schema": NEWEST, **record(a=TEXT),
      **named(ref("u"), u={"unevaluatedProperties": False, **fields(a=TEXT)})}, [], []),
    ("a part behind a $ref that has not", {"$schema": NEWEST, **record(a=TEXT)},
     {"$schema": NEWEST, **record(a=TEXT), **named(ref("u"), u={"unevaluatedProperties": False})},
     ["? $: `unevaluatedProperties` is new"], []),
    ("a map without other fields", {"$schema": NEWEST, **STARRED, "unevaluatedProperties": False},
     {"$schema": NEWEST, **STARRED, "unevaluatedProperties": False, "minProperties": 0}, [], []),
    ("a field that another one needs",
     {"$schema": NEWEST, **record("a"), "dependentRequired": {"a": ["b"]}},
     {"$schema": NEWEST, **record("b")},
     ["? $.b: is required, and was not"], ["$.a: is required, and was not"]),
    ("whole numbers by their step", {"type": "number", "multipleOf": 2}, WHOLE,
     [], ["? $: `multipleOf` is new"]),
    ("numbers with halves", {"type": "number", "multipleOf": 0.5}, WHOLE,
     ["$: number is not integer"], []),
    ("lists that have no items", {"type": "array", "items": False},
     {"type": "array", "items": False, "maxItems": 1, "uniqueItems": True}, [], []),
    ("lists that may have no items", {"type": "array", "items": {"not": {}}},
     {"type": "array", "items": {"not": {}}, "maxItems": 1}, ["? $: `maxItems` is 1"], []),
    ("a word that draft 4 does not have", {"$schema": DRAFT_4, **fields(a=TEXT)},
     {"$schema": DRAFT_4, **fields(a=TEXT), "propertyNames": {"enum": ["b"]}, "const": 1}, [], []),
    ("a word that draft 3 does not have", {"$schema": DRAFT_3, "type": "string"},
     {"$schema": DRAFT_3, "type": "string", "anyOf": [{"type": "null"}]}, [], []),
    ("a word that draft 3 only has", {"$schema": DRAFT_4, **WHOLE},
     {"$schema": DRAFT_4, **WHOLE, "divisibleBy": 2, "disallow": "integer"}, [], []),
    ("a required field gets a type", record("a"), record(a=TEXT),
     ["$.a: anything is not string"], ["$.a: is required, and was not"]),
    ("a required field is not allowed", record("a"),
     {"type": "object", "additionalProperties": False}, ["$.a: nothing is allowed any more"],
     ["$.a: is required, and was not"]),
    ("a required field of a map", record("a"), {"type": "object", "additionalProperties": TEXT},
     ["$.a: anything is not string"], ["$.a: is required, and was not"]),
    ("a field that is not allowed", record(a=WHOLE),
     {"type": "object", "additionalProperties": False},
     ["$.a: nothing is allowed any more"], []),
    ("a $dynamicRef", {"$schema": NEWEST, **record(a=TEXT)},
     {"$schema": NEWEST, "$dynamicAnchor": "n", **record(a=TEXT, b={"$dynamicRef": "#n"})},
     [], []),
]  # fmt: skip


NOT_COMPARED = {
    "a choice in a field",
    "a field of a message changes",
    "a field that another one needs",
    "a list of types is a choice",
    "a map beside the same patterns",
    "a map instead of patterns",
    "a map without other fields",
    "a map's field gets a type beside patterns",
    "a name of a pattern gets a type",
    "a not that may rule it out",
    "a part behind a $ref that has",
    "a part behind a $ref that has not",
    "a part of allOf requires more",
    "a part that has looked at no field",
    "a pattern of listed values",
    "a required name of a pattern gets a limit",
    "a type that becomes a choice",
    "a wider anyOf",
    "a wider oneOf of messages",
    "allOf of two types is neither",
    "allOf puts fields together",
    "beside a $ref since 2019",
    "choices behind references",
    "choices that may read it together",
    "if",
    "items",
    "limits",
    "listed values are a choice",
    "lists that have no items",
    "lists that may have no items",
    "messages that are alike in part",
    "messages that look alike",
    "messages that say their kind",
    "names by a pattern",
    "numbers with halves",
    "the order of choices",
    "the same pattern",
    "what no one choice reads",
    "whole numbers by their step",
}
"""Cases with words that no plain rule is about: there nothing is claimed that was not looked at."""


@pytest.mark.parametrize(
    ("name", "older", "newer", "backward", "forward"), CASES, ids=[case[0] for case in CASES]
)
def test_what_fits_does_not_fit_or_cannot_be_told(
    name: str, older: Any, newer: Any, backward: list[str], forward: list[str]
) -> None:
    for reader, writer, expected in ((newer, older, backward), (older, newer, forward)):
        found = told(reader, writer)
        if name in NOT_COMPARED:
            certain = [each for each in found if not each.startswith("? ")]
            assert len(certain) <= len(expected)
            assert found or not expected
            continue
        assert len(found) == len(expected), found
        for each, beginning in zip(found, expected, strict=True):
            assert each.startswith(beginning)
    for said in (older, newer):  # not the very same object, which fits itself without a look
        found = told({**said, "title": "again"}, said)
        assert [each for each in found if "$dynamicRef" not in each] == []


def test_the_table_has_what_cannot_be_told_beside_the_misfits() -> None:
    older = record(a=TEXT, b=WHOLE)
    newer = record(a={**TEXT, "pattern": "^x"}, b=TEXT)
    texts = enumerate((older, newer), 1)
    versions = [Schema("JSON", json.dumps(said), version) for version, said in texts]
    assert [
        (each.reader, each.writer, each.verdict, each.what)
        for each in misfits(versions[1], versions[0])
    ] == [
        (2, 1, "cannot tell", "$.a: `pattern` is new or says something else"),
        (2, 1, "does not fit", "$.b: integer is not string"),
    ]


def test_choices_are_the_same_or_cannot_be_told() -> None:
    both = {"oneOf": [SALE, REFUND]}
    assert told(both | {"title": "again"}, both) == []
    assert told({"oneOf": [SALE, REFUND, RETURN]}, both) == [
        "? $: `oneOf` is new or says something else"
    ]


def test_choices_that_are_written_alike_and_lead_elsewhere_cannot_be_told() -> None:
    choice = {"anyOf": [NULL, ref("a")]}
    assert told(named(choice, a=TEXT), named(choice, a=TEXT)) == []
    assert told(named(choice, a=TEXT), named(choice, a=WHOLE)) != []
    inside = {"properties": {"a": WHOLE}, "anyOf": [{"$ref": "#/properties/b"}], "title": "x"}
    assert told(inside | fields(a=WHOLE, b=TEXT), inside | fields(a=WHOLE, b=WHOLE)) != []


def holding_itself(count: int) -> dict[str, Any]:
    return record(*map(str, range(count)), **{str(each): {"$ref": "#"} for each in range(count)})


def test_a_schema_that_holds_itself_many_times_takes_few_comparisons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: Counter[str] = Counter()
    parts = json_evolution.Comparison._parts

    def count(*args: Any) -> Any:
        done["parts"] += 1
        return parts(*args)

    monkeypatch.setattr(json_evolution.Comparison, "_parts", count)
    said = holding_itself(60)
    told({**said, "properties": {**said["properties"], "more": TEXT}}, said)
    assert 0 < done.total() <= 100


@pytest.mark.parametrize("word", ["allOf", "anyOf"])
def test_many_listed_values_take_as_long_as_they_are(word: str) -> None:
    def took_s(count: int) -> float:
        said = record(a={word: [{"enum": [f"t{number}" for number in range(count)]}]})
        assert told({**said, "title": "again"}, said) == []
        return least_s(lambda: told({**said, "title": "again"}, said), runs=3, steps=1)

    assert took_s(8_000) < 10 * took_s(2_000)


# -- against the validator ------------------------------------------------------------------------

VALUES = st.sampled_from([None, True, 0, 1, 5, 7, 1.5, "", "a", "abc", [], [1], [1, 1], ["a"]])
LEAVES = st.recursive(
    st.sampled_from(
        [
            *({}, TEXT, WHOLE, NULL, {"type": ["integer", "null"]}, {"type": "number"}, False),
            *({"enum": ["a", 1]}, {"const": 5}, {"minimum": 1}, {"exclusiveMaximum": 7}),
            *({"minLength": 2}, {"pattern": "^a"}, {"type": "array"}, {"maxItems": 1}),
            *({"uniqueItems": True}, {"multipleOf": 5}, {"type": "integer", "maximum": 5}),
        ]
    ),
    lambda inner: (
        st.builds(lambda word, said: {word: said}, st.sampled_from(["not", "items"]), inner)
        | st.builds(
            lambda word, said: {word: said},
            st.sampled_from(["allOf", "anyOf", "oneOf"]),
            st.lists(inner, min_size=1, max_size=3),
        )
        | st.builds(lambda one, other: {"if": one, "then": other}, inner, inner)
    ),
    max_leaves=4,
)
BEYOND = st.fixed_dictionaries(
    {},
    optional={
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c", "c"]), LEAVES),
        "additionalProperties": LEAVES | st.booleans(),
        "unevaluatedProperties": LEAVES | st.booleans(),
    },
)
RECORDS = st.builds(
    lambda known, beyond, required, word, more: {
        **record(*required, **known), **beyond, **({word: more} if word else {})
    },
    st.dictionaries(st.sampled_from(["a", "b"]), LEAVES),
    st.just({}) | BEYOND,
    st.sampled_from([(), ("a",), ("a", "b")]),
    st.sampled_from(["", "allOf", "anyOf", "oneOf"]),
    st.lists(
        st.builds(
            lambda known, beyond, required: {**record(*required, **known), **beyond},
            st.dictionaries(st.sampled_from(["a", "b"]), LEAVES),
            st.just({}) | BEYOND,
            st.sampled_from([(), ("b",)]),
        ),
        min_size=1,
        max_size=3,
    ),
)  # fmt: skip
BODIES = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES)


def names_all(said: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether a writer's schema names the fields of a body, as they are taken to be."""
    patterns = said.get("patternProperties", ())
    named = {*said["properties"], *said["required"]}
    named |= {name for name in body for each in patterns if re.search(each, name)}
    return body.keys() <= named or isinstance(said.get("additionalProperties"), dict)


@given(RECORDS, RECORDS, st.lists(BODIES, min_size=1, max_size=20))
def test_what_is_said_to_fit_fits(reader: Any, writer: Any, bodies: list[Any]) -> None:
    named = [body for body in bodies if names_all(writer, body)]
    written = [body for body in named if Draft202012Validator(writer).is_valid(body)]
    assume(written)
    newest = {"$schema": NEWEST}
    if not told(newest | reader, newest | writer):
        assert all(Draft202012Validator(reader).is_valid(body) for body in written)


PLAIN = [None, True, False, *range(-8, 12), 0.5, 1.5, 10.5, 10**9, "", "a", "ab", "abc", "b", {}]
LISTS = [[], *([each] for each in PLAIN), *([each, each] for each in PLAIN)]
LISTS += [[None, each] for each in PLAIN] + [["bb", 7.5, None], [*range(9)]]
ENOUGH = [*PLAIN, *LISTS, *([each] for each in LISTS), *([each, None] for each in LISTS)]
ENOUGH += [[[each]] for each in LISTS]


@given(LEAVES, LEAVES)
def test_what_is_said_not_to_fit_does_not(reader: Any, writer: Any) -> None:
    """`ENOUGH` has a value for each thing that such schemas may say."""
    if any(not each.startswith("?") for each in told(reader, writer)):
        written = [each for each in ENOUGH if Draft7Validator(writer).is_valid(each)]
        assert not all(Draft7Validator(reader).is_valid(each) for each in written)

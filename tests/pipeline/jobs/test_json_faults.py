"""JSON bodies and schemas with faults: a bad row or an error in a line, and no other row lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import TaskContext

from pocketmq.pipeline import installed
from pocketmq.pipeline.jobs.schemas import json_schema as module
from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError
from pocketmq.pipeline.jobs.schemas.columns import PLACE, Column, arrow_schema, fitting
from pocketmq.pipeline.jobs.schemas.decode import schema
from pocketmq.pipeline.jobs.schemas.decoders import decoder_of
from pocketmq.pipeline.jobs.schemas.evolution import MOST_REASONS, cannot_read
from pocketmq.pipeline.jobs.schemas.registry import Reference, Schema, registry_of
from pocketmq.runtime.errors import CallerError, MissingToolError
from support.schemas import judged

NEWEST = "https://json-schema.org/draft/2020-12/schema"


def a_schema(said: Any, **references: Schema) -> Schema:
    """`one_json` stands for `one.json`."""
    found = tuple(
        Reference(name.replace("_json", ".json"), references[name]) for name in references
    )
    return Schema("JSON", json.dumps(said), references=found)


def again(one: Schema) -> Schema:
    """Another schema that says the same."""
    return a_schema(json.loads(one.text) | {"title": "again"})


def tables(folder: Path, said: Any, *bodies: bytes, envelope: bool = False) -> tuple[Any, Any]:
    """The rows and the bad rows of a topic of these bodies."""
    (folder / "schemas.json").write_text(json.dumps({"t": {"type": "JSON", "schema": said}}))
    registry = None if envelope else registry_of(str(folder / "schemas.json"))
    return judged("t", registry, *bodies, envelope=envelope)


def column_types(*versions: Schema) -> list[dict[str, str]]:
    return [
        {each.name: str(each.type) for each in arrow_schema(one) if each.name not in PLACE.names}
        for one in versions
    ]


# -- bodies ---------------------------------------------------------------------------------------

FAULTS = [
    ("integer", b'{"a": 9223372036854775808}', "but int64 has only numbers from"),
    ("integer", b'{"a": 1e300}', "but int64 has only numbers from"),
    ("number", b'{"a": %s}' % (b"9" * 400), "a must be a number for double"),
    ("number", b'{"a": NaN}', "no JSON"),
    ("number", b'{"a": 1e400}', "no JSON"),
    ("number", b'{"a": %s}' % (b"9" * 5000), "no JSON"),
    ("string", rb'{"a": "\ud800"}', "a has an incomplete character of UTF-16"),
    ("string", b'{"a": "\xed\xa0\x80"}', "no JSON"),
    ("string", rb'{"b": {"\ud800": 1}}', r"$.b['\ud800'] breaks the schema's rule `type`"),
]


@pytest.mark.parametrize(("kind", "body", "reason"), FAULTS)
def test_a_value_that_no_column_holds_is_a_bad_row_and_the_others_are_kept(
    tmp_path: Path, kind: str, body: bytes, reason: str
) -> None:
    text = {"additionalProperties": {"type": "string"}}
    said = {"properties": {"a": {"type": kind}, "b": text, "\N{EURO SIGN}": {}}}
    rows, (bad,) = tables(tmp_path, said, b"{}", body, b'\xef\xbb\xbf{"\xe2\x82\xac": "y"}')
    assert [row["queueOffset"] for row in rows] == [0, 2]
    assert (bad["queueOffset"], bad["body"]) == (1, body)
    assert reason in bad["reason"]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(categories=["L", "Cs", "Cc"])),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
)
KINDS = [
    *(pa.string(), pa.binary(), pa.bool_(), pa.float32(), pa.float64()),
    *(pa.int32(), pa.int64(), pa.decimal128(20)),
]


@given(JSON_VALUES, st.sampled_from(KINDS))
def test_what_fits_a_column_can_be_written(value: Any, kind: pa.DataType) -> None:
    try:
        found = fitting(Column("a", "a", kind), value)
    except BadBodyError as exc:
        str(exc).encode()
        return
    pa.array([found], kind)


@pytest.mark.parametrize("value", [1.5, True, "x", [1]])
def test_no_value_is_changed_to_fit_a_column_of_whole_numbers(value: Any) -> None:
    """As a body of an older version may have it, where the newest says `integer`."""
    with pytest.raises(BadBodyError, match="a must be a "):
        fitting(Column("a", "a", pa.int64()), value)
    assert fitting(Column("a", "a", pa.int64()), 2.0) == 2


def test_a_character_that_utf8_lacks_is_kept_within_json_text(tmp_path: Path) -> None:
    rows, _ = tables(tmp_path, {"properties": {"a": {}}}, rb'{"a": ["\ud800", "\u20ac"]}')
    assert json.loads(rows[0]["a"]) == ["\ud800", "\u20ac"]


def test_fields_that_are_called_as_columns_do_not_mix(tmp_path: Path) -> None:
    said = {"properties": {name: {"type": "integer"} for name in ("topic", "topic_", "b_")}}
    bodies = (b'{"topic": 1, "topic_": 2, "b_": 3}', b'{"topic": 1, "b": 9}')
    rows, _ = tables(tmp_path, said, *bodies)
    assert [(row["topic"], row["topic__"], row["topic_"], row["b_"]) for row in rows] == [
        ("t", 1, 2, 3),
        ("t", 1, None, None),
    ]


def test_words_that_fail_on_a_value_make_a_bad_row() -> None:
    read = decoder_of(a_schema({"properties": {"a": {"multipleOf": 0.1}}}))
    with pytest.raises(BadBodyError, match="cannot be checked with its schema"):
        read(b'{"a": %s}' % (b"1" * 400))


@pytest.mark.parametrize(
    "event",
    [
        {"op": "c", "after": {}, "source": 3},
        {"op": "c", "after": {}, "source": {"ts_ms": "soon"}},
        {"op": "c", "after": {}, "source": {"ts_ms": 10**30}},
        {"op": "c", "after": {}, "source": {"table": "\ud800"}},
        {"type": "UPDATE", "data": [{"id": 1}], "old": 3},
        {"type": "INSERT", "data": [{"id": 1}], "pkNames": [[]]},
    ],
)
def test_a_change_event_of_another_form_is_a_bad_row(tmp_path: Path, event: Any) -> None:
    good = {"op": "c", "after": {"id": 1}}
    bodies = [json.dumps(each).encode() for each in (good, event, good)]
    rows, bad = tables(tmp_path, {}, *bodies, envelope=True)
    assert [row["queueOffset"] for row in rows] == [0, 2]
    assert [row["queueOffset"] for row in bad] == [1]


# -- schemas --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"pattern": "["}, "is not a regular expression"),
        ({"type": "nothing"}, "'nothing' is not valid"),
        ([], "not of type 'object'"),
    ],
)
def test_a_reference_that_is_no_schema_is_told_before_the_first_body(
    wrong: Any, reason: str
) -> None:
    whole = {"properties": {"a": {"$ref": "one.json"}}}
    with pytest.raises(CallerError, match=f"the JSON schema is not valid: .*{reason}"):
        decoder_of(a_schema(whole, one_json=a_schema(wrong)))
    inside = {"properties": {"a": {"$ref": "#/x"}}, "x": wrong}
    with pytest.raises(CallerError, match=f"the JSON schema is not valid: .*{reason}"):
        decoder_of(a_schema(inside))


@pytest.mark.parametrize("ref", ["#/required/x", "#/minLength/x", "#/x", "two.json", "http://["])
def test_a_ref_that_leads_nowhere_is_told_before_the_first_body(ref: str) -> None:
    said = {"properties": {"a": {"$ref": ref}}, "required": ["a"], "minLength": 3}
    with pytest.raises(CallerError, match="which is neither in it nor among its references"):
        decoder_of(a_schema(said, one_json=a_schema({})))


@pytest.mark.parametrize(
    "said", [{"$schema": 3}, {"$schema": []}, {"$id": 3}, {"properties": {"\ud800": {}}}]
)
def test_odd_words_of_a_schema_are_told(said: Any) -> None:
    with pytest.raises(CallerError, match="the JSON schema is not valid"):
        arrow_schema(a_schema(said))


def test_a_reference_of_a_reference_is_relative_to_the_one_that_names_it() -> None:
    number = a_schema({"type": "integer"})
    for name, address in (("a/one.json", ""), ("one.json", "http://shop/one.json")):
        inner = {"properties": {"q": {"$ref": "two.json"}}} | ({"$id": address} if address else {})
        between = a_schema(inner, two_json=number)
        said = json.dumps({"properties": {"a": {"$ref": name}}})
        read = decoder_of(Schema("JSON", said, references=(Reference(name, between),)))
        assert read(b'{"a": {"q": 1}}')
        with pytest.raises(BadBodyError, match=r"\$\.a\.q breaks the schema's rule `type`"):
            read(b'{"a": {"q": "x"}}')


def test_columns_and_comparison_know_the_address_of_a_schema_within_another() -> None:
    inner = {"$id": "b.json", "properties": {"q": {"$ref": "#/definitions/n"}}}
    inner["definitions"] = {"n": {"type": "integer"}}
    whole = a_schema({"$id": "http://shop/a.json", "allOf": [inner]})
    assert column_types(whole) == [{"q": "int64"}]
    outer = a_schema({"$id": "http://shop/a.json", "properties": {"i": inner}})
    assert cannot_read(outer, again(outer)) == []


def test_fields_behind_choices_and_beside_a_ref_have_columns() -> None:
    """A topic of several messages has a schema that is `oneOf` them, and nothing else."""
    sale = {"properties": {"id": {"type": "integer"}, "price": {"type": "number"}}}
    refund = {"properties": {"id": {"type": "string"}, "price": {"type": "integer"}}}
    definitions = {"sale": sale, "refund": refund}
    choice = [{"$ref": "#/definitions/sale"}, {"$ref": "#/definitions/refund"}]
    one = a_schema({"oneOf": choice, "definitions": definitions})
    every = a_schema({"allOf": [sale, {"properties": {"id": {"minimum": 1}, "more": True}}]})
    beside = {"$schema": NEWEST, "$ref": "#/$defs/s", "properties": {"note": {"type": "string"}}}
    assert column_types(one, every, a_schema({**beside, "$defs": {"s": sale}})) == [
        {"id": "string", "price": "double"},
        {"id": "int64", "price": "double", "more": "string"},
        {"note": "string", "id": "int64", "price": "double"},
    ]


def test_a_choice_that_holds_itself_makes_a_column_of_text() -> None:
    node = {"anyOf": [{"type": "null"}, {"$ref": "#/definitions/n"}]}
    said = {"properties": {"a": node}, "definitions": {"n": node}}
    assert column_types(a_schema(said)) == [{"a": "string"}]


def test_draft_3_says_what_is_required_in_the_field_itself() -> None:
    kinds = ["string", {"type": "integer"}]
    said = {"properties": {"a": {"type": "integer", "required": True}, "b": {"type": kinds}}}
    old = a_schema({"$schema": "http://json-schema.org/draft-03/schema#", **said})
    assert column_types(old) == [{"a": "int64", "b": "string"}]
    assert cannot_read(old, again(old)) == []


def test_types_that_all_hold_each_other_are_compared_in_a_moment() -> None:
    """Every way through 14 such types would be 14! ways."""

    def mutual(kind: str) -> Schema:
        names = [f"t{number}" for number in range(14)]
        inner = {name: {"$ref": f"#/definitions/{name}"} for name in names}
        one = {"properties": {**inner, "value": {"type": kind}}}
        return a_schema({"properties": inner, "definitions": {name: {**one} for name in names}})

    assert cannot_read(mutual("string"), again(mutual("string"))) == []
    found = cannot_read(mutual("string"), mutual("integer"))
    assert len(found) == MOST_REASONS
    assert found[0].what.endswith(".value: integer is not string")


def test_schemas_that_lead_too_deep_are_not_compared() -> None:
    chain = {
        f"t{n}": {"properties": {"a": {"$ref": f"#/definitions/t{n + 1}"}}} for n in range(900)
    }
    deep, other = (
        a_schema({"$ref": "#/definitions/t0", "definitions": {**chain, "t900": {"type": kind}}})
        for kind in ("string", "integer")
    )
    assert cannot_read(deep, again(deep)) == []
    with pytest.raises(CallerError, match="nested too deeply"):
        cannot_read(deep, other)


def test_a_registry_file_that_is_too_deep_is_told(tmp_path: Path) -> None:
    file = tmp_path / "schemas.json"
    file.write_text("[" * 100_000)
    with pytest.raises(CallerError, match="no registry of schemas"):
        schema(f"store:{tmp_path}", str(file), tmp_path / "out")


def test_without_jsonschema_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    module._json_schema.cache_clear()
    with pytest.raises(MissingToolError, match=r"pip install 'pocketmq\[schema\]'"):
        decoder_of(a_schema({}))


def test_what_a_task_of_spark_lacks_can_be_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    monkeypatch.setattr(TaskContext, "_taskContext", object())
    packed = r"'pocketmq\[x\]', or pack it .*`pocketmq pipeline package --with grpcio-tools`"
    with pytest.raises(MissingToolError, match=packed):
        installed.check_installed("it", "x", "grpc_tools")
    with pytest.raises(MissingToolError, match=r"'pocketmq\[arrow\]'$"):
        installed.check_arrow("it")

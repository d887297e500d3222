"""JSON schemas: all words of the language, `$ref`, and schemas that refer to other subjects.

`WRITTEN` is a body of `JSONSerializer` of confluent-kafka 2.16.1 with its registry `mock://`
(2026-11-28), which registered ORDER under id 2 with a reference to MONEY, id 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError
from pocketmq.pipeline.jobs.schemas.check import schema_check
from pocketmq.pipeline.jobs.schemas.columns import PLACE, arrow_schema
from pocketmq.pipeline.jobs.schemas.decoders import TopicDecoder, decoder_of
from pocketmq.pipeline.jobs.schemas.evolution import cannot_read
from pocketmq.pipeline.jobs.schemas.registry import Schema, registry_of
from pocketmq.runtime.errors import CallerError
from support.fake_registry import FakeRegistry, framed
from support.schemas import judged

MONEY = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Money",
    "type": "object",
    "properties": {"units": {"type": "integer"}, "currency": {"$ref": "#/definitions/code"}},
    "required": ["units"],
    "definitions": {"code": {"type": "string", "pattern": "^[A-Z]{3}$"}},
}
ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "price": {"$ref": "money.json"},
        "parts": {"type": "array", "items": {"$ref": "#"}},
    },
    "required": ["id"],
}
REFERENCE = {"name": "money.json", "subject": "money", "version": 1}
WRITTEN = (
    "00000000027b226964223a372c227072696365223a7b22756e697473223a332c"
    "2263757272656e6379223a22455552227d7d"
)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    registry.add("money", 1, "JSON", json.dumps(MONEY))
    registry.add("orders-value", 2, "JSON", json.dumps(ORDER), references=[REFERENCE])
    yield registry
    registry.close()


def decoder(registry: FakeRegistry) -> TopicDecoder:
    return TopicDecoder("orders", registry_of(registry.address), is_framed=True)


def a_schema(said: Any) -> Schema:
    return Schema("JSON", json.dumps(said))


# -- references -----------------------------------------------------------------------------------


def test_a_body_of_confluents_client_is_read_by_the_schemas_that_its_schema_refers_to(
    registry: FakeRegistry,
) -> None:
    found = decoder(registry)(bytes.fromhex(WRITTEN))
    assert found.fields == {"id": 7, "price": {"units": 3, "currency": "EUR"}}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"id": 0}, r"\$\.id breaks the schema's rule `minimum`: 0 is less than"),
        (
            {"id": 1, "price": {"currency": "EUR"}},
            r"\$\.price breaks the schema's rule `required`: 'units'",
        ),
        ({"id": 1, "price": {"units": 1, "currency": "x"}}, r"price\.currency breaks .*pattern"),
        (
            {"id": 1, "parts": [{"id": 2}, {"id": "3"}]},
            r"\$\.parts\[1\]\.id breaks the schema's rule `type`",
        ),
    ],
)
def test_what_does_not_fit_a_schema_behind_a_reference_is_told(
    registry: FakeRegistry, body: Any, reason: str
) -> None:
    with pytest.raises(BadBodyError, match=reason):
        decoder(registry)(framed(2, json.dumps(body).encode()))


def test_a_table_of_bodies_whose_schema_refers_to_another(
    registry: FakeRegistry,
) -> None:
    bodies = [{"id": 1, "price": {"units": 5}}, {"id": 2}, {"id": 3, "price": 4}]
    encoded = [json.dumps(each).encode() for each in bodies]
    rows, (bad,) = judged("orders", registry_of(registry.address), *encoded)
    assert bad["reason"].split(":")[0] == "$.price breaks the schema's rule `type`"
    assert [(row["id"], row["price"]) for row in rows] == [(1, '{"units": 5}'), (2, None)]


def test_a_reference_is_found_where_the_schema_has_an_address(registry: FakeRegistry) -> None:
    """`$ref` is relative to `$id` then, and the name under which it is registered is not."""
    order = {**ORDER, "$id": "https://shop.example/schemas/order.json"}
    registry.add("orders-value", 3, "JSON", json.dumps(order), references=[REFERENCE])
    with pytest.raises(BadBodyError, match=r"\$\.price breaks the schema's rule"):
        decoder(registry)(framed(3, b'{"id": 1, "price": {}}'))


def test_a_reference_that_leads_nowhere_is_named_and_nothing_is_fetched() -> None:
    """One fault of the schema, and not one of each body."""
    with pytest.raises(CallerError, match=r"refers to 'http://127\.0\.0\.1:9/b\.json', which is"):
        decoder_of(a_schema({"properties": {"a": {"$ref": "http://127.0.0.1:9/b.json"}}}))
    circle = {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}
    with pytest.raises(CallerError, match="which refers to itself"):
        arrow_schema(a_schema(circle))


# -- the language ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["{", '{"type": "nothing"}', '{"properties": []}', "3", "[" * 9999]
)
def test_a_text_that_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match="the JSON schema is not valid"):
        decoder_of(Schema("JSON", text))


def test_the_draft_that_a_schema_names_is_its_language() -> None:
    newer = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"a": {"prefixItems": [{"type": "string"}]}},
    }
    assert decoder_of(a_schema({**newer, "$schema": MONEY["$schema"]}))(b'{"a": [1]}')
    with pytest.raises(BadBodyError, match=r"\$\.a\[0\] breaks the schema's rule `type`"):
        decoder_of(a_schema(newer))(b'{"a": [1]}')


def test_a_body_that_is_nested_too_deeply_is_a_bad_body() -> None:
    read = decoder_of(a_schema(ORDER | {"properties": {"parts": {"items": {"$ref": "#"}}}}))
    for depth in (300, 100_000):
        body = b'{"id": 1, "parts": [' * depth + b"]}" * depth
        with pytest.raises(BadBodyError, match="nested too deeply"):
            read(body)


def test_columns_have_the_types_that_references_and_unions_with_null_say() -> None:
    said = {
        "$ref": "#/definitions/row",
        "definitions": {
            "row": {
                "properties": {
                    "a": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
                    "b": {"$ref": "#/definitions/number"},
                    "c": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "d": {"type": ["boolean", "null"]},
                    "e": True,
                }
            },
            "number": {"type": "number"},
        },
    }
    found = arrow_schema(a_schema(said))
    columns = {field.name: field.type for field in found if field.name not in PLACE.names}
    text = pa.string()
    assert columns == {"a": pa.int64(), "b": pa.float64(), "c": text, "d": pa.bool_(), "e": text}


def test_versions_are_compared_behind_their_references(registry: FakeRegistry) -> None:
    dearer = {**MONEY, "properties": {"units": {"type": "number"}}}
    registry.add("money", 3, "JSON", json.dumps(dearer))
    newer = [{**REFERENCE, "version": 2}]
    registry.add("orders-value", 4, "JSON", json.dumps(ORDER), references=newer)
    assert schema_check("orders", registry.address).misfits == []
    [misfit] = schema_check("orders", registry.address, mode="forward").misfits
    assert misfit.what == "$.price.units: number is not integer"


def test_types_that_hold_themselves_are_compared_once_and_told_at_each_place() -> None:
    def tree(kind: str, title: str = "") -> Schema:
        node = {"properties": {"value": {"type": kind}, "left": {"$ref": "#/definitions/n"}}}
        both = {"a": {"$ref": "#/definitions/n"}, "b": {"$ref": "#/definitions/n"}}
        return a_schema({"title": title, "properties": both, "definitions": {"n": node}})

    assert cannot_read(tree("string"), tree("string", "again")) == []
    assert [each.what for each in cannot_read(tree("string"), tree("integer"))] == [
        "$.a.value: integer is not string",
        "$.b.value: integer is not string",
    ]

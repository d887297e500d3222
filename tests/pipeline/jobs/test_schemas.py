"""Bodies by schemas: Avro, JSON and Protobuf, from files and registries; and what does not fit."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError
from pocketmq.pipeline.jobs.schemas.decoders import decoder_of
from pocketmq.pipeline.jobs.schemas.envelopes import LastChanges, changes
from pocketmq.pipeline.jobs.schemas.evolution import Misfit, misfits, pairs
from pocketmq.pipeline.jobs.schemas.registry import Reference, RegistryError, Schema, registry_of
from pocketmq.runtime.errors import CallerError
from support.fake_registry import FakeRegistry
from support.schemas import CANAL, CLICK, DEBEZIUM, ORDER, PAYMENT, PROTO, an_order, avro, judged

# -- decoding -------------------------------------------------------------------------------------


def test_avro_is_decoded_and_what_follows_a_record_is_not_overlooked() -> None:
    decode_order = decoder_of(Schema("AVRO", json.dumps(ORDER)))
    assert decode_order(avro(an_order(3))) == an_order(3)
    for body in (avro(an_order(3)) + b"x", avro(an_order(3))[:-2], b""):
        with pytest.raises(BadBodyError):
            decode_order(body)


def test_protobuf_is_decoded_by_the_text_of_its_file() -> None:
    decode_payment = decoder_of(Schema("PROTOBUF", PROTO))
    assert decode_payment(PAYMENT) == {
        "id": "7",
        "notes": ["hi"],
        "state": "PAID",
        "card": {"number": "42"},
        "parts": {"a": 3},
        "at": "1970-01-01T00:00:01Z",
        "amount": 1.5,
    }
    with pytest.raises(BadBodyError, match=r"no shop\.Payment"):
        decode_payment(PAYMENT[:-3])


@pytest.mark.parametrize(
    "text", ["message {", "message A { Wrong w = 1; }", "", 'import "x.proto";']
)
def test_a_proto_file_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match=r"\.proto file"):
        decoder_of(Schema("PROTOBUF", text))


def test_protobuf_is_compiled_where_only_this_process_knows_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on an executor, which has them unpacked beside it."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    text = 'syntax = "proto3"; message OnAnExecutor { int32 a = 1; }'  # not compiled before
    assert decoder_of(Schema("PROTOBUF", text))(b"\x08\x05") == {"a": 5}


def test_what_a_registry_calls_a_file_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "was-run"
    code = Schema("PROTOBUF", f"open({str(mark)!r}, 'w')")
    reference = Reference("grpc_tools/__init__.py", code)
    text = 'syntax = "proto3"; message Beside { int32 a = 1; }'
    decode = decoder_of(Schema("PROTOBUF", text, references=(reference,)))
    assert decode(b"\x08\x05") == {"a": 5}
    assert not mark.exists()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"where": "x"}, r"\$ breaks the schema's rule `required`: 'id' is a required property"),
        ({"id": "1"}, r"\$\.id breaks the schema's rule `type`: '1' is not of type 'integer'"),
        ({"id": True}, r"\$\.id breaks the schema's rule `type`: True is not"),
        (
            {"id": 1, "where": 3},
            r"\$\.where breaks the schema's rule `type`: 3 is not of type 'string', 'null'",
        ),
        ({"id": 1, "tags": ["a", 2]}, r"\$\.tags\[1\] breaks the schema's rule `type`: 2 is not"),
        ([], "must be a JSON object, but is of type list"),
    ],
)
def test_json_that_does_not_fit_says_where(body: Any, reason: str) -> None:
    with pytest.raises(BadBodyError, match=reason):
        decoder_of(Schema("JSON", json.dumps(CLICK)))(json.dumps(body).encode())


# -- registries -----------------------------------------------------------------------------------


@pytest.fixture
def confluent() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    yield registry
    registry.close()


def test_a_registry_that_is_away_is_named() -> None:
    with pytest.raises(RegistryError, match="check that the schema registry is running"):
        registry_of("http://127.0.0.1:9").versions("orders")


# -- evolution ------------------------------------------------------------------------------------


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def proto(fields: str) -> str:
    return f'syntax = "proto3"; message M {{ {fields} }}'


ID = {"name": "id", "type": "int"}
EVOLUTIONS = [
    # kind, older, newer, the newer cannot read the older because, nor the older the newer because
    ("AVRO", record(ID), record({"name": "id", "type": "long"}), "", "$.id: int cannot read long"),
    ("AVRO", record(ID), record(ID, {"name": "n", "type": "int"}), "$.n: was not written", ""),
    ("AVRO", record(ID), record(ID, {"name": "n", "type": "int", "default": 0}), "", ""),
    ("AVRO", record(ID), record({"name": "id", "type": "string"}), "string cannot read int", "int"),
    ("AVRO", record(ID), record({"name": "id", "type": ["null", "int"]}), "", "cannot read null"),
    (
        "AVRO",
        record({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}}),
        record({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}),
        "",
        "lacks B",
    ),
    (
        "JSON",
        json.dumps({"properties": {"a": {"type": "integer"}}}),
        json.dumps({"properties": {"a": {"type": "number"}}}),
        "",
        "$.a: number is not integer",
    ),
    (
        "JSON",
        json.dumps({"properties": {"a": {}}}),
        json.dumps({"properties": {"a": {}}, "required": ["a"]}),
        "$.a: is required",
        "",
    ),
    ("PROTOBUF", proto("int32 a = 1;"), proto("int64 a = 1; string b = 2;"), "", ""),
    ("PROTOBUF", proto("int32 a = 1;"), proto("string a = 1;"), "another type", "another type"),
]


def all_misfits(versions: list[Schema], mode: Any) -> list[Misfit]:
    return [each for reader, writer in pairs(versions, mode) for each in misfits(reader, writer)]


@pytest.mark.parametrize(("kind", "older", "newer", "backward", "forward"), EVOLUTIONS)
def test_versions_that_do_not_fit_are_told_with_the_field(
    kind: str, older: str, newer: str, backward: str, forward: str
) -> None:
    versions = [Schema(kind, older, 1), Schema(kind, newer, 2)]
    for mode, reason, reader in (("backward", backward, 2), ("forward", forward, 1)):
        found = all_misfits(versions, mode)
        assert [reason in each.what for each in found] == ([True] if reason else []), found
        assert all(each.reader == reader for each in found)
    assert len(all_misfits(versions, "full")) == bool(backward) + bool(forward)


def test_a_record_that_was_tried_for_a_union_is_compared_where_it_stands_alone() -> None:
    def inner(name: str, *fields: str) -> dict[str, Any]:
        listed = [{"name": field, "type": "int"} for field in fields]
        return {"type": "record", "name": name, "fields": listed}

    one, other = inner("One", "a", "b") | {"aliases": ["Other"]}, inner("Other", "a")
    reader = record({"name": "u", "type": [one, other]}, {"name": "v", "type": "One"})
    writer = record({"name": "u", "type": other}, {"name": "v", "type": "Other"})
    (found,) = misfits(Schema("AVRO", reader, 2), Schema("AVRO", writer, 1))
    assert found.what == "$.v.b: was not written, and has no default"


def of_shop(name: str, **more: Any) -> dict[str, Any]:
    inner = {"type": "record", "name": name, "fields": [ID], **more}
    fields = [{"name": "i", "type": inner}, {"name": "j", "type": name}]
    return {"type": "record", "name": "R", "namespace": "shop", "fields": fields}


@pytest.mark.parametrize(
    ("reader", "reason"),
    [
        (of_shop("shop.Item"), ""),  # named in full, which the older one leaves to its namespace
        (of_shop("Item", namespace="store"), ""),  # only the last part counts
        (of_shop("Part"), "$.i: shop.Part is not named shop.Item, nor by an alias"),
        (of_shop("Part", aliases=["Item"]), ""),
        (of_shop("Part", aliases=["shop.Item"]), ""),
        (of_shop("Part", aliases=["store.Item"]), "$.i: shop.Part is not named shop.Item"),
    ],
)
def test_avro_types_are_found_by_name_and_alias(reader: Any, reason: str) -> None:
    if reader["fields"][0]["type"].get("namespace"):
        reader["fields"][1]["type"] = "store.Item"
    older = Schema("AVRO", json.dumps(of_shop("Item")), 1)
    found = misfits(Schema("AVRO", json.dumps(reader), 2), older)
    assert [reason in each.what for each in found] == ([True] if reason else []), found


def test_what_the_avro_library_does_not_know_cannot_be_told() -> None:
    said = Schema("AVRO", json.dumps({"type": "error", "name": "E", "fields": []}))
    (found,) = misfits(said, said)
    assert (found.verdict, found.what) == ("cannot tell", "$: Unknown schema type: error")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Expecting property name"),
        ('"Missing"', "Could not make an Avro Schema object from Missing"),
        (record(ID, ID), "Field name id already in use"),
        (record({"name": "a", "type": {"type": "array", "items": "Gone"}}), "Gone"),
        ("[" * 3_000 + "]" * 3_000, "nested too deeply"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_an_avro_schema_that_is_none_is_told_in_a_line(text: str, problem: str) -> None:
    with pytest.raises(CallerError, match=problem) as told:
        misfits(Schema("AVRO", text, 2), Schema("AVRO", record(ID), 1))
    assert len(str(told.value)) < 200


@pytest.mark.parametrize(("kind", "older", "newer", "backward", "forward"), EVOLUTIONS[:6])
def test_fastavro_reads_what_is_said_to_be_readable(
    kind: str, older: str, newer: str, backward: str, forward: str
) -> None:
    values = {"int": 1, "long": 2**40, "string": "text"}
    for writer, reader, reason in ((older, newer, backward), (newer, older, forward)):
        wrote = json.loads(writer)
        said = {
            field["name"]: "B" if "B" in str(field) else "A" if field["name"] == "e"
            else None if isinstance(field["type"], list) else values[field["type"]]
            for field in wrote["fields"]
        }  # fmt: skip
        body = io.BytesIO(avro(said, wrote))
        try:
            fastavro.schemaless_reader(body, wrote, json.loads(reader))
            is_read = True
        except (fastavro.read.SchemaResolutionError, TypeError, ValueError):
            is_read = False
        assert is_read == (not reason)


# -- change events --------------------------------------------------------------------------------


def test_the_changes_of_an_event_are_numbered_in_their_order() -> None:
    bodies = [json.dumps(event).encode() for event in CANAL[:2]]
    rows, bad = judged("db", None, *bodies, envelope=True)
    places = [(row["queueOffset"], row["change"], row["key"]) for row in rows]
    assert places == [(0, 0, '["1"]'), (0, 1, '["3"]'), (1, 0, '["2"]')]
    assert bad == []


def test_the_last_state_of_a_table_comes_from_its_changes() -> None:
    for events, keys, row in (
        (DEBEZIUM, ["id"], {("shop.o", (2,)): {"id": 2, "v": "b"}}),
        (CANAL, [], {("shop.o", ("2",)): {"id": "2", "v": "b"}}),
    ):
        state = LastChanges()
        for event in events:
            for change in changes(event, keys):
                state.apply(change)
        assert state.rows == row


def test_a_change_has_the_row_before_and_after() -> None:
    ((update,),) = [list(changes(CANAL[1]))]
    assert (update.operation, update.key, update.old_key) == ("update", ("2",), ("1",))
    assert (update.before, update.after) == ({"id": "1", "v": "a"}, {"id": "2", "v": "b"})
    assert update.time_ms == 6


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({}, "neither a Debezium event"),
        ({"op": "x"}, "operation 'x'"),
        ({"op": "d", "before": None}, "without 'before'"),
        ({"type": "INSERT", "data": [3]}, "no list of rows"),
        ({"op": "c", "after": {"v": 1}}, "no key column 'id'"),
    ],
)
def test_what_is_no_change_is_said(event: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadBodyError, match=reason):
        list(changes(event, ["id"]))

"""Bodies by schemas: Avro, JSON and Protobuf, from files and registries; and what does not fit."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError
from pocketmq.pipeline.jobs.schemas.decode import schema
from pocketmq.pipeline.jobs.schemas.decoders import decoder_of
from pocketmq.pipeline.jobs.schemas.envelopes import LastChanges, changes
from pocketmq.pipeline.jobs.schemas.evolution import Misfit, misfits, pairs
from pocketmq.pipeline.jobs.schemas.registry import RegistryError, Schema, registry_of
from pocketmq.runtime.errors import CallerError
from support.fake_registry import FakeRegistry, framed
from support.spark_store import open_store, put, stored

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": "string"}},
        {"name": "topic", "type": "boolean"},
    ],
}
CLICK = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "where": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
PROTO = """
syntax = "proto3";  // as registries hold it
package shop;
import "google/protobuf/timestamp.proto";
/* A payment. */
message Payment {
  reserved 9, 10 to 12;
  int64 id = 1;
  repeated string notes = 2 [deprecated = true];
  enum State { NEW = 0; PAID = 1; }
  State state = 3;
  message Card { string number = 1; }
  oneof by { Card card = 4; string cash = 5; }
  map<string, int32> parts = 6;
  google.protobuf.Timestamp at = 7;
  optional double amount = 8;
}
"""


def avro(record: Mapping[str, Any], schema: Any = ORDER) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), record)
    return stream.getvalue()


def an_order(number: int) -> dict[str, Any]:
    return {"id": number, "state": "new", "lines": ["a", "b"], "topic": True}


PAYMENT = bytes.fromhex(
    "0807"  # id 7
    "12026869"  # notes "hi"
    "1801"  # state PAID
    "22040a023432"  # card number "42"
    "32050a0161" + "1003"  # parts {"a": 3}
    "3a020801"  # at, second 1
    "41000000000000f83f"  # amount 1.5
)
"""Written by hand from the encoding's specification, not by the library that reads it."""


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


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"where": "x"}, r"\$ does not fit `required`: 'id' is a required property"),
        ({"id": "1"}, r"\$\.id does not fit `type`: '1' is not of type 'integer'"),
        ({"id": True}, r"\$\.id does not fit `type`: True is not"),
        (
            {"id": 1, "where": 3},
            r"\$\.where does not fit `type`: 3 is not of type 'string', 'null'",
        ),
        ({"id": 1, "tags": ["a", 2]}, r"\$\.tags\[1\] does not fit `type`: 2 is not"),
        ([], "and no object"),
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


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    files = sorted(folder.glob(f"{name}-*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_topics_become_tables_and_bodies_that_do_not_fit_a_table_of_bad_rows(
    tmp_path: Path,
) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "schemas.json").write_text(
        json.dumps(
            {
                "orders": {"type": "avro", "file": "order.avsc"},
                "clicks": [{"type": "JSON", "schema": CLICK}],
                "payments": {"type": "PROTOBUF", "schema": PROTO, "message": "Payment"},
            }
        )
    )
    root = tmp_path / "broker-a"
    with open_store(root) as store:
        put(store, [stored(avro(an_order(n)), topic="orders", keys=f"k{n}") for n in range(5)])
        put(store, [stored(b"broken", topic="orders")])
        put(store, [stored(b'{"id":1,"where":null,"tags":["x"]}', topic="clicks")])
        put(store, [stored(b'{"id":"no"}', topic="clicks"), stored(PAYMENT, topic="payments")])
        put(store, [stored(b"?", topic="%RETRY%billing")])
    out = tmp_path / "tables"
    done = schema(f"store:{root}", str(tmp_path / "schemas.json"), out)
    assert (done.rows, done.bad) == (7, 2)
    orders = table(out, "orders")
    assert [row["id"] for row in orders] == list(range(5))
    assert orders[2] | {"storeTimestamp": None} == {
        "topic": "orders", "brokerName": "broker-a", "queueId": 0, "queueOffset": 2, "keys": "k2",
        "storeTimestamp": None, "id": 2, "state": "new", "lines": '["a", "b"]', "topic_": True,
    }  # fmt: skip
    (click,) = table(out, "clicks")
    assert (click["id"], click["where"], click["tags"]) == (1, None, '["x"]')
    (payment,) = table(out, "payments")
    assert (payment["id"], payment["amount"], payment["state"]) == (7, 1.5, "PAID")
    bad = {(row["topic"], row["queueOffset"]): row for row in table(out, "bad")}
    assert set(bad) == {("orders", 5), ("clicks", 1)}
    assert bad["orders", 5]["body"] == b"broken"
    assert "$.id" in bad["clicks", 1]["reason"]
    with pytest.raises(CallerError, match="is not empty"):
        schema(f"store:{root}", str(tmp_path / "schemas.json"), out)
    (tmp_path / "none.json").write_text("{}")
    with pytest.raises(CallerError, match="no schema of topic 'orders'"):
        schema(f"store:{root}", str(tmp_path / "none.json"), tmp_path / "other", topics=["orders"])


def test_a_registry_says_with_which_schema_each_body_was_written(
    confluent: FakeRegistry, tmp_path: Path
) -> None:
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "more", "type": "int", "default": 9}]}
    confluent.add("orders-value", 1, "AVRO", json.dumps(ORDER))
    confluent.add("orders-value", 2, "AVRO", json.dumps(newer))
    confluent.add("payments-value", 3, "PROTOBUF", PROTO)
    root = tmp_path / "broker-a"
    with open_store(root) as store:
        put(
            store,
            [
                stored(framed(1, avro(an_order(1))), topic="orders"),
                stored(framed(2, avro({**an_order(2), "more": 5}, newer)), topic="orders"),
                stored(framed(77, b"x"), topic="payments"),
                stored(b"unframed", topic="payments"),
                stored(framed(3, b"\0" + PAYMENT), topic="payments"),
            ],
        )
    with pytest.raises(CallerError, match="no schema with id 77"):
        schema(f"store:{root}", confluent.address, tmp_path / "no", framed=True)
    confluent.add("payments-value", 77, "PROTOBUF", PROTO)
    done = schema(f"store:{root}", confluent.address, tmp_path / "tables", framed=True)
    assert (done.rows, done.bad) == (3, 2)
    assert [(row["id"], row["more"]) for row in table(tmp_path / "tables", "orders")] == [
        (1, None),
        (2, 5),
    ]
    assert [row["id"] for row in table(tmp_path / "tables", "payments")] == [7]
    assert registry_of(confluent.address).versions("unknown") == []


def test_a_registry_that_is_away_is_named() -> None:
    with pytest.raises(RegistryError, match="is the registry running"):
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

SOURCE = {"db": "shop", "table": "o", "ts_ms": 5}


def an_event(op: str, before: tuple[int, str] | None, after: tuple[int, str] | None) -> Any:
    """A payload of Debezium."""
    old, new = (
        None if row is None else dict(zip(("id", "v"), row, strict=True)) for row in (before, after)
    )
    return {"op": op, "before": old, "after": new, "source": SOURCE}


DEBEZIUM = [
    {"payload": an_event("c", None, (1, "a"))},
    an_event("u", (1, "a"), (1, "b")),
    an_event("u", (1, "b"), (2, "b")),
    an_event("r", None, (3, "c")),
    an_event("d", (3, "c"), None),
]
CANAL = [
    {"type": "INSERT", "database": "shop", "table": "o", "pkNames": ["id"], "es": 5,
     "data": [{"id": "1", "v": "a"}, {"id": "3", "v": "c"}], "old": None},
    {"type": "UPDATE", "database": "shop", "table": "o", "pkNames": ["id"], "es": 6,
     "data": [{"id": "2", "v": "b"}], "old": [{"id": "1", "v": "a"}]},
    {"type": "CREATE", "isDdl": True, "sql": "create table x", "data": None},
    {"type": "DELETE", "database": "shop", "table": "o", "pkNames": ["id"], "es": 7,
     "data": [{"id": "3", "v": "c"}], "old": None},
]  # fmt: skip


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
        ({}, "neither an event"),
        ({"op": "x"}, "operation 'x'"),
        ({"op": "d", "before": None}, "without 'before'"),
        ({"type": "INSERT", "data": [3]}, "no list of rows"),
        ({"op": "c", "after": {"v": 1}}, "no key column 'id'"),
    ],
)
def test_what_is_no_change_is_said(event: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadBodyError, match=reason):
        list(changes(event, ["id"]))


def test_change_events_become_rows_and_the_ends_of_keys_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "broker-a"
    with open_store(root) as store:
        bodies = [json.dumps(event).encode() for event in (*DEBEZIUM, *CANAL)]
        put(store, [stored(body, topic="db") for body in [*bodies, b"null", b"{}"]])
    done = schema(f"store:{root}", "", tmp_path / "tables", envelope=True, keys=["id"])
    assert (done.rows, done.bad, done.empty) == (5 + 4, 1, 1)
    rows = table(tmp_path / "tables", "db")
    assert [row["operation"] for row in rows[:5]] == [
        "insert",
        "update",
        "update",
        "read",
        "delete",
    ]
    assert (rows[1]["before"], rows[1]["key"]) == ('{"id": 1, "v": "a"}', "[1]")
    assert rows[4]["after"] is None

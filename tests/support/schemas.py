"""Schemas of each kind, bodies that were written with them, and change events of databases."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa

from pocketmq.pipeline.jobs.schemas.body_rows import BodyJudge, Opened
from pocketmq.pipeline.jobs.schemas.columns import PLACE
from pocketmq.pipeline.jobs.schemas.registry import Registry

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

MONEY = """
syntax = "proto3";
package shop;
message Money { int64 units = 1; string currency = 2; }
"""
SALES = """
syntax = "proto3";
package shop;
import "shop/money.proto";
import "google/protobuf/timestamp.proto";
message Sale { int64 id = 1; Money price = 2; google.protobuf.Timestamp at = 3; }
message Refund {
  message Line {
    message Tax { int32 percent = 1; Money amount = 2; }
    string text = 1;
  }
  message Reason { string text = 1; }
  int64 id = 1;
  Money price = 2;
}
message Stock {
  map<string, int32> parts = 1;
  message Place { string shelf = 1; }
  message Count { int32 pieces = 1; }
}
"""
REFERENCE = {"name": "shop/money.proto", "subject": "shop/money.proto", "version": 1}
PRICE = {"units": "3", "currency": "EUR"}
WRITTEN = {
    "shop.Sale": "0000000002000807120708031203455552",
    "shop.Refund": "000000000202020808120708031203455552",
    "shop.Refund.Line": "00000000020402000a026869",
    "shop.Refund.Line.Tax": "0000000002060200000813120708031203455552",
    "shop.Refund.Reason": "00000000020402020a026e6f",
    "shop.Stock": "000000000202040a050a01611001",
    "shop.Stock.Place": "00000000020404020a0173",
    "shop.Stock.Count": "00000000020404040805",
}
"""Bodies of `ProtobufSerializer` of confluent-kafka 2.16.1 with its registry `mock://`
(2026-11-28), which registered SALES under id 2 with a reference to MONEY, id 1."""


# -- change events

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


def judged(
    topic: str, registry: Registry | None, *bodies: bytes, envelope: bool = False
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of a topic's one table and its bad rows: what executors do, without Spark."""
    judge = BodyJudge(registry, framed=False, envelope=envelope, keys=())
    messages = [{"topic": topic, "queueOffset": n, "body": body} for n, body in enumerate(bodies)]
    columns = pa.schema([*PLACE, ("body", pa.binary())])
    found = pa.Table.from_batches(judge([pa.RecordBatch.from_pylist(messages, columns)]))
    bad = [row for row in found.to_pylist() if row["reason"] is not None]
    good = found.filter(found["reason"].is_null())
    (shape,) = set(good["columns"].to_pylist())
    return pa.Table.from_batches(Opened(shape)(good.to_batches())).to_pylist(), bad

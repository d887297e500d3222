"""Bodies that name their schema in a registry: the Protobuf message, and schemas that need others.

`WRITTEN` are bodies of `ProtobufSerializer` of confluent-kafka 2.16.1 with its registry `mock://`
(2026-11-28), which registered SALES under id 2 with a reference to MONEY, id 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError
from pocketmq.pipeline.jobs.schemas.check import schema_check
from pocketmq.pipeline.jobs.schemas.decode import schema
from pocketmq.pipeline.jobs.schemas.decoders import TopicDecoder
from pocketmq.pipeline.jobs.schemas.registry import RegistryError, registry_of
from pocketmq.runtime.errors import CallerError
from support.fake_registry import FakeRegistry, framed
from support.spark_store import open_store, put, stored

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


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    registry.add("shop/money.proto", 1, "PROTOBUF", MONEY)
    registry.add("sales-value", 2, "PROTOBUF", SALES, references=[REFERENCE])
    yield registry
    registry.close()


def decoder(registry: FakeRegistry, topic: str = "sales") -> TopicDecoder:
    return TopicDecoder(topic, registry_of(registry.address), is_framed=True)


# -- which message --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("shop.Sale", {"id": "7", "price": PRICE}),
        ("shop.Refund", {"id": "8", "price": PRICE}),
        ("shop.Refund.Line", {"text": "hi"}),
        ("shop.Refund.Line.Tax", {"percent": 19, "amount": PRICE}),
        ("shop.Refund.Reason", {"text": "no"}),
        ("shop.Stock", {"parts": {"a": 1}}),
        ("shop.Stock.Count", {"pieces": 5}),
    ],
)
def test_a_body_is_read_as_the_message_that_it_says(
    registry: FakeRegistry, message: str, fields: dict[str, Any]
) -> None:
    found = decoder(registry)(bytes.fromhex(WRITTEN[message]))
    assert found.fields == fields
    assert found.message == ("" if message == "shop.Sale" else message)


def test_a_message_that_clients_count_differently_is_bad_rather_than_another(
    registry: FakeRegistry,
) -> None:
    with pytest.raises(BadBodyError, match=r"message 2\.1 of its file: Count or Place, since"):
        decoder(registry)(bytes.fromhex(WRITTEN["shop.Stock.Place"]))
    # and as a client counts that does not count entries of maps
    assert (
        decoder(registry)(framed(2, b"\x04\x04\x00" + b"\x0a\x01s")).message == "shop.Stock.Place"
    )


@pytest.mark.parametrize(
    ("indexes", "said"),
    [
        (b"\x02\x06", "message 3 of its file, which has none there"),
        (b"\x02\x01", "message -1 of its file, which has none there"),
        (b"\x04\x00\x00", r"message 0\.0 of its file, which has none there"),
        (b"\x01", "list of message indexes has -1 numbers"),
        (b"\xfe\xff\xff\xff\x0f", "list of message indexes has 2147483647 numbers"),
        (b"\x04\x02", "it ends in the list"),
    ],
)
def test_a_list_of_indexes_that_leads_nowhere_is_bad(
    registry: FakeRegistry, indexes: bytes, said: str
) -> None:
    with pytest.raises(BadBodyError, match=said):
        decoder(registry)(framed(2, indexes))
    assert decoder(registry)(framed(2, b"\x02\x00\x08\x07")).fields == {"id": "7"}  # [0] in full


def test_each_message_of_a_topic_has_a_table_of_its_own(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    root, out = tmp_path / "broker-a", tmp_path / "tables"
    with open_store(root) as store:
        put(store, [stored(bytes.fromhex(each), topic="sales") for each in WRITTEN.values()])
    done = schema(f"store:{root}", registry.address, out, framed=True)
    assert (done.rows, done.bad) == (7, 1)
    names = [name for name in WRITTEN if name not in ("shop.Sale", "shop.Stock.Place")]
    assert sorted(done.files) == sorted(
        ["bad-0.parquet", "sales-0.parquet", *(f"sales~{name}-0.parquet" for name in names)]
    )
    (sale,) = pq.read_table(out / "sales-0.parquet").to_pylist()
    assert (sale["id"], json.loads(sale["price"])) == (7, PRICE)
    (tax,) = pq.read_table(out / "sales~shop.Refund.Line.Tax-0.parquet").to_pylist()
    assert (tax["queueOffset"], tax["percent"], json.loads(tax["amount"])) == (3, 19, PRICE)


def test_a_message_keeps_its_table_when_a_newer_version_moves_it(registry: FakeRegistry) -> None:
    moved = """
        syntax = "proto3";
        package shop;
        message Refund { int64 id = 1; string why = 9; }
        message Sale { int64 id = 1; }
    """
    registry.add("sales-value", 3, "PROTOBUF", moved)
    decode = decoder(registry)
    assert decode(framed(3, b"\x00\x08\x01")).message == ""
    assert decode(bytes.fromhex(WRITTEN["shop.Refund"])).message == ""
    assert decode(bytes.fromhex(WRITTEN["shop.Sale"])).message == "shop.Sale"
    assert decode.schema_of("shop.Sale").schema_id == 3


# -- references -----------------------------------------------------------------------------------


def test_the_newest_version_of_a_reference_and_those_behind_it_are_found(
    registry: FakeRegistry,
) -> None:
    cent = 'syntax = "proto3"; package shop; message Cent { int32 n = 1; }'
    money = 'syntax = "proto3"; package shop; import "cent.proto"; message Money { Cent c = 5; }'
    registry.add("cent", 11, "PROTOBUF", cent)
    behind = [{"name": "cent.proto", "subject": "cent", "version": 1}]
    registry.add("shop/money.proto", 12, "PROTOBUF", money, references=behind)
    registry.add("sales-value", 13, "PROTOBUF", SALES, references=[{**REFERENCE, "version": -1}])
    found = decoder(registry)(framed(13, bytes.fromhex("00" + "1204" + "2a020809")))
    assert found.fields == {"id": "0", "price": {"c": {"n": 9}}}


def test_an_avro_schema_may_name_types_of_other_subjects(registry: FakeRegistry) -> None:
    """The body is written by hand: id 7, price of 3 EUR, and the same again in a list."""
    money = {
        "type": "record", "name": "Money", "namespace": "shop",
        "fields": [{"name": "units", "type": "long"}, {"name": "currency", "type": "string"}],
    }  # fmt: skip
    order = {
        "type": "record", "name": "Order", "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": "shop.Money"},
            {"name": "more", "type": {"type": "array", "items": "Money"}},
        ],
    }  # fmt: skip
    named = [{"name": "shop.Money", "subject": "money", "version": 1}]
    registry.add("money", 21, "AVRO", json.dumps(money))
    registry.add("orders-value", 22, "AVRO", json.dumps(order), references=named)
    body = bytes.fromhex("0e" + "0606455552" + "02" + "0606455552" + "00")
    price = {"units": 3, "currency": "EUR"}
    found = decoder(registry, "orders")(framed(22, body))
    assert found.fields == {"id": 7, "price": price, "more": [price]}


@pytest.mark.parametrize("is_framed", [True, False])
def test_each_record_of_an_avro_union_has_a_table_of_its_own(
    registry: FakeRegistry, tmp_path: Path, is_framed: bool
) -> None:
    """As for topics with several types: a union of types of other subjects."""
    fields = [{"name": "units", "type": "long"}]
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": fields}
    price = {"name": "price", "type": ["null", "shop.Money"]}
    order = {"type": "record", "name": "shop.Order", "fields": [price]}
    named = [
        {"name": f"shop.{name.title()}", "subject": name, "version": 1}
        for name in ("money", "order")
    ]
    registry.add("money", 21, "AVRO", json.dumps(money))
    registry.add("order", 22, "AVRO", json.dumps(order), references=named[:1])
    registry.add("all-value", 23, "AVRO", '["null", "shop.Money", "shop.Order"]', references=named)
    bodies = ["0206", "040208", "0400", "00", "06", "01", "", "02"]
    root, out = tmp_path / "broker-a", tmp_path / "tables"
    with open_store(root) as store:
        for text in bodies:
            body = bytes.fromhex(text)
            put(store, [stored(framed(23, body) if is_framed else body, topic="all")])
    done = schema(f"store:{root}", registry.address, out, topics=["all"], framed=is_framed)
    assert sorted(done.files) == [
        "all~shop.Money-0.parquet", "all~shop.Order-0.parquet", "bad-0.parquet",
    ]  # fmt: skip
    (units,) = pq.read_table(out / "all~shop.Money-0.parquet").column("units").to_pylist()
    assert units == 3
    prices = pq.read_table(out / "all~shop.Order-0.parquet").column("price").to_pylist()
    assert [each and json.loads(each) for each in prices] == [{"units": 4}, None]
    reasons = pq.read_table(out / "bad-0.parquet").column("reason").to_pylist()
    assert [reason.split(":")[0] for reason in reasons] == [
        "it is NoneType and no record",
        "it is type 3 of its union, which has none there",
        "it is type -1 of its union, which has none there",
        "it ends in the number of its type",
        "no Avro record of this schema",
    ]


def test_a_record_keeps_its_table_when_its_schema_becomes_a_union(registry: FakeRegistry) -> None:
    fields = [{"name": "units", "type": "long"}]
    money = {"type": "record", "name": "Money", "fields": fields}
    registry.add("m-value", 21, "AVRO", json.dumps(money))
    before = decoder(registry, "m")
    assert before(framed(21, b"\x06")) == ({"units": 3}, "")
    more = {**money, "fields": [*fields, {"name": "currency", "type": "string"}]}
    registry.add("m-value", 22, "AVRO", json.dumps(["null", more]))
    assert before(framed(22, b"\x02\x06\x02x")) == ({"units": 3, "currency": "x"}, "")
    after = decoder(registry, "m")
    assert after(framed(21, b"\x06")) == ({"units": 3}, "Money")
    assert "currency" in after.schema_of("Money").text


@pytest.mark.parametrize(("topic", "kind"), [("sales", "PROTOBUF"), ("orders", "AVRO")])
def test_a_change_of_a_referred_schema_is_compared(
    registry: FakeRegistry, topic: str, kind: str
) -> None:
    if kind == "PROTOBUF":
        registry.add("shop/money.proto", 31, kind, MONEY.replace("int64", "string"))
        text, name = SALES, "shop/money.proto"
    else:
        for number, units in ((32, "string"), (33, "long")):
            fields = [{"name": "units", "type": units}]
            money = {"type": "record", "name": "Money", "fields": fields}
            registry.add("money", number, kind, json.dumps(money))
        fields = [{"name": "price", "type": "Money"}]
        text = json.dumps({"type": "record", "name": "Order", "fields": fields})
        name = "Money"
    subject = "money" if kind == "AVRO" else name
    for number, version in ((41, 1), (42, 2)):
        named = [{"name": name, "subject": subject, "version": version}]
        registry.add(f"{topic}-value", number, kind, text, references=named)
    (misfit,) = schema_check(topic, registry.address).misfits
    assert "units" in misfit.what


@pytest.mark.parametrize("text", ["{", '["null", "shop.Gone"]'])
def test_an_avro_schema_that_is_none_is_refused(registry: FakeRegistry, text: str) -> None:
    registry.add("wrong-value", 71, "AVRO", text)
    with pytest.raises(CallerError, match="no Avro schema"):
        decoder(registry, "wrong")


def test_references_that_lead_nowhere_are_named(registry: FakeRegistry) -> None:
    registry.add("a-value", 51, "PROTOBUF", SALES, references=[{**REFERENCE, "subject": "none"}])
    with pytest.raises(CallerError, match="schema 51 refers to version 1 of subject 'none', which"):
        registry_of(registry.address).by_id(51)
    one = {"name": "b.proto", "subject": "b", "version": 1}
    registry.add("b", 52, "PROTOBUF", MONEY, references=[one])
    with pytest.raises(RegistryError, match="version 1 of 'b' refers to itself"):
        registry_of(registry.address).by_id(52)
    for name in ("../out.proto", "/tmp/out.proto", "", "a\0b"):
        number = 60 + len(name)
        registry.add("d-value", number, "PROTOBUF", SALES, references=[{**REFERENCE, "name": name}])
        with pytest.raises(CallerError, match=r"the \.proto file refers to"):
            decoder(registry, "d")

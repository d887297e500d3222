"""Bodies that name their schema: the Protobuf message, and schemas that need others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError
from pocketmq.pipeline.jobs.schemas.check import schema_check
from pocketmq.pipeline.jobs.schemas.decoders import TopicDecoder
from pocketmq.pipeline.jobs.schemas.registry import RegistryError, registry_of
from pocketmq.runtime.errors import CallerError
from support.fake_registry import FakeRegistry, framed
from support.schemas import MONEY, PRICE, REFERENCE, SALES, WRITTEN


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


def test_a_version_that_no_body_names_stops_nobody(registry: FakeRegistry) -> None:
    registry.add("sales-value", 3, "PROTOBUF", "no schema")
    registry.add("sales-value", 4, "PROTOBUF", 'syntax = "proto3"; package shop; message Other {}')
    found = decoder(registry)(bytes.fromhex(WRITTEN["shop.Refund"]))
    assert (found.message, found.fields["id"]) == ("shop.Refund", "8")


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
        (b"\x02\x06", "message 3, which its .proto file does not"),
        (b"\x02\x01", "message -1, which its .proto file does not"),
        (b"\x04\x00\x00", r"message 0\.0, which its .proto file does not"),
        (b"\x01", "has -1 message indexes, but"),
        (b"\xfe\xff\xff\xff\x0f", "has 2147483647 message indexes, but"),
        (b"\x04\x02", "it ends in the list"),
    ],
)
def test_a_list_of_indexes_that_leads_nowhere_is_bad(
    registry: FakeRegistry, indexes: bytes, said: str
) -> None:
    with pytest.raises(BadBodyError, match=said):
        decoder(registry)(framed(2, indexes))
    assert decoder(registry)(framed(2, b"\x02\x00\x08\x07")).fields == {"id": "7"}  # [0] in full


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
    with pytest.raises(CallerError, match="schema 51 refers to version 1 of subject 'none', but"):
        registry_of(registry.address).by_id(51)
    one = {"name": "b.proto", "subject": "b", "version": 1}
    registry.add("b", 52, "PROTOBUF", MONEY, references=[one])
    with pytest.raises(RegistryError, match="version 1 of 'b' refers to itself"):
        registry_of(registry.address).by_id(52)
    for name in ("../out.proto", "/tmp/out.proto", "", "a\0b"):
        number = 60 + len(name)
        registry.add("d-value", number, "PROTOBUF", SALES, references=[{**REFERENCE, "name": name}])
        with pytest.raises(CallerError, match=r"the \.proto file imports"):
            decoder(registry, "d")

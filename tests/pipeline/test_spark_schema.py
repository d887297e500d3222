"""Bodies of topics into tables by their schemas, by Spark."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pocketmq.cluster.cli.main import main
from pocketmq.pipeline.errors import JobError
from pocketmq.pipeline.jobs.schemas.decode import schema
from pocketmq.pipeline.lake.hadoop_folder import HadoopFolder
from pocketmq.runtime.errors import CallerError, PocketMQError
from support.fake_registry import FakeRegistry, framed
from support.schemas import (
    CANAL,
    CLICK,
    DEBEZIUM,
    MONEY,
    ORDER,
    PAYMENT,
    PRICE,
    PROTO,
    REFERENCE,
    SALES,
    WRITTEN,
    an_order,
    avro,
)
from support.spark_store import open_store, put, stored

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def confluent() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    yield registry
    registry.close()


@pytest.fixture
def sales(confluent: FakeRegistry) -> FakeRegistry:
    confluent.add("shop/money.proto", 1, "PROTOBUF", MONEY)
    confluent.add("sales-value", 2, "PROTOBUF", SALES, references=[REFERENCE])
    return confluent


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    """Its rows by their places."""
    rows: list[dict[str, Any]] = pq.read_table(folder / name).to_pylist()
    names = ("topic", "queueId", "queueOffset", "change")
    return sorted(rows, key=lambda row: tuple(row.get(name, 0) for name in names))


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
    orders = table(out, "topics/orders")
    assert [row["id"] for row in orders] == list(range(5))
    assert orders[2] | {"storeTimestamp": None} == {
        "topic": "orders", "brokerName": "broker-a", "queueId": 0, "queueOffset": 2, "keys": "k2",
        "storeTimestamp": None, "id": 2, "state": "new", "lines": '["a", "b"]', "topic_": True,
    }  # fmt: skip
    (click,) = table(out, "topics/clicks")
    assert (click["id"], click["where"], click["tags"]) == (1, None, '["x"]')
    (payment,) = table(out, "topics/payments")
    assert (payment["id"], payment["amount"], payment["state"]) == (7, 1.5, "PAID")
    bad = {(row["topic"], row["queueOffset"]): row for row in table(out, "bad")}
    assert set(bad) == {("orders", 5), ("clicks", 1)}
    assert bad["orders", 5]["body"] == b"broken"
    assert "$.id" in bad["clicks", 1]["reason"]
    with pytest.raises(CallerError, match="is not empty"):
        schema(f"store:{root}", str(tmp_path / "schemas.json"), out)


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
    with pytest.raises(PocketMQError, match="no schema with id 77"):
        schema(f"store:{root}", confluent.address, tmp_path / "no", framed=True)
    confluent.add("payments-value", 77, "PROTOBUF", PROTO)
    done = schema(f"store:{root}", confluent.address, tmp_path / "tables", framed=True)
    assert (done.rows, done.bad) == (3, 2)
    assert [(row["id"], row["more"]) for row in table(tmp_path / "tables", "topics/orders")] == [
        (1, None),
        (2, 5),
    ]
    assert [row["id"] for row in table(tmp_path / "tables", "topics/payments")] == [7]


def test_change_events_become_rows_and_the_ends_of_keys_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "broker-a"
    with open_store(root) as store:
        bodies = [json.dumps(event).encode() for event in (*DEBEZIUM, *CANAL)]
        put(store, [stored(body, topic="db") for body in [*bodies, b"null", b"{}"]])
    done = schema(f"store:{root}", "", tmp_path / "tables", envelope=True, keys=["id"])
    assert (done.rows, done.bad, done.empty) == (5 + 4, 1, 1)
    rows = table(tmp_path / "tables", "topics/db")
    assert [row["operation"] for row in rows[:5]] == [
        "insert",
        "update",
        "update",
        "read",
        "delete",
    ]
    assert (rows[1]["before"], rows[1]["key"]) == ('{"id": 1, "v": "a"}', "[1]")
    assert rows[4]["after"] is None
    # an event of Canal may have several changes, which only this number puts in order
    assert [(row["queueOffset"], row["change"]) for row in rows[4:7]] == [(4, 0), (5, 0), (5, 1)]


def test_each_message_of_a_topic_has_a_table_of_its_own(
    sales: FakeRegistry, tmp_path: Path
) -> None:
    root, out = tmp_path / "broker-a", tmp_path / "tables"
    with open_store(root) as store:
        put(store, [stored(bytes.fromhex(each), topic="sales") for each in WRITTEN.values()])
    done = schema(f"store:{root}", sales.address, out, framed=True)
    assert (done.rows, done.bad) == (7, 1)
    names = [name for name in WRITTEN if name not in ("shop.Sale", "shop.Stock.Place")]
    assert sorted(done.tables) == sorted(
        ["bad", "topics/sales", *(f"topics/sales~{name}" for name in names)]
    )
    (sale,) = table(out, "topics/sales")
    assert (sale["id"], json.loads(sale["price"])) == (7, PRICE)
    (tax,) = table(out, "topics/sales~shop.Refund.Line.Tax")
    assert (tax["queueOffset"], tax["percent"], json.loads(tax["amount"])) == (3, 19, PRICE)


@pytest.mark.parametrize("is_framed", [True, False])
def test_each_record_of_an_avro_union_has_a_table_of_its_own(
    sales: FakeRegistry, tmp_path: Path, is_framed: bool
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
    sales.add("money", 21, "AVRO", json.dumps(money))
    sales.add("order", 22, "AVRO", json.dumps(order), references=named[:1])
    sales.add("all-value", 23, "AVRO", '["null", "shop.Money", "shop.Order"]', references=named)
    bodies = ["0206", "040208", "0400", "00", "06", "01", "", "02"]
    root, out = tmp_path / "broker-a", tmp_path / "tables"
    with open_store(root) as store:
        for text in bodies:
            body = bytes.fromhex(text)
            put(store, [stored(framed(23, body) if is_framed else body, topic="all")])
    done = schema(f"store:{root}", sales.address, out, topics=["all"], framed=is_framed)
    assert done.tables == ["topics/all~shop.Money", "topics/all~shop.Order", "bad"]
    (money_row,) = table(out, "topics/all~shop.Money")
    assert money_row["units"] == 3
    prices = [row["price"] for row in table(out, "topics/all~shop.Order")]
    assert [each and json.loads(each) for each in prices] == [{"units": 4}, None]
    assert [row["reason"].split(":")[0] for row in table(out, "bad")] == [
        "the body must be an Avro record, but is of type NoneType",
        "the body chooses type 3 of a union, but the union has only 3 types, counted from 0",
        "the body chooses type -1 of a union, but the union has only 3 types, counted from 0",
        "it ends in the number of its type",
        "the body cannot be read as an Avro record of this schema",
    ]


def decoded(folder: Path, said: Any, *bodies: bytes, topic: str = "t") -> Any:
    """Of JSON bodies in a store."""
    (folder / "schemas.json").write_text(json.dumps({topic: {"type": "JSON", "schema": said}}))
    with open_store(folder / "broker-a") as store:
        put(store, [stored(each, topic=topic) for each in bodies])
    registry = str(folder / "schemas.json")
    return schema(f"store:{folder / 'broker-a'}", registry, folder / "out")


def test_a_text_that_a_pattern_would_never_be_done_with_is_a_bad_row(tmp_path: Path) -> None:
    slow = json.dumps({"a": "a" * 60 + "b"}).encode()
    said = {"properties": {"a": {"type": "string", "pattern": "^(?:(a+)+(?=a))+$"}}}
    done = decoded(tmp_path, said, b"{}", slow, b'{"b": 1}')
    assert (done.rows, done.bad) == (2, 1)
    (bad,) = table(tmp_path / "out", "bad")
    assert (bad["queueOffset"], bad["body"]) == (1, slow)
    assert "takes too many steps to search" in bad["reason"]


def test_fields_that_spark_would_take_for_one_have_columns_of_their_own(tmp_path: Path) -> None:
    names = ["id", "ID", "id_", "Topic", "a b,c", "d.e"]
    said = {"properties": {name: {"type": "integer"} for name in names}}
    value = {name: number for number, name in enumerate(names)}
    assert decoded(tmp_path, said, json.dumps(value).encode()).rows == 1
    (row,) = table(tmp_path / "out", "topics/t")
    assert list(row)[6:] == ["id", "ID__", "id_", "Topic_", "a b,c", "d.e"]
    assert list(row.values())[6:] == list(range(6))


def test_a_topic_called_as_the_bad_rows_and_topics_that_differ_in_a_sign_have_their_tables(
    tmp_path: Path,
) -> None:
    said = {"properties": {"id": {"type": "integer"}}}
    named = {topic: {"type": "JSON", "schema": said} for topic in ("bad", "a%b", "a_b")}
    (tmp_path / "schemas.json").write_text(json.dumps(named))
    with open_store(tmp_path / "broker-a") as store:
        for number, topic in enumerate(named):
            put(store, [stored(b'{"id": %d}' % number, topic=topic)])
        put(store, [stored(b"x", topic="bad")])
    out = tmp_path / "out"
    done = schema(f"store:{tmp_path / 'broker-a'}", str(tmp_path / "schemas.json"), out)
    assert done.tables == ["topics/a%b", "topics/a_b", "topics/bad", "bad"]
    ids = {topic: [row["id"] for row in table(out, f"topics/{topic}")] for topic in named}
    assert ids == {"bad": [0], "a%b": [1], "a_b": [2]}
    assert [row["body"] for row in table(out, "bad")] == [b"x"]


def test_numbers_without_a_sign_and_times_of_any_year_are_kept(
    confluent: FakeRegistry, tmp_path: Path
) -> None:
    text = 'syntax = "proto3"; message N { uint32 few = 1; uint64 many = 2; fixed64 at = 3; }'
    confluent.add("n-value", 1, "PROTOBUF", text)
    with open_store(tmp_path / "broker-a") as store:
        body = bytes.fromhex("08ffffffff0f10ffffffffffffffffff0119ffffffffffffffff")
        put(store, [stored(body, topic="n")])
        for number, year in enumerate((1, 9999)):
            when = datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)
            source = {"ts_ms": int(when.timestamp() * 1000)}
            event = {"op": "c", "after": {"id": number}, "source": source}
            put(store, [stored(json.dumps(event).encode(), topic="db")])
    store_path = f"store:{tmp_path / 'broker-a'}"
    schema(store_path, confluent.address, tmp_path / "n", topics=["n"])
    (row,) = table(tmp_path / "n", "topics/n")
    assert (row["few"], row["many"], row["at"]) == (2**32 - 1, 2**64 - 1, 2**64 - 1)
    schema(store_path, "", tmp_path / "db", topics=["db"], envelope=True)
    assert [row["changeTimestamp"].year for row in table(tmp_path / "db", "topics/db")] == [1, 9999]


def test_a_message_that_is_gone_from_the_newest_schema_has_the_columns_of_the_last_with_it(
    confluent: FakeRegistry, tmp_path: Path
) -> None:
    """Whichever body is read first: tasks read different ones."""
    gone = 'syntax = "proto3"; message M { int32 a = 1; } message Gone { int32 one = 1; %s }'
    for number, text in enumerate(("", "int32 two = 2;"), 1):
        confluent.add("m-value", number, "PROTOBUF", gone % text)
    confluent.add("m-value", 3, "PROTOBUF", 'syntax = "proto3"; message M { int32 a = 1; }')
    with open_store(tmp_path / "broker-a") as store:
        for number in (1, 2):
            put(store, [stored(framed(number, b"\x02\x02\x08\x07"), topic="m")])
    done = schema(
        f"store:{tmp_path / 'broker-a'}", confluent.address, tmp_path / "out", framed=True
    )
    assert done.tables == ["topics/m~Gone"]
    rows = table(tmp_path / "out", "topics/m~Gone")
    assert [(row["one"], row["two"]) for row in rows] == [(7, None), (7, 0)]


def test_what_a_registry_calls_a_type_leads_out_of_no_folder(
    confluent: FakeRegistry, tmp_path: Path
) -> None:
    fields = [{"name": "a", "type": "int"}]
    said = ["null", {"type": "record", "name": "/../../../out", "fields": fields}]
    confluent.add("u-value", 1, "AVRO", json.dumps(said))
    with open_store(tmp_path / "broker-a") as store:
        put(store, [stored(b"\x02\x06", topic="u")])
    done = schema(f"store:{tmp_path / 'broker-a'}", confluent.address, tmp_path / "out")
    assert done.tables == ["topics/u~%2F..%2F..%2F..%2Fout"]
    assert [row["a"] for row in table(tmp_path / "out", done.tables[0])] == [3]


@pytest.mark.parametrize("given", [[], ["t"]])
def test_a_topic_without_a_schema_is_named_before_anything_is_decoded(
    tmp_path: Path, given: list[str]
) -> None:
    (tmp_path / "none.json").write_text("{}")
    with open_store(tmp_path / "broker-a") as store:
        put(store, [stored(b"{}", topic="t")])
    source, registry = f"store:{tmp_path / 'broker-a'}", str(tmp_path / "none.json")
    with pytest.raises(CallerError, match="no schema of topic 't'"):
        schema(source, registry, tmp_path / "out", topics=given)
    assert not (tmp_path / "out").exists()
    with pytest.raises(CallerError, match="name a registry of schemas, or set envelope"):
        schema(source, "", tmp_path / "out", topics=given)


@pytest.mark.parametrize("lost", ["topics/t", "bad"])
def test_rows_that_executors_have_written_elsewhere_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """As on a cluster whose machines have a folder each: the driver sees some files, or none."""

    def lose(folder: HadoopFolder, name: str) -> None:
        if name == lost:
            for path in (tmp_path / "out" / name).glob("*.parquet"):
                path.unlink()

    monkeypatch.setattr(HadoopFolder, "make_lasting", lose)
    with pytest.raises(CallerError, match=rf"{lost} lacks 1 rows: .* all machines share"):
        decoded(tmp_path, {"type": "object"}, b"{}", b"x")


def test_a_folder_that_spark_does_not_reach_is_told_in_a_line(tmp_path: Path) -> None:
    source = f"store:{tmp_path / 'broker-a'}"
    with open_store(tmp_path / "broker-a") as store:
        put(store, [stored(b"{}", topic="t")])
    with pytest.raises(JobError, match="nosuch") as caught:
        schema(source, "", "nosuch://there/tables", envelope=True)
    assert "\n" not in str(caught.value)


def test_the_command_writes_what_it_did_and_why_bodies_are_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"properties": {"id": {"type": "integer"}}, "required": ["id"]}
    (tmp_path / "schemas.json").write_text(json.dumps({"t": {"type": "JSON", "schema": said}}))
    with open_store(tmp_path / "broker-a") as store:
        put(store, [stored(each, topic="t") for each in (b'{"id":1}', b"x", b"y", b"{}")])
        put(store, [stored(b"x", topic="%RETRY%billing"), stored(b"x", topic="%DLQ%billing")])
    words = ("schema", f"store:{tmp_path / 'broker-a'}", tmp_path / "tables")
    more = ("--registry", tmp_path / "schemas.json", "--out", tmp_path / "did.parquet")
    capsys.readouterr()
    assert main(["pipeline", *map(str, (*words, *more))]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "1\t3"
    (row,) = pq.read_table(tmp_path / "did.parquet").to_pylist()
    assert row == {"rows": 1, "bad": 3, "empty": 0, "tables": ["topics/t", "bad"]}
    reasons = pq.read_table(tmp_path / "did-reasons.parquet").to_pylist()
    assert [(each["count"], each["reason"]) for each in reasons] == [
        (2, "no JSON"), (1, "$ breaks the schema's rule `required`"),
    ]  # fmt: skip

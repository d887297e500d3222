"""Every structured body in JSON, fastjson's dialect and msgpack (E-60)."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.bodies.clients import HeartbeatData, LockedQueues
from pocketmq.protocol.bodies.compressed_registration import (
    decode_compressed,
    encode_compressed,
)
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, ResetOffsetBody
from pocketmq.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from pocketmq.protocol.body import (
    decode_body,
    encode_body,
    encode_fastjson,
    encode_json,
    mq_key,
    parse_mq_key,
)
from pocketmq.protocol.budget import DEFAULT_BUDGET
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.errors import BadRequestError, OverBudgetError
from pocketmq.protocol.messages.message import MessageQueue
from support.declared import BODIES, for_each_class, instances

ENCODINGS = list(Encoding)

# -- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
@for_each_class
@given(data=st.data())
def test_every_body_comes_back_as_it_was_sent(
    cls: type[msgspec.Struct], data: st.DataObject
) -> None:
    body = data.draw(instances(cls))
    for encoding in ENCODINGS:  # drawing takes far longer than the round trips
        assert decode_body(encode_body(body, encoding), cls, encoding) == body, encoding
    assert decode_body(encode_fastjson(body), cls, Encoding.JSON) == body, "fastjson's dialect"


any_bodies = st.sampled_from(BODIES).flatmap(instances)


@given(any_bodies)
def test_bodies_are_standard_json_with_sorted_keys(body: msgspec.Struct) -> None:  # E-60
    text = encode_json(body).decode()
    fields = json.loads(text)
    assert list(fields) == sorted(fields)
    assert "\n" not in text.replace("\\n", "")


@given(any_bodies)
def test_bare_msgpack_reads_the_same_names_as_json(body: msgspec.Struct) -> None:
    packed = msgpack.unpackb(encode_body(body, Encoding.MSGPACK), strict_map_key=False)
    assert set(packed) == set(json.loads(encode_json(body)))


# -- keys that are no texts -----------------------------------------------------------------------


def test_integer_keys_are_quoted_in_json_and_integers_in_msgpack() -> None:
    table = ConsumerOffsetTable(offset_table={"T@g": {0: 5, 10: 7}})
    assert b'{"0":5,"10":7}' in encode_json(table)
    packed = msgpack.unpackb(encode_body(table, Encoding.MSGPACK), strict_map_key=False)
    assert packed["offsetTable"] == {"T@g": {0: 5, 10: 7}}
    assert b"{0:5,10:7}" in encode_fastjson(table)


QUEUE = MessageQueue("TopicA", "broker-a", 3)
QUEUE_TEXT = '{"brokerName":"broker-a","queueId":3,"topic":"TopicA"}'


def test_a_queue_as_a_key_is_its_json_text() -> None:
    assert mq_key(QUEUE) == QUEUE_TEXT
    assert parse_mq_key(QUEUE_TEXT) == QUEUE
    with pytest.raises(BadRequestError, match="message queue"):
        parse_mq_key("{}")


def test_queue_keys_are_read_raw_and_as_text() -> None:  # E-60: fastjson and strict peers
    expected = {mq_key(QUEUE): 42}
    for body in (
        '{"offsetTable":{' + QUEUE_TEXT + ":42}}",
        '{"offsetTable":{' + json.dumps(QUEUE_TEXT) + ":42}}",
    ):
        read = decode_body(body.encode(), ResetOffsetBody, Encoding.JSON)
        assert {mq_key(parse_mq_key(key)): n for key, n in read.offset_table.items()} == expected


def test_queues_in_lists_are_objects() -> None:
    body = LockedQueues(lock_ok_mq_set=[QUEUE])
    assert encode_json(body) == b'{"lockOKMQSet":[' + QUEUE_TEXT.encode() + b"]}"


# -- what real peers write ------------------------------------------------------------------------


def test_a_route_has_the_shape_of_the_sheet() -> None:  # E-61
    route = TopicRouteData(
        broker_datas=[
            BrokerData(
                cluster="DefaultCluster",
                broker_name="broker-a",
                broker_addrs={0: "127.0.0.1:10911", 1: "127.0.0.1:10921"},
            )
        ],
        queue_datas=[
            QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4)
        ],
    )
    assert encode_json(route) == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911","1":"127.0.0.1:10921"},'
        b'"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


def test_cluster_info_with_raw_keys_and_a_reference_is_read() -> None:  # E-60
    data = (
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1"},"brokerName":"a","cluster":"c"},'
        b'"b":{"$ref":"$.brokerAddrTable.a"}},"clusterAddrTable":{"c":["a","b"]}}'
    )
    info = decode_body(data, ClusterInfo, Encoding.JSON)
    assert info.broker_addr_table["b"].broker_addrs == {0: "h:1"}


@pytest.fixture
def no_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of fastjson's whole dialect takes 1 us a byte; here it must not be asked."""

    def slow(_text: str) -> None:
        pytest.fail("the slow reader was asked")

    monkeypatch.setattr("pocketmq.protocol.body.parse", slow)


@pytest.mark.usefixtures("no_slow_reader")
def test_raw_integer_keys_do_not_need_the_slow_reader() -> None:
    groups = {f"topic-{n}@group": {0: n, 1: n + 1, 2: 5, 3: 7} for n in range(10_000)}
    text = encode_fastjson(ConsumerOffsetTable(offset_table=groups))
    assert decode_body(text, ConsumerOffsetTable, Encoding.JSON).offset_table == groups


@pytest.mark.usefixtures("no_slow_reader")
@pytest.mark.parametrize(
    "text",
    [
        b'{"offsetTable":{{"a":1}:1,' + b'"k":{},' * 400_000 + b"]",
        b"[" * 100_000,
        b'{"offsetTable":5}',
        b'{"offsetTable":{0:"x"}}',
    ],
    ids=["large", "deep", "wrong type", "wrong type under a raw key"],
)
def test_a_hopeless_body_is_refused_before_the_slow_reader_begins(text: bytes) -> None:
    with pytest.raises(BadRequestError, match="ResetOffsetBody"):
        decode_body(text, ResetOffsetBody, Encoding.JSON)


def test_a_body_of_the_wrong_type_is_refused_by_the_name_of_its_field() -> None:
    for text in (b'{"offsetTable":{"T@g":{"0":"x"}}}', b'{"offsetTable":{"T@g":{0:"x"}}}'):
        with pytest.raises(BadRequestError, match=r"ConsumerOffsetTable.*offsetTable"):
            decode_body(text, ConsumerOffsetTable, Encoding.JSON)
    packed = msgpack.packb({"offsetTable": {"T@g": {0: "x"}}})
    with pytest.raises(BadRequestError, match=r"ConsumerOffsetTable.*offsetTable"):
        decode_body(packed, ConsumerOffsetTable, Encoding.MSGPACK)


def test_go_sends_code_sets_as_texts_and_node_leaves_the_expression_type_out() -> None:  # E-64
    data = json.dumps(
        {
            "clientID": "10.0.0.1@7",
            "producerDataSet": [{"groupName": "p"}],
            "consumerDataSet": [
                {
                    "groupName": "g",
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                    "subscriptionDataSet": [
                        {
                            "topic": "T",
                            "subString": "TagA",
                            "tagsSet": ["TagA"],
                            "codeSet": ["2598919"],
                            "subVersion": 1700000000000,
                        }
                    ],
                    "unitMode": False,
                }
            ],
        }
    ).encode()
    [consumer] = decode_body(data, HeartbeatData, Encoding.JSON).consumer_data_set
    [subscription] = consumer.subscription_data_set
    assert set(subscription.code_set) == {2598919}
    assert subscription.expression_type == "TAG"


# -- the compressed registration ------------------------------------------------------------------

names = st.text("ABCabc019_-%|", min_size=1, max_size=20)
topic_tables = st.dictionaries(
    names,
    st.builds(
        TopicConfig,
        topic_name=st.just(""),
        read_queue_nums=st.integers(0, 2**31 - 1),
        write_queue_nums=st.integers(0, 100),
        perm=st.integers(0, 7),
        topic_filter_type=st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
        attributes=st.dictionaries(names, st.text(st.characters(exclude_categories=["Cs"]))),
    ),
).map(lambda t: {n: msgspec.structs.replace(config, topic_name=n) for n, config in t.items()})


def registration(table: dict[str, TopicConfig], **fields: Any) -> RegisterBrokerBody:
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
            data_version=DataVersion(timestamp=1700000000000, counter=1), topic_config_table=table
        ),
        **fields,
    )


@given(table=topic_tables, version=st.sampled_from([399, 409, 413, 479]))
def test_a_compressed_registration_comes_back(table: dict[str, TopicConfig], version: int) -> None:
    if version < 413:
        table = {name: msgspec.structs.replace(c, attributes={}) for name, c in table.items()}
    body = registration(table, filter_server_list=["f:1"])
    assert decode_compressed(encode_compressed(body, version=version)) == body


def test_a_compressed_registration_inflates_to_java_s_bytes() -> None:
    table = {"TopicA": TopicConfig(topic_name="TopicA", read_queue_nums=4, write_queue_nums=4)}
    inflated = zlib.decompress(encode_compressed(registration(table), version=479))
    assert inflated == b"".join(
        [
            bytes.fromhex("00000038"),
            b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}',
            bytes.fromhex("00000001 0000001a"),
            b"TopicA 4 4 6 SINGLE_TAG {}",
            bytes.fromhex("00000002"),
            b"[]",
            bytes.fromhex("00000000"),
        ]
    )


def test_a_compressed_registration_that_inflates_without_end_is_refused() -> None:
    bomb = zlib.compress(bytes(DEFAULT_BUDGET.registration_bytes + 1))
    with pytest.raises(OverBudgetError, match="inflated registration"):
        decode_compressed(bomb)


@given(data=st.binary(max_size=80), cut=st.integers(0, 200))
def test_a_broken_compressed_registration_is_a_bad_request(data: bytes, cut: int) -> None:
    table = {"TopicA": TopicConfig(topic_name="TopicA")}
    sound = zlib.decompress(encode_compressed(registration(table), version=399))
    for inflated in (data, sound[:cut] + data):
        with suppress(BadRequestError, OverBudgetError):
            decode_compressed(zlib.compress(inflated))
    for raw in (data, zlib.compress(sound)[:cut]):
        with suppress(BadRequestError, OverBudgetError):
            decode_compressed(raw)

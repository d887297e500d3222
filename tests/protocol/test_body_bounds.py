"""Bodies at their bounds: what just fits, and what is refused and why."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from dataclasses import replace

import msgspec
import pytest

from pocketmq.protocol.bodies.compressed_registration import decode_compressed, encode_compressed
from pocketmq.protocol.bodies.pop import BatchAck, ack_bits
from pocketmq.protocol.bodies.route import MASTER_ID, BrokerData
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from pocketmq.protocol.budget import DEFAULT_BUDGET
from pocketmq.protocol.errors import BadRequestError, OverBudgetError
from support.declared import BODIES

TOPIC = TopicConfig(topic_name="orders", attributes={"+message.type": "FIFO"})
BODY = RegisterBrokerBody(
    topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
        data_version=DataVersion(), topic_config_table={"orders": TOPIC}
    ),
    filter_server_list=[],
)


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_a_number_that_is_made_for_each_body_begins_as_javas_do(cls: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(cls):
        if field.default_factory is not msgspec.NODEFAULT:
            made = field.default_factory()
            if isinstance(made, bool | int | float):
                assert made == type(made)(), field.name


@pytest.mark.parametrize(("version", "attributes"), [(412, {}), (413, TOPIC.attributes)])
def test_attributes_are_registered_from_5_0_on(version: int, attributes: dict[str, str]) -> None:
    # MQVersion.V5_0_0 is 413.
    wrapper = decode_compressed(encode_compressed(BODY, version=version))
    [topic] = wrapper.topic_config_serialize_wrapper.topic_config_table.values()
    assert topic.attributes == attributes


@pytest.mark.parametrize(("version", "end"), [(412, b"[]"), (413, b"[]\0\0\0\0")])
def test_mappings_of_static_topics_follow_from_5_0_on(version: int, end: bytes) -> None:
    assert zlib.decompress(encode_compressed(BODY, version=version)).endswith(end)


@pytest.mark.parametrize(("servers", "end"), [(None, b"[]"), ([], b"[]"), (["f:1"], b'["f:1"]')])
def test_filter_servers_are_registered_as_a_list(servers: list[str] | None, end: bytes) -> None:
    body = msgspec.structs.replace(BODY, filter_server_list=servers)
    data = encode_compressed(body, version=412)
    assert zlib.decompress(data).endswith(len(end).to_bytes(4, "big") + end)
    assert decode_compressed(data).filter_server_list == (servers or [])


def test_attributes_of_a_registered_topic_may_hold_spaces() -> None:
    # The separator of the fields before them; Java's TopicConfig.decode gives such attributes up.
    topic = TopicConfig(topic_name="orders", attributes={"a note": "of three words"})
    wrapper = TopicConfigSerializeWrapper(
        data_version=DataVersion(), topic_config_table={"orders": topic}
    )
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper, filter_server_list=[])
    assert decode_compressed(encode_compressed(body, version=413)) == body


def compressed(*parts: bytes | int) -> bytes:
    """A registration of sized parts and counts."""
    i32 = struct.Struct(">i")
    return zlib.compress(
        b"".join(i32.pack(p) if isinstance(p, int) else i32.pack(len(p)) + p for p in parts)
    )


@pytest.mark.parametrize("behind", [b"", b" ", b" {}"], ids=["4.9", "null", "empty"])
def test_a_topic_without_attributes_is_registered(behind: bytes) -> None:
    # TopicConfig.encode of 5.x ends with the separator where its attributes are null.
    data = compressed(b"{}", 1, b"orders 4 5 6 SINGLE_TAG" + behind, b"[]")
    [topic] = decode_compressed(data).topic_config_serialize_wrapper.topic_config_table.values()
    assert topic == TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=5, perm=6)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (zlib.compress(bytes(3)), "it ends before the data version"),
        (compressed(-1), "the data version has size -1"),
        (compressed(3), "it ends inside the data version"),
        (compressed(b"{}"), "it ends before the topic count"),
        (compressed(b"{}", 1, 40), "it ends inside the topic"),
        (compressed(b"{}", 1, b"orders 1 1"), "one of its topics cannot be read"),
        (compressed(b"{}", 0), "it ends before the filter servers"),
        (compressed(b"{}", 0, b""), "body is no list"),
        (zlib.compress(bytes(100))[:-5], "it is cut short"),
        (b"no stream of zlib", "compressed registration: .*incorrect header check"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "data",
)
def test_a_registration_that_is_not_whole_says_where_it_ends(data: bytes, reason: str) -> None:
    with pytest.raises(BadRequestError, match=reason):
        decode_compressed(data)


def test_a_registration_may_have_as_many_bytes_as_the_budget_says() -> None:
    data = encode_compressed(BODY, version=413)
    size = len(zlib.decompress(data))
    assert decode_compressed(data, replace(DEFAULT_BUDGET, registration_bytes=size)) == BODY
    with pytest.raises(OverBudgetError):
        decode_compressed(data, replace(DEFAULT_BUDGET, registration_bytes=size - 1))
    with pytest.raises(OverBudgetError):  # and no more of it is inflated
        decode_compressed(data, replace(DEFAULT_BUDGET, registration_bytes=size // 2))


def test_a_registration_may_have_as_many_topics_as_the_budget_says() -> None:
    data = encode_compressed(BODY, version=413)
    assert decode_compressed(data, replace(DEFAULT_BUDGET, topics_per_registration=1)) == BODY
    with pytest.raises(OverBudgetError):
        decode_compressed(data, replace(DEFAULT_BUDGET, topics_per_registration=0))


def ack(bits: str) -> BatchAck:
    return BatchAck(
        consumer_group="g", topic="t", retry="0", start_offset=100, queue_id=0, revive_queue_id=0,
        pop_time=0, invisible_time=0, bits=bits,
    )  # fmt: skip


@pytest.mark.parametrize("distances", [[], [0], [1], [3], [0, 1, 2], [5, 6], [0, 2], [1, 4, 9]])
def test_the_bits_of_an_ack_are_distances_from_its_first_offset(distances: list[int]) -> None:
    assert list(ack(ack_bits(distances)).offsets()) == [100 + each for each in distances]


def test_bits_are_java_s_long_array_in_base64() -> None:
    assert (ack_bits([0, 2]), ack_bits([8]), ack_bits([])) == ("BQ==", "AAE=", "")


def test_an_ack_has_no_more_bits_than_a_pop_needs() -> None:
    most = bytes(65_536 // 8 - 1) + b"\x80"
    assert list(ack(b64encode(most).decode()).offsets()) == [100 + 65_535]
    with pytest.raises(BadRequestError, match="ack has 65544 bits, but may have at most 65536"):
        ack(b64encode(most + b"\0").decode()).offsets()


@pytest.mark.parametrize("bits", ["B*Q==", "BQ==\n", "B", "BQ="])
def test_bits_that_are_no_base64_are_refused(bits: str) -> None:  # as Java's basic decoder does
    with pytest.raises(BadRequestError, match="bit set of a batch ack is not valid base64"):
        ack(bits).offsets()


def test_the_master_of_a_broker_name_is_the_broker_with_id_0() -> None:  # N-5
    both = BrokerData(cluster="c", broker_name="b", broker_addrs={1: "h:2", MASTER_ID: "h:1"})
    assert both.broker_addrs == {0: "h:1", 1: "h:2"}
    assert both.master_address() == "h:1"
    slave = BrokerData(cluster="c", broker_name="b", broker_addrs={1: "h:2"})
    assert slave.master_address() is None


def test_the_next_version_is_of_the_first_state() -> None:
    assert DataVersion(counter=4).next_version(7) == DataVersion(timestamp=7, counter=5)

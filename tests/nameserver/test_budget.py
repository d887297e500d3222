"""What one peer may cost a nameserver, and what its answers may cost a client."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest

from pocketmq.client.api import _check_queues
from pocketmq.nameserver.kv_config import KvConfig
from pocketmq.protocol.bodies.compressed_registration import encode_compressed
from pocketmq.protocol.bodies.route import QueueData, TopicRouteData
from pocketmq.protocol.bodies.topics import RegisterBrokerBody, TopicConfigSerializeWrapper
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.errors import OverBudgetError
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.headers.kv import DeleteKvConfigRequestHeader, PutKvConfigRequestHeader
from pocketmq.protocol.headers.route import RegisterBrokerRequestHeader, RegisterTopicRequestHeader
from support.broker_rig import FakePeer
from support.cost import cost_s, peak_bytes, slowest_s
from support.nameserver_rig import NameServerRig, nameserver, topic_configs

pytestmark = pytest.mark.slow
MIB = 1024 * 1024


def body_of(count: int, **options: Any) -> RegisterBrokerBody:
    names = [f"topic-{number}" for number in range(count)]
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
            topic_config_table=topic_configs(names, **options)
        )
    )


def answer_to(
    rig: NameServerRig,
    body: bytes,
    *,
    compressed: bool = False,
    encoding: Encoding = Encoding.MSGPACK,
) -> Any:
    """What a registration costs, from its bytes to its answer, and the answer."""
    header = RegisterBrokerRequestHeader(
        broker_name="b", broker_addr="127.0.0.1:1", cluster_name="c", broker_id=0,
        ha_server_addr="", compressed=compressed, body_crc32=0,
    )  # fmt: skip
    command = Command(header.CODE, header, body, encoding=encoding)
    data = b"".join(bytes(part) for part in encode_frame(command))
    answers: list[Command] = []

    def work() -> None:
        (request,) = FrameDecoder().feed(data)
        answers.append(rig.server.dispatcher.process(FakePeer(), request))  # type: ignore[arg-type]

    return cost_s(work), answers[-1], work


def refused(answer: Command, option: str) -> None:
    assert answer.code == ResponseCode.INVALID_PARAMETER, answer.remark
    assert f"(budget.{option})" in (answer.remark or "")


async def test_a_compressed_registration_of_a_million_topics_is_refused_at_once(
    rig: NameServerRig,
) -> None:
    # 2.6 MB of it took 87 s and 571 MiB.
    topic = b"\0\0\0\x1atopic-0 4 4 6 SINGLE_TAG {}"
    inflated = struct.pack(">i", 2) + b"{}" + struct.pack(">i", 1_000_000) + topic * 1_000_000
    took_s, answer, work = answer_to(rig, zlib.compress(inflated), compressed=True)
    refused(answer, "registration_bytes")
    assert took_s < slowest_s()
    assert peak_bytes(work) < 16 * MIB
    assert rig.server.table.queues.count == 0


@pytest.mark.parametrize("form", ["compressed", "msgpack", "json"])
async def test_the_largest_registration_is_entered_in_time(form: str, rig: NameServerRig) -> None:
    registration = body_of(10_000)
    encoding = Encoding.JSON if form == "json" else Encoding.MSGPACK
    if form == "compressed":
        body = encode_compressed(registration, version=479)
    else:
        body = encode_body(registration, encoding)
    took_s, answer, _ = answer_to(rig, body, compressed=form == "compressed", encoding=encoding)
    assert answer.code == 0, answer.remark
    assert took_s < slowest_s()
    assert rig.server.table.queues.count == 10_000


@pytest.mark.parametrize("compressed", [False, True])
async def test_one_topic_more_is_refused(rig: NameServerRig, compressed: bool) -> None:
    registration = body_of(10_001)
    body = (
        encode_compressed(registration, version=479)
        if compressed
        else encode_body(registration, Encoding.MSGPACK)
    )
    took_s, answer, _ = answer_to(rig, body, compressed=compressed)
    refused(answer, "topics_per_registration")
    assert took_s < slowest_s()


@pytest.mark.parametrize("field", ["read_queue_nums", "write_queue_nums"])
async def test_a_topic_with_2_to_the_31_queues_is_refused(rig: NameServerRig, field: str) -> None:
    broker = await rig.broker()
    reply = await broker.register(topic_configs(["orders"], **{field: 2**31 - 1}))
    refused(reply, "queues_per_topic")
    assert "'orders' of broker broker-a" in (reply.remark or "")
    assert await rig.route("orders") is None


async def test_all_brokers_together_have_a_bound() -> None:
    async with nameserver(budget=Budget(routes=5)) as rig:
        first, second = await rig.broker("a"), await rig.broker("b")
        assert (await first.register(["1", "2", "3"])).code == 0
        refused(await second.register(["1", "2", "3"]), "routes")
        assert (await second.register(["1", "2"])).code == 0
        first.bump()
        assert (await first.register(["1", "2", "3"])).code == 0, "what is known may change"


async def test_brokers_are_kept_up_to_a_number() -> None:
    async with nameserver(budget=Budget(brokers=2)) as rig:
        first, second, third = [await rig.broker(name) for name in "abc"]
        assert (await first.register([])).code == 0
        assert (await second.register([])).code == 0
        refused(await third.register([]), "brokers")
        assert (await first.register(["orders"])).code == 0, "what is known may change"
        slave = await rig.broker("a", 1)
        refused(await slave.register([]), "brokers")
        refused(await first.register([], cluster_name="another"), "brokers")
        await second.unregister()
        await rig.advance(0)
        assert (await third.register([])).code == 0


async def test_names_of_brokers_without_an_address_count() -> None:
    # A first registration of one topic is refused, and its broker's name stays entered (N-14).
    async with nameserver(budget=Budget(brokers=2)) as rig:
        codes = [(await (await rig.broker(name)).register(["t"])).code for name in "abcd"]
        assert codes[:2] == [ResponseCode.SYSTEM_ERROR] * 2
        assert codes[2:] == [ResponseCode.INVALID_PARAMETER] * 2


@pytest.mark.parametrize(
    "field", ["broker_name", "broker_addr", "cluster_name", "ha_server_addr", "zone_name"]
)
async def test_names_that_are_kept_have_a_length(rig: NameServerRig, field: str) -> None:
    broker = await rig.broker()
    refused(await broker.register([], **{field: "x" * 1025}), "name_chars")
    assert (await broker.register([], **{field: "x" * 1024})).code == 0


async def test_topics_and_filter_servers_have_a_length_too(rig: NameServerRig) -> None:
    broker = await rig.broker()
    refused(await broker.register(["x" * 1025, "y"]), "name_chars")
    refused(await broker.register([], filter_servers=["127.0.0.1:1"] * 100), "name_chars")
    assert rig.server.table.broker_count == 0


async def test_what_an_administrator_enters_has_the_same_bounds() -> None:
    async with nameserver(budget=Budget(routes=3)) as rig:
        broker = await rig.broker("a")
        await broker.register(["1", "2"])

        async def enter(topic: str, queues: int = 4) -> Command:
            data = QueueData(
                broker_name="a", read_queue_nums=queues, write_queue_nums=4, perm=6,
                topic_sys_flag=0,
            )  # fmt: skip
            return await rig.ask(
                RegisterTopicRequestHeader(topic=topic), TopicRouteData(queue_datas=[data])
            )

        assert (await enter("3")).code == 0
        refused(await enter("4"), "routes")
        assert (await enter("3", 8)).code == 0
        refused(await enter("3", 2**31 - 1), "queues_per_topic")
        refused(await enter("x" * 1025), "name_chars")


async def test_the_key_value_configuration_has_a_size() -> None:
    async with nameserver(budget=Budget(kv_bytes=1000)) as rig:

        async def put(key: str, size: int, namespace: str = "ns") -> Command:
            header = PutKvConfigRequestHeader(namespace=namespace, key=key, value="v" * size)
            return await rig.ask(header)

        assert (await put("a", 700)).code == 0
        refused(await put("b", 200), "kv_bytes")
        refused(await put("a", 900), "kv_bytes")
        assert (await put("a", 100)).code == 0, "it may shrink"
        assert (await put("b", 200)).code == 0
        answers = [await put(str(number), 0, str(number)) for number in range(20)]
        refused(answers[-1], "kv_bytes")
        for key in ("a", "b"):
            await rig.ask(DeleteKvConfigRequestHeader(namespace="ns", key=key))
        assert (await put("c", 300)).code == 0
        kept = KvConfig(rig.storage.table)
        assert kept.size_bytes == rig.server.kv.size_bytes
        for namespace, keys in rig.storage.table.items():
            for key in keys:
                kept.delete(namespace, key)
        assert kept.size_bytes == 0


def test_a_client_takes_no_route_of_millions_of_queues() -> None:
    # It made an object of each.
    data = QueueData(
        broker_name="b", read_queue_nums=2**31 - 1, write_queue_nums=4, perm=6, topic_sys_flag=0
    )
    with pytest.raises(OverBudgetError, match=r"orders on broker b.*change the topic's queue"):
        _check_queues("orders", TopicRouteData(queue_datas=[data]))

"""How brokers come, over a memory network and in every encoding (N-5 to N-18)."""

from __future__ import annotations

import msgspec
import pytest

from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    TopicConfigSerializeWrapper,
)
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.route import RegisterBrokerResponseHeader
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_X, Profile
from support.cost import loop_cost_s
from support.nameserver_rig import NameServerRig, nameserver, topic_configs

ENCODINGS = list(Encoding)
PROFILES = [PROFILE_4_9, PROFILE_5_X]


def response(reply: Command) -> RegisterBrokerResponseHeader:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply.header(RegisterBrokerResponseHeader)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("compressed", [False, True])
async def test_a_registered_broker_shows_in_the_route_of_its_topics(
    rig: NameServerRig, encoding: Encoding, compressed: bool
) -> None:  # N-4, N-5, N-26
    broker = await rig.broker(encoding=encoding)
    await broker.register(
        topic_configs(["TopicA", "TopicB"], perm=7, topic_sys_flag=1),
        compressed=compressed,
        check_crc=True,
    )
    route = await rig.route("TopicA")
    assert route is not None
    [queue], [data] = route.queue_datas, route.broker_datas
    assert (queue.broker_name, queue.read_queue_nums, queue.write_queue_nums) == ("broker-a", 4, 4)
    # The text form of a compressed registration has no topicSysFlag (E-63).
    assert (queue.perm, queue.topic_sys_flag) == (7, 0 if compressed else 1)
    assert (data.cluster, data.broker_addrs) == ("DefaultCluster", {0: broker.address})


async def test_a_damaged_body_is_refused_by_its_checksum(rig: NameServerRig) -> None:  # N-11
    broker = await rig.broker()
    reply = await broker.register(body_crc32=12345)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    assert await rig.route("TopicA") is None


async def test_a_registration_without_body_brings_the_broker_and_no_topic(
    rig: NameServerRig,
) -> None:  # 1.3 step 2
    broker = await rig.broker()
    await broker.register(body=b"")
    assert (await broker.query_version()) == (True, DataVersion())


async def test_a_broker_older_than_3_0_11_sends_the_bare_topic_table(
    rig: NameServerRig,
) -> None:  # E-7
    broker = await rig.broker(version=36, encoding=Encoding.JSON)
    wrapper = TopicConfigSerializeWrapper(topic_config_table=topic_configs(["TopicA", "TopicB"]))
    await broker.register(body=encode_body(wrapper, Encoding.JSON))
    assert await rig.brokers_of("TopicA") == ["broker-a"]


@pytest.mark.parametrize(
    "body", [b"not zlib", b"", b"x\x9cK\x04\x00\x00b\x00b"], ids=["garbage", "empty", "short"]
)
async def test_a_compressed_body_that_cannot_be_read_gets_an_error_and_changes_nothing(
    rig: NameServerRig, body: bytes
) -> None:
    broker = await rig.broker()
    reply = await broker.register(body=body, compressed=True)
    if body:
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark is not None
        assert "compressed registration" in reply.remark
    assert await rig.route("TopicA") is None


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
async def test_a_slave_that_becomes_master_leaves_its_old_id(profile: Profile) -> None:  # N-12
    async with nameserver(profile) as rig:
        broker = await rig.broker(id=1)
        await broker.register()
        broker.id = 0
        await broker.register()
        route = await rig.route("TopicA")
        assert route is not None
        assert route.broker_datas[0].broker_addrs == {0: broker.address}


async def test_an_address_with_an_older_state_version_cannot_take_an_id(
    rig: NameServerRig,
) -> None:  # N-13
    master = await rig.broker(version=479)
    master.version = DataVersion(state_version=5, timestamp=1, counter=1)
    await master.register()
    late = await rig.broker()
    late.version = DataVersion(state_version=4, timestamp=2, counter=9)
    reply = await late.register(["TopicC", "TopicD"])
    assert response(reply) == RegisterBrokerResponseHeader()
    assert await rig.route("TopicC") is None
    assert len(rig.server.table.live) == 1
    route = await rig.route("TopicA")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: master.address}


async def test_an_unknown_broker_may_not_register_a_single_topic(
    rig: NameServerRig,
) -> None:  # N-14
    broker = await rig.broker()
    reply = await broker.register(["TopicA"])
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "register broker failed")
    assert await rig.route("TopicA") is None
    await broker.register(["TopicA", "TopicB"])
    broker.bump()
    assert (await broker.register(["TopicC"])).code == ResponseCode.SUCCESS
    assert await rig.brokers_of("TopicC") == ["broker-a"]


async def test_under_4_9_rules_an_unknown_broker_may_register_a_single_topic() -> None:  # N-14
    async with nameserver(PROFILE_4_9) as rig:
        await (await rig.broker()).register(["TopicA"])
        assert await rig.brokers_of("TopicA") == ["broker-a"]


async def test_an_unchanged_version_brings_only_topics_without_a_route_under_5_x(
    rig: NameServerRig,
) -> None:  # N-15
    broker = await rig.broker()
    await broker.register(topic_configs(["TopicA", "TopicB"]))
    await broker.register(topic_configs(["TopicA", "TopicB", "TopicC"], read_queue_nums=16))
    for topic, queues in (("TopicA", 4), ("TopicB", 4), ("TopicC", 16)):
        route = await rig.route(topic)
        assert route is not None
        assert route.queue_datas[0].read_queue_nums == queues


async def test_an_unchanged_version_brings_nothing_under_4_9() -> None:  # N-15
    async with nameserver(PROFILE_4_9) as rig:
        broker = await rig.broker()
        await broker.register(["TopicA"])
        await broker.register(["TopicA", "TopicC"])
        assert await rig.route("TopicC") is None
        broker.bump()
        await broker.register(["TopicA", "TopicC"])
        assert await rig.brokers_of("TopicC") == ["broker-a"]


async def test_under_4_9_rules_a_state_version_alone_is_no_change() -> None:  # N-10
    async with nameserver(PROFILE_4_9) as rig:
        broker = await rig.broker()
        await broker.register()
        broker.version = DataVersion(state_version=9, timestamp=1, counter=1)
        assert (await broker.query_version())[0] is False


@pytest.mark.parametrize("changed", ["state_version", "timestamp", "counter"])
async def test_a_version_differs_when_any_of_its_three_numbers_does(
    rig: NameServerRig, changed: str
) -> None:  # N-10, N-24
    broker = await rig.broker()
    await broker.register()
    broker.version = msgspec.structs.replace(broker.version, **{changed: 77})
    assert (await broker.query_version())[0] is True


async def test_topics_that_a_broker_no_longer_registers_stay(rig: NameServerRig) -> None:  # N-15
    broker = await rig.broker()
    await broker.register(["TopicA", "TopicB", "TopicC"])
    broker.bump()
    await broker.register(["TopicA", "TopicB"])
    assert await rig.brokers_of("TopicC") == ["broker-a"]


async def test_topics_that_a_broker_no_longer_registers_go_if_the_option_says_so() -> None:  # N-15
    async with nameserver(delete_topic_with_broker_registration=True) as rig:
        one, other = await rig.broker("broker-a"), await rig.broker("broker-b")
        for broker in (one, other):
            await broker.register(["TopicA", "TopicB", "TopicC"])
        await one.register(["TopicA", "TopicB"])
        assert await rig.brokers_of("TopicC") == ["broker-b"]
        await other.register(["TopicA", "TopicB"])
        assert await rig.route("TopicC") is None


async def test_a_slave_does_not_speak_for_its_group_while_there_is_a_master(
    rig: NameServerRig,
) -> None:  # N-15
    await (await rig.broker(id=0)).register(["TopicA", "TopicB"])
    await (await rig.broker(id=1)).register(["TopicA", "TopicB", "TopicC"])
    assert await rig.route("TopicC") is None


async def test_the_smallest_slave_speaks_for_a_group_without_master(
    rig: NameServerRig,
) -> None:  # N-15
    await (await rig.broker(id=1)).register(["TopicA", "TopicB"], enable_acting_master=True)
    await (await rig.broker(id=2)).register(["TopicC", "TopicD"], enable_acting_master=True)
    assert await rig.route("TopicC") is None
    assert await rig.perm_of("TopicA") == 4  # nobody may write to a slave


async def test_a_slave_older_than_5_0_never_speaks_for_its_group(
    rig: NameServerRig,
) -> None:  # N-15
    await (await rig.broker(id=1)).register(["TopicA", "TopicB"], enable_acting_master=None)
    assert await rig.route("TopicA") is None


async def test_a_slave_hears_where_its_master_is(rig: NameServerRig) -> None:  # N-17
    slave = await rig.broker(id=1)
    assert response(await slave.register()) == RegisterBrokerResponseHeader()
    master = await rig.broker(id=0)
    assert response(await master.register()) == RegisterBrokerResponseHeader()
    told = response(await slave.register())
    assert (told.master_addr, told.ha_server_addr) == (master.address, master.ha_address)


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_brokers_hear_the_order_configuration(encoding: Encoding) -> None:  # N-18
    order = {"ORDER_TOPIC_CONFIG": {"TopicA": "broker-a:4"}}
    async with nameserver(kv=order) as rig:
        reply = await (await rig.broker(encoding=encoding)).register()
        assert decode_body(reply.body_view, KVTable, encoding).table == {"TopicA": "broker-a:4"}
    async with nameserver() as rig:
        assert not (await (await rig.broker()).register()).body_view
    async with nameserver(kv=order, return_order_topic_config_to_broker=False) as rig:
        assert not (await (await rig.broker()).register()).body_view


async def test_filter_servers_are_kept_replaced_and_removed(rig: NameServerRig) -> None:  # N-8, 1.3
    broker = await rig.broker()

    async def known() -> dict[str, list[str]]:
        route = await rig.route("TopicA")
        assert route is not None
        return route.filter_server_table

    await broker.register(filter_servers=["fs:1"])
    assert await known() == {broker.address: ["fs:1"]}
    # msgpack carries an absent list as nil, which leaves the known ones.
    await broker.register(filter_servers=None)
    assert await known() == {broker.address: ["fs:1"]}
    await broker.register(filter_servers=[])
    assert await known() == {}


async def test_a_missing_field_is_named_in_the_answer(rig: NameServerRig) -> None:
    broker = await rig.broker()
    channel = broker.channel
    sent = await channel.request(broker.departure(), b"", code=103)
    assert sent.code == ResponseCode.SUCCESS  # it has all that a registration must have
    from pocketmq.protocol.headers.route import GetClusterInfoRequestHeader

    reply = await channel.request(GetClusterInfoRequestHeader(), code=103)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark is not None
    assert "brokerName" in reply.remark


async def test_ten_thousand_topics_register_in_time_proportional_to_their_number(
    rig: NameServerRig,
) -> None:
    async def seconds(count: int) -> float:
        broker = await rig.broker(f"broker-{count}", encoding=Encoding.JSON)
        topics = topic_configs(f"topic-{number}" for number in range(count))

        async def register() -> None:
            broker.bump()
            await broker.register(topics)

        return await loop_cost_s(register)

    small, large = await seconds(1_000), await seconds(10_000)
    assert large < 40 * small  # linear is 10; a table searched per topic would be 100
    assert len(rig.server.table.queues.topics()) == 10_000

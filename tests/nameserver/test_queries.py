"""What clients and administrators ask and change (N-26 to N-35)."""

from __future__ import annotations

import json

import msgpack
import pytest

from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.bodies.route import (
    BrokerMemberGroupBody,
    ClusterInfo,
    QueueData,
    TopicList,
    TopicRouteData,
)
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.route import (
    AddWritePermRequestHeader,
    AddWritePermResponseHeader,
    DeleteTopicInNamesrvRequestHeader,
    GetAllTopicListRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetClusterInfoRequestHeader,
    GetNamesrvConfigRequestHeader,
    GetRouteInfoRequestHeader,
    GetSystemTopicListRequestHeader,
    GetTopicsByClusterRequestHeader,
    GetUnitSubTopicListRequestHeader,
    GetUnitSubUnunitTopicListRequestHeader,
    GetUnitTopicListRequestHeader,
    RegisterTopicRequestHeader,
    WipeWritePermRequestHeader,
    WipeWritePermResponseHeader,
)
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_X, Profile
from support.nameserver_rig import (
    START_MS,
    MemoryStorage,
    NameServerRig,
    nameserver,
    topic_configs,
)

ENCODINGS = list(Encoding)
PROFILES = [PROFILE_4_9, PROFILE_5_X]


async def topic_list(rig: NameServerRig, header: Header) -> list[str]:
    reply = await rig.ask(header)
    assert reply.code == ResponseCode.SUCCESS
    return sorted(decode_body(reply.body_view, TopicList, reply.encoding).topic_list)


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_route_is_answered_in_the_encoding_of_the_question(
    rig: NameServerRig, encoding: Encoding
) -> None:  # N-26
    await (await rig.broker("broker-a")).register(["TopicA", "TopicB"])
    await (await rig.broker("broker-b")).register(["TopicA", "TopicC"])
    reply = await rig.ask(GetRouteInfoRequestHeader(topic="TopicA"), encoding=encoding)
    assert reply.encoding is encoding
    route = decode_body(reply.body_view, TopicRouteData, encoding)
    assert [queue.broker_name for queue in route.queue_datas] == ["broker-a", "broker-b"]
    assert [broker.broker_name for broker in route.broker_datas] == ["broker-a", "broker-b"]
    assert route.filter_server_table == {}


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_topic_that_nobody_has_is_code_17(
    rig: NameServerRig, encoding: Encoding
) -> None:  # N-26
    reply = await rig.ask(GetRouteInfoRequestHeader(topic="nowhere"), encoding=encoding)
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    assert reply.remark is not None
    assert "nowhere" in reply.remark


@pytest.mark.parametrize(
    ("version", "asks_for_standard", "standard"),
    [
        (399, None, False),
        (399, False, False),
        (399, True, True),
        (401, None, True),
        (0, None, False),
    ],
)
async def test_old_requesters_get_raw_integer_keys_and_new_ones_standard_json(
    rig: NameServerRig, version: int, asks_for_standard: bool | None, standard: bool
) -> None:  # N-27
    broker = await rig.broker()
    await broker.register(["TopicA", "TopicB"])
    header = GetRouteInfoRequestHeader(topic="TopicA", accept_standard_json_only=asks_for_standard)
    reply = await rig.ask(header, encoding=Encoding.JSON, version=version)
    key = b'"0"' if standard else b"0"
    assert bytes(reply.body_view) == (
        b'{"brokerDatas":[{"brokerAddrs":{' + key + b':"' + broker.address.encode() + b'"},'
        b'"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    if standard:
        json.loads(bytes(reply.body_view))


async def test_encoding_77_gets_a_typed_route_whatever_its_version(rig: NameServerRig) -> None:
    broker = await rig.broker()  # N-27
    await broker.register(["TopicA", "TopicB"])
    reply = await rig.ask(GetRouteInfoRequestHeader(topic="TopicA"), version=0)
    fields = msgpack.unpackb(reply.body_view, strict_map_key=False)
    assert fields["brokerDatas"][0]["brokerAddrs"] == {0: broker.address}


async def test_a_route_names_the_order_configuration_only_when_told_to() -> None:  # N-26
    kv = {"ORDER_TOPIC_CONFIG": {"TopicA": "broker-a:4"}}
    for enabled, expected in ((False, None), (True, "broker-a:4")):
        async with nameserver(kv=kv, order_message_enable=enabled) as rig:
            await (await rig.broker()).register()
            route = await rig.route("TopicA")
            assert route is not None
            assert route.order_topic_conf == expected


async def test_no_route_is_given_before_brokers_had_time_if_so_told() -> None:  # N-26
    async with nameserver(need_wait_for_service=True, wait_seconds_for_service=45) as rig:
        broker = await rig.broker()
        await broker.register()
        await rig.advance(44.9)
        reply = await rig.ask(GetRouteInfoRequestHeader(topic="TopicA"))
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "name server not ready")
        await rig.advance(0.1)
        assert await rig.brokers_of("TopicA") == ["broker-a"]


async def test_brokers_have_their_time_from_the_start_on_and_not_before() -> None:  # N-3, N-26
    clock, network = ManualClock(START_MS), MemoryNetwork()
    config = NameServerConfig(port=9876, need_wait_for_service=True, wait_seconds_for_service=45)
    storage = MemoryStorage()
    server = NameServer(config, clock, network, kv_storage=storage)
    await clock.move_to(START_MS + 100_000)
    await server.start()
    rig = NameServerRig(clock, network, server, storage)
    await (await rig.broker()).register()
    await rig.advance(44)
    reply = await rig.ask(GetRouteInfoRequestHeader(topic="TopicA"))
    assert reply.remark == "name server not ready"
    await rig.advance(1)
    assert await rig.brokers_of("TopicA") == ["broker-a"]
    await server.stop()


async def test_a_route_that_was_answered_does_not_change_later(rig: NameServerRig) -> None:
    broker, table = await rig.broker(), rig.server.table
    await broker.register()
    route = table.route("TopicA")
    assert route is not None
    table.queues.set_perm("broker-a", keep=0, add=0)
    await (await rig.broker(id=1)).register()
    assert route.queue_datas[0].perm == 6
    assert route.broker_datas[0].broker_addrs == {0: broker.address}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
async def test_a_deleted_topic_comes_back_with_the_next_registration_under_5_x_only(
    profile: Profile,
) -> None:  # N-30
    async with nameserver(profile) as rig:
        broker = await rig.broker()
        await broker.register(["TopicA", "TopicB"])
        await rig.ask(DeleteTopicInNamesrvRequestHeader(topic="TopicA"))
        assert await rig.route("TopicA") is None
        await broker.register(["TopicA", "TopicB"])
        expected = ["broker-a"] if profile is PROFILE_5_X else []
        assert await rig.brokers_of("TopicA") == expected
        broker.bump()
        await broker.register(["TopicA", "TopicB"])
        assert await rig.brokers_of("TopicA") == ["broker-a"]


async def test_a_topic_may_be_deleted_in_one_cluster_only(rig: NameServerRig) -> None:  # N-30
    await (await rig.broker("broker-a", cluster="One")).register(["TopicA", "TopicB"])
    await (await rig.broker("broker-b", cluster="Two")).register(["TopicA", "TopicB"])
    delete = DeleteTopicInNamesrvRequestHeader(topic="TopicA", cluster_name="One")
    assert (await rig.ask(delete)).code == ResponseCode.SUCCESS
    assert await rig.brokers_of("TopicA") == ["broker-b"]
    await rig.ask(DeleteTopicInNamesrvRequestHeader(topic="TopicA", cluster_name="Two"))
    assert await rig.route("TopicA") is None
    assert "TopicA" not in await topic_list(rig, GetAllTopicListRequestHeader())


async def test_write_perm_is_wiped_and_added_back(rig: NameServerRig) -> None:  # N-31
    one, other = await rig.broker("broker-a"), await rig.broker("broker-b")
    await one.register(topic_configs(["TopicA", "TopicB"], perm=7))
    await other.register(topic_configs(["TopicA", "TopicC"], perm=7))
    reply = await rig.ask(WipeWritePermRequestHeader(broker_name="broker-a"))
    assert reply.header(WipeWritePermResponseHeader).wipe_topic_count == 2
    assert await rig.perm_of("TopicA", "broker-a") == 5
    assert await rig.perm_of("TopicA", "broker-b") == 7
    await one.register(topic_configs(["TopicA", "TopicB"], perm=7))  # nothing changed there
    assert await rig.perm_of("TopicA", "broker-a") == 5
    reply = await rig.ask(AddWritePermRequestHeader(broker_name="broker-a"))
    assert reply.header(AddWritePermResponseHeader).add_topic_count == 2
    assert await rig.perm_of("TopicA", "broker-a") == 6  # the inherit bit is lost
    await rig.ask(WipeWritePermRequestHeader(broker_name="broker-a"))
    one.bump()
    await one.register(topic_configs(["TopicA", "TopicB"], perm=7))
    assert await rig.perm_of("TopicA", "broker-a") == 7


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_topic_is_entered_by_hand_up_to_the_first_unknown_broker(
    rig: NameServerRig, encoding: Encoding
) -> None:  # N-32
    await (await rig.broker("broker-a")).register()
    await (await rig.broker("broker-b")).register()
    queues = [
        QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
        for name in ("broker-a", "nobody", "broker-b")
    ]
    header = RegisterTopicRequestHeader(topic="ByHand")
    reply = await rig.ask(header, TopicRouteData(queue_datas=queues), encoding=encoding)
    assert reply.code == ResponseCode.SUCCESS
    assert await rig.brokers_of("ByHand") == [], "nothing of a topic that is new"
    for entered in (queues[2:], queues):
        await rig.ask(header, TopicRouteData(queue_datas=entered), encoding=encoding)
    assert sorted(await rig.brokers_of("ByHand")) == ["broker-a", "broker-b"]


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_cluster_info_lists_brokers_and_clusters(
    rig: NameServerRig, encoding: Encoding
) -> None:  # N-34
    master, slave = await rig.broker(id=0), await rig.broker(id=1)
    await master.register()
    await slave.register()
    await (await rig.broker("broker-b", cluster="Two")).register()
    reply = await rig.ask(GetClusterInfoRequestHeader(), encoding=encoding)
    info = decode_body(reply.body_view, ClusterInfo, encoding)
    assert info.cluster_addr_table == {"DefaultCluster": ["broker-a"], "Two": ["broker-b"]}
    assert info.broker_addr_table["broker-a"].broker_addrs == {0: master.address, 1: slave.address}


async def test_topics_are_listed_in_all_and_by_cluster(rig: NameServerRig) -> None:
    await (await rig.broker("broker-a", cluster="One")).register(["TopicA", "TopicB"])
    await (await rig.broker("broker-b", cluster="Two")).register(["TopicB", "TopicC"])
    assert await topic_list(rig, GetAllTopicListRequestHeader()) == ["TopicA", "TopicB", "TopicC"]
    assert await topic_list(rig, GetTopicsByClusterRequestHeader(cluster="Two")) == [
        "TopicB",
        "TopicC",
    ]
    assert await topic_list(rig, GetTopicsByClusterRequestHeader(cluster="None")) == []


async def test_system_topics_are_the_names_of_clusters_and_brokers(
    rig: NameServerRig,
) -> None:  # N-34
    reply = await rig.ask(GetSystemTopicListRequestHeader())
    assert decode_body(reply.body_view, TopicList, reply.encoding) == TopicList()
    broker = await rig.broker("broker-a", cluster="One")
    await broker.register()
    reply = await rig.ask(GetSystemTopicListRequestHeader())
    listed = decode_body(reply.body_view, TopicList, reply.encoding)
    assert sorted(listed.topic_list) == ["One", "broker-a"]
    assert listed.broker_addr == broker.address


async def test_unit_topics_are_listed_by_their_bits(rig: NameServerRig) -> None:
    broker = await rig.broker()
    await broker.register(
        topic_configs(["plain"])
        | topic_configs(["unit"], topic_sys_flag=1)
        | topic_configs(["sub"], topic_sys_flag=2)
        | topic_configs(["both"], topic_sys_flag=3)
    )
    assert await topic_list(rig, GetUnitTopicListRequestHeader()) == ["both", "unit"]
    assert await topic_list(rig, GetUnitSubTopicListRequestHeader()) == ["both", "sub"]
    assert await topic_list(rig, GetUnitSubUnunitTopicListRequestHeader()) == ["sub"]


async def test_lists_can_be_switched_off() -> None:  # 1.1
    async with nameserver(enable_topic_list=False, enable_all_topic_list=False) as rig:
        for header in (
            GetAllTopicListRequestHeader(),
            GetTopicsByClusterRequestHeader(cluster="x"),
            GetUnitTopicListRequestHeader(),
        ):
            reply = await rig.ask(header)
            assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "disable")
        assert (await rig.ask(GetSystemTopicListRequestHeader())).code == ResponseCode.SUCCESS


async def test_the_members_behind_a_broker_name_are_told(rig: NameServerRig) -> None:  # E-31
    broker = await rig.broker()
    await broker.register()
    for name, expected in (("broker-a", {0: broker.address}), ("nobody", {})):
        header = GetBrokerMemberGroupRequestHeader(cluster_name="DefaultCluster", broker_name=name)
        reply = await rig.ask(header)
        group = decode_body(reply.body_view, BrokerMemberGroupBody, reply.encoding)
        assert group.broker_member_group.broker_addrs == expected


async def test_options_are_told_under_rocketmq_names(rig: NameServerRig) -> None:  # 319
    reply = await rig.ask(GetNamesrvConfigRequestHeader(), encoding=Encoding.JSON)
    lines = bytes(reply.body_view).decode().splitlines()
    assert "listenPort=9876" in lines
    assert "orderMessageEnable=false" in lines
    assert "unRegisterBrokerQueueCapacity=3000" in lines


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_an_unknown_code_is_answered_with_3_and_named(
    rig: NameServerRig, encoding: Encoding
) -> None:  # N-35
    channel = await rig.channel(encoding)
    for code in (RequestCode.SEND_MESSAGE, 12345, -7):
        reply = await channel.request(GetClusterInfoRequestHeader(), code=code)
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert reply.remark is not None
        assert str(int(code)) in reply.remark
    assert channel.is_open

"""With users on, PocketMQ's own requests at nameservers and controllers are a super user's.

All other requests stay RocketMQ's there: nobody signs them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from pocketmq.controller.config import ControllerConfig
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.operation.access.options import OwnRequestOptions
from pocketmq.operation.control.requests import GetClockRequestHeader, MoveClockRequestHeader
from pocketmq.operation.membership.members import Members
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.protocol.codes import RequestCode, ResponseCode, request_name
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.headers.settings import UpdateNamesrvConfigRequestHeader
from pocketmq.protocol.member_proof import Secret, Secrets
from pocketmq.protocol.signing import ACCESS_KEY, SIGNATURE, Credentials, signature
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Network
from pocketmq.proxy.assembly.proxy import ANNOUNCE_S, Proxy
from pocketmq.proxy.config import ProxyConfig
from pocketmq.runtime.configuration.config import load
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.any_fields import Fixed
from support.broker_rig import running_broker
from support.controller_rig import ControllerRig, controllers
from support.nameserver_rig import START_MS, MemoryStorage, NameServerRig, nameserver
from support.tls import memory_over_tls

ADMIN = Credentials("admin", "rooted")
OFFICE = Credentials("office", "0ther")
ON: dict[str, Any] = {
    "authentication_enabled": True,
    "init_authentication_user": json.dumps({"username": "admin", "password": "rooted"}),
}
TWO = {**ON, "super_users": json.dumps({"office": "0ther"})}

OWN = [each for each in RequestCode if 30_000 < each < 40_000]
OPEN = {
    RequestCode.GET_PROXIES,
    RequestCode.GET_MEMBER_CHALLENGE,
    RequestCode.PROVE_MEMBER,
}
"""Clients ask for proxies as for routes; who proves to be a member has a proof of its own."""
LOCKED = [each for each in OWN if each not in OPEN]
UNKNOWN = 32_700
"""A code of our own that is yet to come."""

REFUSED = [
    (None, "username cannot be null."),
    (Credentials("nobody", "x"), "User:nobody is not found."),
    (Credentials("admin", "wrong"), "check signature failed."),
    (Credentials("office", "rooted"), "check signature failed."),
]

FIELDS: dict[str, object] = {
    "timeMs": START_MS + 60_000, "name": "p", "endpoints": "h:1", "address": "h:2", "after": 0,
    "group": "DefaultControllerGroup", "sender": "n1", "topic": "orders", "namespace": "N",
    "key": "k", "value": "v", "clusterName": "C", "brokerName": "b", "brokerAddr": "h:3",
    "brokerId": 0, "haServerAddr": "h:4", "brokerAddress": "h:3", "topicName": "orders",
    "appliedBrokerId": 7, "registerCheckCode": "x",
}  # fmt: skip


async def tried(channel: Channel, code: int, who: Credentials | None) -> Command:
    """A request of this code with all fields that any of them needs."""
    header = GetRouteInfoRequestHeader(topic="orders")
    fields = FIELDS
    if channel.encoding is not Encoding.MSGPACK:
        fields = {name: str(each) for name, each in FIELDS.items()}
    if who is not None:
        fields = signed(who, fields, b"{}")
    channel.credentials = Fixed(fields)
    return await channel.request(header, b"{}", code=code)


def signed(who: Credentials, fields: dict[str, object], body: bytes) -> dict[str, object]:
    found = {**fields, ACCESS_KEY: who.access_key}
    return {**found, SIGNATURE: signature(found, body, who.secret_key)}


def known_to(rig: NameServerRig) -> object:
    server = rig.server
    return rig.clock.time_ms(), len(server.proxies.alive(0.0)), server.table.cluster_info()


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda each: each.name.lower())
async def test_a_nameserver_answers_own_requests_to_super_users_only(encoding: Encoding) -> None:
    async with nameserver(**TWO) as rig:
        before = known_to(rig)
        channel = await rig.channel(encoding)
        for who, remark in REFUSED:
            for code in (*LOCKED, UNKNOWN):
                reply = await tried(channel, code, who)
                assert (reply.code, reply.remark) == (16, remark), request_name(code)
                assert not reply.body
                assert known_to(rig) == before
        for who in (ADMIN, OFFICE):
            for code in (*LOCKED, UNKNOWN):
                reply = await tried(channel, code, who)
                assert reply.code != ResponseCode.NO_PERMISSION, request_name(code)
        assert rig.clock.time_ms() == FIELDS["timeMs"]
        assert len(rig.server.proxies.alive(0.0)) == 1


async def test_a_controller_answers_own_requests_to_super_users_only() -> None:
    async with controllers(3, **TWO) as rig:
        leader = rig.leader
        raft = leader.consensus.raft
        channel = await rig.network.connect(leader.address, Dispatcher())

        def state() -> object:
            return rig.clock.time_ms(), raft.term, raft.commit_index, raft.leader

        before = state()
        for who, remark in REFUSED:
            for code in (*LOCKED, UNKNOWN):
                reply = await tried(channel, code, who)
                assert (reply.code, reply.remark) == (16, remark), request_name(code)
                assert state() == before
        for who in (ADMIN, OFFICE):
            for code in (*LOCKED, UNKNOWN):
                reply = await tried(channel, code, who)
                assert reply.code != ResponseCode.NO_PERMISSION, request_name(code)


async def test_the_words_are_those_of_a_broker(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker, nameserver(**ON) as rig:
        voice = await broker.voice()
        channel = await rig.channel()
        for who, remark in REFUSED:
            if who != Credentials("office", "rooted"):  # it is none of this broker's
                here = await tried(channel, RequestCode.GET_CLOCK, who)
                there = await tried(voice.channel, RequestCode.GET_CLOCK, who)
                assert (here.code, here.remark) == (there.code, there.remark) == (16, remark)


async def test_controllers_sign_what_they_say_to_each_other() -> None:
    async with controllers(3, **ON) as rig:
        first = rig.leader.config.self_id
        await rig.stop(first)
        await rig.until(lambda: any(each.consensus.serves for each in rig.controllers.values()))
        assert rig.leader.config.self_id != first
        broker = await rig.broker()
        assert broker.id == 1


async def test_a_controller_with_another_key_is_not_listened_to() -> None:
    async with controllers(3, **ON) as rig:
        other = next(name for name in rig.controllers if name != rig.leader.config.self_id)
        await rig.stop(other)
        raft = rig.leader.consensus.raft
        term = raft.term
        wrong = {"username": "admin", "password": "wrong"}
        rig.options["init_authentication_user"] = json.dumps(wrong)
        with structlog.testing.capture_logs() as logs:
            await rig.start(other)
            await rig.advance(20.0)
        assert (raft.is_leader, raft.term) == (True, term), "nobody hears it ask for votes"
        assert rig.controllers[other].consensus.raft.leader == "", "and it hears no leader"
        [told, *_] = [each for each in logs if each["event"] == "request.denied"]
        assert told["reason"] == "check signature failed."


async def answers(network: Network, address: str, codes: list[int]) -> dict[int, object]:
    channel = await network.connect(address, Dispatcher())
    found: dict[int, object] = {}
    for code in codes:
        reply = await tried(channel, code, None)
        found[code] = reply.code, reply.remark
    channel.close()
    return found


async def test_requests_of_rocketmq_need_no_user_as_before() -> None:
    codes = [int(each) for each in RequestCode if each not in LOCKED] + [9999]
    # A registration ties the broker to its connection; the two servers are asked alike.
    async with nameserver() as plain:
        before = await answers(plain.network, plain.server.address, codes)
    async with nameserver(**ON) as locked:
        assert await answers(locked.network, locked.server.address, codes) == before


async def test_requests_of_rocketmq_to_a_controller_need_no_user_as_before() -> None:
    codes = [
        RequestCode.CONTROLLER_GET_METADATA_INFO,
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
        RequestCode.GET_CONTROLLER_CONFIG,
        RequestCode.CONTROLLER_GET_REPLICA_INFO,
    ]

    async def asked(rig: ControllerRig) -> dict[int, object]:
        return await answers(rig.network, rig.leader.address, [int(each) for each in codes])

    async with controllers() as plain:
        before = await asked(plain)
    async with controllers(**ON) as locked:
        assert await asked(locked) == before
    assert ResponseCode.NO_PERMISSION not in {each[0] for each in before.values()}  # type: ignore[index]


async def test_a_member_needs_a_super_users_key_too() -> None:
    """A proof says that one is of the cluster, and a key that one may steer it."""
    secret = Secret(b"the cluster's own secret, 32 bytes")
    network, members = memory_over_tls(), Members(Secrets(secret))
    clock = ManualClock(START_MS)
    server = NameServer(
        NameServerConfig(port=9876, **ON), clock, MemberNetwork(network, members),
        kv_storage=MemoryStorage(), members=members,
    )  # fmt: skip
    await server.start()
    try:
        stranger = await network.connect(server.address, Dispatcher(), credentials=ADMIN)
        refused = await stranger.request(GetClockRequestHeader())
        assert refused.code == ResponseCode.NO_PERMISSION
        assert "POCKETMQ_MEMBER_SECRET_FILE" in str(refused.remark)

        member = await MemberNetwork(network, Members(Secrets(secret))).connect(
            server.address, Dispatcher()
        )
        refused = await member.request(MoveClockRequestHeader(time_ms=START_MS + 1))
        assert (refused.code, refused.remark) == (16, "username cannot be null.")
        assert clock.time_ms() == START_MS
        member.credentials = ADMIN
        moved = await member.request(MoveClockRequestHeader(time_ms=START_MS + 1))
        assert moved.code == ResponseCode.SUCCESS
        assert clock.time_ms() == START_MS + 1
    finally:
        await server.stop()


async def test_a_proxy_is_announced_with_its_own_users_key() -> None:
    inner = json.dumps({"accessKey": "admin", "secretKey": "rooted"})
    async with nameserver(**ON) as rig:
        config = ProxyConfig(
            nameservers=(rig.server.address,), grpc_port=0, authentication_enabled=True,
            inner_client_authentication_credentials=inner,
        )  # fmt: skip
        async with Proxy(config, rig.clock, rig.network):
            assert len(rig.server.proxies.alive(0.0)) == 1
        assert rig.server.proxies.alive(0.0) == []

        with structlog.testing.capture_logs() as logs:
            keyless = ProxyConfig(nameservers=(rig.server.address,), grpc_port=0)
            async with Proxy(keyless, rig.clock, rig.network):
                await rig.advance(3 * ANNOUNCE_S)
        assert rig.server.proxies.alive(0.0) == []
        [line] = [
            each
            for each in logs
            if each["event"] == "proxy.not_announced" and each["log_level"] == "warning"
        ]
        assert "innerClientAuthenticationCredentials" in line["advice"]


async def test_no_change_of_options_turns_the_check_off(tmp_path: Path) -> None:
    """Anybody may change options of a nameserver, as in RocketMQ."""
    async with nameserver(kv_config_path=tmp_path / "kvConfig.json", **ON) as rig:
        for text in ("authenticationEnabled=false", "superUsers={}", "initAuthenticationUser="):
            await rig.ask(UpdateNamesrvConfigRequestHeader(), text.encode())
        file = tmp_path / "namesrv.properties"
        kept = file.read_text() if file.exists() else ""
        assert "authenticationEnabled=false" not in kept
        assert "rooted" not in kept
        channel = await rig.channel()
        reply = await tried(channel, RequestCode.GET_CLOCK, None)
        assert reply.code == ResponseCode.NO_PERMISSION
        shown = await tried(channel, RequestCode.GET_NAMESRV_CONFIG, None)
        assert b"authenticationEnabled=true" in bytes(shown.body_view)
        assert b"rooted" not in bytes(shown.body_view)


@pytest.mark.parametrize("config", [NameServerConfig, ControllerConfig])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"authentication_enabled": True}, "initAuthenticationUser"),
        ({"init_authentication_user": "{"}, "must be a JSON object"),
        ({"init_authentication_user": '{"username":"a","password":""}'}, "must be a JSON object"),
        ({"super_users": '{"a":""}'}, "must be a JSON object"),
        ({"super_users": "[]"}, "must be a JSON object"),
        ({"super_users": '{"a":7}'}, "must be a JSON object"),
    ],
)
def test_options_that_make_no_sense_are_refused_at_the_start(
    config: type[OwnRequestOptions], given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        config(**given)


def test_a_file_for_brokers_serves_all_roles(tmp_path: Path) -> None:
    """RocketMQ's names in one file."""
    path = tmp_path / "all.conf"
    path.write_text(
        'authenticationEnabled=true\ninitAuthenticationUser={"username":"a","password":"b"}\n'
    )
    for config in (NameServerConfig, ControllerConfig):
        found = load(config, {}, {}, broker_conf=path).config
        assert isinstance(found, OwnRequestOptions)
        assert found.authentication_enabled
        assert found.initial_user == ("a", "b")
        assert "'b'" not in repr(found.own_users)

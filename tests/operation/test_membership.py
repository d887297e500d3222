"""`members_must_prove`: who has not proven to be a member changes nothing and reads nothing at
nameservers, controllers and replication ports; with `strangers_read_routes` routes at the first."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import structlog

from pocketmq.broker.replication.auto_switch_frames import SlaveHandshake, encode_slave_handshake
from pocketmq.broker.replication.ha_frames import encode_report
from pocketmq.broker.role_names import BrokerRole
from pocketmq.controller.config import ControllerConfig
from pocketmq.controller.server import Controller, ControllerSeams
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.operation.membership import options
from pocketmq.operation.membership.doors import OF_MEMBERS_AT_BROKER, ROUTES
from pocketmq.operation.membership.members import Members
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.operation.membership.options import (
    MOST_SECRETS,
    SecretFile,
    SecurityOptions,
    read_secrets,
)
from pocketmq.operation.membership.requests import (
    GetMemberChallengeRequestHeader,
    MemberChallengeResponseHeader,
    ProveMemberRequestHeader,
    ProveMemberResponseHeader,
)
from pocketmq.operation.tls.contexts import client_context, server_context
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import RequestCode, ResponseCode, request_name
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.member_proof import CHALLENGE_BYTES, End, Exchange, Secret, Secrets, proof
from pocketmq.protocol.transport import member_streams
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.member_streams import Tied
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.protocol.transport.tls_binding import tls_binding
from pocketmq.proxy.assembly.proxy import ANNOUNCE_S, Proxy
from pocketmq.proxy.config import ProxyConfig
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.any_fields import Fixed
from support.controller_rig import MemoryFiles
from support.eventually import PATIENCE_S, eventually
from support.nameserver_rig import START_MS, BrokerVoice, MemoryStorage
from support.own_logs import own_logs
from support.replicas import ReplicaRig, log_of
from support.tls import HALF_HELLO, memory_over_tls, own_pair, tcp_over_tls

SECRET = Secret(b"the cluster's own secret, 32 bytes")
NEXT = Secret(b"the secret that replaces this one")
OTHER = Secret(b"another cluster's secret, 32 bytes")

FIELDS: dict[str, object] = {
    "brokerName": "broker-x", "brokerAddr": "127.0.0.1:1", "clusterName": "C", "brokerId": 0,
    "haServerAddr": "127.0.0.1:2", "topic": "orders", "topicName": "orders",
    "namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "v", "group": "DefaultGroup",
    "sender": "n0", "brokerAddress": "127.0.0.1:1", "masterBrokerId": 0, "masterEpoch": 9,
    "appliedBrokerId": 7, "registerCheckCode": "x", "timeMs": START_MS * 2, "name": "n",
    "endpoints": "e", "address": "a", "after": 0, "nonce": "00" * 32, "proof": "00" * 32,
}  # fmt: skip
"""So many that every request has what it needs; what it does not know it does not look at."""

EVERY_CODE = [
    *sorted({*RequestCode, 9999} - {RequestCode.PROVE_MEMBER}),
    RequestCode.PROVE_MEMBER,  # a wrong one ends the connection
]


async def tried(channel: Channel, code: int) -> Command:
    """A request of this code with all fields that any of them needs."""
    channel.credentials = Fixed(FIELDS)
    return await channel.request(GetRouteInfoRequestHeader(topic="orders"), b"{}", code=code)


@asynccontextmanager
async def guarded_nameserver(
    *, strangers_read_routes: bool = False
) -> AsyncIterator[tuple[NameServer, MemoryNetwork]]:
    """A nameserver for members, who know SECRET, with one broker of theirs."""
    network, members = memory_over_tls(), Members(Secrets(SECRET))
    server = NameServer(
        NameServerConfig(port=9876, strangers_read_routes=strangers_read_routes),
        ManualClock(START_MS),
        MemberNetwork(network, members),
        kv_storage=MemoryStorage({"ORDER_TOPIC_CONFIG": {"orders": "broker-a:4"}}),
        members=members,
    )
    await server.start()
    try:
        channel = await member_of(network).connect(server.address, Dispatcher())
        assert (await BrokerVoice(channel, "broker-a").register()).code == 0
        yield server, network
    finally:
        await server.stop()


def member_of(network: Network, secret: Secret = SECRET) -> MemberNetwork:
    """The network of another process."""
    return MemberNetwork(network, Members(Secrets(secret)))


def told(server: NameServer) -> object:
    """All that a nameserver knows."""
    table = server.table
    return (
        table.cluster_info(),
        table.queues.topics(),
        len(table.live),
        server.kv.snapshot(),
        len(server.proxies.alive(0.0)),
        server.options.current(NameServerConfig),
    )


@pytest.mark.parametrize("reads_routes", [False, True])
async def test_a_stranger_changes_nothing_at_a_nameserver_and_reads_routes_at_most(
    reads_routes: bool,
) -> None:
    is_open = ROUTES if reads_routes else frozenset[int]()
    async with guarded_nameserver(strangers_read_routes=reads_routes) as (server, network):
        before = told(server)
        channel = await network.connect(server.address, Dispatcher())
        for code in EVERY_CODE[:-1]:
            reply = await tried(channel, code)
            if code == RequestCode.GET_MEMBER_CHALLENGE:
                assert reply.code == ResponseCode.SUCCESS
            elif code in is_open:
                assert reply.code != ResponseCode.NO_PERMISSION, request_name(code)
                assert SECRET.value not in bytes(reply.body_view)
            else:
                assert reply.code == ResponseCode.NO_PERMISSION, request_name(code)
                assert "POCKETMQ_MEMBER_SECRET_FILE" in str(reply.remark)
                assert ("strangers_read_routes" in str(reply.remark)) == (code in ROUTES)
                assert not reply.body
                assert not reply.fields
            assert told(server) == before, request_name(code)

        list_of_all = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        assert (b"TopicA" in bytes((await tried(channel, list_of_all)).body_view)) == reads_routes
        member = await member_of(network).connect(server.address, Dispatcher())
        assert b"TopicA" in bytes((await tried(member, list_of_all)).body_view)

        wrong = await tried(channel, RequestCode.PROVE_MEMBER)
        assert wrong.code == ResponseCode.NO_PERMISSION
        await eventually(lambda: not channel.is_open, "it is hung up on")
        assert told(server) == before


async def test_a_stranger_changes_and_reads_nothing_at_a_controller() -> None:
    network, members = memory_over_tls(), Members(Secrets(SECRET))
    clock = ManualClock(START_MS)
    config = ControllerConfig(
        name="n0", self_id="n0", peers="n0-127.0.0.1:9877", store_path=Path("/n0")
    )
    files = MemoryFiles()
    seams = ControllerSeams(clock, MemberNetwork(network, members), files, 1, members)
    controller = Controller(config, seams)
    await controller.start()
    try:
        while not controller.consensus.serves:
            await clock.move_to(clock.time_ms() + 50)
        raft = controller.consensus.raft

        def state() -> object:
            return raft.term, raft.commit_index, dict(files.texts), len(controller.live)

        before = state()
        channel = await network.connect(controller.address, Dispatcher())
        for code in EVERY_CODE:
            reply = await tried(channel, code)
            if code == RequestCode.GET_MEMBER_CHALLENGE:
                assert reply.code == ResponseCode.SUCCESS
                continue
            assert reply.code == ResponseCode.NO_PERMISSION, request_name(code)
            assert not reply.body
        await eventually(lambda: not channel.is_open, "who shows a wrong proof is hung up on")
        assert state() == before

        member = await member_of(network).connect(controller.address, Dispatcher())
        reply = await tried(member, RequestCode.CONTROLLER_GET_METADATA_INFO)
        assert reply.code == ResponseCode.SUCCESS
    finally:
        await controller.stop()


async def test_a_wrong_secret_is_refused_with_a_line_that_says_what_to_do() -> None:
    async with guarded_nameserver() as (server, network):
        with (
            structlog.testing.capture_logs() as logs,
            pytest.raises(ConnectError, match="give both the same member_secret_file"),
        ):
            await member_of(network, OTHER).connect(server.address, Dispatcher())
        [line] = [each for each in logs if each["event"] == "member.refused"]
        assert "the same member_secret_file" in line["advice"]


async def test_a_proxy_without_the_secret_says_once_that_it_is_refused() -> None:
    """Its own port works, so nothing else would tell."""
    async with guarded_nameserver() as (server, network):
        clock = ManualClock(START_MS)
        config = ProxyConfig(nameservers=(server.address,), grpc_port=0)
        with structlog.testing.capture_logs() as logs:
            async with Proxy(config, clock, network):
                await clock.move_to(START_MS + round(3_000 * ANNOUNCE_S))
        told = [each for each in logs if each["event"] == "proxy.not_announced"]
        [line] = [each for each in told if each["log_level"] == "warning"]
        assert "NO_PERMISSION" in line["reason"]
        assert "--member-secret-file" in line["advice"]
        assert len(told) > 2, "it goes on trying"
        assert server.proxies.alive(0.0) == []

        with structlog.testing.capture_logs() as logs:
            async with Proxy(config, clock, member_of(network)):
                assert len(server.proxies.alive(0.0)) == 1
        assert [each for each in logs if each["event"] == "proxy.not_announced"] == []


async def test_whom_we_connect_to_must_prove_the_same() -> None:
    """A controller that is none could make a broker a master."""
    network = memory_over_tls()
    plain = await network.serve("127.0.0.1", 1, Dispatcher())
    with pytest.raises(ConnectError, match="start it with --members-must-prove"):
        await member_of(network).connect("127.0.0.1:1", Dispatcher())
    await plain.close()

    lying = Dispatcher()
    lying.add(Lying())
    listener = await network.serve("127.0.0.1", 2, lying)
    with pytest.raises(ConnectError, match="its proof is wrong"):
        await member_of(network).connect("127.0.0.1:2", Dispatcher())
    await listener.close()


class Lying:
    """Says that it is a member."""

    @handles(RequestCode.GET_MEMBER_CHALLENGE)
    def challenge(self, _peer: Peer, request: Command) -> Reply:
        return request.reply(MemberChallengeResponseHeader(challenge="11" * 32))

    @handles(RequestCode.PROVE_MEMBER)
    def prove(self, _peer: Peer, request: Command) -> Reply:
        shown = request.header(ProveMemberRequestHeader).proof  # all that it has is ours
        return request.reply(ProveMemberResponseHeader(proof=shown))


async def test_of_a_connection_that_was_refused_nobody_hears_the_end() -> None:
    async with guarded_nameserver() as (server, network):
        heard: list[Channel] = []
        with pytest.raises(ConnectError, match="the same member_secret_file"):
            await member_of(network, OTHER).connect(
                server.address, Dispatcher(), on_close=heard.append
            )
        channel = await member_of(network).connect(
            server.address, Dispatcher(), on_close=heard.append
        )
        channel.close()
        await channel.closed
        assert heard == [channel], "the proven one alone"


async def test_a_broker_with_a_wrong_secret_waits_between_its_tries(tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path, members=Members(Secrets(SECRET))) as rig:
        assert rig.outside is not None
        rig.network = MemberNetwork(rig.outside, Members(Secrets(OTHER)))
        with structlog.testing.capture_logs() as logs:
            await rig.start("master")
            await rig.advance(61)
        refused = [each for each in logs if each["event"] == "member.refused"]
        # Once at its start, then each 10 to 30 s: it asks what is known of it, then registers.
        assert 2 <= len(refused) <= 16
        assert not [each for each in logs if each["event"] == "nameserver.lost"]


async def test_whom_we_connect_to_asks_nothing_before_it_has_proven() -> None:
    """It is no member yet, and a client's processors tell of its messages."""

    class Asking(Lying):
        @handles(RequestCode.GET_MEMBER_CHALLENGE)
        def challenge(self, peer: Peer, request: Command) -> Reply:
            peer.oneway(GetRouteInfoRequestHeader(topic="orders"))
            return super().challenge(peer, request)

    asked: list[Command] = []

    def answer(_peer: Peer, request: Command) -> Reply:
        asked.append(request)
        return None

    network = memory_over_tls()
    asking, own = Dispatcher(), Dispatcher()
    asking.add(Asking())
    own.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, answer)
    listener = await network.serve("127.0.0.1", 2, asking)
    with pytest.raises(ConnectError, match="its proof is wrong"):
        await member_of(network).connect("127.0.0.1:2", own)
    assert not asked
    await listener.close()

    async with guarded_nameserver() as (server, network):
        channel = await member_of(network).connect(server.address, own)
        assert channel.dispatcher is own


def test_a_resumed_session_is_no_proof() -> None:
    """Who stands between two ends can give both the same session of TLS 1.2."""
    server, client = server_context(own_pair()), client_context()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    first = shaken(server, client, None)
    assert tls_binding(first)
    assert tls_binding(shaken(server, client, first.client.session)) == b""


class Ends(asyncio.Transport):
    """Both ends of a TLS connection; as a transport it is the server's."""

    def __init__(self, server: ssl.SSLObject, client: ssl.SSLObject) -> None:
        super().__init__({"ssl_object": server})
        self.client = client


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None) -> Ends:
    """A connection whose handshake is complete."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, session=session)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (near, far):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    assert near.session_reused is (session is not None)
    return Ends(far, near)


async def test_who_stands_between_two_members_can_pass_no_proof_on() -> None:
    """He has the certificate, too: another TLS connection has another proof."""
    async with guarded_nameserver() as (server, network):
        onward = await network.connect(server.address, Dispatcher())

        def passed_on(peer: Peer, request: Command) -> Reply:
            async def ask() -> None:
                onward.credentials = Fixed(dict(request.fields))
                reply = await onward.request(GetMemberChallengeRequestHeader(), code=request.code)
                onward.credentials = None
                fields = dict(reply.fields)
                peer.reply(request, request.reply(fields, code=reply.code, remark=reply.remark))

            tasks.append(asyncio.get_running_loop().create_task(ask()))
            return None

        tasks: list[asyncio.Task[None]] = []
        between = Dispatcher()
        between.register(RequestCode.GET_MEMBER_CHALLENGE, passed_on)
        between.register(RequestCode.PROVE_MEMBER, passed_on)
        listener = await network.serve("127.0.0.1", 3, between)
        with pytest.raises(ConnectError, match="the proof is wrong"):
            await member_of(network).connect("127.0.0.1:3", Dispatcher())
        reply = await tried(onward, RequestCode.PUT_KV_CONFIG) if onward.is_open else None
        assert reply is None or reply.code == ResponseCode.NO_PERMISSION
        await listener.close()


async def test_a_challenge_is_good_for_one_answer() -> None:
    async with guarded_nameserver() as (server, network):
        members = Members(Secrets(SECRET))
        channel = await network.connect(server.address, Dispatcher())
        reply = await channel.request(GetMemberChallengeRequestHeader())
        challenge = bytes.fromhex(reply.header(MemberChallengeResponseHeader).challenge)
        exchange = Exchange(channel.tls_binding(), challenge, bytes(32))
        header = ProveMemberRequestHeader(
            nonce=bytes(32).hex(), proof=proof(members.secrets.own, End.CONNECTED, exchange).hex()
        )
        assert (await channel.request(header)).code == ResponseCode.SUCCESS
        assert (await channel.request(header)).code == ResponseCode.NO_PERMISSION


async def test_nothing_is_proven_in_plaintext() -> None:
    network, members = MemoryNetwork(), Members(Secrets(SECRET))
    listener = await MemberNetwork(network, members).serve("127.0.0.1", 1, Dispatcher())
    with pytest.raises(ConnectError, match="add --tls-enable"):
        await MemberNetwork(network, members).connect("127.0.0.1:1", Dispatcher())
    channel = await network.connect("127.0.0.1:1", Dispatcher())
    reply = await channel.request(GetMemberChallengeRequestHeader())
    assert (reply.code, "over TLS" in str(reply.remark)) == (ResponseCode.NO_PERMISSION, True)
    await listener.close()


# -- the replication port


class Stranger(asyncio.Protocol):
    """Says something at a replication port, and hears what it is told."""

    def __init__(self, said: bytes) -> None:
        self.said = said
        self.heard = b""
        self.is_lost = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.said)

    def hang_up(self) -> None:
        assert self.transport is not None
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize(
    "said",
    [encode_report(0) * 8, encode_slave_handshake(SlaveHandshake(2)) * 8],
    ids=["a report and no proof", "a handshake of controller mode"],
)
async def test_a_stranger_hears_nothing_of_the_log(tls: bool, said: bytes, tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path, members=Members(Secrets(SECRET))) as rig:
        master = await rig.start("master")
        await (await rig.voice(master)).send("orders", b"secret message")
        outside = rig.outside
        assert outside is not None
        stranger = Stranger(said)
        await outside.dial(str(master.subjects.replication.port), stranger, tls=tls)
        await eventually(lambda: stranger.is_lost, "it is hung up on")
        assert len(stranger.heard) in (0, CHALLENGE_BYTES)
        assert not master.subjects.replication.slaves.connections


async def test_slaves_that_prove_who_they_are_copy_the_log(tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path, members=Members(Secrets(SECRET))) as rig:
        master = await rig.start("master")
        voice = await rig.voice(master)
        slave = await rig.start("slave", broker_role=BrokerRole.SLAVE, broker_id=1)
        for at in range(20):
            await voice.send("orders", b"%d" % at * 1000)
        await rig.same_logs()
        assert log_of(slave.store) == log_of(master.store) != b""


async def test_a_slave_with_a_wrong_secret_is_refused_with_a_line(tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path, members=Members(Secrets(SECRET))) as rig:
        master = await rig.start("master")
        outside = rig.outside
        assert outside is not None
        wrong = MemberNetwork(outside, Members(Secrets(OTHER)))
        with (
            structlog.testing.capture_logs() as logs,
            pytest.raises(ConnectError, match="it hung up on our proof: give both the same"),
        ):
            await wrong.dial(str(master.subjects.replication.port), Stranger(b""))
        [line] = [each for each in logs if each["event"] == "member.refused"]
        assert "the same member_secret_file" in line["advice"]


async def test_a_master_that_is_none_is_not_followed() -> None:
    network = memory_over_tls()
    await network.listen("127.0.0.1", 1, lambda: Stranger(bytes(CHALLENGE_BYTES + 32)), tls=True)
    follower = Stranger(b"")
    with pytest.raises(ConnectError, match="its proof is wrong"):
        await member_of(network).dial("127.0.0.1:1", follower)
    assert not follower.heard


async def test_who_proves_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_streams, "PROOF_LIMIT_S", 0.01)
    network = memory_over_tls()
    await member_of(network).listen("127.0.0.1", 1, lambda: Stranger(b"the log"))
    silent = Stranger(b"")
    await network.dial("127.0.0.1:1", silent, tls=True)
    await eventually(lambda: silent.is_lost, "it is hung up on")
    assert len(silent.heard) == CHALLENGE_BYTES


async def test_streams_over_sockets_are_proven_too() -> None:
    network = tcp_over_tls()
    member = MemberNetwork(network, Members(Secrets(SECRET)))
    far: list[Stranger] = []

    def make() -> Stranger:
        far.append(Stranger(b"the log" * 100_000))
        return far[-1]

    listener = await member.listen("127.0.0.1", 0, make)
    near = Stranger(b"how far I am")
    await member.dial(f"localhost:{listener.port}", near)
    await eventually(lambda: near.heard == far[0].said, "all has come")
    assert far[0].heard == near.said
    near.hang_up()
    await eventually(lambda: near.is_lost and far[0].is_lost, "both have heard of the end")
    await listener.close()


async def test_half_handshakes_at_a_replication_port_are_bounded_as_configured(
    tmp_path: Path,
) -> None:
    async with ReplicaRig(tmp_path, members=Members(Secrets(SECRET))) as rig:
        master = await rig.start("master", budget=Budget(tls_handshakes=3))
        outside = rig.outside
        assert outside is not None
        port = str(master.subjects.replication.port)
        halves = [Stranger(HALF_HELLO) for _ in range(9)]
        for each in halves:
            await outside.dial(port, each)
        await eventually(lambda: halves[5].is_lost, "those before the last three are hung up on")
        assert [each.is_lost for each in halves] == [True] * 6 + [False] * 3
        # A member still gets in.
        await rig.network.dial(port, member := Stranger(b""))
        assert not member.is_lost


class LateProof(Stranger):
    """Is a member, and proves it when it is told to."""

    def __init__(self) -> None:
        super().__init__(b"")

    def prove(self) -> None:
        assert self.transport is not None
        exchange = Exchange(tls_binding(self.transport), self.heard[:CHALLENGE_BYTES], bytes(32))
        self.transport.write(bytes(32) + proof(SECRET, End.CONNECTED, exchange))


async def test_a_proof_under_way_at_the_stop_lets_no_slave_in(tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path, members=Members(Secrets(SECRET))) as rig:
        master = await rig.start("master")
        await (await rig.voice(master)).send("orders", b"secret message")
        outside = rig.outside
        assert outside is not None
        late = LateProof()
        await outside.dial(str(master.subjects.replication.port), late, tls=True)
        await eventually(lambda: len(late.heard) == CHALLENGE_BYTES, "it is to prove")
        await rig.stop("master")
        late.prove()
        await eventually(lambda: late.is_lost, "it is hung up on")
        assert len(late.heard) == CHALLENGE_BYTES
        assert not master.subjects.replication.slaves.connections


@pytest.mark.parametrize("over", [memory_over_tls, tcp_over_tls])
async def test_closing_a_port_hangs_up_on_the_unproven_alone(
    over: Callable[[], MemoryNetwork | TcpNetwork], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_streams, "PROOF_LIMIT_S", 10 * PATIENCE_S)
    network = over()
    far = Stranger(b"the log")
    listener = await member_of(network).listen("127.0.0.1", 0, lambda: far)
    address = f"localhost:{listener.port}"
    near, late = Stranger(b""), LateProof()
    await member_of(network).dial(address, near)
    await network.dial(address, late, tls=True)
    await eventually(lambda: len(late.heard) == CHALLENGE_BYTES, "it is to prove")
    await listener.close()
    await eventually(lambda: late.is_lost, "it is hung up on")
    await eventually(lambda: near.heard == b"the log", "the log has come")
    assert not near.is_lost, "who made the protocol ends it"
    near.hang_up()
    await eventually(lambda: far.is_lost, "it has ended")


# -- a secret that is changed


def secret_file(path: Path, *secrets: Secret) -> SecretFile:
    """A file with these secrets, as somebody replaces it."""
    fresh = path.with_suffix(".new")
    fresh.touch(0o600)
    fresh.write_bytes(b"\n".join(each.value for each in secrets) + b"\n")
    fresh.rename(path)
    return SecretFile(path)


async def test_a_secret_is_changed_without_a_stop_and_the_old_one_then_opens_nothing(
    tmp_path: Path,
) -> None:
    network, here, there = memory_over_tls(), tmp_path / "here", tmp_path / "there"
    members = Members(secret_file(here, SECRET))
    server = NameServer(
        NameServerConfig(port=9876),
        ManualClock(START_MS),
        MemberNetwork(network, members),
        kv_storage=MemoryStorage(),
        members=members,
    )
    await server.start()
    follower = Stranger(b"the log")
    streams = await MemberNetwork(network, members).listen("127.0.0.1", 1, lambda: follower)
    # A process that looks at its file whenever it connects.
    other = MemberNetwork(network, Members(secret_file(there, SECRET)))
    try:
        first = await other.connect(server.address, Dispatcher())
        copying = Stranger(b"")
        await other.dial("127.0.0.1:1", copying)

        secret_file(here, SECRET, NEXT)
        await members.look()
        secret_file(there, SECRET, NEXT)
        second = await other.connect(server.address, Dispatcher())
        secret_file(there, NEXT, SECRET)  # before the nameserver
        third = await other.connect(server.address, Dispatcher())
        secret_file(here, NEXT, SECRET)
        await members.look()
        (await member_of(network).connect(server.address, Dispatcher())).close()
        assert first.is_open
        assert second.is_open
        assert not copying.is_lost

        with own_logs() as logs:
            secret_file(here, NEXT)
            await members.look()
        assert [each["secrets"] for each in logs if each["event"] == "member.secret_loaded"] == [1]
        await eventually(
            lambda: first.closed.done() and second.closed.done(), "they are hung up on"
        )
        await eventually(lambda: copying.is_lost and follower.is_lost, "streams as well")
        assert third.is_open
        with pytest.raises(ConnectError, match="give both the same member_secret_file"):
            await member_of(network).connect(server.address, Dispatcher())
        last = Stranger(b"")
        await other.dial("127.0.0.1:1", last)
        assert not last.is_lost
    finally:
        await streams.close()
        await server.stop()


async def test_the_end_that_connected_hangs_up_too_when_its_secret_is_replaced(
    tmp_path: Path,
) -> None:
    async with guarded_nameserver() as (server, network):
        own = tmp_path / "secret"
        members = Members(secret_file(own, SECRET))
        channel = await MemberNetwork(network, members).connect(server.address, Dispatcher())
        secret_file(own, NEXT)
        await members.look()
        await eventually(channel.closed.done, "it is closed")


@pytest.mark.parametrize("asks", [True, False], ids=["requests", "stream"])
async def test_a_secret_that_is_revoked_during_its_proof_proves_nothing(asks: bool) -> None:
    async with guarded_nameserver() as (server, network):
        streams = await member_of(network).listen("127.0.0.1", 1, lambda: Stranger(b"the log"))
        members = Members(Secrets(SECRET))
        outside = MemberNetwork(network, members)
        near = Stranger(b"")
        opening = asyncio.get_running_loop().create_task(
            outside.connect(server.address, Dispatcher())
            if asks
            else outside.dial("127.0.0.1:1", near)
        )
        tie = members.tie

        def late(connection: Tied, secret: Secret) -> bool:
            members.secrets = Secrets(NEXT)
            return tie(connection, secret)

        members.tie = late  # type: ignore[method-assign]
        with pytest.raises(ConnectError, match="was changed during the proof"):
            await opening
        assert not near.heard
        await streams.close()


async def test_what_was_read_of_a_revoked_member_is_a_strangers_request(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    members = Members(secret_file(path, SECRET))

    class Connection:
        was_member: bool | None = None

        def abort(self) -> None:
            self.was_member = self in members

    peer = Connection()
    members.add(cast("Channel", peer), SECRET)
    assert peer in members
    secret_file(path, NEXT)
    await members.look()
    assert peer.was_member is False


async def test_a_connection_is_cut_off_in_the_thread_of_its_loop(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    members = Members(secret_file(path, SECRET))
    cut_in: list[int] = []
    has_tied, may_end = threading.Event(), threading.Event()

    class Connection:
        def abort(self) -> None:
            cut_in.append(threading.get_ident())
            may_end.set()

    async def other_loop() -> int:
        connection = Connection()
        members.tie(connection, SECRET)
        has_tied.set()
        await asyncio.to_thread(may_end.wait, PATIENCE_S)
        return threading.get_ident()

    async def closed_loop() -> Connection:
        connection = Connection()
        members.tie(connection, SECRET)
        return connection

    gone = await asyncio.to_thread(asyncio.run, closed_loop())
    other = asyncio.create_task(asyncio.to_thread(asyncio.run, other_loop()))
    await asyncio.to_thread(has_tied.wait, PATIENCE_S)
    secret_file(path, NEXT)
    await members.look()
    assert cut_in == [await other]
    assert not members.tie(gone, SECRET)
    assert cut_in[1:] == [threading.get_ident()], "one that was proven meanwhile, at once"


async def test_a_secret_file_that_cannot_be_used_changes_nothing_and_says_so_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secret"
    members = Members(secret_file(path, SECRET, NEXT))
    with own_logs() as logs:
        path.write_bytes(b"half")
        for _ in range(3):
            await members.look()
        path.unlink()
        await members.look()
    said = [each for each in logs if each["event"] == "member.secret_refused"]
    assert ["must have at least" in each["reason"] for each in said] == [True, False]
    assert members.secrets == Secrets(SECRET, (NEXT,))


def read_slowly(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """The next read of a secret says when it has read, and ends when it is told to."""
    has_read, may_end = threading.Event(), threading.Event()

    def slow(path: Path) -> Secrets:
        found = read_secrets(path)
        if not has_read.is_set():
            has_read.set()
            assert may_end.wait(PATIENCE_S)
        return found

    monkeypatch.setattr(options, "read_secrets", slow)
    return has_read, may_end


async def test_a_slow_look_does_not_bring_a_revoked_secret_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret"
    members = Members(secret_file(path, SECRET))
    has_read, may_end = read_slowly(monkeypatch)
    loop = asyncio.get_running_loop()
    slow = loop.create_task(members.look())
    await asyncio.to_thread(has_read.wait, PATIENCE_S)
    secret_file(path, NEXT)
    quick = loop.create_task(members.look())
    # It must not end first; so long it would need if it did.
    await asyncio.wait({quick}, timeout=0.2)
    may_end.set()
    await asyncio.gather(slow, quick)
    assert members.secrets == Secrets(NEXT)


async def test_a_disk_that_is_away_holds_up_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with guarded_nameserver() as (server, network):
        members = Members(secret_file(tmp_path / "secret", SECRET))
        outside = MemberNetwork(network, members)
        has_read, may_end = read_slowly(monkeypatch)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await outside.connect(server.address, Dispatcher(), timeout_s=2.0)
            assert has_read.is_set()
            # A role that watches its secret does not look at all.
            watching = asyncio.get_running_loop().create_task(members.watch(ManualClock(START_MS)))
            await eventually(lambda: members.is_watching, "it watches")
            async with asyncio.timeout(PATIENCE_S):
                await outside.connect(server.address, Dispatcher(), timeout_s=10 * PATIENCE_S)
            watching.cancel()
        finally:
            may_end.set()


async def test_a_running_role_looks_at_its_secret(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    members, clock = Members(secret_file(path, SECRET)), ManualClock(START_MS)
    watching = asyncio.get_running_loop().create_task(members.watch(clock))
    try:
        secret_file(path, NEXT)

        async def is_used() -> bool:
            await clock.move_to(clock.time_ms() + 500)
            return members.secrets == Secrets(NEXT)

        await eventually(is_used, "the new one is used")
    finally:
        watching.cancel()


# -- what members tell brokers


async def test_nobody_else_tells_a_broker_whom_to_follow(tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path, members=Members(Secrets(SECRET))) as rig:
        broker = await rig.start("master")
        outside = rig.outside
        assert outside is not None
        stranger = await outside.connect(broker.address, Dispatcher())
        for code in OF_MEMBERS_AT_BROKER:
            assert (await tried(stranger, code)).code == ResponseCode.NO_PERMISSION
        member = await rig.network.connect(broker.address, Dispatcher())
        for code in OF_MEMBERS_AT_BROKER:
            assert (await tried(member, code)).code != ResponseCode.NO_PERMISSION
        assert (await tried(stranger, RequestCode.GET_MAX_OFFSET)).code != 16, "clients go on"


# -- options


def test_a_secret_is_read_from_a_file_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"x" * 40 + b"\n")
    path.chmod(0o600)
    assert read_secrets(path) == Secrets(Secret(b"x" * 40))
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_secrets(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(ConfigError, match="the secret has 5 bytes, but must") as caught:
        read_secrets(path)
    assert "short\n" not in str(caught.value)
    path.write_bytes(b"a" * 40 + b"\r\n" + b"b" * 40 + b"\n\n")
    assert read_secrets(path) == Secrets(Secret(b"a" * 40), (Secret(b"b" * 40),))
    path.write_bytes(b"a" * 40 + b"\nshort\n" + b"b" * 40)
    with pytest.raises(ConfigError, match="the secret has 5 bytes, but must"):
        read_secrets(path)
    path.write_bytes(b"\n".join([b"a" * 40] * (MOST_SECRETS + 1)))
    with pytest.raises(ConfigError, match="9 lines, but may have at most 8"):
        read_secrets(path)
    with pytest.raises(ConfigError, match="openssl rand -hex 32"):
        read_secrets(tmp_path / "none")


def test_members_need_tls_and_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(os.urandom(40).hex().encode())
    path.chmod(0o600)
    assert SecurityOptions(member_secret_file=path).member_secret() is None
    on = SecurityOptions(members_must_prove=True, member_secret_file=path)
    with pytest.raises(ConfigError, match="--tls-enable"):
        on.member_secret()
    assert replace(on, tls_enable=True).member_secret() is not None
    with pytest.raises(ConfigError, match="no file is named"):
        replace(on, tls_enable=True, member_secret_file=None).member_secret()
    with pytest.raises(ConfigError, match="TLS, which is off"):
        replace(on, tls_enable=True, tls_server_mode="disabled").member_secret()

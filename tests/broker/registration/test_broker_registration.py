"""What a broker tells its name servers, and when (B-2 to B-10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.bodies.topics import DataVersion, RegisterBrokerBody
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles
from pocketmq.protocol.headers.route import (
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    UnregisterBrokerRequestHeader,
)
from pocketmq.protocol.hosts import unpack_host
from pocketmq.protocol.transport.memory import MemoryListener, MemoryNetwork
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_4_9
from support.broker_rig import START_MS, BrokerRig, running_broker


class FakeNameServer:
    """Hears registrations, and answers as it is told."""

    def __init__(self, network: MemoryNetwork, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.registrations: list[tuple[RegisterBrokerRequestHeader, RegisterBrokerBody]] = []
        self.queries = 0
        self.farewells: list[UnregisterBrokerRequestHeader] = []
        self.changed = False
        self.refuses = False
        self.orders: dict[str, str] = {}
        self._network = network
        self._port = port
        self._listener: MemoryListener | None = None

    async def start(self) -> None:
        dispatcher = Dispatcher()
        dispatcher.add(self)
        self._listener = await self._network.serve("127.0.0.1", self._port, dispatcher)

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()

    @property
    def topics(self) -> list[list[str]]:
        """Of each registration, the names that are no system topics."""
        return [
            [
                name
                for name in body.topic_config_serialize_wrapper.topic_config_table
                if name.startswith(("orders", "others", "%"))
            ]
            for _, body in self.registrations
        ]

    @property
    def sizes(self) -> list[int]:
        """Number of topics in each registration."""
        return [
            len(body.topic_config_serialize_wrapper.topic_config_table)
            for _, body in self.registrations
        ]

    @handles(RequestCode.REGISTER_BROKER)
    def register(self, _peer: Peer, request: Command) -> Reply:
        header = request.header(RegisterBrokerRequestHeader)
        assert header.body_crc32 == crc32(request.body_view) & 0x7FFFFFFF
        if self.refuses:
            return request.reply(code=1, remark="register broker failed")
        body = decode_body(request.body_view, RegisterBrokerBody, request.encoding)
        self.registrations.append((header, body))
        if not self.orders:
            return request.reply()
        return request.reply(body=encode_body(KVTable(table=self.orders), request.encoding))

    @handles(RequestCode.QUERY_DATA_VERSION)
    def query(self, _peer: Peer, request: Command) -> Reply:
        self.queries += 1
        known = DataVersion()
        if self.registrations:
            known = self.registrations[-1][1].topic_config_serialize_wrapper.data_version
        asked = decode_body(request.body_view, DataVersion, request.encoding)
        return request.reply(
            QueryDataVersionResponseHeader(changed=self.changed or asked != known),
            encode_body(known, request.encoding),
        )

    @handles(RequestCode.UNREGISTER_BROKER)
    def unregister(self, _peer: Peer, request: Command) -> Reply:
        self.farewells.append(request.header(UnregisterBrokerRequestHeader))
        return request.reply()


@asynccontextmanager
async def registered(
    path: Path, *profile: Any, servers: int = 1, **options: Any
) -> AsyncIterator[tuple[BrokerRig, list[FakeNameServer]]]:
    network = MemoryNetwork()
    names = [FakeNameServer(network, 9876 + n) for n in range(servers)]
    for each in names:
        await each.start()
    addresses = tuple(each.address for each in names)
    async with running_broker(
        path, *profile, network=network, nameservers=addresses, **options
    ) as rig:
        yield rig, names
    for each in names:
        await each.stop()


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_a_broker_registers_everything_at_start_with_every_nameserver(  # B-2, B-4, N-36
    tmp_path: Path, encoding: Encoding
) -> None:
    async with registered(tmp_path, servers=2, encoding=encoding.name.lower()) as (rig, names):
        for server in names:
            ((header, body),) = server.registrations
            assert (header.broker_name, header.cluster_name) == ("broker-a", "DefaultCluster")
            assert (header.broker_id, header.broker_addr) == (0, "127.0.0.1:10911")
            assert header.ha_server_addr == "127.0.0.1:10912"
            table = body.topic_config_serialize_wrapper.topic_config_table
            assert "TBW102" in table
            assert table["SELF_TEST_TOPIC"].perm == 6
        assert rig.broker.status()["nameservers"] == "127.0.0.1:9876,127.0.0.1:9877"


async def test_a_name_is_registered_as_typed_and_messages_carry_its_address(  # B-1
    tmp_path: Path,
) -> None:
    async with registered(tmp_path, broker_ip1="localhost", ip="127.0.0.1") as (rig, (server,)):
        ((header, _),) = server.registrations
        assert header.broker_addr == "localhost:10911"
        assert header.ha_server_addr == "localhost:10912"
        voice = await rig.voice()
        sent = await voice.send()
        assert unpack_host(bytes.fromhex(sent.msg_id)[:8]) == ("127.0.0.1", 10911)
        (stored,) = await rig.queue("orders")
        assert stored.store_host == "127.0.0.1:10911"


async def test_it_registers_again_after_10_s_and_then_every_30_s(tmp_path: Path) -> None:  # B-2
    async with registered(tmp_path) as (rig, (server,)):
        counts = []
        for _ in range(8):
            await rig.advance(10)
            counts.append(len(server.registrations))
        assert counts == [2, 2, 2, 3, 3, 3, 4, 4]


@pytest.mark.parametrize(("period_ms", "wait_s"), [(1, 10), (20_000, 20), (900_000, 60)])
async def test_the_period_is_kept_within_10_and_60_s(  # B-2
    tmp_path: Path, period_ms: int, wait_s: int
) -> None:
    async with registered(tmp_path, register_nameserver_period_ms=period_ms) as (rig, (server,)):
        await rig.advance(10 + wait_s - 1)
        assert len(server.registrations) == 2
        await rig.advance(1)
        assert len(server.registrations) == 3


async def test_without_force_only_a_changed_version_registers(tmp_path: Path) -> None:  # B-3
    async with registered(tmp_path, servers=2, force_register=False) as (rig, names):
        await rig.advance(45)
        assert [len(server.registrations) for server in names] == [1, 1]
        assert [server.queries for server in names] == [2, 2]
        names[1].changed = True
        await rig.advance(30)
        assert [len(server.registrations) for server in names] == [2, 2]


async def test_without_force_a_nameserver_that_does_not_answer_registers_all(  # B-3
    tmp_path: Path,
) -> None:
    async with registered(tmp_path, servers=2, force_register=False) as (rig, names):
        await names[1].stop()
        await rig.settle()
        before = len(names[0].registrations)
        await rig.advance(11)
        assert len(names[0].registrations) == before + 1


async def test_a_new_topic_is_registered_at_once_and_alone(tmp_path: Path) -> None:  # B-6, N-14
    async with registered(tmp_path, servers=2) as (rig, names):
        await (await rig.voice()).send()
        await rig.settle()
        for server in names:
            assert server.topics == [[], ["orders"]]
            assert server.sizes[1] == 1
            body = server.registrations[1][1]
            version = body.topic_config_serialize_wrapper.data_version
            assert version == rig.broker.topics.data_version


async def test_4_9_registers_the_whole_table_for_a_new_topic(tmp_path: Path) -> None:  # B-6
    async with registered(tmp_path, PROFILE_4_9) as (rig, (server,)):
        await (await rig.voice()).send()
        await rig.settle()
        assert server.topics == [[], ["orders"]]
        assert server.sizes[1] == server.sizes[0] + 1


async def test_a_created_topic_has_its_route_when_the_answer_comes(tmp_path: Path) -> None:
    async with registered(tmp_path) as (rig, (server,)):
        await (await rig.voice()).create_topic("others")
        assert server.topics[-1] == ["others"]


async def test_topics_made_together_are_registered_together(tmp_path: Path) -> None:
    async with registered(tmp_path) as (rig, (server,)):
        voice = await rig.voice()
        await asyncio.gather(*(voice.send(f"orders-{n}") for n in range(50)))
        await rig.settle()
        assert sorted(name for names in server.topics for name in names) == sorted(
            f"orders-{n}" for n in range(50)
        )
        assert len(server.registrations) <= 4


async def test_a_nameserver_that_refuses_one_topic_gets_them_all(tmp_path: Path) -> None:  # N-14
    async with registered(tmp_path) as (rig, (server,)):
        server.refuses = True
        voice = await rig.voice()
        await voice.send()
        await rig.settle()
        server.refuses = False
        await voice.send("others")
        await rig.settle()
        assert server.topics[-1] in (["others"], ["orders", "others"])
        await rig.advance(10)
        assert server.topics[-1] == ["orders", "others"]


async def test_what_the_broker_may_not_is_not_registered(tmp_path: Path) -> None:  # B-5
    async with registered(tmp_path, broker_permission=4) as (_, (server,)):
        table = server.registrations[0][1].topic_config_serialize_wrapper.topic_config_table
        assert {config.perm for config in table.values()} <= {4, 0}


async def test_topics_that_the_nameserver_calls_ordered_become_ordered(tmp_path: Path) -> None:
    # B-8
    async with registered(tmp_path) as (rig, (server,)):
        await (await rig.voice()).create_topic()
        server.orders = {"orders": "broker-a:4", "unknown": "broker-a:4"}
        await rig.advance(10)
        assert rig.broker.topics.is_ordered("orders")


async def test_a_dead_nameserver_stops_nobody(tmp_path: Path) -> None:  # fault 39
    async with registered(tmp_path, servers=2) as (rig, names):
        await names[0].stop()
        await rig.settle()
        before = len(names[1].registrations)
        await rig.advance(10)
        assert len(names[1].registrations) == before + 1
        await (await rig.voice()).send()


async def test_a_restarted_nameserver_has_the_routes_within_one_period(tmp_path: Path) -> None:
    # fault 40
    async with registered(tmp_path) as (rig, (server,)):
        await (await rig.voice()).send()
        await server.stop()
        await rig.settle()
        server.registrations.clear()
        await server.start()
        await rig.advance(30)
        assert server.topics[-1] == ["orders"]


async def test_a_nameserver_that_only_lost_the_connection_hears_of_us_at_once(
    tmp_path: Path,
) -> None:  # N-22: the closed channel took our routes away
    async with registered(tmp_path) as (rig, (server,)):
        (channel,) = server._listener.channels.all  # type: ignore[union-attr]
        channel.close()
        await channel.closed
        await rig.settle()
        assert len(server.registrations) == 2


async def test_a_broker_says_good_bye_to_every_nameserver(tmp_path: Path) -> None:  # B-10
    async with registered(tmp_path, servers=2) as (_, names):
        pass
    for server in names:
        (farewell,) = server.farewells
        assert (farewell.broker_name, farewell.broker_addr) == ("broker-a", "127.0.0.1:10911")


async def test_a_broker_starts_and_stops_without_any_nameserver(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with running_broker(
        tmp_path, network=network, nameservers=("127.0.0.1:1",), clock=ManualClock(START_MS)
    ) as rig:
        await (await rig.voice()).send()
        await rig.advance(40)
        assert rig.broker.status()["nameservers"] == ""

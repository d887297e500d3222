"""Behaviours 41 and 46 to 49: topics over brokers, and brokers with their nameservers.

The production nameservers and brokers over loopback TCP, on a manual clock.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pocketmq.client import Message
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.bodies.topics import DataVersion, RegisterBrokerBody
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply
from pocketmq.protocol.headers.route import RegisterBrokerRequestHeader
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import profile_named
from support.eventually import eventually
from support.nameserver_rig import START_MS, BrokerVoice, MemoryStorage, NameServerRig
from support.tcp import TcpHouse, tcp_cluster

REGISTER = RequestCode.REGISTER_BROKER
QUERY_VERSION = RequestCode.QUERY_DATA_VERSION


def count(requests: list[Command], code: int) -> int:
    return sum(1 for request in requests if request.code == code)


async def test_a_topics_queues_and_messages_are_spread_over_the_brokers(tmp_path: Path) -> None:
    # behaviour 41: N-4, P-12, P-13
    async with tcp_cluster(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("T", queues=3)
        queues = cluster.queues_of("T")
        assert [(queue.broker_name, queue.queue_id) for queue in sorted(queues)] == [
            ("a", 0),
            ("a", 1),
            ("a", 2),
            ("b", 0),
            ("b", 1),
            ("b", 2),
        ]
        async with cluster.producer() as producer, cluster.admin() as admin:
            for number in range(12):
                await producer.send(Message("T", b"%d" % number))
            assert sorted(await producer.publish_queues("T")) == sorted(queues)
            assert sorted(await admin.subscribe_queues("T")) == sorted(queues)
        for broker in cluster.brokers.values():
            assert [broker.store.reads.max_offset("T", queue_id) for queue_id in range(3)] == [
                2
            ] * 3


# -- registration ---------------------------------------------------------------------------------


async def test_a_broker_registers_in_full_at_its_start_after_10_s_and_every_30_s(
    tmp_path: Path,
) -> None:
    # behaviour 46: B-2
    async with tcp_cluster(tmp_path) as cluster:
        [told] = cluster.told
        assert count(told, REGISTER) == 1, "at the start"
        await cluster.advance(9.9)
        assert count(told, REGISTER) == 1
        for times, wait_s in ((2, 0.1), (3, 30), (4, 30)):
            await cluster.advance(wait_s - 0.05)
            assert count(told, REGISTER) == times - 1
            await cluster.advance(0.05)
            assert count(told, REGISTER) == times
        for request in (each for each in told if each.code == REGISTER):
            body = decode_body(request.body_view, RegisterBrokerBody, request.encoding)
            wrapper = body.topic_config_serialize_wrapper
            assert set(wrapper.topic_config_table) == set(cluster.brokers["a"].topics.table)


@pytest.mark.parametrize(("profile", "gone_after_s"), [("5.x", 124), ("4.9", 129)])
async def test_a_broker_silent_for_120_s_is_gone_at_the_next_scan(
    profile: str, gone_after_s: int
) -> None:
    # behaviour 46: N-2, N-3
    async with tcp_nameserver(profile) as rig:
        await rig.advance(6)
        silent = await rig.broker("broker-a")
        await silent.register(["T", "U"])
        await rig.advance(120)
        assert await rig.brokers_of("T") == ["broker-a"], "120 s are not too long"
        await rig.advance(gone_after_s - 120 - 0.1)
        assert await rig.brokers_of("T") == ["broker-a"], "nobody has looked yet"
        await rig.advance(0.1)
        assert await rig.brokers_of("T") == []


async def test_a_broker_whose_connection_closes_is_gone_at_once() -> None:
    # behaviour 46: N-2
    async with tcp_nameserver() as rig:
        broker = await rig.broker("broker-a")
        await broker.register(["T", "U"])
        assert await rig.brokers_of("T") == ["broker-a"]
        broker.channel.abort()

        async def is_gone() -> bool:
            return await rig.brokers_of("T") == []

        await eventually(is_gone, "it is gone while the clock stands still")


async def test_a_broker_registers_with_every_nameserver_and_they_tell_each_other_nothing(
    tmp_path: Path,
) -> None:
    # behaviour 47: B-4, N-36
    async with tcp_cluster(tmp_path, nameservers=3) as cluster:
        broker = cluster.brokers["a"]
        for server, told in zip(cluster.nameservers, cluster.told, strict=True):
            assert count(told, REGISTER) == 1
            assert server.table.cluster_info().broker_addr_table["a"].broker_addrs == {
                0: broker.address
            }
        channel = await cluster.network.connect(cluster.nameservers[0].address, Dispatcher())
        await BrokerVoice(channel, "only-one", address="127.0.0.1:1").register(["Lonely", "U"])
        await cluster.advance(60)
        knows = [server.table.route("Lonely") is not None for server in cluster.nameservers]
        assert knows == [True, False, False]
        channel.abort()


async def test_with_force_register_every_tick_registers_and_nobody_is_asked(
    tmp_path: Path,
) -> None:
    """The seed leaves the decision to the version query; in the source `true` cuts it short."""
    # behaviour 48: B-3
    async with tcp_cluster(tmp_path) as cluster:
        assert cluster.brokers["a"].config.force_register, "the default"
        [told] = cluster.told
        await cluster.advance(100)
        assert count(told, REGISTER) == 5, "at 0, 10, 40, 70 and 100 s"
        assert count(told, QUERY_VERSION) == 0


async def test_without_force_register_the_version_decides(tmp_path: Path) -> None:
    # behaviours 48 and 49: B-3
    async with tcp_cluster(tmp_path, nameservers=2, force_register=False) as cluster:
        await cluster.advance(100)
        for told in cluster.told:
            assert count(told, QUERY_VERSION) == 4
            assert count(told, REGISTER) == 1, "nothing has changed since the start"


async def test_one_nameserver_that_differs_is_registered_with_and_so_are_the_others(
    tmp_path: Path,
) -> None:
    # behaviour 49: B-3, B-4
    async with tcp_cluster(tmp_path, nameservers=3, force_register=False) as cluster:
        await cluster.advance(11)
        assert [count(told, REGISTER) for told in cluster.told] == [1, 1, 1]
        await pretend_older(cluster, 1)
        before = [count(told, REGISTER) for told in cluster.told]
        await cluster.advance(30)
        after = [count(told, REGISTER) for told in cluster.told]
        assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 1]


async def test_nameservers_are_registered_with_in_parallel(tmp_path: Path) -> None:
    # behaviour 49: B-4
    async with tcp_cluster(tmp_path, nameservers=2) as cluster:
        slow = cluster.nameservers[0].dispatcher
        register = slow.single[REGISTER]
        waiting: list[tuple[Peer, Command]] = []

        def wait(peer: Peer, request: Command) -> Reply:
            waiting.append((peer, request))
            return None

        slow.single[REGISTER] = wait
        before = count(cluster.told[1], REGISTER)
        tick = asyncio.create_task(cluster.advance(10))
        await eventually(lambda: waiting, "the first one is told, and does not answer")
        await eventually(
            lambda: count(cluster.told[1], REGISTER) == before + 1, "the other is told all the same"
        )
        [(peer, request)] = waiting
        answer = register(peer, request)
        assert answer is not None
        peer.reply(request, answer)
        await tick


async def pretend_older(cluster: TcpHouse, number: int) -> None:
    """Let one nameserver hold another version of the broker's topics."""
    broker = cluster.brokers["a"]
    server = cluster.nameservers[number]
    [request] = [each for each in cluster.told[number] if each.code == REGISTER][-1:]
    header = request.header(RegisterBrokerRequestHeader)
    channel = await cluster.network.connect(server.address, Dispatcher())
    voice = BrokerVoice(
        channel,
        header.broker_name,
        header.broker_id,
        address=broker.address,
        cluster=header.cluster_name,
        version=DataVersion(timestamp=1, counter=1),
    )
    assert (await voice.register(["T", "U"])).code == 0


def tcp_nameserver(profile: str = "5.x") -> _Serving:
    """A nameserver alone, over TCP."""
    return _Serving(profile)


class _Serving:
    def __init__(self, profile: str) -> None:
        clock, network, storage = ManualClock(START_MS), TcpNetwork(), MemoryStorage()
        server = NameServer(
            NameServerConfig(port=0), clock, network, profile_named(profile), kv_storage=storage
        )
        self.rig = NameServerRig(clock, network, server, storage)  # type: ignore[arg-type]

    async def __aenter__(self) -> NameServerRig:
        await self.rig.server.start()
        return self.rig

    async def __aexit__(self, *_: object) -> None:
        await self.rig.server.stop()

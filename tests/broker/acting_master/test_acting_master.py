"""A slave that acts as master while its own is gone: Z-1 to Z-10, on one loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.server import Broker
from pocketmq.client import Admin, ConsumeFromWhere, Message, Producer, PushConsumer
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.headers.controller import (
    ExchangeHaInfoRequestHeader,
    ExchangeHaInfoResponseHeader,
)
from pocketmq.protocol.headers.topics import GetBrokerRuntimeInfoRequestHeader
from pocketmq.runtime.errors import PocketMQError
from support.broker_rig import SUBSCRIPTION, SUSPEND, Voice
from support.consuming import Collected
from support.nameserver_rig import BrokerVoice
from support.replicas import ReplicaRig, log_of

SLAVE = BrokerRole.SLAVE
MAY_ACT: dict[str, Any] = {
    "enable_slave_acting_master": True,
    "slave_read_enable": True,
    "total_replicas": 2,
}
MASTER_PORT = 11_000


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ReplicaRig]:
    shown = NameServerConfig(port=9876, support_acting_master=True)
    async with ReplicaRig(tmp_path, nameserver=shown) as rig:
        yield rig


async def start_master(rig: ReplicaRig, **options: Any) -> Broker:
    return await rig.start("master", port=MASTER_PORT, **(MAY_ACT | options))


async def start_slave(rig: ReplicaRig, number: int = 1, **options: Any) -> Broker:
    options = MAY_ACT | {"broker_role": SLAVE, "broker_id": number} | options
    return await rig.start(f"slave-{number}", port=MASTER_PORT + 100 * number, **options)


def clients(rig: ReplicaRig) -> dict[str, Any]:
    return {
        "nameservers": rig.nameserver.address,
        "network": rig.network,
        "clock": rig.clock,
    }


def consumer(rig: ReplicaRig, group: str, got: Collected, *, orderly: bool = False) -> PushConsumer:
    made = PushConsumer(group, consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **clients(rig))
    made.subscribe("orders")
    made.listen(got, orderly=orderly)
    return made


async def until_got(rig: ReplicaRig, got: Collected, count: int) -> None:
    for _ in range(300):
        if len(got) >= count:
            return
        await rig.advance(0.5)
    raise AssertionError(f"got {len(got)} of {count}")


async def send(rig: ReplicaRig, *bodies: bytes) -> None:
    async with Producer("producers", **clients(rig)) as producer:
        for body in bodies:
            await producer.send(Message("orders", body))


async def prepared(rig: ReplicaRig) -> tuple[Broker, Broker]:
    """Master and slave with five messages in one queue."""
    master = await start_master(rig)
    slave = await start_slave(rig)
    async with Admin(**clients(rig)) as admin:
        await admin.create_topic("orders", queues=1)
    await rig.advance(61)
    await send(rig, b"0", b"1", b"2", b"3", b"4")
    await rig.same_logs()
    return master, slave


@pytest.mark.parametrize("orderly", [False, True])
async def test_consumers_go_on_at_the_slave_and_then_at_the_master_that_returned(
    rig: ReplicaRig, orderly: bool
) -> None:  # Z-2, Z-3, Z-5, Z-9
    _, slave = await prepared(rig)
    await rig.stop("master")
    got = Collected()
    async with consumer(rig, "readers", got, orderly=orderly):
        await until_got(rig, got, 5)
        await rig.advance(6)
        assert slave.core.role.acts
        assert not slave.core.role.leads
        assert slave.offsets.query("readers", "orders", 0) == 5
        before = log_of(slave.store)
        master = await start_master(rig)
        assert master.offsets.query("readers", "orders", 0) == 5, "before it registered"
        await rig.advance(35)
        assert not slave.core.role.acts
        assert log_of(slave.store) == before == log_of(master.store), "nothing was merged"
        await send(rig, b"5", b"6")
        await until_got(rig, got, 7)
        await rig.advance(6)
        assert master.offsets.query("readers", "orders", 0) == 7
        await rig.same_logs()
    assert got.bodies == [b"%d" % n for n in range(7)], "none is lost, none comes twice"


async def test_a_consumer_that_was_there_before_goes_on_too(rig: ReplicaRig) -> None:  # Z-3
    _, slave = await prepared(rig)
    got = Collected()
    async with consumer(rig, "readers", got, orderly=True):
        await until_got(rig, got, 5)
        await send(rig, b"5")
        await rig.same_logs()
        await rig.stop("master")
        await until_got(rig, got, 6)
        await rig.advance(70)  # locks are 60 s old at most, routes 30 s
        assert slave.offsets.query("readers", "orders", 0) == 6
        assert slave.locks.count == 2, "of the topic and of its retry topic"


async def test_nothing_is_written_to_an_acting_master(rig: ReplicaRig) -> None:  # Z-3, Z-11, H-3
    _, slave = await prepared(rig)
    await rig.stop("master")
    await rig.advance(2)
    assert slave.core.role.acts
    voice = await rig.voice(slave)
    refused = await voice.try_send("orders", b"x")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    with pytest.raises(PocketMQError):
        await send(rig, b"x")


async def test_an_idle_pull_waits_at_an_acting_master_until_the_master_is_back(
    rig: ReplicaRig,
) -> None:  # Z-5, H-11
    _, slave = await prepared(rig)
    await rig.stop("master")
    await rig.advance(2)
    voice = await rig.voice(slave)
    waiting = asyncio.create_task(voice.pull("orders", 5, sys_flag=SUBSCRIPTION | SUSPEND))
    await rig.advance(1)
    assert len(slave.held) == 1
    await start_master(rig)
    await rig.advance(2)
    answer = await waiting
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert answer.header.suggest_which_broker_id == 0
    asked = voice.pull("orders", 5, sys_flag=SUBSCRIPTION | SUSPEND)
    still_here = asyncio.create_task(asked)  # it does not know the new route yet
    await rig.advance(1)
    assert len(slave.held) == 1, "it waits, and does not ask again and again"
    await rig.advance(35)
    await still_here
    sent_off = await voice.pull("orders", 5, sys_flag=SUBSCRIPTION | SUSPEND)
    assert sent_off.code == ResponseCode.PULL_RETRY_IMMEDIATELY


async def test_only_the_least_slave_acts(rig: ReplicaRig) -> None:  # Z-5
    await start_master(rig, total_replicas=3)
    first = await start_slave(rig, 1, total_replicas=3)
    second = await start_slave(rig, 2, total_replicas=3)
    await rig.stop("master")
    await rig.advance(2)
    assert (first.core.role.acts, second.core.role.acts) == (True, False)
    await rig.stop("slave-1")
    await rig.advance(2)
    assert second.core.role.acts
    assert (await active(rig, second)) == "true"


async def active(rig: ReplicaRig, broker: Broker) -> str:
    voice: Voice = await rig.voice(broker)
    reply = await voice.ask(GetBrokerRuntimeInfoRequestHeader())
    return decode_body(reply.body_view, KVTable, reply.encoding).table["brokerActive"]


async def test_without_the_option_a_slave_stays_a_slave(rig: ReplicaRig) -> None:  # Z-1
    await rig.start("master", port=MASTER_PORT)
    slave = await rig.start("slave", broker_role=SLAVE, broker_id=1, port=MASTER_PORT + 100)
    await rig.stop("master")
    await rig.advance(40)
    assert not slave.core.role.acts
    assert await active(rig, slave) == "false"


async def test_a_name_server_tells_sooner_than_it_is_asked(tmp_path: Path) -> None:  # Z-6
    config = NameServerConfig(
        port=9876, support_acting_master=True, notify_min_broker_id_changed=True
    )
    async with ReplicaRig(tmp_path, nameserver=config) as rig:
        await start_master(rig)
        slave = await start_slave(rig, sync_broker_member_group_period=600_000)
        await rig.advance(2)
        await rig.stop("master")
        await rig.advance(1)
        assert slave.core.role.acts
        await start_master(rig)
        await rig.advance(1)
        assert not slave.core.role.acts
        assert slave.subjects.replication.client.is_connected


async def test_a_silent_master_is_acted_for_after_its_own_time_limit(rig: ReplicaRig) -> None:
    # Z-4: 10 s of silence and a scan of 5 s
    master = await start_master(rig)
    slave = await start_slave(rig)
    await rig.advance(30)
    assert not slave.core.role.acts, "heartbeats keep both alive"
    await master.subjects.registration.nameservers.leave()
    await rig.advance(2)
    assert slave.core.role.acts


async def test_where_the_stream_is_can_be_asked_of_a_master(rig: ReplicaRig) -> None:  # Z-7
    master = await rig.start("master", port=MASTER_PORT)
    slave = await rig.start("slave", broker_role=SLAVE, broker_id=1, port=MASTER_PORT + 100)
    told = await (await rig.voice(master)).ask(ExchangeHaInfoRequestHeader())
    found = told.header(ExchangeHaInfoResponseHeader)
    assert found.master_address == master.address
    assert found.master_ha_address == slave.subjects.replication.client.master
    stranger = ExchangeHaInfoRequestHeader(master_ha_address="10.9.9.9:1")
    await (await rig.voice(slave)).ask(stranger)
    assert slave.subjects.replication.client.master == found.master_ha_address, "it may not act"
    asked = await (await rig.voice(slave)).ask(ExchangeHaInfoRequestHeader())
    assert asked.header(ExchangeHaInfoResponseHeader) == ExchangeHaInfoResponseHeader()


async def test_a_master_is_isolated_until_its_slaves_have_answered(rig: ReplicaRig) -> None:
    # Z-9: a member that does not answer holds it back until name servers forget that member
    channel = await rig.network.connect(rig.nameserver.address, Dispatcher())
    gone = BrokerVoice(channel, "broker-a", 1, address="127.0.0.1:19999")
    await gone.register(enable_acting_master=True)
    starting = asyncio.create_task(start_master(rig))
    await rig.advance(5)
    assert not rig.nameserver.table.queues.has("broker-a", "broker-a"), "it has not registered"
    assert not starting.done()
    await gone.unregister()
    await rig.advance(2)
    master = await starting
    assert master.core.role.works
    assert rig.nameserver.table.queues.has("broker-a", "broker-a")


async def test_it_is_online_at_once_without_its_preparation(rig: ReplicaRig) -> None:
    # Z-9
    channel = await rig.network.connect(rig.nameserver.address, Dispatcher())
    gone = BrokerVoice(channel, "broker-a", 1, address="127.0.0.1:19999")
    await gone.register(enable_acting_master=True)
    assert (await start_master(rig, skip_pre_online=True)).core.role.works


async def test_delayed_messages_wait_for_the_master_that_returns(rig: ReplicaRig) -> None:
    # Z-11 without enableRemoteEscape
    _, slave = await prepared(rig)
    async with Producer("producers", **clients(rig)) as producer:
        await producer.send(Message("orders", b"late", delay_level=3))  # 10 s
    await rig.same_logs()
    await rig.stop("master")
    await rig.advance(20)
    assert slave.core.role.acts
    assert slave.store.reads.max_offset("orders", 0) == 5
    master = await start_master(rig)
    await rig.advance(3)
    assert master.store.reads.max_offset("orders", 0) == 6
    await rig.same_logs()

"""Slaves that act as master among a real RocketMQ 5.3.3: Z-3, Z-5, Z-6, Z-9, N-28."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.server import Broker
from pocketmq.client import ConsumeFromWhere, PushConsumer
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.headers.offsets import GetAllConsumerOffsetRequestHeader
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.scalars import Perm
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PeerError
from support.consuming import Collected
from support.eventually import eventually
from support.golden import STORE_SIZES
from support.java import run_java
from support.real_replicas import our_broker
from support.real_rocketmq import RealRocketMQ

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

TOPIC = "broker-a"
"""The topic that each broker has of its own name: no slave has to copy it first."""
COUNT = 40
LIMIT_S = 120
ACTING = {
    "enableSlaveActingMaster": "true",
    "slaveReadEnable": "true",
    "totalReplicas": 2,
    **STORE_SIZES,
}
OURS: dict[str, Any] = {
    "enable_slave_acting_master": True,
    "slave_read_enable": True,
    "total_replicas": 2,
}


class Asker:
    """Questions to brokers and name servers, in RocketMQ's JSON."""

    def __init__(self, nameserver: str) -> None:
        self._nameserver = nameserver
        self._client = RemotingClient(TcpNetwork(), encoding=Encoding.JSON)

    async def close(self) -> None:
        await self._client.close()

    async def route(self, topic: str) -> TopicRouteData | None:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        try:
            answer = expect(await self._client.call(self._nameserver, header, timeout_s=LIMIT_S))
        except BrokerError:
            return None
        return decode_body(answer.body_view, TopicRouteData, answer.encoding)

    async def shows(self, addresses: dict[int, str], *, writable: bool) -> bool:
        found = await self.route(TOPIC)
        if found is None or found.broker_datas[0].broker_addrs != addresses:
            return False
        return bool(found.queue_datas[0].perm & Perm.WRITE) == writable

    async def committed(self, address: str) -> int:
        """The sum of what `readers` committed at a broker."""
        try:
            header = GetAllConsumerOffsetRequestHeader()
            answer = expect(await self._client.call(address, header, timeout_s=LIMIT_S))
        except (PeerError, BrokerError):
            return -1
        table = decode_body(answer.body_view, ConsumerOffsetTable, answer.encoding)
        return sum(table.offset_table.get(f"{TOPIC}@readers", {}).values())


async def send(nameserver: str) -> None:
    sent = await asyncio.to_thread(run_java, "SendMessages", nameserver, TOPIC, COUNT)
    assert sent.tally("SENT")["SENT"] == COUNT


def reader(nameserver: str, got: Collected) -> PushConsumer:
    """An orderly consumer: it needs locks, and brokers of RocketMQ read JSON."""
    consumer = PushConsumer(
        "readers",
        nameservers=nameserver,
        encoding="json",
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    )
    consumer.subscribe(TOPIC)
    consumer.listen(got, orderly=True)
    return consumer


def has_all(broker: Broker) -> bool:
    return broker.store.reads.max_offset(TOPIC, 0) == COUNT


async def test_our_slave_acts_for_a_real_master_at_a_real_name_server(tmp_path: Path) -> None:
    # Z-3, Z-5, Z-6, Z-9
    real = RealRocketMQ(
        tmp_path / "real",
        tmp_path / "work",
        settings=ACTING,
        namesrv_settings={"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"},
    )
    await asyncio.to_thread(real.start_namesrv)
    asker = Asker(real.namesrv_addr)
    try:
        await asyncio.to_thread(real.start_broker)
        options = {"broker_role": BrokerRole.SLAVE, "broker_id": 1, **OURS}
        # It hears of changes by 905 alone.
        options["sync_broker_member_group_period"] = 3_600_000
        async with our_broker(tmp_path / "ours", real.namesrv_addr, **options) as slave:
            await send(real.namesrv_addr)
            await eventually(lambda: has_all(slave), "it has everything", limit_s=LIMIT_S)
            both = {0: real.broker_addr, 1: slave.address}
            await eventually(
                lambda: asker.shows(both, writable=True), "both are shown", limit_s=LIMIT_S
            )
            await asyncio.to_thread(real.kill_broker)
            await eventually(
                lambda: slave.core.role.acts, "it is told that it acts", limit_s=LIMIT_S
            )
            await eventually(
                lambda: asker.shows({0: slave.address}, writable=False),
                "it is shown as master",
                limit_s=LIMIT_S,
            )
            got = Collected()
            async with reader(real.namesrv_addr, got):
                await eventually(lambda: len(got) == COUNT, "it is read, in order", limit_s=LIMIT_S)
            assert await asker.committed(slave.address) == COUNT
            await asyncio.to_thread(real.start_broker)
            await eventually(
                lambda: asker.shows(both, writable=True), "it is online", limit_s=LIMIT_S
            )
            assert await asker.committed(real.broker_addr) == COUNT, "the real master has them"
            await eventually(
                lambda: not slave.core.role.acts, "it is told that it rests", limit_s=LIMIT_S
            )
            client = slave.subjects.replication.client
            await eventually(lambda: client.is_connected, "it follows again", limit_s=LIMIT_S)
    finally:
        await asker.close()
        await asyncio.to_thread(real.stop)


async def test_a_real_slave_acts_for_our_master_at_our_name_server(tmp_path: Path) -> None:
    # Z-3, Z-5, Z-6, Z-9
    clock, network = SystemClock(), TcpNetwork()
    config = NameServerConfig(
        port=0,
        kv_config_path=tmp_path / "kv",
        support_acting_master=True,
        notify_min_broker_id_changed=True,
    )
    nameserver = NameServer(config, clock, network)
    await nameserver.start()
    asker = Asker(nameserver.address)
    real = RealRocketMQ(
        tmp_path / "real",
        tmp_path / "work",
        broker_namesrv_addr=nameserver.address,
        settings={**ACTING, "brokerRole": "SLAVE", "brokerId": 1},
    )
    real.namesrv_addr = nameserver.address
    try:
        async with our_broker(tmp_path / "ours", nameserver.address, **OURS) as master:
            port = master.port
            await send(nameserver.address)
            await asyncio.to_thread(real.start_broker)
            slaves = master.subjects.replication.slaves
            end = master.store.commit_log.max_offset
            await eventually(lambda: slaves.acks() == [end], "it has everything", limit_s=LIMIT_S)
            both = {0: master.address, 1: real.broker_addr}
            await eventually(
                lambda: asker.shows(both, writable=True), "it is online", limit_s=LIMIT_S
            )
        await eventually(
            lambda: asker.shows({0: real.broker_addr}, writable=False),
            "the real one is shown as master",
            limit_s=LIMIT_S,
        )
        got = Collected()
        async with reader(nameserver.address, got):
            await eventually(lambda: len(got) == COUNT, "it is read, in order", limit_s=LIMIT_S)

        async def has_offsets() -> bool:  # other threads than those that answer take them
            return await asker.committed(real.broker_addr) == COUNT

        await eventually(has_offsets, "the offsets are committed")
        async with our_broker(tmp_path / "ours", nameserver.address, port=port, **OURS) as master:
            assert master.offsets.query("readers", TOPIC, 0) == COUNT, "taken back at its start"
            await eventually(lambda: asker.shows(both, writable=True), "both are shown again")
    finally:
        await asyncio.to_thread(real.stop_broker)
        await asker.close()
        await nameserver.stop()

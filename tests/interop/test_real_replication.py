"""A real RocketMQ follows our master, our slave follows a real master (H-20, B-130)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pocketmq.broker.role_names import BrokerRole
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from support.eventually import eventually
from support.golden import STORE_SIZES
from support.java import run_java
from support.real_replicas import SIZES, our_broker
from support.real_rocketmq import RealRocketMQ

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]


def log_in(store: Path) -> bytes:
    """The commit log of a folder, without the zeros that no byte was written to yet."""
    files = sorted((store / "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files).rstrip(b"\0")


async def send(nameserver: str, topic: str, count: int, *options: object) -> None:
    sent = await asyncio.to_thread(run_java, "SendMessages", nameserver, topic, count, *options)
    assert sent.tally("SENT")["SENT"] == count


async def test_a_real_slave_follows_our_master(tmp_path: Path) -> None:  # behaviour 42: B-130
    clock, network = SystemClock(), TcpNetwork()
    nameserver = NameServer(
        NameServerConfig(port=0, kv_config_path=tmp_path / "kv"), clock, network
    )
    await nameserver.start()
    try:
        async with our_broker(tmp_path / "ours", nameserver.address) as master:
            await send(nameserver.address, "Plain", 300)
            real = RealRocketMQ(
                tmp_path / "real",
                tmp_path / "work",
                broker_namesrv_addr=nameserver.address,
                settings={**STORE_SIZES, "brokerRole": "SLAVE", "brokerId": 1},
            )
            real.namesrv_addr = nameserver.address
            await asyncio.to_thread(real.start_broker)
            try:
                slaves = master.subjects.replication.slaves
                await eventually(lambda: slaves.connections, "it follows", limit_s=120)
                await send(nameserver.address, "Plain", 1500)
                await send(nameserver.address, "Large", 40, "--size", 6000)
                await eventually(
                    lambda: slaves.acks() == [master.store.commit_log.max_offset],
                    "the real slave has everything",
                    limit_s=120,
                )
            finally:
                await asyncio.to_thread(real.stop_broker)
            assert log_in(real.store_dir) == log_in(tmp_path / "ours")
            assert master.store.commit_log.max_offset > 2 * SIZES["mapped_file_size_commit_log"]
    finally:
        await nameserver.stop()


async def test_our_slave_follows_a_real_master(tmp_path: Path) -> None:  # behaviour 42: B-130
    real = RealRocketMQ(tmp_path / "real", tmp_path / "work", settings=STORE_SIZES)
    await asyncio.to_thread(real.start_namesrv)
    await asyncio.to_thread(real.start_broker)
    try:
        await send(real.namesrv_addr, "Plain", 300)
        options = {"broker_role": BrokerRole.SLAVE, "broker_id": 1}
        async with our_broker(tmp_path / "ours", real.namesrv_addr, **options) as slave:
            client = slave.subjects.replication.client
            await eventually(lambda: client.is_connected, "it follows", limit_s=120)
            await send(real.namesrv_addr, "Large", 40, "--size", 6000)
            await eventually(
                lambda: (
                    slave.store.reads.max_offset("Large", 0) > 0
                    and sum(slave.store.reads.max_offset("Large", n) for n in range(16)) == 40
                ),
                "its queues have every message",
                limit_s=120,
            )
            await eventually(
                lambda: log_in(tmp_path / "ours") == log_in(real.store_dir), "the logs are equal"
            )
            assert sum(slave.store.reads.max_offset("Plain", n) for n in range(16)) == 300
    finally:
        await asyncio.to_thread(real.stop)

"""RocketMQ's own `mqadmin` and its own brokers in controller mode, with our controllers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.protocol.bodies.controller import BrokerReplicasInfo, ReplicasInfo
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.headers.controller import GetSyncStateDataRequestHeader
from support.eventually import eventually
from support.java import run_java
from support.real_rocketmq import RealRocketMQ, free_port

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"


@pytest.fixture
async def cluster() -> AsyncIterator[Supervisor]:
    """Three controllers and a nameserver."""
    async with local_cluster(controllers=3, brokers=0) as cluster:
        yield cluster


async def mqadmin(*args: str) -> str:
    """What a command prints."""
    run = await asyncio.to_thread(run_java, MQADMIN, *args, server=True)
    return run.stdout


def real_broker(cluster: Supervisor, folder: Path) -> RealRocketMQ:
    """A broker of RocketMQ in controller mode, not started."""
    _, _, namesrv_port = cluster.namesrv_addr.rpartition(":")
    return RealRocketMQ(
        folder / "store",
        folder / "work",
        settings={
            "enableControllerMode": "true",
            "controllerAddr": cluster.controller_addr,
            "allAckInSyncStateSet": "true",
        },
        ports=(int(namesrv_port), free_port((-2, 0, 1))),
    )


async def replicas(cluster: Supervisor) -> ReplicasInfo:
    """What the leading controller says of broker-a."""
    leader = await cluster.leading_controller()
    if leader is None:
        return ReplicasInfo()
    reply = await cluster.remoting.call(
        leader.address, GetSyncStateDataRequestHeader(), msgspec.msgpack.encode(["broker-a"])
    )
    body = decode_body(reply.body_view, BrokerReplicasInfo, reply.encoding)
    return body.replicas_info_table.get("broker-a", ReplicasInfo())


async def test_a_real_broker_becomes_master_and_a_second_one_takes_over(
    cluster: Supervisor, tmp_path: Path
) -> None:
    first, second = (real_broker(cluster, tmp_path / each) for each in ("1", "2"))
    controllers = cluster.controller_addr

    async def in_sync() -> list[int]:
        return [each.broker_id for each in (await replicas(cluster)).in_sync_replicas]

    async def is_master(broker_id: int) -> bool:
        return (await replicas(cluster)).master_broker_id == broker_id

    try:
        await asyncio.to_thread(first.start_broker)
        assert await is_master(1)
        await asyncio.to_thread(second.start_broker)

        async def both() -> bool:
            return sorted(await in_sync()) == [1, 2]

        await eventually(both, "the slave is in sync", limit_s=90.0)
        shown = await mqadmin("getSyncStateSet", "-a", controllers, "-b", "broker-a")
        assert re.search(r"#MasterBrokerId\s+1\s", shown), shown
        assert re.search(r"#SyncStateSetNums\s+2\s", shown), shown
        assert first.broker_addr in shown
        meta = await mqadmin("getControllerMetaData", "-a", controllers.partition(";")[0])
        leader = await cluster.leading_controller()
        assert leader is not None
        assert re.search(rf"#ControllerLeaderAddress\s+{leader.address}\s", meta), meta
        assert meta.count("#Peer:") == 3

        elected = await mqadmin(
            *("electMaster", "-a", leader.address, "-b", "2", "-bn", "broker-a"),
            *("-c", "DefaultCluster"),
        )
        assert second.broker_addr in elected, elected
        await eventually(both, "the former master is in sync again", limit_s=90.0)
        assert await is_master(2)

        await leader.kill()
        second.kill_broker()
        await eventually(lambda: is_master(1), "the first is master again", limit_s=90.0)
        assert await in_sync() == [1]
    finally:
        first.stop()
        second.stop()

"""RocketMQ's own `mqadmin` and its own brokers in controller mode, with our controllers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from pocketmq.client import Admin, Message, Producer, PullConsumer
from pocketmq.client.producer.send_result import SendStatus
from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.replica_sets import in_sync, replicas
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.protocol.bodies.controller import ReplicasInfo
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import PocketMQError
from support.eventually import PATIENCE_MS, eventually
from support.java import run_java
from support.raw_remoting import ask
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
            # No stand of a few seconds makes another one master, or takes it out of the set.
            "controllerHeartBeatTimeoutMills": 60_000,
            "haMaxTimeSlaveNotCatchup": 60_000,
        },
        ports=(int(namesrv_port), free_port((-2, 0, 1))),
    )


async def test_a_real_broker_becomes_master_and_a_second_one_takes_over(
    cluster: Supervisor, tmp_path: Path
) -> None:
    first, second = (real_broker(cluster, tmp_path / each) for each in ("1", "2"))
    controllers = cluster.controller_addr

    async def is_master(broker_id: int) -> bool:
        return (await replicas(cluster)).master_broker_id == broker_id

    try:
        await asyncio.to_thread(first.start_broker)
        await eventually(lambda: is_master(1), "the first is master")
        await asyncio.to_thread(second.start_broker)

        async def both() -> bool:
            return await in_sync(cluster) == [1, 2]

        await eventually(both, "the slave is in sync", limit_s=120.0)

        async def is_shown() -> bool:  # a master that had no turn for 15 s has dropped its slave
            shown = await mqadmin("getSyncStateSet", "-a", controllers, "-b", "broker-a")
            assert re.search(r"#MasterBrokerId\s+1\s", shown), shown
            assert first.broker_addr in shown
            return re.search(r"#SyncStateSetNums\s+2\s", shown) is not None

        await eventually(is_shown, "mqadmin shows both in sync", limit_s=120.0)
        meta = await mqadmin("getControllerMetaData", "-a", controllers.partition(";")[0])
        leader = await eventually(cluster.leading_controller, "a controller leads")
        assert re.search(rf"#ControllerLeaderAddress\s+{leader.address}\s", meta), meta
        assert meta.count("#Peer:") == 3

        elected = await mqadmin(
            *("electMaster", "-a", leader.address, "-b", "2", "-bn", "broker-a"),
            *("-c", "DefaultCluster"),
        )
        assert second.broker_addr in elected, elected
        await eventually(both, "the former master is in sync again", limit_s=120.0)
        await eventually(lambda: is_master(2), "the second is master")

        await leader.kill()
        second.kill_broker()
        await eventually(lambda: is_master(1), "the first is master again", limit_s=200.0)

        async def alone() -> bool:
            return await in_sync(cluster) == [1]

        await eventually(alone, "it is the only one in sync")
    finally:
        first.stop()
        second.stop()


async def test_mqadmin_changes_options_of_controllers_and_cleans_replicas() -> None:
    async with local_cluster(controllers=3, replicas=2) as cluster:

        async def all_in_sync() -> bool:
            return await in_sync(cluster) == [1, 2]

        await eventually(all_in_sync, "both replicas are in sync", limit_s=120.0)
        controllers = cluster.controller_addr
        one = controllers.partition(";")[0]

        changed = await mqadmin(
            *("updateControllerConfig", "-a", controllers),
            *("-k", "enableElectUncleanMaster", "-v", "true"),
        )
        assert "update controller config success" in changed, changed
        shown = await mqadmin("getControllerConfig", "-a", controllers)
        assert len(re.findall(r"enableElectUncleanMaster\s+=\s+true", shown)) == 3, shown
        assert len(re.findall(r"controllerDLegerSelfId\s+=\s+n[012]", shown)) == 3, shown

        clean = ("cleanBrokerMetadata", "-a", one, "-bn", "broker-a", "-c", "DefaultCluster")
        alive = await asyncio.to_thread(run_java, MQADMIN, *clean, "-b", "2", server=True)
        assert "CODE: 2009" in alive.stdout + alive.stderr, alive  # D-26

        async def of_two() -> ReplicasInfo | None:
            found = await replicas(cluster)
            return found if found.master_address and len(found.in_sync_replicas) == 2 else None

        known: ReplicasInfo = await eventually(of_two, "both are in sync, one is master")
        slave = next(
            each for each in cluster.of_role("broker") if each.address != known.master_address
        )
        [gone] = {1, 2} - {known.master_broker_id}
        await slave.kill()

        async def is_out() -> bool:
            return await in_sync(cluster) == [known.master_broker_id]

        await eventually(is_out, "the killed slave is not in sync", limit_s=120.0)
        cleaned = await mqadmin(*clean, "-b", str(gone))
        assert "clear broker broker-a metadata from controller success" in cleaned, cleaned
        left = await mqadmin("getSyncStateSet", "-a", one, "-b", "broker-a")
        assert "NotInSyncReplica" not in left, left
        assert re.search(r"#SyncStateSetNums\s+1\s", left), left


async def test_a_real_broker_follows_ours_takes_over_and_is_followed(tmp_path: Path) -> None:
    port = free_port((-2, 0, 1))  # Java slaves ask for topics at the port less 2
    arguments = ["--all-ack-in-sync-state-set", "--port", str(port), "--slave-timeout", "60000"]
    arguments += ["--controller-heart-beat-timeout-mills", "60000"]
    arguments += ["--ha-max-time-slave-not-catchup", "60000"]
    async with local_cluster(controllers=1, broker_arguments=arguments) as cluster:
        real = real_broker(cluster, tmp_path)

        async def both() -> bool:
            return await in_sync(cluster) == [1, 2]

        try:
            await asyncio.to_thread(real.start_broker)
            await eventually(both, "the real slave is in sync", limit_s=120.0)
            async with Admin(nameservers=cluster.namesrv_addr, api_timeout_ms=PATIENCE_MS) as admin:
                await admin.create_topic("orders", queues=1)

            def has_topic() -> bool:  # a slave asks for topics every 10 s
                header = {"topic": "orders"}
                return ask(real.broker_addr, RequestCode.GET_TOPIC_CONFIG, header).code == 0

            await eventually(has_topic, "the real slave has the topic", limit_s=120.0)
            bodies = [b"order %d" % at for at in range(200)]
            async with Producer(
                "p", nameservers=cluster.namesrv_addr, send_timeout_ms=PATIENCE_MS
            ) as producer:
                for body in bodies:
                    result = await producer.send(Message("orders", body))
                    assert result.status is SendStatus.SEND_OK
            await cluster["broker-a"].kill()

            async def real_leads() -> bool:
                return (await replicas(cluster)).master_address == real.broker_addr

            await eventually(real_leads, "the real broker is master", limit_s=120.0)
            await cluster.restart("broker-a")
            await eventually(both, "ours follows the real master", limit_s=120.0)
            async with PullConsumer(
                "g", nameservers=cluster.namesrv_addr, encoding="json"
            ) as consumer:
                queue = MessageQueue("orders", "broker-a", 0)

                async def all_there() -> bool:
                    read: list[bytes] = []
                    with suppress(PocketMQError):
                        while True:
                            pulled = await consumer.pull(queue, "*", len(read))
                            if not pulled.messages:
                                break
                            read += [bytes(message.body) for message in pulled.messages]
                    return read == bodies

                await eventually(all_there, "the real broker has every message", limit_s=120.0)
        finally:
            real.stop()

"""Three replicas and three controllers: a killed master is replaced, and nothing is lost."""

from __future__ import annotations

import asyncio
import sys

import pytest

from pocketmq.client import Admin, Message, Producer, PullConsumer
from pocketmq.client.producer.send_result import SendStatus
from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.replica_sets import in_sync, replicas
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from support.broker_rig import Voice
from support.eventually import PATIENCE_MS, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


async def all_three(cluster: Supervisor) -> bool:
    return await in_sync(cluster) == [1, 2, 3]


async def master_of(cluster: Supervisor) -> str:
    """Name of the process that is master, as soon as the controllers say so."""

    async def told() -> str:
        address = (await replicas(cluster)).master_address
        return next(
            (each.name for each in cluster.of_role("broker") if each.address == address), ""
        )

    name: str = await eventually(told, "one is master")
    return name


async def test_a_killed_master_is_replaced_and_nothing_acknowledged_is_lost() -> None:
    clock = SystemClock()
    async with local_cluster(controllers=3, replicas=3) as cluster:
        await eventually(lambda: all_three(cluster), "all replicas are in sync")
        async with Admin(nameservers=cluster.namesrv_addr, api_timeout_ms=PATIENCE_MS) as admin:
            await admin.create_topic("orders", queues=2)
        acknowledged: list[bytes] = []

        async def send(producer: Producer, body: bytes) -> bool:
            try:
                result = await producer.send(Message("orders", body))
            except PocketMQError:
                return False
            if result.status is SendStatus.SEND_OK:
                acknowledged.append(body)
            return result.status is SendStatus.SEND_OK

        async with Producer("p", nameservers=cluster.namesrv_addr) as producer:
            for at in range(100):
                body = b"before %d" % at
                await eventually(lambda body=body: send(producer, body), "it is acknowledged")
            first = await master_of(cluster)
            await cluster[first].kill()
            killed_at = clock.monotonic()
            attempts = iter(range(1_000_000))
            await eventually(
                lambda: send(producer, b"during %d" % next(attempts)),
                "messages are taken again",
                limit_s=90.0,
            )
            print(f"sent again {clock.monotonic() - killed_at:.2f} s after the kill")
            for at in range(100):
                await send(producer, b"after %d" % at)
            second = await master_of(cluster)
            assert second != first
            await cluster.restart(first)
            await eventually(
                lambda: all_three(cluster), "the former master is in sync", limit_s=90.0
            )
            run = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pocketmq.cluster.cli.main", "failover"),
                *("--broker", "broker-a", "--controllers", cluster.controller_addr),
                stdout=asyncio.subprocess.PIPE,
            )
            said, _ = await run.communicate()
            assert b"is master from epoch" in said
            second = await master_of(cluster)
            await eventually(
                lambda: all_three(cluster), "the set is whole after the failover", limit_s=90.0
            )
            await cluster[second].kill()
            await eventually(
                lambda: send(producer, b"again %d" % next(attempts)),
                "messages are taken after the second kill",
                limit_s=90.0,
            )

        read: list[bytes] = []
        async with PullConsumer("g", nameservers=cluster.namesrv_addr) as consumer:
            for queue in await consumer.queues("orders"):
                offset = 0
                while True:
                    pulled = await consumer.pull(queue, "*", offset)
                    read += [bytes(message.body) for message in pulled.messages]
                    if pulled.next_begin_offset <= offset:
                        break
                    offset = pulled.next_begin_offset
        missing = set(acknowledged) - set(read)
        assert not missing


async def test_a_stopped_master_with_a_lease_acknowledges_nothing_when_it_goes_on() -> None:
    """What lay in its sockets comes before its timers run (W-2)."""
    wanted = ["--master-lease-enable", "--no-all-ack-in-sync-state-set"]
    wanted += ["--controller-heart-beat-timeout-mills", "3000"]
    async with local_cluster(controllers=1, replicas=2, broker_arguments=wanted) as cluster:

        async def both() -> bool:
            return await in_sync(cluster) == [1, 2]

        await eventually(both, "both replicas are in sync")
        async with Admin(nameservers=cluster.namesrv_addr, api_timeout_ms=PATIENCE_MS) as admin:
            await admin.create_topic("orders", queues=1)
        first = cluster[await master_of(cluster)]
        channel = await TcpNetwork().connect(first.address, Dispatcher())
        voice = Voice(channel)
        assert (await voice.try_send("orders", b"before")).code == ResponseCode.SUCCESS
        await first.freeze()

        async def another_leads() -> bool:
            address = (await replicas(cluster)).master_address
            return address not in (None, "", first.address)

        try:
            await eventually(another_leads, "another master is elected", limit_s=90.0)
            sent = [asyncio.ensure_future(voice.try_send("orders", b"%d" % at)) for at in range(20)]
            await another_leads()  # by then they lie in its socket
        finally:
            first.thaw()
        codes = {reply.code for reply in await asyncio.gather(*sent)}
        assert ResponseCode.SUCCESS not in codes
        channel.close()

"""Masters and slaves as processes: nothing that was acknowledged dies with the master."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig
from pocketmq.broker.store.dispatch.log_scan import sound_records
from pocketmq.client import (
    Admin,
    ConsumeFromWhere,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    SendStatus,
)
from pocketmq.cluster.cli.main import make_app
from pocketmq.cluster.cli.roles.cluster import views
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.protocol.bodies.topics import TopicConfigSerializeWrapper
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.headers.offsets import GetAllConsumerOffsetRequestHeader
from pocketmq.protocol.headers.topics import GetAllTopicConfigRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.profile import PROFILE_5_X
from support.cluster import Cluster, running
from support.eventually import PATIENCE_MS, PATIENCE_S, eventually

pytestmark = pytest.mark.cluster

SENDERS = 16
ENOUGH = 400


async def following(cluster: Cluster, name: str = "a") -> None:
    """Return when the slave has all that its master has."""
    address = cluster.broker(name).address

    async def caught_up() -> bool:
        async with cluster.admin() as admin:
            slaves = (await admin.ha_status(address)).ha_connection_info
        return bool(slaves) and all(each.in_sync and each.diff == 0 for each in slaves)

    await eventually(caught_up, "the slave follows")


def bodies_in(store: Path) -> set[bytes]:
    """Every message in the log of a folder that no process works on."""
    opened = MessageStore(
        StoreConfig(store_path_root_dir=str(store)), OsDisk(), SystemClock(), PROFILE_5_X.broker
    )
    opened.load()
    try:
        log = opened.commit_log
        return {
            bytes(record.raw_body)
            for record in sound_records(log, log.min_offset, log.max_offset)
            if record.topic == "orders"
        }
    finally:
        opened.close_files()


async def test_a_killed_sync_master_takes_nothing_along_that_was_acknowledged(
    tmp_path: Path,
) -> None:  # B-140, I-1
    acknowledged: set[bytes] = set()
    async with running(tmp_path, slaves=1, sync_slaves=True) as cluster:
        await cluster.create_topic("orders")
        await following(cluster)
        killed = asyncio.Event()

        async def send_on(producer: Producer, sender: int) -> None:
            for n in range(100_000):
                body = b"%d of %d" % (n, sender)
                try:
                    result = await producer.send(Message("orders", body))
                except PocketMQError:
                    return
                if result.status is SendStatus.SEND_OK:
                    acknowledged.add(body)
                if killed.is_set():
                    return

        async with Producer(
            "senders", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
        ) as producer:
            senders = [
                asyncio.ensure_future(send_on(producer, sender)) for sender in range(SENDERS)
            ]
            await eventually(lambda: len(acknowledged) > ENOUGH, "enough is acknowledged")
            await cluster.broker("a").kill()
            killed.set()
            await asyncio.gather(*senders)
    assert len(acknowledged) > ENOUGH
    missing = acknowledged - bodies_in(tmp_path / "broker-a-s1")
    assert missing == set()


async def test_the_cluster_is_shown_with_roles_ends_and_lag(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2, slaves=1) as cluster:
        await cluster.create_topic("orders")
        for name in "ab":
            await following(cluster, name)
        options = ["cluster", "show", "--nameservers", cluster.nameservers]
        shown = await asyncio.to_thread(CliRunner().invoke, make_app(), options)
        rows = [line.split("\t") for line in shown.stdout.splitlines()]
        assert [row[:2] for row in rows] == [
            ["broker-a", "master"], ["broker-a", "slave 1"],
            ["broker-b", "master"], ["broker-b", "slave 1"],
        ]  # fmt: skip
        assert rows[0][4] == "1", "one slave is in sync"
        assert rows[1][-1] == "0", "it lacks nothing"
        await cluster.broker("a").kill()
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            await eventually(lambda: _without_master(admin), "the name server has noticed")
            found = {"broker-a": (await admin.brokers(masters_only=False))["broker-a"]}
            state = await admin.ha_status(found["broker-a"][1])
        assert list(views(found, {"broker-a": {1: state}}))[-1].role == "no master"


async def _without_master(admin: Admin) -> bool:
    return 0 not in (await admin.brokers(masters_only=False))["broker-a"]


async def test_a_slave_acts_for_a_killed_master_and_gives_its_offsets_back(tmp_path: Path) -> None:
    # Z-2, Z-3, Z-5, Z-9: real sockets, SIGKILL, clients that know nothing of it
    bodies = [b"%d" % n for n in range(30)]
    async with running(tmp_path, brokers=2, slaves=1, acting_master=True) as cluster:
        master, slave = cluster.broker("a"), cluster.broker("a-s1")
        await cluster.create_topic("orders", queues=2)
        await following(cluster)
        await eventually(lambda: _knows_topic(slave.address), "the slave has copied the topic")
        got: list[bytes] = []

        async def take(message: MessageExt) -> None:
            got.append(message.body)

        early = PushConsumer("early", nameservers=cluster.nameservers)
        early.subscribe("orders")
        early.listen(take, orderly=True)
        late_got: list[bytes] = []

        async def take_late(message: MessageExt) -> None:
            late_got.append(message.body)

        first = ConsumeFromWhere.FIRST_OFFSET
        late = PushConsumer("late", nameservers=cluster.nameservers, consume_from_where=first)
        late.subscribe("orders")
        late.listen(take_late, orderly=True)
        async with (
            Producer(
                "senders", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
            ) as producer,
            early,
        ):
            for body in bodies:
                await producer.send(Message("orders", body))
            await eventually(lambda: len(got) == len(bodies), "all are consumed at the masters")
            await following(cluster)
            await master.kill()
            await eventually(lambda: _shown(cluster, "acting master 1"), "the slave acts")
            refused = await asyncio.gather(
                *(producer.send(Message("orders", b"to b")) for _ in range(4))
            )
            assert {each.queue.broker_name for each in refused} == {"broker-b"}
            async with late:
                count = len(bodies) + len(refused)
                await eventually(lambda: len(late_got) >= count, "the slave is read, in order")
                await eventually(lambda: len(got) >= count, "so it is by who was there before")
                before = await _ends(cluster, slave.address)
                await eventually(lambda: _committed(cluster, slave.address), "offsets are there")
                await cluster.restart(master)
                assert await _committed(cluster, master.address), "before anybody consumed there"
                await eventually(lambda: _shown(cluster, "slave 1"), "the slave rests")
                assert await _ends(cluster, slave.address) == before, "nothing was written to it"
                await eventually(lambda: _sent_to_a(cluster), "the master takes messages again")
                await eventually(lambda: b"at a again" in late_got, "and they are consumed")
    assert len(set(late_got)) == len(set(bodies)) + 2
    assert sorted(late_got).count(b"0") == 1, "the offsets came back: nothing is read anew"


async def _shown(cluster: Cluster, role: str) -> bool:
    options = ["cluster", "show", "broker-a", "--nameservers", cluster.nameservers]
    shown = await asyncio.to_thread(CliRunner().invoke, make_app(), options)
    return f"broker-a\t{role}\t" in shown.stdout


async def _ends(cluster: Cluster, address: str) -> int:
    async with cluster.admin() as admin:
        return (await admin.ha_status(address)).ha_client_runtime_info.max_offset


async def _knows_topic(address: str) -> bool:
    client = RemotingClient(TcpNetwork())
    try:
        header = GetAllTopicConfigRequestHeader()
        answer = expect(await client.call(address, header, timeout_s=PATIENCE_S))
    finally:
        await client.close()
    table = decode_body(answer.body_view, TopicConfigSerializeWrapper, answer.encoding)
    return "orders" in table.topic_config_table


async def _committed(cluster: Cluster, address: str) -> bool:
    """Whether the late group has committed both queues to their ends."""
    client = RemotingClient(TcpNetwork())
    try:
        header = GetAllConsumerOffsetRequestHeader()
        answer = expect(await client.call(address, header, timeout_s=PATIENCE_S))
    finally:
        await client.close()
    table = decode_body(answer.body_view, ConsumerOffsetTable, answer.encoding).offset_table
    late, early = table.get("orders@late"), table.get("orders@early")
    return late is not None and sum(late.values()) > 0 and late == early


async def _sent_to_a(cluster: Cluster) -> bool:
    """By a new producer, which asks for the route just now."""
    async with Producer(
        "others", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
    ) as producer:
        result = await producer.send(Message("orders", b"at a again"))
    return result.queue.broker_name == "broker-a"

"""Masters and slaves as processes: nothing that was acknowledged dies with the master."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig
from pocketmq.broker.store.log_scan import sound_records
from pocketmq.client import Admin, Message, Producer, SendStatus
from pocketmq.cluster.cli.cluster import views
from pocketmq.cluster.cli.main import make_app
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.profile import PROFILE_5_X
from support.cluster import Cluster, running
from support.eventually import eventually

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

        async with Producer("senders", nameservers=cluster.nameservers) as producer:
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
        async with Admin(nameservers=cluster.nameservers) as admin:
            await eventually(lambda: _without_master(admin), "the name server has noticed")
            found = {"broker-a": (await admin.brokers(masters_only=False))["broker-a"]}
            state = await admin.ha_status(found["broker-a"][1])
        assert list(views(found, {"broker-a": {1: state}}))[-1].role == "no master"


async def _without_master(admin: Admin) -> bool:
    return 0 not in (await admin.brokers(masters_only=False))["broker-a"]

"""What producers and consumers see of a slave, and of a master that dies (H-10 to H-15)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.role_names import BrokerRole
from pocketmq.client import Admin, ConsumeFromWhere, Message, Producer, PushConsumer
from pocketmq.protocol.scalars import PullSysFlag
from support.broker_rig import SUBSCRIPTION, SUSPEND, pull_header
from support.consuming import Collected
from support.replicas import ReplicaRig

SLAVE = BrokerRole.SLAVE


async def test_a_consumer_goes_on_with_the_slave_when_its_master_dies(tmp_path: Path) -> None:
    # H-205, C-38
    got = Collected()
    async with ReplicaRig(tmp_path) as rig:
        options: dict[str, Any] = {
            "nameservers": rig.nameserver.address,
            "network": rig.network,
            "clock": rig.clock,
        }
        await rig.start("master", slave_read_enable=True)
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1, slave_read_enable=True)
        async with Admin(**options) as admin:
            await admin.create_topic("orders", queues=1)
        await rig.advance(61)
        async with Producer("producers", **options) as producer:
            for n in range(5):
                await producer.send(Message("orders", b"%d" % n))
            await rig.same_logs()
            await rig.stop("master")
            consumer = PushConsumer(
                "readers", consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **options
            )
            consumer.subscribe("orders")
            consumer.listen(got)
            async with consumer:
                for _ in range(200):
                    if len(got.bodies) == 5:
                        break
                    await rig.advance(0.5)
                await rig.advance(6)
        assert sorted(got.bodies) == [b"0", b"1", b"2", b"3", b"4"]
        assert slave.offsets.query("readers", "orders", 0) == 5, "offsets go to the slave (H-12)"


async def test_without_a_master_orderly_consumers_get_no_lock_and_nothing(
    tmp_path: Path,
) -> None:  # H-14
    got = Collected()
    async with ReplicaRig(tmp_path) as rig:
        options: dict[str, Any] = {
            "nameservers": rig.nameserver.address,
            "network": rig.network,
            "clock": rig.clock,
        }
        await rig.start("master", slave_read_enable=True)
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1, slave_read_enable=True)
        async with Admin(**options) as admin:
            await admin.create_topic("orders", queues=1)
        await rig.advance(61)
        async with Producer("producers", **options) as producer:
            await producer.send(Message("orders", b"one"))
        await rig.same_logs()
        await rig.stop("master")
        consumer = PushConsumer(
            "readers", consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **options
        )
        consumer.subscribe("orders")
        consumer.listen(got, orderly=True)
        async with consumer:
            await rig.advance(60)
            assert got.bodies == []
            assert slave.locks.count == 0, "it was not asked"
            await rig.start("master", slave_read_enable=True, port=11000)
            for _ in range(200):
                if got.bodies:
                    break
                await rig.advance(0.5)
        assert got.bodies == [b"one"]


async def test_a_slave_that_is_read_leaves_offsets_and_waiting_to_its_master(
    tmp_path: Path,
) -> None:  # H-11, H-13
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        await (await rig.voice(master)).send("orders", b"x")
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1, slave_read_enable=True)
        await rig.same_logs()
        await rig.advance(61)
        voice = await rig.voice(slave)
        found = await voice.pull("orders", 0, sys_flag=SUBSCRIPTION)
        assert (found.bodies, found.header.suggest_which_broker_id) == ([b"x"], 0)
        idle = await voice.pull("orders", 1, sys_flag=SUBSCRIPTION | SUSPEND)
        assert (idle.code, idle.header.next_begin_offset) == (20, 1)
        beyond = await voice.pull("orders", 77, sys_flag=SUBSCRIPTION)
        assert (beyond.code, beyond.header.next_begin_offset) == (20, 77)


@pytest.mark.parametrize("profile", ["4.9", "5.3", "5.5"])
async def test_a_slave_of_4_9_takes_no_offset_of_a_pull_and_wakes_none(
    tmp_path: Path, profile: str
) -> None:  # B-35, B-74
    async with ReplicaRig(tmp_path, profile) as rig:
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1, slave_read_enable=True)
        slave.topics.ensure_system_topic("orders", queue_nums=1, now_ms=rig.clock.time_ms())
        voice, other = await rig.voice(slave), await rig.voice(slave)
        flags = SUBSCRIPTION | SUSPEND | PullSysFlag.COMMIT_OFFSET
        header = pull_header("orders", 0, commit_offset=7, sys_flag=flags)
        held = asyncio.ensure_future(voice.ask(header))
        await rig.advance(0.1)
        in_4_9 = profile == "4.9"
        assert len(slave.held) == 1
        assert slave.offsets.query("readers", "orders", 0) == (None if in_4_9 else 7)
        slave.core.signals.message_arrived.emit("orders", 0, 1, [0])
        await rig.advance(0.1)
        assert held.done() is not in_4_9
        await rig.advance(30)
        assert (await held).code == 19
        assert (await other.ask(pull_header("orders", 0))).code == 19


async def test_a_slave_that_is_not_read_refuses_pulls(tmp_path: Path) -> None:  # B-58
    async with ReplicaRig(tmp_path) as rig:
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
        reply = await (await rig.voice(slave)).ask(pull_header("orders", 0))
        assert reply.code == 2

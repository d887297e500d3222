"""What a slave copies by its timer, without a moment's gap (B-120 to B-122)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.role_names import BrokerRole
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.pop import RequestModeBody
from support.replicas import ReplicaRig

SLAVE = BrokerRole.SLAVE


@pytest.mark.parametrize(("profile", "period_s"), [("4.9", 10), ("5.x", 60)])
async def test_a_slave_has_the_masters_tables_after_each_period(
    tmp_path: Path, profile: str, period_s: int
) -> None:  # behaviours 43 and 44: B-120
    async with ReplicaRig(tmp_path, profile=profile) as rig:
        master = await rig.start("master")
        voice = await rig.voice(master)
        await voice.send("orders", b"x")
        master.groups.put(SubscriptionGroupConfig(group_name="readers"), rig.clock.time_ms())
        await voice.commit(1)
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
        await rig.advance(1)  # the first copy is made at once
        assert slave.topics.wrapper() == master.topics.wrapper()  # I-12: the version too
        assert slave.groups.wrapper() == master.groups.wrapper()
        assert slave.offsets.query("readers", "orders", 0) == 1
        await voice.commit(7)
        await voice.send("more", b"x")
        now_ms = rig.clock.time_ms()
        master.groups.put(SubscriptionGroupConfig(group_name="new"), now_ms)
        master.groups.delete("readers", now_ms)
        await rig.advance(period_s - 2)
        assert slave.offsets.query("readers", "orders", 0) == 1
        await rig.advance(4)
        assert slave.offsets.query("readers", "orders", 0) == 7
        assert slave.topics.get("more") is not None
        assert slave.groups.wrapper() == master.groups.wrapper()


async def test_delay_offsets_and_request_modes_are_copied(tmp_path: Path) -> None:
    # behaviour 44: B-120
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        voice = await rig.voice(master)
        for n in range(3):
            await voice.send("orders", b"later %d" % n, properties={"DELAY": "1"})
        await rig.advance(20)
        master.subjects.pop.modes.set(
            RequestModeBody(topic="orders", consumer_group="readers", mode="POP")
        )
        assert master.planner.wrapper().offset_table[1] == 3
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
        await rig.advance(61)
        assert slave.planner.wrapper() == master.planner.wrapper()
        assert slave.subjects.pop.modes.of("orders", "readers").mode == "POP"
        await rig.stop("slave")
        again = await rig.start("slave", broker_role=SLAVE, broker_id=1)
        assert again.planner.wrapper().offset_table[1] == 3, "they are in its file"


async def test_a_topic_that_changes_nowhere_stays_while_tables_are_copied(tmp_path: Path) -> None:
    # I-12, F-20, W-8
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        await (await rig.voice(master)).send("orders", b"x")
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
        await rig.advance(1)
        touched: list[str] = []
        slave.topics.changed.connect(touched.append)
        await rig.advance(300)
        assert touched == []


async def test_without_its_master_a_slave_keeps_its_tables(tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        await (await rig.voice(master)).send("orders", b"x")
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
        await rig.advance(61)
        await rig.stop("master")
        await rig.advance(300)
        assert slave.topics.get("orders") is not None
        assert slave.subjects.replication.roles.master.broker is None  # H-7


async def test_a_timer_message_is_delivered_once_when_the_slave_takes_over(tmp_path: Path) -> None:
    # T-114, T-145
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        voice = await rig.voice(master)
        await voice.send("orders", b"soon", properties={"TIMER_DELAY_SEC": "5"})
        await voice.send("orders", b"late", properties={"TIMER_DELAY_SEC": "100"})
        slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
        await rig.advance(20)
        await rig.same_logs()
        assert slave.store.reads.max_offset("orders", 0) == 1
        await rig.stop("master")
        await slave.subjects.replication.roles.become_master(epoch=1)
        await rig.advance(10)
        assert slave.store.reads.max_offset("orders", 0) == 1, "what was delivered stays so"
        await rig.advance(120)
        assert slave.store.reads.max_offset("orders", 0) == 2

"""Behaviours 6 to 9, 13, 14 and 61: who a group's members are, and that they share.

Over loopback TCP, on a manual clock. Brokers are scripted where a test must see or bend what they
are asked, real where the behaviour is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from pocketmq.client import (
    MessageQueue,
)
from pocketmq.protocol.allocation.by_config import AllocateMessageQueueByConfig
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from support.consuming import Collected, consuming, queues_of
from support.eventually import eventually
from support.own_logs import own_logs
from support.rebalancing import ANOTHER, MEMBERS, answer_members
from support.tcp import scripted, tcp_cluster, tcp_rig

HEARTBEAT = RequestCode.HEART_BEAT

# -- asking -------------------------------------------------------------------------------------


async def test_members_are_asked_of_any_master_of_the_topic_one_per_round() -> None:
    # behaviour 6: C-24
    async with AsyncExitStack() as stack:
        rig = await stack.enter_async_context(tcp_rig("a", "b"))
        slave = await scripted(rig, stack, "a-slave")
        rig.nameserver.routes["T"].broker_datas[0].broker_addrs[1] = slave.address
        a, b = rig.brokers
        async with consuming(rig, Collected()) as consumer:
            await eventually(lambda: len(consumer.assignment) == 8, "all queues")
            for _ in range(30):
                await rig.advance(20)
            assert a.count(MEMBERS) > 0
            assert b.count(MEMBERS) > 0
            assert a.count(MEMBERS) + b.count(MEMBERS) == 31
            assert slave.count(MEMBERS) == 0, "there is a master"
            assert slave.count(HEARTBEAT) > 0, "though it would know"


async def test_a_slave_is_asked_for_members_when_there_is_no_master() -> None:
    # behaviour 6: C-24
    async with AsyncExitStack() as stack:
        rig = await stack.enter_async_context(tcp_rig())
        slave = await scripted(rig, stack, "a-slave")
        rig.nameserver.routes["T"].broker_datas[0].broker_addrs = {1: slave.address}
        async with consuming(rig, Collected()):
            await eventually(lambda: slave.count(MEMBERS) > 0, "the slave is asked")


async def test_every_broker_knows_a_consumer_because_heartbeats_go_to_all(tmp_path: Path) -> None:
    # behaviour 7: P-8, B-21
    async with tcp_cluster(tmp_path, "a", "b", "c") as cluster:
        await cluster.create_topic("T", queues=1)
        async with consuming(cluster, Collected()) as consumer, cluster.admin() as admin:
            for name in ("a", "b", "c"):
                assert await admin.consumer_ids("consumers", name) == [consumer.client_id]
                assert "%RETRY%consumers" in cluster.brokers[name].topics.table
            counts = {
                name: sum(1 for each in asked if each.code == HEARTBEAT)
                for name, asked in cluster.asked.items()
            }
            await cluster.advance(61)
            for name, asked in cluster.asked.items():
                now = sum(1 for each in asked if each.code == HEARTBEAT)
                assert now >= counts[name] + 2, f"{name} hears of it every 30 s"


async def test_an_unknown_member_list_is_skipped_and_an_empty_one_is_an_error() -> None:
    """The seed skips both; in the source an empty list makes the strategy raise."""
    # behaviour 8: C-24, A-2
    async with tcp_rig() as rig:
        broker = rig.brokers[0]
        async with consuming(rig, Collected(), profile="4.9") as consumer:
            await eventually(lambda: len(consumer.assignment) == 4, "all queues")

            async def errors_with(answer: Callable[[Command], Command]) -> set[str]:
                broker.refuse[MEMBERS] = answer
                asked = broker.count(MEMBERS)
                with own_logs() as logs:
                    await rig.advance(40)
                assert broker.count(MEMBERS) == asked + 2
                return {each["event"] for each in logs if each["log_level"] == "warning"}

            assert not await errors_with(
                lambda request: request.reply(code=1, remark="no consumer")
            )
            assert len(consumer.assignment) == 4
            assert await errors_with(answer_members()) == {"rebalance.skipped"}
            assert len(consumer.assignment) == 4
            assert not await errors_with(answer_members(ANOTHER))
            assert consumer.assignment == [], "but a list without us takes everything away"


async def test_a_topic_without_queues_keeps_the_assignment() -> None:
    """The seed skips; in the source the strategy raises, and the assignment stays."""
    # behaviour 8: C-24, A-2
    async with tcp_rig() as rig, consuming(rig, Collected()) as consumer:
        await eventually(lambda: len(consumer.assignment) == 4, "all queues")
        rig.nameserver.add_topic("T", rig.brokers, queues=0)
        with own_logs() as logs:
            await rig.advance(60)
        reasons = [each["reason"] for each in logs if each["event"] == "rebalance.skipped"]
        assert any("no queues" in reason for reason in reasons)
        assert len(consumer.assignment) == 4


# -- sharing ------------------------------------------------------------------------------------


async def test_members_sort_what_they_hear_so_that_they_share_without_a_word() -> None:
    # behaviour 9: A-1, C-29
    async with tcp_rig("a", "b") as rig:
        one = consuming(rig, Collected(), profile="4.9", instance_name="10.0.0.10")
        two = consuming(rig, Collected(), profile="4.9", instance_name="10.0.0.2")
        async with one, two:
            answers = 0

            def another_order_each_time(request: Command) -> Command:
                nonlocal answers
                answers += 1
                members = [one.client_id, two.client_id]
                return answer_members(*members[:: 1 if answers % 2 else -1])(request)

            for broker in rig.brokers:
                broker.refuse[MEMBERS] = another_order_each_time
            for _ in range(3):
                await rig.advance(20)
                assert queues_of(one) == [MessageQueue("T", "a", i) for i in range(4)]
                assert queues_of(two) == [MessageQueue("T", "b", i) for i in range(4)]
            assert answers >= 6


async def test_a_queue_has_one_owner_and_an_owner_many_queues(tmp_path: Path) -> None:
    # behaviour 13: C-24
    async with tcp_cluster(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("T")
        one, two = consuming(cluster, Collected()), consuming(cluster, Collected())
        async with one:
            await cluster.until(lambda: len(queues_of(one)) == 8, "one has all")
            async with two:
                await cluster.until(lambda: len(queues_of(one)) == 4, "one gave half of it up")
                await cluster.until(lambda: len(queues_of(two)) == 4, "two has it")
                assert not set(one.assignment) & set(two.assignment)
                assert set(queues_of(one) + queues_of(two)) == set(cluster.queues_of("T"))


async def test_seven_queues_are_shared_four_to_three(tmp_path: Path) -> None:
    # behaviour 61: A-10
    async with tcp_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=7)
        one = consuming(cluster, Collected(), instance_name="1")
        two = consuming(cluster, Collected(), instance_name="2")
        async with one, two:
            await cluster.until(lambda: len(queues_of(two)) == 3, "two has the last three")
            await cluster.until(lambda: len(queues_of(one)) == 4, "one has the first four")
            assert [queue.queue_id for queue in queues_of(one) + queues_of(two)] == [*range(7)]


async def test_overlapping_config_lists_give_a_queue_two_owners_for_good() -> None:
    """The seed says one owner always; in the source that is a target that CONFIG may miss."""
    # behaviour 13: C-29, A-40
    async with tcp_rig() as rig:
        shared = [MessageQueue("T", "a", 0)]
        one, two = Collected(), Collected()
        first = consuming(rig, one, strategy=AllocateMessageQueueByConfig(shared))
        second = consuming(rig, two, strategy=AllocateMessageQueueByConfig(shared))
        async with first, second:
            await rig.advance(60)
            assert first.assignment == second.assignment == shared
            rig.brokers[0].put("T", 0, b"twice")
            await eventually(lambda: one.bodies == two.bodies == [b"twice"], "both consume it")


async def test_with_more_consumers_than_queues_the_last_ones_idle() -> None:
    # behaviour 14: A-10
    async with tcp_rig(queues=2) as rig:
        consumers = [
            consuming(rig, Collected(), profile="4.9", instance_name=name) for name in "abc"
        ]
        async with AsyncExitStack() as stack:
            for consumer in consumers:
                await stack.enter_async_context(consumer)
            await rig.advance(21)
            assert [[q.queue_id for q in each.assignment] for each in consumers] == [[0], [1], []]

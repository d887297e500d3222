"""Behaviours 1 to 9, 13 to 17 and 60 to 63: who pulls which queue, and when that changes.

Over loopback TCP, on a manual clock. Brokers are scripted where a test must see or bend what they
are asked, real where the behaviour is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pocketmq.client import (
    ConsumeOrderlyStatus,
    MessageExt,
    MessageQueue,
)
from pocketmq.client.rebalance.averagely import AllocateMessageQueueAveragely
from pocketmq.client.rebalance.by_config import AllocateMessageQueueByConfig
from pocketmq.client.rebalance.planner import (
    DropQueue,
    FindStartOffset,
    QueueReleased,
    RebalancePlanner,
    StartFound,
    TopicSeen,
)
from pocketmq.protocol.bodies.clients import ConsumerList
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.headers.clients import GetConsumerListRequestHeader
from support.broker_rig import Voice, consumer
from support.eventually import eventually
from support.house import Collected
from support.scripted_broker import ScriptedBroker
from support.tcp import consuming, queues_of, scripted, tcp_house, tcp_rig

HEARTBEAT = RequestCode.HEART_BEAT
MEMBERS = RequestCode.GET_CONSUMER_LIST_BY_GROUP
PULL = RequestCode.PULL_MESSAGE
ANOTHER = "0.0.0.0@another"
"""A member that sorts before ours, so that the first half of the queues is not ours."""


class OnDemand:
    """Everything or nothing, as the test says."""

    name = "ON_DEMAND"

    def __init__(self) -> None:
        self.gives = False

    def allocate(
        self, _group: str, _cid: str, mq_all: Sequence[MessageQueue], _cids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(mq_all) if self.gives else []


async def held(broker: ScriptedBroker, count: int) -> None:
    await eventually(lambda: len(broker.held) == count, f"{count} pulls are held")


def answer_members(*client_ids: str) -> Callable[[Command], Command]:
    """What a broker says of any group."""

    def answer(request: Command) -> Command:
        body = ConsumerList(consumer_id_list=list(client_ids))
        return request.reply(body=encode_body(body, request.encoding))

    return answer


# -- when ---------------------------------------------------------------------------------------


async def test_nothing_is_pulled_until_a_queue_is_handed_over_and_then_at_once() -> None:
    # behaviour 1: C-35
    async with tcp_rig() as rig:
        broker, strategy = rig.brokers[0], OnDemand()
        async with consuming(rig, Collected(), strategy=strategy, profile="4.9"):
            await rig.advance(100)
            assert broker.count(PULL) == 0
            strategy.gives = True
            broker.notify("consumers")
            await held(broker, 4)  # while the clock stands still
            await rig.advance(14)
            assert broker.count(PULL) == 4, "it waits for answers and does not ask again"


async def test_the_rebalance_runs_every_20_s_or_as_configured() -> None:
    # behaviour 2: C-20
    for options, period in (({}, 20), ({"rebalance_interval_ms": 7_000}, 7)):
        async with tcp_rig() as rig, consuming(rig, Collected(), **options):
            broker = rig.brokers[0]
            await eventually(lambda: broker.count(MEMBERS) == 1, "the first one, at the start")  # noqa: B023
            for rounds in (2, 3, 4):
                await rig.advance(period - 0.01)
                assert broker.count(MEMBERS) == rounds - 1
                await rig.advance(0.01)
                await eventually(lambda: broker.count(MEMBERS) == rounds, "once a period")  # noqa: B023


@pytest.mark.parametrize(("profile", "rounds_in_10_s"), [("4.9", 1), ("5.x", 11)])
async def test_while_unbalanced_5_x_looks_again_every_second(
    profile: str, rounds_in_10_s: int
) -> None:
    """The seed knows the 20 s only; the source from 5.2 on: 1 s after an unbalanced round."""
    # behaviour 2: C-20
    async with tcp_rig() as rig:
        broker = rig.brokers[0]
        broker.refuse[RequestCode.QUERY_CONSUMER_OFFSET] = lambda request: request.reply(code=1)
        async with consuming(rig, Collected(), profile=profile):
            await rig.advance(10.01)
            await eventually(lambda: broker.count(MEMBERS) == rounds_in_10_s, "rounds in 10 s")


async def test_one_service_rebalances_all_consumers_of_a_client_each_for_itself() -> None:
    # behaviour 3: C-20, C-22
    async with tcp_rig() as rig:
        broker = rig.brokers[0]

        def asked(group: str) -> int:
            headers = [
                request.header(GetConsumerListRequestHeader)
                for request in broker.seen
                if request.code == MEMBERS
            ]
            return sum(1 for header in headers if header.consumer_group == group)

        one = consuming(rig, Collected(), group="one", instance_name="shared")
        two = consuming(rig, Collected(), group="two", instance_name="shared")
        async with one, two:
            assert one.client_id == two.client_id
            await rig.advance(2)
            await eventually(lambda: len(one.assignment) == len(two.assignment) == 4, "both")
            before = asked("one"), asked("two")
            await rig.advance(20)
            await eventually(lambda: asked("two") == before[1] + 1, "two was looked at")
            assert asked("one") == before[0] + 1, "one timer for both, not one each"
            # A rebalancer each: what one strategy gives up is the other's still.
            broker.refuse[MEMBERS] = lambda request: (
                answer_members(ANOTHER, one.client_id)(request)
                if request.header(GetConsumerListRequestHeader).consumer_group == "one"
                else answer_members(two.client_id)(request)
            )
            broker.notify("one")  # the group's name does not matter: all are looked at
            await eventually(lambda: asked("two") == before[1] + 2, "two was looked at again")
            await eventually(lambda: len(one.assignment) == 2, "one gave half of it up")
            assert len(two.assignment) == 4


async def test_a_round_goes_over_every_topic_then_drops_queues_of_foreign_ones() -> None:
    # behaviour 4: C-22, C-26
    async with tcp_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("U", rig.brokers, queues=2)
        async with consuming(rig, Collected(), "T", "U", profile="4.9") as consumer:
            await eventually(lambda: len(consumer.assignment) == 6, "queues of both topics")
            broker.extra_members.append(ANOTHER)
            consumer.unsubscribe("U")
            assert len(queues_of(consumer, "U")) == 2
            broker.notify("consumers")
            await eventually(lambda: not queues_of(consumer, "U"), "the foreign queues are gone")
            assert len(queues_of(consumer, "T")) == 2, "the same round shared T out anew"


async def test_unsubscribing_takes_queues_away_without_writing_their_offsets() -> None:
    # behaviour 5: C-15, C-26
    async with tcp_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("U", rig.brokers, queues=1)
        broker.put_many("U", 0, [b"1", b"2"])
        got = Collected()
        async with consuming(rig, got, "T", "U", profile="4.9") as consumer:
            await eventually(lambda: len(got) == 2, "U is consumed")
            await held(broker, 5)
            assert consumer.offsets_in_memory("U") == {MessageQueue("U", "a", 0): 2}
            broker.offsets.clear()  # what rode along on pulls
            consumer.unsubscribe("U")
            broker.notify("consumers")
            await eventually(lambda: not queues_of(consumer, "U"), "U is gone")
            assert consumer.offsets_in_memory("U") == {}
            broker.put("U", 0, b"3")
            await rig.advance(15)  # several rounds of persisting
            assert ("consumers", "U", 0) not in broker.offsets
            assert len(got) == 2
        assert ("consumers", "U", 0) not in broker.offsets


# -- who ----------------------------------------------------------------------------------------


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
    async with tcp_house(tmp_path, "a", "b", "c") as cluster:
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
                with capture_logs() as logs:
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
        with capture_logs() as logs:
            await rig.advance(60)
        reasons = [each["reason"] for each in logs if each["event"] == "rebalance.skipped"]
        assert any("no queues" in reason for reason in reasons)
        assert len(consumer.assignment) == 4


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
    async with tcp_house(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("T")
        one, two = consuming(cluster, Collected()), consuming(cluster, Collected())
        async with one:
            await cluster.until(lambda: len(queues_of(one)) == 8, "one has all")
            async with two:
                await cluster.until(lambda: len(queues_of(one)) == 4, "one gave half of it up")
                await cluster.until(lambda: len(queues_of(two)) == 4, "two has it")
                assert not set(one.assignment) & set(two.assignment)
                assert set(queues_of(one) + queues_of(two)) == set(cluster.queues_of("T"))


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


# -- giving up ----------------------------------------------------------------------------------


async def test_a_queue_of_another_is_dropped_written_down_and_forgotten() -> None:
    # behaviour 15: C-25.1, C-30
    async with tcp_rig() as rig:
        broker, got = rig.brokers[0], Collected()
        lost = MessageQueue("T", "a", 0)
        broker.put_many("T", 0, [b"1", b"2"])
        async with consuming(rig, got, profile="4.9") as consumer:
            await eventually(lambda: len(got) == 2, "consumed")
            await held(broker, 4)
            broker.offsets.clear()
            broker.extra_members.append(ANOTHER)
            broker.notify("consumers")
            await eventually(lambda: lost not in consumer.assignment, "it is given up")
            await eventually(lambda: broker.offsets.get(("consumers", "T", 0)) == 2, "written")
            await eventually(lambda: lost not in consumer.offsets_in_memory("T"), "forgotten")
            asked = broker.count(PULL)
            broker.put("T", 0, b"3")  # answers the pull that is still held
            await held(broker, 3)
            await rig.advance(2)
            assert broker.count(PULL) == asked, "the dropped queue is not pulled again"
            assert len(got) == 2, "and its messages are not consumed"


def test_a_queue_not_pulled_for_over_120_s_is_given_up_and_taken_anew_at_once() -> None:
    # behaviour 15: C-25.2
    queue = MessageQueue("T", "a", 0)
    seen = TopicSeen("T", [queue], ["me"])
    planner = RebalancePlanner("g", "me", AllocateMessageQueueAveragely())
    planner.on(seen, 0.0)
    planner.on(StartFound(queue, 5), 0.0)
    old = planner.process_queues[queue]
    assert planner.on(seen, 120.0) == [], "120 s are not too long"
    [drop] = planner.on(seen, 120.001)
    assert isinstance(drop, DropQueue)
    assert old.dropped
    assert planner.on(QueueReleased(queue), 120.001) == [FindStartOffset(queue)]
    planner.on(StartFound(queue, 7), 120.001)
    assert planner.process_queues[queue] is not old
    assert planner.owned() == [queue]


async def test_5_x_unlocks_an_orderly_queue_so_that_its_new_owner_gets_it_at_once() -> None:
    # behaviour 16: C-30
    async with tcp_rig() as rig:
        broker, lost = rig.brokers[0], MessageQueue("T", "a", 0)
        consumer = consuming(rig, Collected(), orderly=True)
        async with consumer:
            await eventually(lambda: len(broker.locks) == 4, "all are locked")
            await rig.advance(1.1)
            broker.extra_members.append(ANOTHER)
            broker.notify("consumers")
            await eventually(lambda: lost not in broker.locks, "it is unlocked")
            await eventually(lambda: len(consumer.assignment) == 2, "and given up")
            assert set(broker.locks.values()) == {consumer.client_id}
            assert len(broker.locks) == 2


async def test_4_9_unlocks_an_orderly_queue_with_cached_messages_20_s_later() -> None:
    # behaviour 16: C-30
    async with tcp_rig() as rig:
        broker, lost = rig.brokers[0], MessageQueue("T", "a", 0)
        broker.put("T", 0, b"bad")
        tries: list[bytes] = []

        async def refuse(message: MessageExt) -> ConsumeOrderlyStatus:
            tries.append(message.body)
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

        consumer = consuming(rig, refuse, orderly=True, profile="4.9")
        async with consumer:
            await eventually(lambda: tries, "it failed and waits for its next try")
            broker.extra_members.append(ANOTHER)
            broker.notify("consumers")
            await eventually(lambda: len(consumer.assignment) == 2, "half is given up")
            await eventually(lambda: len(broker.locks) == 3, "an empty queue is unlocked at once")
            await rig.advance(19)
            assert broker.locks[lost] == consumer.client_id
            await rig.advance(2)
            await eventually(lambda: lost not in broker.locks, "20 s later the other one too")


# -- taking -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "delay_s"), [("4.9", 0.0), ("5.x", 0.5)])
async def test_a_new_orderly_queue_is_locked_then_looked_up_then_pulled(
    profile: str, delay_s: float
) -> None:
    # behaviour 17: C-25.3, C-25.4
    async with tcp_rig(queues=1) as rig:
        broker = rig.brokers[0]
        queue = MessageQueue("T", "a", 0)
        broker.locks[queue] = "another"
        async with consuming(rig, Collected(), orderly=True, profile=profile) as consumer:
            await rig.advance(21)
            assert broker.count(RequestCode.LOCK_BATCH_MQ) > 0
            assert broker.count(RequestCode.QUERY_CONSUMER_OFFSET) == 0
            assert consumer.assignment == [], "no lock, no queue"
            del broker.locks[queue]
            broker.notify("consumers")
            if profile == "5.x":
                await rig.advance(1)  # no two rounds within a second
            await eventually(lambda: consumer.assignment == [queue], "the lock was granted")
            await rig.advance(delay_s)
            await held(broker, 1)
            codes = [request.code for request in broker.seen]
            lock = max(i for i, code in enumerate(codes) if code == RequestCode.LOCK_BATCH_MQ)
            asked = codes.index(RequestCode.QUERY_CONSUMER_OFFSET)
            assert lock < asked < codes.index(PULL)


async def test_a_queue_that_comes_back_starts_where_the_broker_says() -> None:
    # behaviour 17: C-25.3
    async with tcp_rig(queues=1) as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1", b"2"])
        got = Collected()
        consumer = consuming(rig, got, orderly=True, profile="4.9", strategy=(own := OnDemand()))
        own.gives = True
        async with consumer:
            await eventually(lambda: len(got) == 3, "all is consumed")
            own.gives = False
            broker.notify("consumers")
            await eventually(lambda: consumer.assignment == [], "the queue is given up")
            await eventually(lambda: not broker.locks, "and unlocked")
            broker.release_held()
            broker.offsets["consumers", "T", 0] = 1  # another owner was reset
            own.gives = True
            broker.notify("consumers")
            await eventually(lambda: len(got) == 5, "from there on")
            assert [message.queue_offset for message in got.messages] == [0, 1, 2, 1, 2]


# -- notice and timer ---------------------------------------------------------------------------


async def test_a_notice_rebalances_now_and_the_timer_without_one(tmp_path: Path) -> None:
    # behaviour 60: C-20, C-21, B-24, B-25, B-26
    async with tcp_house(tmp_path, profile="4.9") as cluster:
        await cluster.create_topic("T")
        shares: list[int] = []

        def note(topic: str, _all: object, mine: Sequence[MessageQueue]) -> None:
            if topic == "T":
                shares.append(len(mine))

        one = consuming(cluster, Collected(), on_assignment_changed=note)
        async with one:
            await eventually(lambda: len(queues_of(one)) == 4, "one has all")
            two = consuming(cluster, Collected())
            await two.start()
            # No clock moves: what follows is the brokers' notices.
            await eventually(lambda: len(queues_of(one)) == 2, "one hears of the newcomer")
            await two.stop()
            await eventually(lambda: len(queues_of(one)) == 4, "one hears of the good-bye")
            async with consuming(cluster, Collected()) as three:
                await eventually(lambda: len(queues_of(one)) == 2, "one hears of the newcomer")
                shares.clear()
                three._instance.remoting.drop(cluster.brokers["a"].address)  # type: ignore[union-attr]
                # Not for long: three connects again.
                await eventually(lambda: 4 in shares, "and of a lost connection")


async def test_a_client_that_fell_silent_is_found_by_the_timer_alone(tmp_path: Path) -> None:
    # behaviour 60: C-20, B-27
    async with tcp_house(tmp_path, profile="4.9") as cluster:
        await cluster.create_topic("T")
        async with consuming(cluster, Collected()) as one:
            channel = await cluster.network.connect(cluster.brokers["a"].address, Dispatcher())
            frozen = Voice(channel)  # says who it is once; its connection stays up
            membership = consumer("consumers", ["T", "%RETRY%consumers"])
            await frozen.heartbeat(ANOTHER, consumers=[membership])
            await eventually(lambda: len(queues_of(one)) == 2, "one hears of it")
            since = cluster.clock.monotonic()
            group = cluster.brokers["a"].consumers.get("consumers")
            assert group is not None
            await cluster.advance(119)
            assert ANOTHER in group.client_ids()
            while ANOTHER in group.client_ids():
                await cluster.advance(1)
            assert 120 < cluster.clock.monotonic() - since <= 131, "120 s and a scan"
            assert len(queues_of(one)) == 2, "nobody told it"
            await cluster.advance(20)
            await eventually(lambda: len(queues_of(one)) == 4, "its own rebalance found out")


async def test_seven_queues_are_shared_four_to_three(tmp_path: Path) -> None:
    # behaviour 61: A-10
    async with tcp_house(tmp_path) as cluster:
        await cluster.create_topic("T", queues=7)
        one = consuming(cluster, Collected(), instance_name="1")
        two = consuming(cluster, Collected(), instance_name="2")
        async with one, two:
            await cluster.until(lambda: len(queues_of(two)) == 3, "two has the last three")
            await cluster.until(lambda: len(queues_of(one)) == 4, "one has the first four")
            assert [queue.queue_id for queue in queues_of(one) + queues_of(two)] == [*range(7)]


async def test_after_a_change_all_brokers_hear_a_heartbeat_at_once() -> None:
    # behaviour 62: C-27
    async with tcp_rig("a", "b") as rig, consuming(rig, Collected(), profile="4.9") as consumer:
        await eventually(lambda: len(consumer.assignment) == 8, "all queues")
        await rig.advance(2)
        before = [broker.count(HEARTBEAT) for broker in rig.brokers]

        def version(broker: ScriptedBroker) -> int:
            [group] = broker.clients[consumer.client_id].consumer_data_set
            return next(s.sub_version for s in group.subscription_data_set if s.topic == "T")

        versions = [version(broker) for broker in rig.brokers]
        rig.brokers[0].extra_members.append(ANOTHER)
        rig.brokers[1].extra_members.append(ANOTHER)
        rig.brokers[0].notify("consumers")
        await eventually(
            lambda: [each.count(HEARTBEAT) for each in rig.brokers] == [n + 1 for n in before],
            "one heartbeat each, while the clock stands still",
        )
        assert [version(b) > v for b, v in zip(rig.brokers, versions, strict=True)] == [True] * 2
        rig.brokers[0].notify("consumers")
        await rig.advance(1)
        assert [each.count(HEARTBEAT) for each in rig.brokers] == [n + 1 for n in before]


async def test_a_start_rebalances_without_waiting_to_be_told() -> None:
    # behaviour 63: C-13
    async with tcp_rig() as rig, consuming(rig, Collected()) as consumer:
        # These brokers tell nobody of anything, and no clock moves.
        await eventually(lambda: len(consumer.assignment) == 4, "all queues")


async def test_a_start_rebalances_at_once_and_a_stop_is_told_to_the_others(tmp_path: Path) -> None:
    # behaviour 63: C-13, C-71, B-25
    async with tcp_house(tmp_path, profile="4.9") as cluster:
        await cluster.create_topic("T")
        one, two = consuming(cluster, Collected()), consuming(cluster, Collected())
        async with one:
            await eventually(lambda: len(queues_of(one)) == 4, "at once: no clock has moved")
            await two.start()
            await eventually(lambda: len(queues_of(two)) == 2, "at once as well")
            await eventually(lambda: len(queues_of(one)) == 2, "one was told")
            await two.stop()
            codes = [request.code for request in cluster.asked["a"]]
            assert codes.count(RequestCode.UNREGISTER_CLIENT) == 1
            await eventually(lambda: len(queues_of(one)) == 4, "one was told by the broker")

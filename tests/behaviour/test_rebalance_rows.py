"""Behaviours 1 to 5, 60, 62 and 63: when a client rebalances, and over what.

Over loopback TCP, on a manual clock. Brokers are scripted where a test must see or bend what they
are asked, real where the behaviour is theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pocketmq.client import (
    MessageQueue,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.headers.clients import GetConsumerListRequestHeader
from support.broker_rig import Voice, consumer
from support.consuming import Collected, consuming, queues_of
from support.eventually import eventually
from support.rebalancing import ANOTHER, MEMBERS, OnDemand, answer_members, held
from support.scripted_broker import ScriptedBroker
from support.tcp import tcp_cluster, tcp_rig

HEARTBEAT = RequestCode.HEART_BEAT
PULL = RequestCode.PULL_MESSAGE

# -- every round --------------------------------------------------------------------------------


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


# -- notice and timer ---------------------------------------------------------------------------


async def test_a_notice_rebalances_now_and_the_timer_without_one(tmp_path: Path) -> None:
    # behaviour 60: C-20, C-21, B-24, B-25, B-26
    async with tcp_cluster(tmp_path, profile="4.9") as cluster:
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
    async with tcp_cluster(tmp_path, profile="4.9") as cluster:
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
    async with tcp_cluster(tmp_path, profile="4.9") as cluster:
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

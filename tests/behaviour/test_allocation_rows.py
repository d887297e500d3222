"""Behaviours 10 to 12 and 32 to 40: how strategies share queues out.

What a strategy computes is tested as the pure function that it is; what a group makes of it, over
loopback TCP with scripted brokers and a manual clock.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import pocketmq.protocol.allocation
from pocketmq.client import MessageModel, MessageQueue
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.by_circle import AllocateMessageQueueAveragelyByCircle
from pocketmq.protocol.allocation.by_config import AllocateMessageQueueByConfig
from pocketmq.protocol.allocation.consistent_hash import AllocateMessageQueueConsistentHash
from pocketmq.protocol.allocation.machine_room import AllocateMessageQueueByMachineRoom
from pocketmq.protocol.allocation.machine_room_nearby import AllocateMachineRoomNearby
from pocketmq.protocol.allocation.strategy import (
    AllocateMessageQueueStrategy,
    AllocationError,
    sorted_queues,
)
from support.consuming import Collected, consuming, queues_of
from support.eventually import eventually
from support.rebalancing import ANOTHER, MEMBERS
from support.tcp import tcp_rig

AVG = AllocateMessageQueueAveragely()
CIRCLE = AllocateMessageQueueAveragelyByCircle()
HASH = AllocateMessageQueueConsistentHash()
HANGZHOU, SHANGHAI, SHENZHEN = "Hangzhou-A", "Shanghai-A", "Shenzhen-A"


class InTheRoomOfTheName:
    """The room is what stands before the `@`; of a client, before the `:`."""

    def broker_deploy_in(self, message_queue: MessageQueue) -> str:
        return message_queue.broker_name.partition("@")[0]

    def consumer_deploy_in(self, client_id: str) -> str:
        return client_id.partition(":")[0]


class Choice:
    """What a test wants: a list, or None."""

    name = "CHOICE"

    def __init__(self, answer: list[MessageQueue] | None) -> None:
        self.answer = answer
        self.seen: list[tuple[str, str, Sequence[MessageQueue], Sequence[str]]] = []

    def allocate(
        self, group: str, cid: str, mq_all: Sequence[MessageQueue], cids: Sequence[str]
    ) -> list[MessageQueue] | None:
        self.seen.append((group, cid, mq_all, cids))
        return self.answer


def queues(count: int, broker: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue("TopicTest", broker, i) for i in range(count)]


def shares(
    strategy: AllocateMessageQueueStrategy, count: int, clients: Sequence[str]
) -> list[list[int]]:
    all_queues = queues(count)
    return [
        [queue.queue_id for queue in strategy.allocate("g", cid, all_queues, clients) or ()]
        for cid in clients
    ]


THREE = ("c1", "c2", "c3")


# -- each by itself -------------------------------------------------------------------------------


def test_six_strategies_are_built_in_under_rocketmqs_names() -> None:
    """The seed counts five: MACHINE_ROOM_NEARBY is missing from its list."""
    # behaviour 10
    built_in = set()
    for found in pkgutil.iter_modules(pocketmq.protocol.allocation.__path__):
        module = importlib.import_module(f"pocketmq.protocol.allocation.{found.name}")
        for name, member in vars(module).items():
            here = isinstance(member, type) and member.__module__ == module.__name__
            if here and hasattr(member, "allocate") and not getattr(member, "_is_protocol", False):
                built_in.add(name)
    assert built_in == {
        "AllocateMessageQueueAveragely",
        "AllocateMessageQueueAveragelyByCircle",
        "AllocateMessageQueueConsistentHash",
        "AllocateMessageQueueByConfig",
        "AllocateMessageQueueByMachineRoom",
        "AllocateMachineRoomNearby",
    }
    assert AVG.name == "AVG"
    assert CIRCLE.name == "AVG_BY_CIRCLE"
    assert HASH.name == "CONSISTENT_HASH"
    assert AllocateMessageQueueByConfig().name == "CONFIG"
    assert AllocateMessageQueueByMachineRoom().name == "MACHINE_ROOM"
    nearby = AllocateMachineRoomNearby(AVG, InTheRoomOfTheName())
    assert nearby.name == "MACHINE_ROOM_NEARBY-AVG"


def test_eight_queues_for_three_come_in_blocks_or_dealt_like_cards() -> None:
    # behaviour 11
    assert shares(AVG, 8, THREE) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert shares(CIRCLE, 8, THREE) == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_hash_config_and_room_strategies_are_for_those_who_ask_for_them() -> None:
    # behaviour 12
    mine = [MessageQueue("TopicTest", "broker-a", 3)]
    config = AllocateMessageQueueByConfig(mine)
    for members in (["c1"], ["c1", "c2"], ["somebody", "else"]):
        assert config.allocate("g", "c1", queues(8), members) is mine
    rooms = AllocateMessageQueueByMachineRoom({HANGZHOU})
    everything = queues(4, f"{HANGZHOU}@b") + queues(4, f"{SHANGHAI}@b") + queues(4)
    assert rooms.allocate("g", "c1", everything, ["c1"]) == queues(4, f"{HANGZHOU}@b")
    assert shares(HASH, 8, THREE) == [[0, 4, 5, 7], [1, 6], [2, 3]]


async def test_averagely_is_what_a_group_gets_that_asks_for_nothing() -> None:
    # behaviours 12 and 32
    async with tcp_rig(queues=7) as rig:
        one = consuming(rig, Collected(), profile="4.9", instance_name="1")
        two = consuming(rig, Collected(), profile="4.9", instance_name="2")
        three = consuming(rig, Collected(), profile="4.9", instance_name="3")
        assert one.strategy.name == "AVG"
        async with one, two, three:
            await rig.advance(21)
            shared = [[queue.queue_id for queue in queues_of(each)] for each in (one, two, three)]
            assert shared == [[0, 1, 2], [3, 4], [5, 6]]


def test_averagely_shares_seven_and_two_queues_among_three() -> None:
    # behaviour 32: A-10
    assert shares(AVG, 7, THREE) == [[0, 1, 2], [3, 4], [5, 6]]
    assert shares(AVG, 2, THREE) == [[0], [1], []]


def test_the_circle_shares_seven_queues_among_three() -> None:
    # behaviour 33: A-20
    assert shares(CIRCLE, 7, THREE) == [[0, 3, 6], [1, 4], [2, 5]]


def test_consistent_hash_moves_only_the_leavers_queues_and_is_uneven() -> None:
    """The seed gives evenness as its purpose; with 10 points per client it is not even."""
    # behaviour 34: A-30
    before = shares(HASH, 8, THREE)
    assert [len(share) for share in before] == [4, 2, 2]
    assert shares(AllocateMessageQueueConsistentHash(10), 8, THREE) == before
    after = shares(HASH, 8, ["c1", "c2"])
    assert after == [[0, 3, 4, 5, 7], [1, 2, 6]]
    moved = {
        queue for old, new in zip(before[:2], after, strict=True) for queue in set(old) ^ set(new)
    }
    assert moved == {2, 3}, "those of c3, which left"
    # Averagely moves others as well.
    assert shares(AVG, 8, THREE)[1] == [3, 4, 5]
    assert shares(AVG, 8, ["c1", "c2"])[0] == [0, 1, 2, 3]


def test_a_room_is_told_by_a_broker_name_with_exactly_one_at_sign() -> None:
    # behaviour 35: A-50
    strategy = AllocateMessageQueueByMachineRoom({HANGZHOU})
    kept = queues(2, f"{HANGZHOU}@broker-a")
    left_out = (
        queues(2, f"{HANGZHOU}@broker@a")
        + queues(2, HANGZHOU)
        + queues(2, f"{SHANGHAI}@broker-a")
        + queues(2, f"broker-a@{HANGZHOU}")
    )
    assert strategy.allocate("g", "c1", sorted_queues(kept + left_out), ["c1"]) == kept
    with pytest.raises(AllocationError, match="consumer_idcs is not set"):
        AllocateMessageQueueByMachineRoom().allocate("g", "c1", kept, ["c1"])


def test_two_rooms_with_four_and_three_queues_are_shared_by_three() -> None:
    # behaviour 36: A-50
    strategy = AllocateMessageQueueByMachineRoom({HANGZHOU, SHANGHAI})
    hangzhou = queues(4, f"{HANGZHOU}@Broker-b")
    shanghai = queues(3, f"{SHANGHAI}@Broker-a")
    everything = sorted_queues(shanghai + hangzhou)
    assert everything == hangzhou + shanghai, "by room name, whatever the brokers are called"
    got = [strategy.allocate("g", cid, everything, THREE) for cid in THREE]
    assert [[everything.index(queue) for queue in share] for share in got] == [
        [0, 1, 6],
        [2, 3],
        [4, 5],
    ]


def test_nearby_keeps_rooms_to_themselves_and_shares_an_orphaned_one() -> None:
    # behaviour 37: A-60
    strategy = AllocateMachineRoomNearby(AVG, InTheRoomOfTheName())
    hangzhou = queues(4, f"{HANGZHOU}@b")
    shanghai = queues(3, f"{SHANGHAI}@b")
    shenzhen = queues(2, f"{SHENZHEN}@b")
    clients = [f"{HANGZHOU}:1", f"{HANGZHOU}:2", f"{SHANGHAI}:3", f"{SHANGHAI}:4"]
    everything = hangzhou + shanghai + shenzhen
    got = [strategy.allocate("g", cid, everything, clients) for cid in clients]
    assert got == [
        [*hangzhou[:2], shenzhen[0]],
        [*hangzhou[2:], shenzhen[1]],
        shanghai[:2],
        shanghai[2:],
    ]


# -- in a group -----------------------------------------------------------------------------------


async def test_a_configured_list_stays_whoever_comes_or_goes() -> None:
    # behaviour 38: A-40
    async with tcp_rig() as rig:
        broker = rig.brokers[0]
        mine = [MessageQueue("T", "a", 1), MessageQueue("T", "a", 3)]
        strategy = AllocateMessageQueueByConfig(mine)
        async with consuming(rig, Collected(), strategy=strategy, profile="4.9") as consumer:
            await eventually(lambda: consumer.assignment == mine, "the list, and no more")
            for members in ([ANOTHER], [ANOTHER, "9.9.9.9@z"], []):
                broker.extra_members[:] = members
                asked = broker.count(MEMBERS)
                await rig.advance(20)
                assert broker.count(MEMBERS) == asked + 1
                assert consumer.assignment == mine


async def test_a_strategy_of_ones_own_may_answer_none_for_no_queues() -> None:
    # behaviour 39: A-70
    async with tcp_rig() as rig:
        strategy = Choice([MessageQueue("T", "a", 2)])
        async with consuming(rig, Collected(), strategy=strategy, profile="4.9") as consumer:
            await eventually(lambda: consumer.assignment == strategy.answer, "what it chose")
            group, client_id, all_queues, client_ids = strategy.seen[0]
            assert (group, client_id) == ("consumers", consumer.client_id)
            assert list(all_queues) == [MessageQueue("T", "a", i) for i in range(4)]
            assert list(client_ids) == [consumer.client_id]
            strategy.answer = None
            await rig.advance(20)
            assert consumer.assignment == []


async def test_broadcasting_asks_no_strategy_and_for_no_members(tmp_path: Path) -> None:
    # behaviour 40: C-23
    async with tcp_rig() as rig:
        broker, strategy = rig.brokers[0], Choice([])
        async with consuming(
            rig,
            Collected(),
            strategy=strategy,
            message_model=MessageModel.BROADCASTING,
            local_offset_store_dir=tmp_path,
        ) as consumer:
            await rig.advance(60)
            assert len(queues_of(consumer)) == 4, "every member has every queue"
            assert broker.count(MEMBERS) == 0
            assert strategy.seen == []
        async with consuming(rig, Collected(), strategy=strategy):
            await rig.advance(1)
            assert strategy.seen, "clustering does"

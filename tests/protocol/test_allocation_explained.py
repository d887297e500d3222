"""How each strategy says in one line what it did, and what its parts answer at their bounds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.by_circle import AllocateMessageQueueAveragelyByCircle
from pocketmq.protocol.allocation.consistent_hash import (
    AllocateMessageQueueConsistentHash,
    md5_hash,
)
from pocketmq.protocol.allocation.machine_room import AllocateMessageQueueByMachineRoom
from pocketmq.protocol.allocation.machine_room_nearby import AllocateMachineRoomNearby
from pocketmq.protocol.allocation.strategy import (
    AllocationError,
    explain,
    sorted_queues,
)
from pocketmq.protocol.messages.message import MessageQueue


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for number in range(count)]


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ("c0", "4 queues / 6 members, I am number 0: 1 from position 0"),
        ("c3", "4 queues / 6 members, I am number 3: 1 from position 3"),
        ("c4", "4 queues / 6 members, I am number 4: none left"),
        ("c5", "4 queues / 6 members, I am number 5: none left"),
        ("x", "not among the 6 members, so nothing"),
    ],
)
def test_averages_say_where_a_member_begins(client: str, said: str) -> None:
    members = [f"c{number}" for number in range(6)]
    assert AllocateMessageQueueAveragely().explain(client, queues(4), members) == said


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ("c1", "5 queues / 2 members: position 1 and each 2nd on"),
        ("x", "not among the 2 members, so nothing"),
    ],
)
def test_circles_say_which_they_take(client: str, said: str) -> None:
    strategy = AllocateMessageQueueAveragelyByCircle()
    assert strategy.explain(client, queues(5), ["c0", "c1"]) == said


def test_rooms_say_which_queues_they_keep() -> None:
    some = [*queues(2, "east@b"), *queues(1, "west@b"), *queues(3, "plain")]
    strategy = AllocateMessageQueueByMachineRoom(["west", "east"])
    assert strategy.explain("c", some, ["c"]) == "in rooms east, west: 3 of 6 queues"
    no_rooms = AllocateMessageQueueByMachineRoom()
    assert no_rooms.explain("c", queues(3), ["c"]) == "in rooms : 0 of 3 queues"


class ByPrefix:
    """The room is the first letter."""

    def broker_deploy_in(self, message_queue: MessageQueue) -> str:
        return message_queue.broker_name[0]

    def consumer_deploy_in(self, client_id: str) -> str:
        return client_id[0]


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (["e1", "e2", "w1"], "room e: 2 queues for 2"),
        (["e1", "e2"], "room e: 2 queues for 2; rooms without members, for all 2: n, w"),
    ],
)
def test_a_room_says_what_it_shares_with_all(members: list[str], said: str) -> None:
    some = [*queues(2, "east"), *queues(1, "west")]
    if len(members) == 2:
        some += queues(1, "north")
    nearby = AllocateMachineRoomNearby(AllocateMessageQueueAveragely(), ByPrefix())
    assert nearby.explain("e1", some, members) == said


def test_a_client_that_is_listed_twice_has_twice_its_points_on_the_ring() -> None:
    strategy = AllocateMessageQueueConsistentHash(virtual_nodes=3)
    ring = strategy._ring(["a", "b", "c", "a"])
    assert {at for at, owner in ring.items() if owner == "a"} == {
        md5_hash(f"a-{number}") for number in range(6)
    }


class Silent:
    """A user's strategy with what it needs and nothing more."""

    name = "SILENT"

    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> Sequence[MessageQueue]:
        return mq_all


def test_a_story_begins_with_the_strategy_which_may_say_no_more() -> None:
    assert explain(Silent(), "c0", queues(2), ["c0"]) == "SILENT"
    assert explain(AllocateMessageQueueAveragely(), "c0", queues(2), ["c0"]) == (
        "AVG: 2 queues / 1 member, I am number 0: 2 from position 0"
    )


def test_an_error_names_the_strategy_and_what_is_kept() -> None:
    error = AllocationError("AVG", "the topic has no queues")
    assert (error.strategy, error.reason) == ("AVG", "the topic has no queues")
    assert str(error) == "AVG: the topic has no queues; the queues stay where they are"


@pytest.mark.parametrize("at_broker", [False, True])
def test_names_are_sorted_by_utf_16_as_in_java(at_broker: bool) -> None:
    # U+1F600 begins with the surrogate D83D, which is before FF5E; by code points it is behind.
    names = ["\uff5e", "\U0001f600"]
    some = [MessageQueue("T", n, 0) if at_broker else MessageQueue(n, "b", 0) for n in names]
    assert sorted_queues(some) == [some[1], some[0]]
    plain = [MessageQueue("T", "b", 10), MessageQueue("T", "b", 9), MessageQueue("S", "c", 0)]
    assert sorted_queues(plain) == plain[::-1]

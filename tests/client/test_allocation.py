"""Allocation strategies: the worked examples of A-10 to A-60, and what holds for all."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.by_circle import AllocateMessageQueueAveragelyByCircle
from pocketmq.protocol.allocation.by_config import AllocateMessageQueueByConfig
from pocketmq.protocol.allocation.consistent_hash import (
    AllocateMessageQueueConsistentHash,
    md5_hash,
)
from pocketmq.protocol.allocation.machine_room import AllocateMessageQueueByMachineRoom, room_of
from pocketmq.protocol.allocation.machine_room_nearby import AllocateMachineRoomNearby
from pocketmq.protocol.allocation.preview import moved, preview
from pocketmq.protocol.allocation.strategy import (
    AllocateMessageQueueStrategy,
    AllocationError,
    sorted_client_ids,
    sorted_queues,
)
from pocketmq.protocol.messages.message import MessageQueue

AVG = AllocateMessageQueueAveragely()
CIRCLE = AllocateMessageQueueAveragelyByCircle()
HASH = AllocateMessageQueueConsistentHash()


def queues(count: int, broker: str = "broker-a", topic: str = "TopicTest") -> list[MessageQueue]:
    return [MessageQueue(topic, broker, i) for i in range(count)]


def shares(
    strategy: AllocateMessageQueueStrategy, count: int, clients: list[str]
) -> list[list[int]]:
    all_queues = queues(count)
    return [
        [queue.queue_id for queue in strategy.allocate("g", cid, all_queues, clients) or ()]
        for cid in clients
    ]


@pytest.mark.parametrize(
    ("count", "members", "expected"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (7, 3, [[0, 1, 2], [3, 4], [5, 6]]),
        (2, 3, [[0], [1], []]),
        (3, 3, [[0], [1], [2]]),
        (7, 2, [[0, 1, 2, 3], [4, 5, 6]]),
        (6, 3, [[0, 1], [2, 3], [4, 5]]),
    ],
)
def test_averagely_gives_blocks(count: int, members: int, expected: list[list[int]]) -> None:
    #
    assert shares(AVG, count, [f"c{i}" for i in range(1, members + 1)]) == expected


@pytest.mark.parametrize(
    ("count", "members", "expected"),
    [
        (8, 3, [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (7, 3, [[0, 3, 6], [1, 4], [2, 5]]),
        (2, 3, [[0], [1], []]),
        (7, 2, [[0, 2, 4, 6], [1, 3, 5]]),
    ],
)
def test_the_circle_deals_like_cards(count: int, members: int, expected: list[list[int]]) -> None:
    #
    assert shares(CIRCLE, count, [f"c{i}" for i in range(1, members + 1)]) == expected


@pytest.mark.parametrize(
    ("clients", "expected"),
    [
        (["c1", "c2", "c3"], [[0, 4, 5, 7], [1, 6], [2, 3]]),
        (["c1", "c2"], [[0, 3, 4, 5, 7], [1, 2, 6]]),
        (
            ["10.0.0.1@1#1", "10.0.0.2@2#2", "10.0.0.3@3#3"],
            [[1, 3], [4, 5, 7], [0, 2, 6]],
        ),
    ],
)
def test_consistent_hash_as_in_the_sheet(clients: list[str], expected: list[list[int]]) -> None:
    #
    assert shares(HASH, 8, clients) == expected


def test_the_hash_is_the_first_four_md5_bytes() -> None:
    assert md5_hash("c1-0") == 3886541579
    text = "MessageQueue [topic=TopicTest, brokerName=broker-a, queueId=0]"
    assert str(queues(1)[0]) == text
    assert md5_hash(text) == 1987926524


def test_virtual_nodes_may_not_be_negative_and_0_gives_nobody_anything() -> None:
    with pytest.raises(AllocationError):
        AllocateMessageQueueConsistentHash(-1)
    assert shares(AllocateMessageQueueConsistentHash(0), 4, ["a", "b"]) == [[], []]


def test_a_hash_function_of_ones_own() -> None:
    strategy = AllocateMessageQueueConsistentHash(1, lambda key: {"a-0": 5, "b-0": 9}.get(key, 7))
    assert shares(strategy, 2, ["a", "b"]) == [[], [0, 1]]


def test_config_returns_its_list_unlooked_at() -> None:
    odd = [MessageQueue("other", "nowhere", 99)]
    assert AllocateMessageQueueByConfig(odd).allocate("g", "", [], []) is odd
    assert AllocateMessageQueueByConfig().allocate("g", "c", queues(4), ["c"]) is None


def test_machine_room_shares_the_configured_rooms_out() -> None:
    hangzhou = queues(4, "Hangzhou-A@Broker-b")
    shanghai = queues(3, "Shanghai-A@Broker-a")
    everything = sorted_queues(shanghai + hangzhou + queues(2, "nowhere"))
    strategy = AllocateMessageQueueByMachineRoom({"Hangzhou-A", "Shanghai-A"})
    clients = ["c1", "c2", "c3"]
    got = [strategy.allocate("g", cid, everything, clients) for cid in clients]
    assert got == [
        [hangzhou[0], hangzhou[1], shanghai[2]],
        [hangzhou[2], hangzhou[3]],
        [shanghai[0], shanghai[1]],
    ]


def test_machine_room_gives_what_is_left_over_one_by_one_to_the_first() -> None:
    east = queues(8, "east@b")
    everything = sorted_queues(east + queues(2, "a"))  # brokers without a room come first here
    assert everything[0].broker_name == "a"
    strategy = AllocateMessageQueueByMachineRoom({"east"})
    clients = ["c1", "c2", "c3"]
    assert [strategy.allocate("g", cid, everything, clients) for cid in clients] == [
        [east[0], east[1], east[6]],
        [east[2], east[3], east[7]],
        [east[4], east[5]],
    ]


def test_machine_room_without_rooms_fails_on_the_first_two_part_name() -> None:
    strategy = AllocateMessageQueueByMachineRoom()
    assert strategy.allocate("g", "c", queues(2), ["c"]) == []
    with pytest.raises(AllocationError):
        strategy.allocate("g", "c", queues(2, "room@name"), ["c"])


@pytest.mark.parametrize(
    ("name", "room"),
    [("r@b", "r"), ("b", None), ("r@b@c", None), ("r@", None), ("@b", ""), ("r@b@", "r")],
)
def test_a_broker_name_has_a_room_when_it_has_two_parts(name: str, room: str | None) -> None:
    # A-50, by the rules of Java's split
    assert room_of(name) == room


class Rooms:
    """Room before the dash of a broker name; by table for clients."""

    def __init__(self, clients: dict[str, str]) -> None:
        self.clients = clients

    def broker_deploy_in(self, message_queue: MessageQueue) -> str:
        return message_queue.broker_name.partition("-")[0]

    def consumer_deploy_in(self, client_id: str) -> str:
        return self.clients[client_id]


def test_nearby_keeps_rooms_together_and_shares_orphans_among_all() -> None:
    strategy = AllocateMachineRoomNearby(
        AVG, Rooms({"c1": "Hz", "c2": "Hz", "c3": "Sh", "c4": "Sh"})
    )
    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"
    hz, sh, sz = queues(4, "Hz-a"), queues(3, "Sh-a"), queues(2, "Sz-a")
    everything, clients = hz + sh + sz, ["c1", "c2", "c3", "c4"]
    got = [strategy.allocate("g", cid, everything, clients) for cid in clients]
    assert got == [[hz[0], hz[1], sz[0]], [hz[2], hz[3], sz[1]], [sh[0], sh[1]], [sh[2]]]


def test_nearby_needs_a_room_for_everybody() -> None:
    for clients, broker in (({"c": ""}, "a-b"), ({"c": "a"}, "-b")):
        with pytest.raises(AllocationError, match="no machine room"):
            AllocateMachineRoomNearby(AVG, Rooms(clients)).allocate(
                "g", "c", queues(1, broker), ["c"]
            )


@pytest.mark.parametrize("strategy", [AVG, CIRCLE, HASH], ids=lambda each: each.name)
def test_empty_arguments_are_errors_and_a_stranger_gets_nothing(
    strategy: AllocateMessageQueueStrategy,
) -> None:
    with pytest.raises(AllocationError, match="client id"):
        strategy.allocate("g", "", queues(1), ["c"])
    with pytest.raises(AllocationError, match="no queues"):
        strategy.allocate("g", "c", [], ["c"])
    with pytest.raises(AllocationError, match="no members"):
        strategy.allocate("g", "c", queues(1), [])
    assert strategy.allocate("g", "stranger", queues(1), ["c"]) == []


def test_queues_sort_by_topic_broker_and_number() -> None:
    mixed = [
        MessageQueue("b", "x", 1),
        MessageQueue("a", "y", 10),
        MessageQueue("a", "y", 9),
        MessageQueue("a", "x10", 0),
        MessageQueue("a", "x2", 0),
    ]
    assert [str(q)[21:] for q in sorted_queues(mixed)] == [
        str(q)[21:] for q in (mixed[3], mixed[4], mixed[2], mixed[1], mixed[0])
    ]


def test_client_ids_sort_as_text_not_as_addresses() -> None:  # A-1, T-8
    ids = ["10.0.0.2@1", "10.0.0.1@9", "10.0.0.10@1"]
    assert sorted_client_ids(ids) == ["10.0.0.10@1", "10.0.0.1@9", "10.0.0.2@1"]


def test_beyond_the_basic_plane_order_is_javas() -> None:
    assert sorted_client_ids(["\uffee", "\U0001f600"]) == ["\U0001f600", "\uffee"]


# -- what holds for all ---------------------------------------------------------------------------

NAMES = st.text(string.ascii_lowercase + string.digits + "@.#", min_size=1, max_size=6)


class RoomsByLetter:
    """Every broker and every client stands in one of three rooms."""

    def broker_deploy_in(self, message_queue: MessageQueue) -> str:
        return "abc"[int(message_queue.broker_name[-1]) % 3]

    def consumer_deploy_in(self, client_id: str) -> str:
        return "abc"[len(client_id) % 3]


class Own(AllocateMessageQueueByConfig):
    """CONFIG as its users keep it right: lists that together are everything, each queue once."""

    def __init__(self, everything: list[MessageQueue], members: list[str], client_id: str) -> None:
        super().__init__(everything[members.index(client_id) :: len(members)])


EVERYWHERE = AllocateMessageQueueByMachineRoom({"r"})
NEARBY = [AllocateMachineRoomNearby(inner, RoomsByLetter()) for inner in (AVG, CIRCLE, HASH)]
ALL = [AVG, CIRCLE, HASH, EVERYWHERE, *NEARBY, AllocateMessageQueueByConfig()]


@pytest.mark.parametrize("strategy", ALL, ids=lambda each: each.name)
@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=4), clients=st.sets(NAMES, min_size=1)
)
def test_shares_are_complete_disjoint_and_independent_of_the_order_of_arrival(
    strategy: AllocateMessageQueueStrategy, counts: list[int], clients: set[str]
) -> None:
    everything = [q for i, count in enumerate(counts) for q in queues(count, f"r@b{i}")]
    members = sorted_client_ids(clients)

    def strategy_of(client_id: str) -> AllocateMessageQueueStrategy:
        if isinstance(strategy, AllocateMessageQueueByConfig):
            return Own(everything, members, client_id)
        return strategy

    found = preview(strategy_of, everything, members)
    assert found == preview(strategy_of, reversed(everything), reversed(members))
    assert found.queues == tuple(sorted_queues(everything))
    assert [share.client_id for share in found.shares] == members
    owners = found.owners()
    assert set(owners) == set(everything), "complete, and nothing beside"
    assert {len(who) for who in owners.values()} == {1}, "disjoint"
    for share in found.shares:
        assert len(set(share.queues)) == len(share.queues)
        assert share.explanation.startswith(strategy.name)
    if strategy in (AVG, CIRCLE, EVERYWHERE):
        sizes = [len(share.queues) for share in found.shares]
        assert max(sizes) - min(sizes) <= 1


def test_what_moved_counts_queues_with_another_owner_or_none() -> None:
    both = preview(lambda _: AVG, queues(8), ["c1", "c2"])
    three = preview(lambda _: AVG, queues(8), ["c1", "c2", "c3"])
    assert moved(both, both) == 0
    assert moved(both, three) == moved(three, both) == 3  # 3 from c1 to c2, 6 and 7 to c3
    grown = preview(lambda _: AVG, queues(9), ["c1", "c2"])
    assert moved(both, grown) == 2  # 4 from c2 to c1, and 8 is new


@given(count=st.integers(1, 64), clients=st.sets(NAMES, min_size=2), data=st.data())
def test_with_consistent_hash_only_the_leavers_queues_move(
    count: int, clients: set[str], data: st.DataObject
) -> None:
    members = sorted_client_ids(clients)
    leaver = data.draw(st.sampled_from(members))
    rest = [client_id for client_id in members if client_id != leaver]
    everything = queues(count)
    for client_id in rest:
        before = set(HASH.allocate("g", client_id, everything, members))
        after = set(HASH.allocate("g", client_id, everything, rest))
        assert before <= after

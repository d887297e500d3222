"""The rebalance decision, event by event."""

from __future__ import annotations

import pytest

from pocketmq.client.rebalance.claims import Claim
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.by_config import AllocateMessageQueueByConfig
from pocketmq.protocol.allocation.steps import (
    AssignmentChanged,
    DropForeignQueue,
    DropQueue,
    Event,
    FindStartOffset,
    Instruction,
    LockQueues,
    QueueHeld,
    QueueReleased,
    QueuesLocked,
    RebalanceSoon,
    StartFound,
    StartPulling,
    StartUnknown,
    SubscriptionsAre,
    TopicAssigned,
    TopicSeen,
)
from pocketmq.protocol.allocation.strategy import AllocationError
from pocketmq.protocol.messages.message import MessageQueue
from support.growth import least_s

Q = [MessageQueue("T", "a", i) for i in range(4)]


def planner(
    client_id: str = "c1",
    *,
    orderly: bool = False,
    broadcasting: bool = False,
    passive: bool = True,
    owns: list[MessageQueue] | None = None,
) -> RebalancePlanner:
    made = RebalancePlanner(
        "g",
        client_id,
        AllocateMessageQueueAveragely(),
        orderly=orderly,
        broadcasting=broadcasting,
        passive=passive,
    )
    for queue in owns or ():
        made.take(queue, 0.0)
    return made


def claim_of(made: RebalancePlanner, queue: MessageQueue) -> Claim:
    claim = made.claims.get(queue)
    assert claim is not None
    return claim


def all_of(made: RebalancePlanner, *events: Event, now: float = 1.0) -> list[Instruction]:
    return [instruction for event in events for instruction in made.on(event, now)]


def seen(*members: str) -> TopicSeen:
    return TopicSeen("T", Q, members)


def test_a_newcomer_finds_starts_pulls_and_tells() -> None:  # C-24, C-25.3, C-25.4, C-27
    made = planner("c2")
    assert all_of(made, seen("c2", "c1")) == [FindStartOffset(Q[2]), FindStartOffset(Q[3])]
    assert not made.is_balanced
    assert all_of(made, StartFound(Q[2], 7)) == [StartPulling(Q[2], 7)]
    assert all_of(made, StartFound(Q[3], 0)) == [
        StartPulling(Q[3], 0),
        AssignmentChanged("T", tuple(Q), (Q[2], Q[3])),
    ]
    assert made.owned() == [Q[2], Q[3]]
    assert made.is_balanced


def test_nothing_changes_nothing_happens() -> None:
    made = planner(owns=Q)
    assert all_of(made, seen("c1")) == []
    assert made.is_balanced
    assert made.story() == ""


def test_when_another_joins_its_queues_are_dropped_and_written_down() -> None:  # C-25.1, C-30
    made = planner(owns=Q)
    drops = all_of(made, seen("c1", "c2"))
    assert [each.queue for each in drops if isinstance(each, DropQueue)] == [Q[2], Q[3]]
    assert claim_of(made, Q[2]).dropped
    assert made.owned() == [Q[0], Q[1]]
    assert all_of(made, QueueReleased(Q[2])) == []
    assert all_of(made, QueueReleased(Q[3])) == [AssignmentChanged("T", tuple(Q), (Q[0], Q[1]))]
    assert "belongs to another member" in made.story()


def test_half_a_view_changes_nothing() -> None:  # C-24
    made = planner(owns=Q)
    assert all_of(made, TopicSeen("T", None, ["c1"]), TopicSeen("T", Q, None)) == []
    assert made.owned() == Q


def test_an_error_of_the_strategy_keeps_the_assignment_and_is_not_balanced() -> None:  # C-24, A-2
    made = planner(owns=Q)
    with pytest.raises(AllocationError):
        made.on(TopicSeen("T", Q, []), 1.0)
    assert made.owned() == Q
    assert not made.is_balanced


def test_who_is_not_in_the_list_gives_everything_up() -> None:
    made = planner("stranger", owns=Q)
    assert len(all_of(made, seen("c1"))) == 4
    assert made.owned() == []


def test_a_null_result_means_no_queues_and_duplicates_collapse() -> None:  # C-24, A-70
    made = RebalancePlanner("g", "c1", AllocateMessageQueueByConfig(None))
    made.take(Q[0], 0.0)
    assert all_of(made, seen("c1")) == [DropQueue(Q[0], "it belongs to another member now")]
    twice = RebalancePlanner("g", "c1", AllocateMessageQueueByConfig([Q[1], Q[1]]))
    assert all_of(twice, seen("c1")) == [FindStartOffset(Q[1])]


def test_broadcasting_takes_every_queue_and_asks_for_no_members() -> None:  # C-23
    made = planner(broadcasting=True)
    assert all_of(made, TopicSeen("T", Q)) == [FindStartOffset(queue) for queue in Q]


def test_a_queue_not_pulled_for_over_120_s_is_dropped_and_taken_anew() -> None:  # C-25.2
    made = planner(owns=[Q[0]])
    view = TopicSeen("T", Q[:1], ["c1"])
    assert all_of(made, view, now=120.0) == []
    [drop] = all_of(made, view, now=120.5)
    assert isinstance(drop, DropQueue)
    assert all_of(made, QueueReleased(Q[0])) == [FindStartOffset(Q[0])]
    active = planner(owns=[Q[0]], passive=False)  # L-7: pull consumers are not idle, they are slow
    assert all_of(active, view, now=500.0) == []


def test_orderly_queues_are_locked_first_and_refused_ones_left_out() -> None:  # C-25.3
    made = planner(orderly=True)
    assert all_of(made, seen("c1")) == [LockQueues("T", tuple(Q))]
    assert all_of(made, QueuesLocked("T", [Q[1]])) == [RebalanceSoon(), FindStartOffset(Q[1])]
    all_of(made, StartFound(Q[1], 0))
    assert made.owned() == [Q[1]]
    assert claim_of(made, Q[1]).locked
    assert not made.is_balanced
    assert "another member holds its lock" in made.story("T")


def test_no_lock_granted_ends_the_round() -> None:
    made = planner(orderly=True)
    assert all_of(made, seen("c1"), QueuesLocked("T", [])) == [
        LockQueues("T", tuple(Q)),
        RebalanceSoon(),
    ]


def test_a_broadcasting_orderly_consumer_needs_no_lock() -> None:  # C-58
    made = planner(orderly=True, broadcasting=True)
    assert all_of(made, TopicSeen("T", Q[:1])) == [FindStartOffset(Q[0])]


def test_an_unknown_start_leaves_the_queue_for_the_next_round() -> None:  # C-25.3
    made = planner()
    assert all_of(made, TopicSeen("T", Q[:1], ["c1"]), StartUnknown(Q[0])) == [
        FindStartOffset(Q[0])
    ]
    assert made.owned() == []
    assert not made.is_balanced
    assert "lacks a:0: its start offset is not known" in made.story()
    assert all_of(made, TopicSeen("T", Q[:1], ["c1"])) == [FindStartOffset(Q[0])]


def test_a_queue_that_its_listener_holds_on_to_is_tried_again() -> None:  # C-30
    made = planner(owns=Q)
    other = TopicSeen("T", Q, ["c0", "c1"])
    assert len(all_of(made, other)) == 2
    assert all_of(made, QueueHeld(Q[0]), QueueReleased(Q[1])) == [
        AssignmentChanged("T", tuple(Q), (Q[2], Q[3]))
    ]
    assert [type(each) for each in all_of(made, other)] == [DropQueue]
    assert claim_of(made, Q[0]).release_tries == 1
    all_of(made, QueueReleased(Q[0]))
    assert Q[0] not in made.claims


def test_nobody_is_told_of_a_round_in_which_every_queue_was_held() -> None:  # C-30
    made = planner(owns=Q)
    assert len(all_of(made, TopicSeen("T", Q, ["c0", "c1"]))) == 2
    assert all_of(made, QueueHeld(Q[0]), QueueHeld(Q[1])) == []


def test_a_broker_may_say_which_queues_are_ours() -> None:  # K-20
    made = planner()
    assert all_of(made, TopicAssigned("T", (Q[1], Q[0]), "the broker said so")) == [
        FindStartOffset(Q[0]),
        FindStartOffset(Q[1]),
    ]


def test_queues_of_another_topic_hide_none_of_this_one() -> None:  # C-25.1
    made = planner(owns=[MessageQueue("U", "a", 0), *Q])
    drops = all_of(made, seen("c1", "c2"))
    assert drops == [DropQueue(queue, "it belongs to another member now") for queue in Q[2:]]


def test_only_queues_that_are_lacking_are_locked() -> None:  # C-25.3
    made = planner(orderly=True, owns=Q[:1])
    assert all_of(made, seen("c1")) == [LockQueues("T", tuple(Q[1:]))]
    assert all_of(made, QueuesLocked("T", Q[1:])) == [FindStartOffset(queue) for queue in Q[1:]]


def test_by_default_a_queue_is_taken_anew_that_was_not_pulled_for_long() -> None:  # C-25.2
    made = RebalancePlanner("g", "c1", AllocateMessageQueueAveragely())
    made.take(Q[0], 1_000.0)
    assert made.on(TopicSeen("T", Q[:1], ["c1"]), 1_120.0) == []
    assert made.on(TopicSeen("T", Q[:1], ["c1"]), 1_121.0) == [
        DropQueue(Q[0], "it was not pulled for 121 s")
    ]


def test_everything_can_be_given_up_at_once() -> None:  # C-71
    made = planner(owns=Q)
    claims = [claim_of(made, queue) for queue in Q]
    made.forget_all()
    assert made.owned() == list(made.claims) == []
    assert all(claim.dropped for claim in claims)


def test_a_topic_that_was_left_is_never_out_of_balance() -> None:  # C-26, C-28
    made = planner(owns=Q[:1])
    made.forget(Q[0])
    all_of(made, SubscriptionsAre({"T"}))
    assert not made.is_balanced
    all_of(made, SubscriptionsAre({"U"}))
    assert made.is_balanced


def test_a_held_queue_that_comes_back_is_released_before_it_is_taken_anew() -> None:
    made = planner(owns=Q[:1])
    made.claims.drop(Q[0])
    view = TopicSeen("T", Q[:1], ["c1"])
    assert [type(each) for each in all_of(made, view)] == [DropQueue]
    assert all_of(made, QueueReleased(Q[0])) == [FindStartOffset(Q[0])]


def test_queues_of_topics_we_left_go_without_being_written_down() -> None:  # C-26
    made = planner(owns=Q[:2])
    held = claim_of(made, Q[0])
    assert all_of(made, SubscriptionsAre({"T"})) == []
    assert all_of(made, SubscriptionsAre({"U"})) == [DropForeignQueue(q) for q in Q[:2]]
    assert held.dropped
    assert made.owned() == []
    assert made.is_balanced


def test_a_queue_given_up_outside_a_round_is_taken_anew_in_the_next() -> None:  # C-43
    made = planner(owns=Q[:1])
    held = claim_of(made, Q[0])
    made.forget(Q[0])
    assert held.dropped
    assert not made.is_balanced
    assert all_of(made, TopicSeen("T", Q[:1], ["c1"])) == [FindStartOffset(Q[0])]


def test_the_story_tells_why() -> None:
    made = planner("c2")
    all_of(made, seen("c1", "c2"), StartFound(Q[2], 7), StartFound(Q[3], 0), now=12.5)
    assert made.story() == (
        "12.500 s  T: AVG: 4 queues / 2 members, I am number 1: 2 from position 2\n"
        "    took a:2 from offset 7\n"
        "    took a:3 from offset 0\n"
        "    mine: a:2, a:3"
    )


def test_a_queue_whose_offset_is_being_corrected_is_left_alone() -> None:  # C-43
    made = planner(owns=Q[:1])
    held = claim_of(made, Q[0])
    made.claims.correct(held)
    assert all_of(made, TopicSeen("T", Q[:1], ["c1"])) == []
    assert not made.is_balanced
    assert claim_of(made, Q[0]) is held


def owner_of(topics: int) -> tuple[RebalancePlanner, list[str]]:
    """A member with a queue of each of so many topics."""
    names = [f"T{number}" for number in range(topics)]
    return planner(owns=[MessageQueue(name, "a", 0) for name in names]), names


def test_a_topics_round_costs_the_same_beside_many_other_topics() -> None:
    def round_s(topics: int) -> float:
        made, _ = owner_of(topics)
        queue = MessageQueue("T7", "a", 0)

        def step() -> None:
            assert made.on(TopicSeen("T7", [queue], ["c1"]), 1.0) == []
            assert made.owned("T7") == [queue]

        return least_s(step, runs=5, steps=50)

    assert round_s(10_000) < 10 * round_s(10)


def test_a_look_for_topics_that_were_unsubscribed_costs_each_topic_the_same() -> None:
    def look_s(topics: int) -> float:
        made, names = owner_of(topics)

        def step() -> None:
            assert made.on(SubscriptionsAre(names), 1.0) == []

        return least_s(step, runs=5, steps=2) / topics

    assert look_s(4_000) < 5 * look_s(200)

"""Each thing that can be wrong with a group is found, and only it."""

from __future__ import annotations

import pytest

from pocketmq.cluster.explain.findings import GroupFacts, findings
from pocketmq.cluster.steering.group_state import GroupState, MemberState
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SubscriptionData

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]
ENDS = dict.fromkeys(QUEUES, 5)


def member(name: str, *queues: MessageQueue) -> MemberState:
    return MemberState(name, {"orders": "*"}, dict.fromkeys(queues, 5))


def subscribed(**expressions: str) -> dict[str, dict[str, SubscriptionData]]:
    return {
        name: {"orders": SubscriptionData.parse("orders", expression, 0)}
        for name, expression in expressions.items()
    }


WELL = GroupState("billing", (member("x", *QUEUES),), ends=ENDS, committed=ENDS)
PAST = GroupState("g", (member("x", *QUEUES),), ends=ENDS, committed={QUEUES[0]: 9, QUEUES[1]: 5})
CROWDED = GroupState("g", (member("x", QUEUES[0]), member("y", QUEUES[1]), member("z")), ends=ENDS)


def test_a_healthy_group_has_no_findings() -> None:
    facts = GroupFacts(state=WELL, subscriptions=subscribed(x="a"), last_tags={"orders": ("a",)})
    assert findings(facts) == []


def test_sdks_own_no_queues_and_go_with_others_that_pop() -> None:
    sdks = {"y": "GO 5.1.4 at proxy-1"}
    assert findings(GroupFacts(state=GroupState("billing", ends=ENDS), sdks=sdks)) == []
    popping = MemberState("x", {"orders": "*"}, {MessageQueue("orders", "broker-a", -1): -1})
    mixed = GroupFacts(state=GroupState("billing", (popping,)), sdks=sdks)
    assert not [each for each in findings(mixed) if "members that pop" in each.problem]


@pytest.mark.parametrize(
    ("facts", "problem", "advice"),
    [
        (GroupFacts(state=GroupState("billing")), "no member is connected", "start a consumer"),
        (
            GroupFacts(state=GroupState("g", (member("x", *QUEUES),), ("y",), ends=ENDS)),
            "y is connected and does not answer",
            "after 120 s",
        ),
        (
            GroupFacts(state=WELL, subscriptions=subscribed(x="a", y="b")),
            "members subscribe differently to orders (x to a; y to b)",
            "the same subscription",
        ),
        (
            GroupFacts(state=WELL, sdks={"y": "GO 5.1.4 at proxy-1"}),
            "members that pop (y, GO 5.1.4 at proxy-1) share the group with members that pull (x)",
            "a group of their own",
        ),
        (
            GroupFacts(state=WELL, same_id={"1.2.3.4@DEFAULT": 2}),
            "2 connections use the client id 1.2.3.4@DEFAULT",
            "instance name",
        ),
        (
            GroupFacts(state=WELL, without_route=("orders",)),
            "topic orders has no route",
            "pocketmq topic create orders",
        ),
        (
            GroupFacts(state=WELL, unreadable={"orders": ("broker-a",)}),
            "topic orders has no read permission (4) on broker-a",
            "permission 6",
        ),
        (
            GroupFacts(state=WELL, disabled_at=("broker-a",)),
            "is disabled on broker-a",
            "-s true",
        ),
        (
            GroupFacts(state=CROWDED),
            "z has no queue: 2 queues for 3 members",
            "more queues",
        ),
        (
            GroupFacts(state=GroupState("g", (member("x", QUEUES[0]),), ends=ENDS)),
            "no member has orders broker-a/1",
            "next rebalance",
        ),
        (
            GroupFacts(state=GroupState("g", (member("x"),), ends=ENDS), in_order=True),
            "another client holds the lock",
            "60 s after its client was killed",
        ),
        (
            GroupFacts(state=PAST),
            "orders broker-a/0 ends at 5, and the group goes on at 9",
            "pocketmq group reset g orders --to start",
        ),
        (
            GroupFacts(
                state=WELL,
                subscriptions=subscribed(x="New"),
                last_tags={"orders": ("new", "new", "")},
            ),
            "last 3 messages of orders has a tag that New matches; they have: new, none",
            "letter by letter",
        ),
        (
            GroupFacts(state=WELL, unlocked={QUEUES[0]: "x"}),
            "x consumes in order and has no lock of orders broker-a/0",
            "60 s",
        ),
        (GroupFacts(state=WELL, retrying=1), "1 message failed and waits", "10 s, 30 s"),
        (GroupFacts(state=WELL, dead_letters=3), "3 messages failed too often", "send them again"),
        (GroupFacts(state=WELL, clock_stands=True), "on a manual clock", "clock advance"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    facts: GroupFacts, problem: str, advice: str
) -> None:
    found = findings(facts)
    assert len(found) == 1, found
    assert problem in found[0].problem
    assert advice in found[0].advice

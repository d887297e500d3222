"""What a failing wait says of a group."""

from __future__ import annotations

from pocketmq.cluster.steering.group_state import GroupState, MemberState
from pocketmq.protocol.messages.message import MessageQueue

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]
ENDS = dict.fromkeys(QUEUES, 0)


def member(name: str, *queues: MessageQueue, tags: str = "*", offset: int = 0) -> MemberState:
    return MemberState(name, {"orders": tags}, dict.fromkeys(queues, offset))


def test_a_group_whose_queues_all_have_an_owner_lacks_nothing() -> None:
    state = GroupState("billing", (member("x", *QUEUES[:2]), member("y", *QUEUES[2:])), ends=ENDS)
    assert state.missing_queues(None) == ""
    assert state.missing_queues(2) == ""
    assert state.missing_messages() == ""


def test_members_that_are_not_there_are_counted() -> None:
    state = GroupState("billing", (member("x", *QUEUES),), ends=ENDS)
    assert state.missing_queues(3) == "group billing: 1 of 3 members connected"


def test_a_member_without_queues_and_one_who_subscribes_differently_are_named() -> None:
    members = (member("x", *QUEUES[:2], tags="a"), member("y", tags="b"))
    said = GroupState("billing", members, ends=ENDS).missing_queues(None)
    assert said == (
        "group billing: 1 of 2 members have queues; "
        "no member has orders broker-a/2, orders broker-a/3; "
        "members subscribe differently to orders: x to 'a' and y to 'b'"
    )


def test_a_member_too_many_may_have_no_queue() -> None:
    members = (member("x", *QUEUES[:2]), member("y", *QUEUES[2:]), member("z"))
    assert "2 of 3 members have queues" in GroupState("g", members, ends=ENDS).missing_queues(None)
    one = {QUEUES[0]: 0}
    assert GroupState("g", (member("x", QUEUES[0]), member("y")), ends=one).missing_queues(2) == ""


def test_two_owners_of_one_queue_are_not_settled() -> None:
    members = (member("x", *QUEUES), member("y", QUEUES[0]))
    said = GroupState("g", members, ends=ENDS).missing_queues(None)
    assert "two members have orders broker-a/0" in said


def test_in_broadcasting_each_member_has_all_queues() -> None:
    members = (member("x", *QUEUES), member("y", *QUEUES[1:]))
    state = GroupState("g", members, ends=ENDS, broadcasting=True)
    assert state.missing_queues(None) == "group g: y lacks orders broker-a/0"


def test_what_is_not_consumed_is_counted_by_queue() -> None:
    ends = {**ENDS, QUEUES[0]: 5, QUEUES[3]: 1}
    state = GroupState("g", (member("x", *QUEUES, offset=2),), ends=ends)
    assert state.missing_messages() == (
        "group g: 3 messages are not consumed (3 in orders broker-a/0)"
    )


def test_a_retry_queue_needs_no_owner_but_its_messages_count() -> None:
    retry = MessageQueue("%RETRY%g", "broker-a", 0)
    state = GroupState("g", (member("x", *QUEUES),), ends={**ENDS, retry: 1})
    assert state.missing_queues(None) == ""
    assert "1 message is not consumed" in state.missing_messages()


def test_a_member_that_does_not_answer_is_named() -> None:
    state = GroupState("g", (member("x", *QUEUES),), silent=("y",), ends=ENDS)
    assert "y did not say which queues it has" in state.missing_queues(None)

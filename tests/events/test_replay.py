"""What a cluster is like after a number of events."""

from __future__ import annotations

from itertools import count
from typing import Any

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.groups import (
    MemberJoined,
    MemberLeft,
    MemberSilent,
    QueuesLocked,
    QueuesUnlocked,
    Rebalanced,
)
from pocketmq.operation.events.messages import (
    MessageDispatched,
    MessageStored,
    OffsetCommitted,
    StoreFlushed,
)
from pocketmq.operation.events.roles import (
    BrokerForgotten,
    BrokerRegistered,
    RoleStarted,
    RoleStopped,
)
from support.cluster_state import ClusterState
from support.growth import least_s

NUMBERS = count(1)


def made(kind: type[Event], at_ms: int = 1, **fields: Any) -> Event:
    return kind(at_ms, "somebody", next(NUMBERS), 0, **fields)


def joined(broker: str, group: str, client: str) -> Event:
    return made(MemberJoined, broker=broker, group=group, client_id=client)


def test_roles_run_freeze_and_end() -> None:
    state = ClusterState().take_all(
        [
            made(RoleStarted, 5, role="a"),
            made(RoleStarted, 9, role="b"),
            made(RoleStarted, role="c"),
        ]
    )
    assert (state.at_ms, state.roles) == (9, {"a": "running", "b": "running", "c": "running"})
    state.take(made(RoleStopped, role="a", how="frozen"))
    state.take(made(RoleStopped, role="b", how="ended"))
    assert state.roles == {"a": "frozen", "b": "ended", "c": "running"}


def test_nameservers_know_brokers_until_they_forget_them_or_end() -> None:
    state = ClusterState()
    for nameserver, broker, number in (("n1", "a", 0), ("n1", "a", 1), ("n2", "a", 0)):
        state.take(
            made(
                BrokerRegistered,
                nameserver=nameserver,
                broker=broker,
                broker_id=number,
                address=f"h:{number}",
            )
        )
    assert state.known == {"n1": {("a", 0): "h:0", ("a", 1): "h:1"}, "n2": {("a", 0): "h:0"}}
    for broker in ("a", "b"):
        state.take(made(BrokerForgotten, nameserver="n1", broker=broker, broker_id=0, how="silent"))
    assert state.known["n1"] == {("a", 1): "h:1"}
    state.take(made(RoleStopped, role="n1", how="frozen"))
    assert "n1" in state.known
    state.take(made(RoleStopped, role="n1", how="ended"))
    assert list(state.known) == ["n2"]


def test_members_are_counted_by_connection() -> None:
    state = ClusterState().take_all(
        [
            joined("a", "g", "c1"),
            joined("a", "g", "c1"),
            joined("a", "g", "c2"),
            joined("a", "h", "c1"),
            joined("b", "g", "c1"),
        ]
    )
    assert state.members[("a", "g")] == ["c1", "c1", "c2"]
    state.take(made(MemberLeft, broker="a", group="g", client_id="c1", how="closed"))
    state.take(made(MemberLeft, broker="a", group="g", client_id="unknown", how="closed"))
    assert state.members == {("a", "g"): ["c1", "c2"], ("a", "h"): ["c1"], ("b", "g"): ["c1"]}
    state.take(made(MemberSilent, broker="a", client_id="c1", silent_ms=120_000))
    assert state.members == {("a", "g"): ["c2"], ("b", "g"): ["c1"]}
    state.take(made(RoleStopped, role="a", how="ended"))
    assert state.members == {("b", "g"): ["c1"]}


def test_a_member_leaves_one_of_its_groups() -> None:
    state = ClusterState()
    assert state.at_ms == 0
    state.take_all([joined("a", "g", "c1"), joined("a", "h", "c1"), joined("a", "i", "c1")])
    state.take(made(MemberLeft, broker="a", group="h", client_id="c1", how="closed"))
    assert state.members == {("a", "g"): ["c1"], ("a", "i"): ["c1"]}


def test_queues_have_owners_and_locks_their_last_holder() -> None:
    state = ClusterState()
    for client, queues in (("c1", ["t a/0"]), ("c1", ["t a/1"]), ("c2", [])):
        state.take(made(Rebalanced, group="g", client_id=client, queues=queues))
    assert state.owned == {("g", "c1"): ["t a/1"], ("g", "c2"): []}
    lock = {"broker": "a", "group": "g"}
    state.take(made(QueuesLocked, **lock, client_id="c1", queues=["t a/0", "t a/1"]))
    state.take(made(QueuesLocked, **lock, client_id="c2", queues=["t a/1"]))
    state.take(made(QueuesUnlocked, **lock, client_id="c1", queues=["t a/0", "t a/1", "t a/7"]))
    assert state.locks == {("a", "g", "t a/1"): "c2"}
    state.take(made(RoleStopped, role="c1", how="ended"))
    assert state.owned == {("g", "c2"): []}
    assert state.locks == {("a", "g", "t a/1"): "c2"}
    state.take(made(RoleStopped, role="a", how="ended"))
    assert state.locks == {}


def test_ends_of_queues_and_logs_and_what_is_committed() -> None:
    queue = {"topic": "t", "broker": "a", "queue": 3}
    state = ClusterState().take_all(
        [
            made(MessageStored, **queue, offset=7, physical_offset=1_000, size=100),
            made(MessageDispatched, **queue, offset=7, count=2, physical_end=1_200),
            made(StoreFlushed, broker="a", physical_from=900, physical_to=1_100),
            made(OffsetCommitted, **queue, group="g", offset=5),
        ]
    )
    assert state.log_ends == {"a": 1_100}
    assert state.ends == {("t", "a", 3): 9}
    assert state.flushed == {"a": 1_100}
    assert state.committed == {("g", ("t", "a", 3)): 5}
    state.take(made(RoleStopped, role="a", how="ended"))
    assert state.log_ends == {"a": 1_100}, "it is on the disk"


def test_a_member_that_leaves_costs_the_same_beside_many_groups() -> None:
    def leave_s(groups: int) -> float:
        state = ClusterState()
        state.take_all(joined("a", f"g{number}", "c") for number in range(groups))
        come, go = (
            joined("a", "g", "c"),
            made(MemberLeft, broker="a", group="g", client_id="c", how="closed"),
        )
        return least_s(lambda: state.take_all([come, go]), runs=5, steps=50)

    assert leave_s(10_000) < 10 * leave_s(10)

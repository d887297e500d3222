"""Replicas: what elections and sets come to, and what is told (D-20 to D-25)."""

from __future__ import annotations

import msgspec
import pytest

from pocketmq.controller import commands
from pocketmq.controller.election import Candidate
from pocketmq.controller.replicas import Outcome, Replicas
from pocketmq.protocol.bodies.controller import ElectMasterResponseBody, SyncStateSet
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.controller import (
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdResponseHeader,
    ElectMasterResponseHeader,
)


def state_of(*ids: int) -> Replicas:
    """Replicas `a` of cluster `c`; nobody was elected yet."""
    state = Replicas()
    for each in ids:
        done = state.apply(commands.ApplyId("c", "a", each, f"a-{each}:1;claim"))
        assert done == Outcome(
            header=ApplyBrokerIdResponseHeader(cluster_name="c", broker_name="a")
        )
    return state


def elect(
    state: Replicas,
    asked_by: int,
    *living: int,
    cluster: str = "c",
    is_designated: bool = False,
    allow_unclean: bool = False,
    expected_epoch: int | None = None,
) -> Outcome:
    candidates = [Candidate(each, 1, 100 + each) for each in living]
    return state.apply(
        commands.Elect(
            cluster, "a", asked_by, is_designated, candidates, allow_unclean, expected_epoch
        )
    )


def alter(
    state: Replicas,
    ids: list[int],
    *,
    by: int = 1,
    epoch: int = 1,
    set_epoch: int = 1,
    alive: tuple[int, ...] = (1, 2, 3),
) -> Outcome:
    return state.apply(commands.AlterSet("a", by, epoch, ids, set_epoch, list(alive)))


def what(state: Replicas) -> tuple[int | None, int, set[int], int]:
    """Master, its epoch, who is in sync, that set's epoch."""
    group = state.groups["a"]
    return group.master_id, group.master_epoch, group.in_sync, group.set_epoch


def header_of(outcome: Outcome) -> ElectMasterResponseHeader:
    assert isinstance(outcome.header, ElectMasterResponseHeader)
    return outcome.header


def test_the_life_of_a_group_as_the_module_tells_it() -> None:
    state = state_of(1, 2)
    assert list(state.with_master()) == []
    first = elect(state, 1, 1, 2)
    assert (first.code, first.remark, first.elected, first.why) == (0, None, "a", "first")
    assert what(state) == (1, 1, {1}, 1)
    body = first.body
    assert isinstance(body, ElectMasterResponseBody)
    assert body.sync_state_set == {1}
    assert body.broker_member_group is not None
    assert body.broker_member_group.cluster == "c"
    assert body.broker_member_group.broker_name == "a"
    assert body.broker_member_group.broker_addrs == {1: "a-1:1", 2: "a-2:1"}
    header = header_of(first)
    assert (header.master_broker_id, header.master_address) == (1, "a-1:1")
    assert (header.master_epoch, header.sync_state_set_epoch) == (1, 1)
    grown = alter(state, [1, 2])
    assert grown == Outcome(
        header=AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=2),
        body=SyncStateSet(sync_state_set={1, 2}, sync_state_set_epoch=2),
    )
    assert what(state) == (1, 1, {1, 2}, 2)
    lost = elect(state, -1, 2, expected_epoch=1)
    assert (lost.elected, lost.why) == ("a", "lost")
    assert what(state) == (2, 2, {2}, 3)
    nobody = elect(state, -1, 1)
    assert nobody.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert (nobody.remark, nobody.elected) == (
        "no living replica of a is in sync; in sync: [2]",
        "",
    )
    assert what(state) == (None, 3, {2}, 3)
    again = elect(state, -1, 1)
    assert again.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert what(state) == (None, 3, {2}, 3), "there was no master to lose"
    asked = elect(state, 1, 1)
    assert asked.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert what(state) == (None, 3, {2}, 3)
    back = elect(state, 2, 1, 2)
    assert (back.elected, back.why) == ("a", "asked")
    assert what(state) == (2, 4, {2}, 4)
    assert [name for name, _ in state.with_master()] == ["a"]


def test_the_first_election_is_won_by_whoever_asks_and_not_by_a_controller() -> None:  # D-25
    state = state_of(1, 2)
    assert elect(state, -1, 1, 2).code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert what(state) == (None, 0, set(), 0)
    assert elect(state, 2).elected == "a"
    assert what(state) == (2, 1, {2}, 1)


def test_a_master_that_lives_stays_and_an_order_moves_it() -> None:  # D-25, D-31, D-32
    state = state_of(1, 2, 3)
    elect(state, 1)
    alter(state, [1, 2])
    stays = elect(state, 2, 1, 2, 3)
    assert stays.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    assert (stays.remark, stays.elected) == ("replica 1 of a is and stays master", "")
    assert header_of(stays).master_broker_id == 1
    failed = elect(state, 3, 1, 2, 3, is_designated=True)
    assert failed.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    late = elect(state, -1, 2, expected_epoch=0)
    assert late.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    assert what(state) == (1, 1, {1, 2}, 2)
    moved = elect(state, 2, 1, 2, 3, is_designated=True)
    assert (moved.elected, moved.why) == ("a", "designated")
    assert what(state) == (2, 2, {2}, 3)
    assert elect(state, -1, 3, 9, allow_unclean=True).elected == "a"
    assert what(state) == (3, 3, {3}, 4)


def test_an_election_names_its_cluster_or_none() -> None:
    state = state_of(1)
    other = elect(state, 1, 1, cluster="d")
    assert other.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert "a belongs to cluster c, and the request names cluster d" in str(other.remark)
    assert elect(state, 1, 1, cluster="").elected == "a"


def test_a_stranger_that_lives_is_no_candidate() -> None:
    state = state_of(1)
    elect(state, 1)
    assert elect(state, -1, 9, allow_unclean=True).elected == ""
    assert what(state) == (None, 2, {1}, 1)


@pytest.mark.parametrize(
    ("ids", "given", "code", "remark"),
    [
        ([1], {}, "CONTROLLER_ALTER_SYNC_STATE_SET_FAILED", "that is the set already"),
        ([1, 2], {"by": 2}, "CONTROLLER_INVALID_MASTER", "master of a is 1, not 2"),
        ([1, 2], {"epoch": 2}, "CONTROLLER_FENCED_MASTER_EPOCH", "epoch is 1, not 2"),
        ([1, 2], {"set_epoch": 2}, "CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH", "is 1, not 2"),
        ([1, 7], {}, "CONTROLLER_INVALID_REPLICAS", "replica 7 is not registered"),
        ([1, 2], {"alive": (1,)}, "CONTROLLER_BROKER_NOT_ALIVE", "replica 2 sends no heartbeats"),
        ([2], {}, "CONTROLLER_ALTER_SYNC_STATE_SET_FAILED", "the master 1 must be in the set"),
    ],
)
def test_a_set_that_is_not_taken(
    ids: list[int], given: dict[str, int], code: str, remark: str
) -> None:  # D-24
    state = state_of(1, 2)
    elect(state, 1)
    refused = alter(state, ids, **given)  # type: ignore[arg-type]
    assert refused.code == ResponseCode[code]
    assert remark in str(refused.remark)
    assert what(state) == (1, 1, {1}, 1)


def test_without_a_master_nobody_changes_the_set() -> None:
    state = state_of(1, 2)
    elect(state, 1)
    elect(state, -1)
    refused = alter(state, [1, 2], epoch=2)
    assert refused.code == ResponseCode.CONTROLLER_INVALID_MASTER
    assert "master of a is None, not 1" in str(refused.remark)


def test_what_tools_are_shown() -> None:  # D-23
    state = state_of(1, 2, 3)
    assert state.info("b", ()) is None
    elect(state, 1)
    alter(state, [1, 3])
    info = state.info("a", {1, 2})
    assert info is not None
    assert (info.master_broker_id, info.master_address) == (1, "a-1:1")
    assert (info.master_epoch, info.sync_state_set_epoch) == (1, 2)
    assert info.in_sync_replicas is not None
    assert info.not_in_sync_replicas is not None
    shown = [
        (each.broker_id, each.broker_name, each.broker_address, each.alive)
        for each in [*info.in_sync_replicas, *info.not_in_sync_replicas]
    ]
    assert shown == [
        (1, "a", "a-1:1", True),
        (3, "a", "a-3:1", False),
        (2, "a", "a-2:1", True),
    ]
    elect(state, -1)
    info = state.info("a", ())
    assert info is not None
    assert (info.master_broker_id, info.master_address) == (None, None)


def test_the_state_is_the_same_after_a_snapshot() -> None:
    state, copy = state_of(1, 2), Replicas()
    elect(state, 1)
    copy.restore(state.snapshot())
    assert copy.groups == state.groups
    assert copy.snapshot() == state.snapshot()
    assert copy.next_id("a") == 3
    copy.restore("")
    assert copy.groups == {}
    with pytest.raises(msgspec.MsgspecError):
        copy.restore("[]")


def test_ids_begin_with_1_and_are_claimed_in_order() -> None:  # D-20, D-21
    state = Replicas()
    assert state.next_id("a") == 1
    refused = state.apply(commands.ApplyId("c", "a", 2, "a-2:1;x"))
    assert refused.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert "the first id is 1 and not 2" in str(refused.remark)
    assert state.groups == {}
    state = state_of(1, 2)
    taken = state.apply(commands.ApplyId("c", "a", 2, "a-9:1;other"))
    assert taken.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert "id 2 of a belongs to the broker at a-2:1" in str(taken.remark)
    assert state.next_id("a") == 3
    assert state.groups["a"].address_of(9) is None
    assert state.groups["a"].address_of(None) is None

"""A group keeps Raft's promises through a random life, and planted faults are noticed (I-14)."""

from __future__ import annotations

import pytest

from controller.raft_faults import RaftFault, planted, read_faults, violation_of
from support.raft_world import RaftWorld

FAULTS = read_faults()


@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_a_group_keeps_its_promises_whatever_fails(members: int) -> None:
    for seed in range(25):
        RaftWorld(1000 * members + seed, members=members).run()


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_seed_notices_the_fault_and_nothing_without_it(fault: RaftFault) -> None:
    with planted(fault) as world:
        violation = violation_of(world, fault.seed)
    assert fault.is_caught_by(violation), violation
    with planted(None) as world:
        assert violation_of(world, fault.seed) is None


def test_a_group_elects_within_three_time_outs_when_its_leader_dies() -> None:
    for seed in range(20):
        world = RaftWorld(seed)
        world.advance(5.0)
        [leader] = [each for each in world.members.values() if each.raft.is_leader]
        world.crash(leader.name)
        world.advance(3.2)
        assert any(
            each.raft is not None and each.raft.serves(world.clock(each))
            for each in world.members.values()
        ), seed


def test_a_member_cut_off_for_long_does_not_depose_the_leader_when_it_returns() -> None:
    for seed in range(20):
        world = RaftWorld(seed)
        world.advance(5.0)
        [leader] = [each for each in world.members.values() if each.raft.is_leader]
        other = next(name for name in world.members if name != leader.name)
        world.cut = {(each, other) for each in world.members}
        term = leader.raft.term
        world.advance(60.0)
        world.cut = set()
        world.advance(10.0)
        assert leader.raft.is_leader
        assert leader.raft.term == term


def test_a_leader_that_reaches_no_majority_serves_nobody_and_steps_down() -> None:
    world = RaftWorld(3)
    world.advance(5.0)
    [leader] = [each for each in world.members.values() if each.raft.is_leader]
    assert leader.raft.serves(world.clock(leader))
    names = set(world.members) - {leader.name}
    world.cut = {(leader.name, each) for each in names}
    world.advance(0.9)
    assert not leader.raft.serves(world.clock(leader))
    world.advance(1.0)
    assert not leader.raft.is_leader


def test_a_member_with_an_empty_disk_gets_the_state_as_a_snapshot() -> None:
    world = RaftWorld(4)
    world.advance(5.0)
    [leader] = [each for each in world.members.values() if each.raft.is_leader]
    for _ in range(40):
        world.propose(leader.name)
    world.advance(2.0)
    other = next(name for name in world.members if name != leader.name)
    world.crash(other)
    world.members[other].text = world.members[other].text.partition("\n")[0] + "\n"
    world.start(other)
    world.advance(3.0)
    assert world.members[other].raft.log.snapshot.index >= 35
    assert world.members[other].state == leader.state

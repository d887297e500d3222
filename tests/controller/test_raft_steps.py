"""Raft's exact moments and messages (I-14)."""

from __future__ import annotations

from random import Random

import pytest

from pocketmq.controller.errors import (
    ForeignLogError,
    NotLeadingError,
    RaftMessageError,
    TooManyProposalsError,
)
from pocketmq.controller.raft.core import Raft
from pocketmq.controller.raft.group import Group, Role
from pocketmq.controller.raft.messages import (
    Append,
    AppendReply,
    Entry,
    Install,
    Snapshot,
    Stored,
    VoteReply,
    VoteRequest,
)
from support.raft_member import leading, member, settle


def test_a_candidate_leads_with_the_writes_of_its_last_term_whatever_came_before() -> None:
    raft = member()
    raft.tick(3.0)
    raft.receive("b", VoteReply(1, True, True), 3.0)
    first = raft.take()
    raft.tick(6.0)
    raft.receive("b", VoteReply(2, True, True), 6.0)
    second = raft.take()
    assert first.write is not None
    assert second.write is not None
    assert (first.write.term, second.write.term, raft.role) == (1, 2, Role.CANDIDATE)
    raft.receive("b", VoteReply(2, True, False), 6.0)
    assert raft.role is Role.CANDIDATE, "its own vote is not on its disk"
    raft.stored(second.write.number)
    assert raft.is_leader
    assert raft.leader == "a"


def test_an_election_step_by_step() -> None:
    raft = member(Stored(4, "b", entries=[Entry(1, 2, "x"), Entry(2, 4, "y")]))
    assert 1.0 <= raft.next_deadline < 2.0
    raft.tick(raft.next_deadline - 0.01)
    assert raft.role is Role.FOLLOWER
    began_at = raft.next_deadline
    raft.tick(began_at)
    assert raft.role is Role.PRE_CANDIDATE
    assert began_at + 1.0 <= raft.next_deadline < began_at + 2.0
    ask = VoteRequest(5, 2, 4, True)
    assert settle(raft) == [("b", ask), ("c", ask)]
    assert (raft.term, raft.vote) == (4, "b"), "nothing is promised by asking"
    for other in (VoteReply(4, True, True), VoteReply(6, True, True), VoteReply(4, False, True)):
        raft.receive("b", other, began_at)
        assert raft.role is Role.PRE_CANDIDATE
    raft.receive("c", VoteReply(5, True, True), began_at)
    ask = VoteRequest(5, 2, 4, False)
    assert settle(raft) == [("b", ask), ("c", ask)]
    assert (raft.role, raft.term, raft.vote) == (Role.CANDIDATE, 5, "a")
    for other in (VoteReply(5, False, False), VoteReply(4, True, False), VoteReply(6, True, True)):
        raft.receive("b", other, began_at)
        assert (raft.role, raft.term) == (Role.CANDIDATE, 5)
    raft.receive("b", VoteReply(5, True, False), began_at)
    assert raft.role is Role.LEADER
    beat = Append(5, 2, 4, [Entry(3, 5, "")], 0, began_at)
    assert settle(raft) == [("b", beat), ("c", beat)]
    assert raft.next_deadline == began_at + 0.2
    raft.receive("c", VoteReply(5, True, False), began_at)
    assert settle(raft) == [], "it leads already"


def test_a_candidate_that_hears_a_higher_term_follows() -> None:
    raft = member()
    raft.tick(3.0)
    settle(raft)
    raft.receive("b", VoteReply(7, False, False), 3.0)
    assert (raft.role, raft.term, raft.vote, raft.leader) == (Role.FOLLOWER, 7, "", "")
    step = raft.take()
    assert step.write is not None
    assert (step.write.term, step.write.vote) == (7, "")
    assert 4.0 <= raft.next_deadline < 5.0


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        (VoteRequest(4, 2, 4, True), VoteReply(4, False, True)),  # not of a later term
        (VoteRequest(5, 2, 4, True), VoteReply(5, True, True)),
        (VoteRequest(5, 1, 4, True), VoteReply(4, False, True)),  # a shorter log
        (VoteRequest(5, 9, 3, True), VoteReply(4, False, True)),  # an older one
        (VoteRequest(5, 1, 5, True), VoteReply(5, True, True)),
        (VoteRequest(4, 2, 4, False), VoteReply(4, True, False)),  # its vote of this term again
        (VoteRequest(3, 2, 4, False), VoteReply(4, False, False)),
        (VoteRequest(5, 2, 4, False), VoteReply(5, True, False)),
        (VoteRequest(5, 1, 4, False), VoteReply(5, False, False)),
    ],
)
def test_who_gets_a_vote(asked: VoteRequest, reply: VoteReply) -> None:
    raft = member(Stored(4, "b", entries=[Entry(1, 2, "x"), Entry(2, 4, "y")]))
    raft.receive("b", asked, 1.0)
    assert settle(raft) == [("b", reply)]
    assert raft.term == (asked.term if not asked.is_pre_vote and asked.term > 4 else 4)
    is_voted = reply.is_granted and not reply.is_pre_vote
    assert (2.0 <= raft.next_deadline < 3.0) or not is_voted


def test_a_vote_is_on_the_disk_before_it_is_told() -> None:
    raft = member(Stored(4, ""))
    raft.receive("c", VoteRequest(4, 0, 0, False), 1.5)
    step = raft.take()
    assert step.write is not None
    assert (step.write.term, step.write.vote) == (4, "c")
    assert [each.message for each in step.messages] == [VoteReply(4, True, False)]


def test_another_gets_no_vote_of_the_same_term_and_a_leader_gives_none() -> None:
    raft = member(Stored(4, "b"))
    raft.receive("c", VoteRequest(4, 9, 4, False), 1.5)
    assert settle(raft) == [("c", VoteReply(4, False, False))]
    leader = leading()
    leader.receive("b", VoteRequest(9, 9, 9, False), 9.0)
    assert (settle(leader), leader.term) == ([], 1)


def answered(raft: Raft, sender: str, index: int, now: float, *, is_match: bool = True) -> None:
    raft.receive(sender, AppendReply(raft.term, is_match, index, now), now)


def test_what_a_leader_sends_and_when() -> None:
    raft = leading()
    assert not raft.serves(3.0), "its empty entry is not committed"
    assert (raft.is_idle, raft.next_deadline) == (False, 3.2)
    raft.propose("x", 3.05)
    assert settle(raft) == [], "both have an Append under way"
    answered(raft, "b", 1, 3.06)
    assert settle(raft) == [("b", Append(1, 1, 1, [Entry(2, 1, "x")], 1, 3.06))]
    answered(raft, "b", 2, 3.07)
    assert settle(raft) == [], "there is nothing more"
    assert (raft.commit_index, raft.is_idle, raft.serves(3.07)) == (2, True, True)
    entry = raft.propose("y", 3.08)
    assert entry == Entry(3, 1, "y")
    assert settle(raft) == [("b", Append(1, 2, 1, [entry], 2, 3.08))]
    raft.tick(3.19)
    assert settle(raft) == []
    raft.tick(3.2)
    first = Append(1, 0, 0, [Entry(1, 1, ""), Entry(2, 1, "x"), entry], 2, 3.2)
    assert settle(raft) == [("b", Append(1, 2, 1, [entry], 2, 3.2)), ("c", first)]
    assert raft.next_deadline == pytest.approx(3.4)


def test_a_leader_looks_for_what_it_has_in_common_with_a_follower() -> None:
    raft = leading(Stored(3, "", entries=[Entry(n, 3, "") for n in range(1, 6)]))
    answered(raft, "b", 9, 3.1, is_match=False)
    [(_, message)] = settle(raft)
    assert isinstance(message, Append)
    assert message.previous_index == 4, "one less at least"
    answered(raft, "b", 2, 3.1, is_match=False)
    [(_, message)] = settle(raft)
    assert isinstance(message, Append)
    assert (message.previous_index, len(message.entries)) == (2, 4)
    answered(raft, "b", 0, 3.1, is_match=False)
    answered(raft, "b", 0, 3.1, is_match=False)
    message = settle(raft)[-1][1]
    assert isinstance(message, Append)
    assert message.previous_index == 0
    answered(raft, "b", 99, 3.1)
    assert raft.commit_index == 0, "that was never appended"
    answered(raft, "b", 6, 3.1)
    assert raft.commit_index == 6
    answered(raft, "b", 2, 3.1)
    raft.propose("x", 3.1)
    sent = settle(raft)
    assert sent == [("b", Append(4, 6, 4, [Entry(7, 4, "x")], 6, 3.1))], "an old answer"
    old = AppendReply(3, True, 7, 3.1)
    raft.receive("b", old, 3.1)
    assert raft.commit_index == 6, "an answer of an earlier term"


def test_only_a_leader_that_knows_all_that_was_committed_serves() -> None:
    raft = leading(Stored(3, "", entries=[Entry(1, 3, "x")]))
    answered(raft, "b", 0, 3.1, is_match=False)
    assert not raft.serves(3.1), "a majority answers, but its first entry is not committed"
    answered(raft, "b", 2, 3.1)
    assert raft.serves(3.1)
    raft.receive("c", Append(5, 2, 4, [], 2, 3.2), 3.2)
    assert not raft.serves(3.2), "another leads"


def test_a_state_may_hold_all_that_is_committed() -> None:
    raft = leading()
    answered(raft, "b", 1, 3.1)
    raft.compact(1, "state")
    assert raft.log.snapshot == Snapshot(1, 1, "state")


def test_a_member_without_the_compacted_entries_gets_the_state() -> None:
    raft = leading(Stored(3, "", entries=[Entry(n, 3, "") for n in range(1, 6)]))
    answered(raft, "b", 6, 3.1)
    settle(raft)
    with pytest.raises(ValueError, match="entry 7 is not committed; the last committed entry is 6"):
        raft.compact(7, "state")
    raft.compact(5, "state")
    step = raft.take()
    assert step.write is not None
    assert (step.write.snapshot, step.write.entries) == (Snapshot(5, 3, "state"), [Entry(6, 4, "")])
    raft.compact(4, "older")
    raft.compact(5, "the same")
    assert raft.take().write is None
    answered(raft, "c", 2, 3.1, is_match=False)
    assert settle(raft) == [("c", Install(4, Snapshot(5, 3, "state"), 3.1))]
    answered(raft, "c", 5, 3.1)
    assert settle(raft) == [("c", Append(4, 5, 3, [Entry(6, 4, "")], 6, 3.1))]


def test_what_a_follower_answers() -> None:
    raft = member(Stored(2, "", entries=[Entry(1, 1, "x"), Entry(2, 2, "y")]))
    raft.receive("b", Append(1, 2, 2, [], 2, 7.0), 1.5)
    raft.receive("b", Install(1, Snapshot(9, 1, "s"), 7.5), 1.5)
    late = [AppendReply(2, False, 0, sent_at) for sent_at in (7.0, 7.5)]
    assert settle(raft) == [("b", reply) for reply in late]
    assert (raft.commit_index, raft.leader) == (0, "")
    raft.receive("b", Append(3, 2, 3, [], 2, 8.0), 1.6)
    assert settle(raft) == [("b", AppendReply(3, False, 1, 8.0))]
    assert (raft.commit_index, raft.leader, raft.term) == (0, "b", 3)
    assert 2.6 <= raft.next_deadline < 3.6
    raft.receive("b", Append(3, 1, 1, [Entry(2, 3, "z")], 2, 8.1), 1.7)
    step = raft.take()
    assert step.write is not None
    assert step.write.entries == [Entry(2, 3, "z")]
    assert step.applied == [Entry(1, 1, "x"), Entry(2, 3, "z")]
    assert [each.message for each in step.messages] == [AppendReply(3, True, 2, 8.1)]
    raft.receive("b", Install(3, Snapshot(9, 3, "s"), 8.2), 1.8)
    step = raft.take()
    assert step.write is not None
    assert (step.write.snapshot, step.write.entries) == (Snapshot(9, 3, "s"), [])
    assert (step.applied, raft.commit_index) == ([Snapshot(9, 3, "s")], 9)
    assert [each.message for each in step.messages] == [AppendReply(3, True, 9, 8.2)]
    raft.receive("b", Append(3, 4, 3, [Entry(n, 3, "") for n in range(5, 11)], 9, 8.3), 1.9)
    step = raft.take()
    assert step.write is not None
    assert step.write.entries == [Entry(10, 3, "")], "the others are in the snapshot"


def test_a_member_that_starts_tells_its_snapshot_first() -> None:
    raft = member(Stored(3, "", Snapshot(5, 2, "state"), [Entry(6, 3, "")]))
    assert (raft.commit_index, raft.take().applied) == (5, [Snapshot(5, 2, "state")])
    assert member().take().applied == []


def test_a_member_alone_leads_at_once() -> None:
    raft = Raft(Group("a", ("a",)), Stored(), Random(1), 5.0)
    assert raft.next_deadline == 5.0
    raft.tick(5.0)
    settle(raft)
    assert (raft.is_leader, raft.commit_index, raft.serves(9.0)) == (True, 1, True)
    raft.tick(99.0)
    assert raft.is_leader


def test_the_moments_at_which_a_leader_stops() -> None:
    group = Group("a", ("a", "b", "c"), heartbeat_s=0.25, election_s=1.25)
    raft = Raft(group, Stored(), Random(1), 0.0)
    raft.tick(3.0)
    raft.receive("b", VoteReply(1, True, True), 3.0)
    settle(raft)
    raft.receive("b", VoteReply(1, True, False), 3.0)
    settle(raft)
    raft.tick(4.25)
    assert raft.is_leader, "it began 1.25 s ago"
    answered(raft, "c", 1, 4.25)
    answered(raft, "c", 1, 3.5)
    assert raft.serves(5.0)
    assert not raft.serves(5.25), "0.8 * 1.25 s after the answer"
    raft.tick(5.5)
    assert raft.is_leader
    raft.tick(5.75)
    assert (raft.role, raft.leader) == (Role.FOLLOWER, "")
    assert 7.0 <= raft.next_deadline < 8.25
    with pytest.raises(NotLeadingError, match="none leads now"):
        raft.propose("x", 5.75)


def test_proposals_that_wait_for_a_majority_are_1024() -> None:  # D-52
    raft = leading()
    for number in range(1023):
        raft.propose(str(number), 3.1)
    with pytest.raises(TooManyProposalsError, match="1024 commands wait"):
        raft.propose("one more", 3.1)
    answered(raft, "b", 2, 3.1)
    settle(raft)
    raft.propose("there is room again", 3.1)


def test_the_bounds_of_terms_and_indices() -> None:
    raft = member(Stored(3, ""))
    with pytest.raises(RaftMessageError, match=r"the term must be from 0 to .*, but is -1"):
        raft.receive("b", VoteRequest(-1, 0, 0, False), 2.0)
    with pytest.raises(RaftMessageError, match=f"from 0 to {2**62}"):
        raft.receive("b", VoteRequest(2**62 + 1, 0, 0, False), 2.0)
    with pytest.raises(RaftMessageError, match="the message has entry 3 where entry 2 must be"):
        raft.receive("b", Append(3, 1, 1, [Entry(3, 3, "")], 0, 0.0), 2.0)
    with pytest.raises(RaftMessageError, match="whose members are a, b, c"):
        raft.receive("a", VoteRequest(4, 0, 0, False), 2.0)
    raft.receive("b", VoteRequest(2**62, 0, 0, False), 2.0)
    raft.receive("b", VoteReply(0, False, False), 2.0)
    assert raft.term == 2**62
    for ids in (("b", "c"), ("a", "a", "b")):
        with pytest.raises(ValueError, match=r"must all be different and include 'a', but are"):
            Group("a", ids)
    assert [Group("a", tuple("abcde"[:size])).majority for size in range(1, 6)] == [1, 2, 2, 3, 3]


def test_only_a_leader_of_this_term_or_a_later_one_can_contradict_what_is_committed() -> None:
    raft = member(Stored(4, "", entries=[Entry(1, 3, "x")]))
    raft.receive("b", Append(4, 1, 3, [], 1, 0.0), 1.5)
    settle(raft)
    raft.receive("c", Append(3, 0, 0, [Entry(1, 2, "old")], 1, 0.0), 1.6)
    assert settle(raft) == [("c", AppendReply(4, False, 0, 0.0))]
    with pytest.raises(ForeignLogError, match="another entry 1 than the one committed here"):
        raft.receive("b", Append(4, 0, 0, [Entry(1, 2, "y")], 1, 0.0), 1.6)


def test_who_asks_for_votes_knows_no_leader() -> None:
    raft = member()
    raft.receive("b", Append(1, 0, 0, [], 0, 0.0), 1.0)
    with pytest.raises(NotLeadingError, match="ask controller b"):
        raft.propose("x", 1.0)
    raft.tick(3.0)
    with pytest.raises(NotLeadingError, match="none leads now"):
        raft.propose("x", 3.0)


def test_a_candidate_stays_one_when_another_asks_in_its_term() -> None:
    raft = member()
    raft.tick(3.0)
    raft.receive("b", VoteReply(1, True, True), 3.0)
    settle(raft)
    raft.receive("c", VoteRequest(1, 0, 0, False), 3.0)
    assert settle(raft) == [("c", VoteReply(1, False, False))]
    assert raft.role is Role.CANDIDATE


def test_a_vote_is_kept_when_its_term_s_leader_is_heard() -> None:
    raft = member(Stored(1, "b"))
    raft.receive("b", Append(1, 0, 0, [], 0, 0.0), 1.0)
    settle(raft)
    assert raft.vote == "b"
    raft.receive("c", VoteRequest(1, 9, 1, False), 3.0)
    assert settle(raft) == [("c", VoteReply(1, False, False))]


def test_what_a_member_does_with_a_state_that_it_has() -> None:
    raft = member(Stored(3, "", Snapshot(5, 2, "state"), [Entry(6, 3, "")]))
    settle(raft)
    raft.receive("b", Install(3, Snapshot(5, 2, "state"), 0.5), 1.0)
    step = raft.take()
    assert (step.write, step.applied, raft.leader) == (None, [], "b")
    assert [each.message for each in step.messages] == [AppendReply(3, True, 5, 0.5)]
    assert 2.0 <= raft.next_deadline < 3.0
    raft.receive("c", VoteRequest(4, 9, 9, True), 1.9)
    assert settle(raft) == [], "it hears a leader"
    raft.receive("b", Append(3, 5, 9, [], 5, 0.6), 1.9)
    assert settle(raft) == [("b", AppendReply(3, False, 5, 0.6))], "another state"


def test_the_first_entry_of_all_is_not_counted_before_it_is_on_the_own_disk() -> None:
    raft = member()
    raft.tick(3.0)
    raft.receive("b", VoteReply(1, True, True), 3.0)
    settle(raft)
    raft.receive("b", VoteReply(1, True, False), 3.0)
    assert raft.is_leader
    answered(raft, "b", 1, 3.0)
    assert raft.commit_index == 0
    settle(raft)
    assert raft.commit_index == 1

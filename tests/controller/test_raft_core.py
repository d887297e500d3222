"""Raft's single steps, where a random life seldom leads (I-14)."""

from __future__ import annotations

from random import Random

import pytest

from pocketmq.controller.errors import (
    ForeignLogError,
    NotLeadingError,
    RaftMessageError,
)
from pocketmq.controller.raft import journal
from pocketmq.controller.raft.core import MOST_TERM
from pocketmq.controller.raft.messages import (
    Append,
    AppendReply,
    Entry,
    Install,
    Message,
    Snapshot,
    Stored,
    VoteReply,
    VoteRequest,
    Write,
)
from support.raft_member import leading, member, settle


def test_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    # figure 8 of Raft's paper: entry 1 of term 1 is on a and b, and may still be overwritten
    raft = leading(Stored(1, "a", entries=[Entry(1, 1, "x")]))
    raft.receive("b", AppendReply(raft.term, True, 1, 3.0), 3.0)
    assert raft.commit_index == 0
    raft.receive("b", AppendReply(raft.term, True, 2, 3.0), 3.0)
    assert raft.commit_index == 2


def test_a_leader_counts_itself_only_when_its_own_disk_has_the_entry() -> None:
    raft = leading()
    raft.propose("x", 3.1)
    raft.receive("b", AppendReply(raft.term, True, 2, 3.1), 3.1)
    assert raft.commit_index == 1
    settle(raft)
    assert raft.commit_index == 2


def test_a_vote_is_on_the_disk_before_its_answer_leaves() -> None:
    raft = member(now=0.0)
    raft.receive("b", VoteRequest(1, 0, 0, False), 1.5)
    step = raft.take()
    assert step.write is not None
    assert (step.write.term, step.write.vote) == (1, "b")
    assert step.messages[0].message == VoteReply(1, True, False)
    again = member(Stored(1, "b"), now=2.0)
    again.receive("c", VoteRequest(1, 0, 0, False), 3.5)
    assert again.take().messages[0].message == VoteReply(1, False, False)


def test_who_hears_a_leader_or_may_have_heard_one_before_a_restart_votes_for_nobody() -> None:
    raft = member()
    raft.receive("b", Append(1, 0, 0, [], 0, 0.0), 1.5)
    settle(raft)
    raft.receive("c", VoteRequest(2, 9, 1, False), 2.4)
    assert raft.take().messages == []
    raft.receive("c", VoteRequest(2, 9, 1, False), 2.6)
    assert settle(raft)[0][1] == VoteReply(2, True, False)
    fresh = member(Stored(1, ""), now=10.0)
    fresh.receive("c", VoteRequest(2, 9, 1, False), 10.9)
    assert fresh.take().messages == []


def test_a_follower_commits_no_further_than_what_it_has_in_common_with_its_leader() -> None:
    raft = member(Stored(1, "", entries=[Entry(1, 1, "x"), Entry(2, 1, "mine alone")]))
    raft.receive("b", Append(2, 1, 1, [], 2, 0.0), 1.5)
    assert raft.commit_index == 1


def test_a_leader_that_nobody_answers_stops_serving_and_then_leading() -> None:
    raft = leading()
    raft.receive("b", AppendReply(raft.term, True, 1, 3.0), 3.0)
    assert raft.serves(3.7)
    assert not raft.serves(3.9)
    raft.tick(4.1)
    assert not raft.is_leader
    with pytest.raises(NotLeadingError):
        raft.propose("x", 4.2)


def test_messages_that_no_member_sends_are_refused_and_change_nothing() -> None:
    raft = member(Stored(3, ""))
    wrong: list[tuple[str, Message]] = [
        ("z", Append(9, 0, 0, [], 0, 0.0)),
        ("b", VoteRequest(MOST_TERM + 1, 0, 0, False)),
        ("b", Append(9, 0, 0, [Entry(2, 9, "gap")], 0, 0.0)),
    ]
    for sender, message in wrong:
        with pytest.raises(RaftMessageError):
            raft.receive(sender, message, 2.0)
    assert raft.term == 3


def test_a_leader_with_another_history_never_overwrites_what_is_committed() -> None:
    raft = member()
    raft.receive("b", Append(1, 0, 0, [Entry(1, 1, "x")], 1, 0.0), 1.5)
    with pytest.raises(ForeignLogError, match="emptied or copied"):
        raft.receive("c", Append(5, 0, 0, [Entry(1, 5, "y")], 1, 0.0), 1.6)
    assert raft.log.entry(1).command == "x"


def test_an_older_snapshot_changes_nothing() -> None:
    raft = member()
    raft.receive("b", Install(1, Snapshot(5, 1, "new"), 0.0), 1.5)
    raft.receive("b", Install(1, Snapshot(3, 1, "old"), 0.0), 1.6)
    assert raft.log.snapshot == Snapshot(5, 1, "new")
    assert raft.take().applied == [Snapshot(5, 1, "new")]


def test_a_torn_last_line_is_cut_and_any_other_damage_refused() -> None:
    first = journal.line_of(Write(1, 1, "a", [Entry(1, 1, "")]))
    second = journal.line_of(Write(2, 1, "a", [Entry(2, 1, "x\nü")]))
    text = journal.header("g", "a") + first + second
    assert journal.parse(text, "g", "a") == (
        Stored(1, "a", entries=[Entry(1, 1, ""), Entry(2, 1, "x\nü")]),
        False,
    )
    for cut in range(1, len(second)):
        stored, is_torn = journal.parse(text[:-cut], "g", "a")
        assert is_torn
        assert stored.entries == [Entry(1, 1, "")]
    with pytest.raises(ValueError, match="line 2 is damaged"):
        journal.parse(text.replace('"term":1', '"term":2', 1), "g", "a")
    with pytest.raises(ValueError, match="another controller"):
        journal.parse(text, "g", "b")
    with pytest.raises(ValueError, match="lines are missing"):
        journal.parse(journal.header("g", "a") + second, "g", "a")


def test_writes_that_share_a_sync_leave_what_they_would_one_by_one() -> None:
    random = Random(7)
    for _ in range(200):
        writes: list[Write] = []
        last = 0
        for number in range(1, random.randrange(2, 7)):
            start = random.randrange(1, last + 2)
            entries = [
                Entry(start + at, number, f"{number}.{at}") for at in range(random.randrange(4))
            ]
            last = entries[-1].index if entries else last
            snapshot = Snapshot(start - 1, 1, "s") if random.random() < 0.2 else None
            if snapshot is not None:
                last = start - 1 + len(entries)
            writes.append(Write(number, number, "", entries, snapshot))
        head = journal.header("g", "a")
        one_by_one = head + "".join(journal.line_of(write) for write in writes)
        try:
            expected = journal.parse(one_by_one, "g", "a")
        except ValueError:
            continue  # no member writes such a sequence
        assert journal.parse(head + journal.line_of(journal.merged(writes)), "g", "a") == expected

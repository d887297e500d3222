"""What a leader knows of the others, in groups of five (I-14)."""

from __future__ import annotations

from pocketmq.controller.raft.leadership import NEVER, Leadership, Progress
from pocketmq.controller.raft.messages import Snapshot, Stored


def test_a_leader_begins_with_nothing_known() -> None:
    leading = Leadership(["b", "c"], first_index=7, since=3.0)
    assert (leading.first_index, leading.since, leading.beat_at) == (7, 3.0, NEVER)
    assert leading.progress == {
        "b": Progress(7, 0, False, NEVER),
        "c": Progress(7, 0, False, NEVER),
    }
    assert leading.match_index(2) == 0
    assert leading.answered_at(2, now=5.0) == NEVER


def test_what_a_majority_of_five_has_is_the_third_of_them() -> None:
    leading = Leadership(["b", "c", "d", "e"], first_index=7, since=3.0)
    leading.own_match = 20
    for member, index, answered_at in (("b", 11, 4.0), ("c", 12, 3.0), ("d", 9, 1.0)):
        leading.progress[member].match_index = index
        leading.progress[member].answered_at = answered_at
    assert leading.match_index(3) == 11
    assert [leading.answered_at(each, now=5.0) for each in (1, 2, 3, 4)] == [5.0, 4.0, 3.0, 1.0]
    leading.own_match = 10
    assert leading.match_index(3) == 10
    assert [leading.match_index(each) for each in (1, 2, 4, 5)] == [12, 11, 9, 0]


def test_an_empty_disk_holds_no_term_no_vote_and_nothing_else() -> None:
    assert Stored() == Stored(0, "", Snapshot(0, 0, ""), [])

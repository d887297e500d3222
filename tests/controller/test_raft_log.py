"""RaftLog and the journal's text, entry by entry (I-14)."""

from __future__ import annotations

import pytest

from pocketmq.controller.raft import journal
from pocketmq.controller.raft.log import MOST_CHARACTERS, MOST_ENTRIES, RaftLog
from pocketmq.controller.raft.messages import Entry, Snapshot, Stored, Write

NOTHING = Snapshot(3, 2, "state")


def log(*terms: int) -> RaftLog:
    """A log with entries 4, 5, ... of these terms behind a snapshot of 3."""
    return RaftLog(NOTHING, [Entry(n, term, f"c{n}") for n, term in enumerate(terms, 4)])


def shape(found: RaftLog) -> list[tuple[int, int]]:
    return [(entry.index, entry.term) for entry in found.tail(0)]


def test_entries_have_no_gap() -> None:
    with pytest.raises(ValueError, match="the log has entry 5 where entry 4 must be"):
        RaftLog(NOTHING, [Entry(5, 2, "")])


def test_entries_are_found_behind_the_snapshot() -> None:
    mine = log(2, 3)
    assert [mine.entry(index) for index in (4, 5)] == [Entry(4, 2, "c4"), Entry(5, 3, "c5")]
    assert [mine.term_at(index) for index in (2, 3, 4, 5, 6)] == [None, 2, 2, 3, None]


def test_a_message_holds_a_bounded_number_of_entries_and_characters() -> None:
    many = RaftLog(Snapshot(0, 0, ""), [Entry(n, 1, "") for n in range(1, MOST_ENTRIES + 3)])
    assert len(many.batch(1)) == MOST_ENTRIES
    half = "x" * (MOST_CHARACTERS // 2)
    texts = [half, half, "x", "", half]
    large = RaftLog(Snapshot(0, 0, ""), [Entry(n, 1, text) for n, text in enumerate(texts, 1)])
    assert [entry.index for entry in large.batch(1)] == [1, 2]
    assert [entry.index for entry in large.batch(2)] == [2, 3, 4]
    single = RaftLog(Snapshot(0, 0, ""), [Entry(1, 1, half * 3), Entry(2, 1, "")])
    assert [entry.index for entry in single.batch(1)] == [1]


def test_only_what_is_new_or_of_another_term_is_taken() -> None:
    mine = log(2, 2, 3)
    assert mine.merge([Entry(3, 2, ""), Entry(4, 2, ""), Entry(5, 2, "")]) == []
    assert shape(mine) == [(4, 2), (5, 2), (6, 3)]
    fresh = [Entry(5, 4, "a"), Entry(6, 4, "b")]
    assert mine.merge([Entry(2, 1, ""), Entry(3, 9, ""), Entry(4, 2, ""), *fresh]) == fresh
    assert shape(mine) == [(4, 2), (5, 4), (6, 4)]
    assert mine.merge([Entry(7, 4, "c")]) == [Entry(7, 4, "c")]
    assert mine.last_index == 7


@pytest.mark.parametrize(
    ("index", "retry"), [(9, 7), (8, 7), (7, 5), (6, 5), (5, 3), (4, 3), (3, 3)]
)
def test_a_leader_looks_before_the_term_that_does_not_fit(index: int, retry: int) -> None:
    assert log(2, 2, 3, 3).retry_from(index) == retry


def test_only_what_is_there_becomes_a_snapshot() -> None:
    mine = log(2, 3)
    for index in (2, 6):
        with pytest.raises(ValueError, match=f"no entry {index}; it has the entries 3 to 5"):
            mine.compact(index, "")
    mine.compact(3, "same")
    assert (mine.snapshot, shape(mine)) == (Snapshot(3, 2, "same"), [(4, 2), (5, 3)])
    mine.compact(4, "later")
    assert (mine.snapshot, shape(mine)) == (Snapshot(4, 2, "later"), [(5, 3)])


def test_entries_stay_behind_a_snapshot_that_they_continue() -> None:
    for snapshot, left in [
        (Snapshot(4, 2, "x"), [(5, 3)]),
        (Snapshot(4, 9, "x"), []),
        (Snapshot(8, 3, "x"), []),
    ]:
        mine = log(2, 3)
        mine.install(snapshot)
        assert (mine.snapshot, shape(mine)) == (snapshot, left)


# -- the journal ---------------------------------------------------------------------------------


def text_of(*writes: Write) -> str:
    return journal.header("g", "n0") + "".join(map(journal.line_of, writes))


WRITES = [
    Write(1, 1, "n0", [Entry(1, 1, "a"), Entry(2, 1, "b")], None),
    Write(2, 2, "n1", [Entry(2, 2, "c")], None),
    Write(3, 2, "n1", [], None),
]


def test_a_journal_says_what_was_written_last() -> None:
    stored, is_torn = journal.parse(text_of(*WRITES), "g", "n0")
    assert is_torn is False
    assert (stored.term, stored.vote) == (2, "n1")
    assert stored.entries == [Entry(1, 1, "a"), Entry(2, 2, "c")]


def test_only_the_last_line_may_be_torn() -> None:
    text = text_of(*WRITES)
    stored, is_torn = journal.parse(text[:-3], "g", "n0")
    assert (is_torn, stored.entries) == (True, [Entry(1, 1, "a"), Entry(2, 2, "c")])
    damaged = text[:-3] + "x\n"  # the line is whole, and its content is not
    stored, is_torn = journal.parse(damaged, "g", "n0")
    assert (is_torn, stored.term) == (True, 2)
    lines = text.split("\n")
    lines[2] = "0" + lines[2]
    with pytest.raises(ValueError, match="line 3 is damaged"):
        journal.parse("\n".join(lines), "g", "n0")
    with pytest.raises(ValueError, match="line 4 is damaged"):
        journal.parse(damaged + "torn", "g", "n0")


def test_missing_lines_are_named() -> None:
    gap = Write(2, 2, "n1", [Entry(4, 2, "c")], None)
    with pytest.raises(
        ValueError, match="line 3 begins with entry 4, but the lines before it end at entry 2"
    ):
        journal.parse(text_of(WRITES[0], gap), "g", "n0")
    after = Write(2, 2, "n1", [Entry(9, 2, "c")], Snapshot(8, 2, "s"))
    stored, _ = journal.parse(text_of(WRITES[0], after), "g", "n0")
    assert stored == Stored(2, "n1", Snapshot(8, 2, "s"), [Entry(9, 2, "c")])
    gap = Write(3, 2, "n1", [Entry(11, 2, "c")], None)
    with pytest.raises(
        ValueError, match="line 4 begins with entry 11, but the lines before it end at entry 9"
    ):
        journal.parse(text_of(WRITES[0], after, gap), "g", "n0")


def test_another_controller_s_journal_is_refused_with_its_first_line() -> None:
    with pytest.raises(
        ValueError, match="1 g n0', but must begin with 'pocketmq-controller 1 g n1': the"
    ):
        journal.parse(text_of(), "g", "n1")
    with pytest.raises(ValueError, match=f"begins with '{'x' * 100}', but"):
        journal.parse("x" * 200, "g", "n1")

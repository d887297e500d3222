"""What a controller's disk lacks (I-14)."""

from __future__ import annotations

from pocketmq.controller.raft.log import RaftLog
from pocketmq.controller.raft.messages import Entry, Snapshot, Write
from pocketmq.controller.raft.unwritten import Unwritten


def test_a_write_brings_the_disk_up_to_now_and_nothing_is_written_twice() -> None:
    log, unwritten = RaftLog(Snapshot(0, 0, ""), []), Unwritten()
    assert unwritten.take(0, "", log) is None
    for command in ("x", "y"):
        unwritten.append(log.append(1, command))
    assert unwritten.take(1, "a", log) == Write(1, 1, "a", [Entry(1, 1, "x"), Entry(2, 1, "y")])
    assert unwritten.take(1, "a", log) is None
    unwritten.change()
    assert unwritten.take(2, "b", log) == Write(2, 2, "b", [])
    assert unwritten.done(0) == []
    assert unwritten.done(1) == [(1, 2)]
    assert unwritten.done(9) == [(2, 2)]
    assert unwritten.done(9) == []


def test_entries_that_were_replaced_before_they_were_written_are_not_written() -> None:
    log, unwritten = RaftLog(Snapshot(0, 0, ""), []), Unwritten()
    for command in ("x", "y", "z"):
        unwritten.append(log.append(1, command))
    fresh = log.merge([Entry(2, 2, "other")])
    unwritten.overwrite(fresh)
    write = unwritten.take(2, "", log)
    assert write == Write(1, 2, "", [Entry(1, 1, "x"), Entry(2, 2, "other")])
    assert unwritten.done(1) == [(2, 2)]


def test_behind_a_new_snapshot_the_whole_log_is_written() -> None:
    log, unwritten = RaftLog(Snapshot(0, 0, ""), []), Unwritten()
    for command in ("x", "y"):
        unwritten.append(log.append(1, command))
    unwritten.take(1, "", log)
    log.compact(1, "state")
    unwritten.replace_all()
    snapshot = Snapshot(1, 1, "state")
    assert unwritten.take(1, "", log) == Write(2, 1, "", [Entry(2, 1, "y")], snapshot)
    unwritten.change()
    assert unwritten.take(1, "", log) == Write(3, 1, "", [])

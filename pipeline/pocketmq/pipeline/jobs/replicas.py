"""Two stores of one broker, master and slave, against each other.

A slave has its master's log byte for byte at the same log offsets, and makes its queues from it. So
both are the same up to where the shorter one ends; this module says where they are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from pocketmq.broker.store.config import ENTRY_SIZE, MIB
from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER_SIZE
from pocketmq.broker.store.tools.stopped_store import Problem, Row, StoppedQueue, StoppedStore
from pocketmq.broker.store.tools.verify_cursors import queue_problem
from pocketmq.pipeline.jobs.committed_offsets import committed_offsets
from pocketmq.protocol.stored.record_check import check_record

MOST_SHOWN: Final = 20
"""Records of two logs that differ, named one by one; after them only where the next one is."""

_CHUNK: Final = MIB


class Compared(NamedTuple):
    """What two replicas have in common and where they differ."""

    same_until: int
    """Log offset up to which both logs are the same."""
    problems: list[Problem]
    """With the file of the second store."""
    notes: list[str]


def compare(master: StoppedStore, slave: StoppedStore, ends: tuple[int, int]) -> Compared:
    """Compare the logs, the queues and the committed offsets of two replicas.

    Args:
        master: The first store.
        slave: The second store; its files are named.
        ends: Log offsets at which the records of both end (`Verified.log_end`).
    """
    problems: list[Problem] = []
    notes: list[str] = []
    # Retention removes files on each side independently.
    start = max(_start(master), _start(slave))
    end = min(ends)
    same_until = end
    for problem, at in _log_differences(master, slave, start, end):
        # Queue entries are compared only up to the first difference: later ones may rightly differ.
        same_until = min(same_until, at)
        problems.append(problem)
    if ends[1] < ends[0]:
        notes.append(f"{slave.root} ends {ends[0] - ends[1]} bytes before {master.root}")
    # A slave never has more than its master, unless the master has lost it.
    elif ends[1] > ends[0]:
        what = f"the log goes on for {ends[1] - ends[0]} bytes behind the end of {master.root}"
        problems.append(_at(slave.log, ends[0], what))
    problems += _queue_differences(master, slave, same_until)
    notes += _offset_notes(master, slave)
    return Compared(same_until, problems, notes)


def _start(store: StoppedStore) -> int:
    return store.log.files[0].start if store.log.files else 0


def _at(row: Row, offset: int, what: str) -> Problem:
    # After the last file there is no file to name, so the problem names that file's end.
    file = row.find(offset)
    if file is not None:
        return Problem(file.path, offset - file.start, what)
    last = row.files[-1] if row.files else None
    return Problem(last.path if last else row.directory, last.size if last else 0, what)


# -- logs -----------------------------------------------------------------------------------------


def _log_differences(
    master: StoppedStore, slave: StoppedStore, start: int, end: int
) -> Iterator[tuple[Problem, int]]:
    """Records that differ, with their log offsets, until records begin at different offsets."""
    shown = 0
    at = start
    while (at := _first_difference(master.log, slave.log, at, end)) < end:
        # A file may be missing in the middle, for example after a disk repair.
        ours, theirs = master.log.find(at), slave.log.find(at)
        if ours is None or theirs is None:
            lacking = slave if theirs is None else master
            yield _at(slave.log, at, f"{lacking.root} has no file with log offset {at}"), at
            return
        begin, size = _record_at(ours, at)
        what = _told_difference(ours, theirs, begin)
        if shown == MOST_SHOWN:
            what += "; more records may differ"
        yield _at(slave.log, begin, f"{what} (from byte {at - begin} of the record on)"), begin
        shown += 1
        # Without one common size nobody knows where the next record begins.
        if shown > MOST_SHOWN or size <= 0 or size != _size_at(theirs, begin):
            return
        at = begin + size


def _first_difference(ours: Row, theirs: Row, at: int, end: int) -> int:
    """Log offset of the first byte from `at` on that is not the same in both; else `end`."""
    while at < end:
        left, right = ours.find(at), theirs.find(at)
        if left is None or right is None:
            return at
        # Up to the end of a file on either side: the two may split their logs differently.
        stop = min(end, left.end, right.end, at + _CHUNK)
        one = bytes(left.view()[at - left.start : stop - left.start])
        other = bytes(right.view()[at - right.start : stop - right.start])
        if one != other:
            return at + _common(one, other)
        at = stop
    return end


def _common(one: bytes, other: bytes) -> int:
    """Length of the common beginning of two different strings."""
    low, high = 0, len(one)
    while high - low > 1:
        middle = (low + high) // 2
        # Bisected, as Python has no function for the first difference.
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _size_at(file: MappedFile, offset: int) -> int:
    position = offset - file.start
    return int.from_bytes(file.view()[position : position + 4], "big", signed=True)


def _record_at(file: MappedFile, offset: int) -> tuple[int, int]:
    """Log offset and size of the record that has this byte; size 0 if none is found."""
    at = file.start
    while at <= offset:
        size = _size_at(file, at)
        if size <= 0:
            return offset, 0
        if at + size > offset:
            return at, size
        at += size
    return offset, 0


def _told(file: MappedFile, offset: int) -> str:
    found = check_record(file.view(), offset - file.start)
    message = found.message
    if message is None:
        return found.reason or found.kind.name.lower()
    return (
        f"{message.topic} queue {message.queue_id} offset {message.queue_offset} "
        f"{message.msg_id} of {found.size} bytes"
    )


def _told_difference(ours: MappedFile, theirs: MappedFile, offset: int) -> str:
    one, other = _told(ours, offset), _told(theirs, offset)
    if one == other:
        return f"log offset {offset}: not the same as in {ours.path}; {one}"
    return f"log offset {offset}: {other}; in {ours.path}: {one}"


# -- queues ---------------------------------------------------------------------------------------


def _queue_differences(
    master: StoppedStore, slave: StoppedStore, same_until: int
) -> Iterator[Problem]:
    """The first entry of each queue that differs, for records in the common part of the logs."""
    start = max(_start(master), _start(slave))
    ours = {(queue.topic, queue.queue_id): queue for queue in master.queues}
    theirs = {(queue.topic, queue.queue_id): queue for queue in slave.queues}
    for name in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(name), theirs.get(name)
        # A missing queue matters only for records that both logs have.
        if left is None or right is None:
            has, lacks = (left or right), (slave if right is None else master)
            assert has is not None
            if _has_entries_in(has, start, same_until):
                path = os.path.join(slave.root, "consumequeue", name[0], str(name[1]))
                yield Problem(path, 0, f"{lacks.root} has no such queue, the other has")
            continue
        found = _first_entry_difference(left, right, start, same_until)
        if found is not None:
            number, one, other = found
            what = f"entry {number} is {other}, in {left.row.directory} it is {one}"
            yield queue_problem(right, number, what)


def _has_entries_in(queue: StoppedQueue, start: int, end: int) -> bool:
    return any(
        # could be better: a queue that begins before the common part and ends after it is not seen.
        start <= physical < end
        for number in (queue.first, queue.end - 1)
        if (entry := _entry(queue, number)) is not None
        for physical in (entry[0],)
    )


def _entry(queue: StoppedQueue, number: int) -> tuple[int, int, int] | None:
    if not queue.first <= number < queue.end:
        return None
    data = queue.row.read(number * ENTRY_SIZE, ENTRY_SIZE)
    return None if data is None else ENTRY.unpack(data)


def _first_entry_difference(
    ours: StoppedQueue, theirs: StoppedQueue, start: int, end: int
) -> tuple[int, object, object] | None:
    low, high = max(ours.first, theirs.first), max(ours.end, theirs.end)
    at = low
    while at < high:
        at = _first_difference(ours.row, theirs.row, at * ENTRY_SIZE, high * ENTRY_SIZE)
        at //= ENTRY_SIZE
        if at >= high:
            return None
        one, other = _entry(ours, at), _entry(theirs, at)
        # Fillers before the first message of a queue stand for no message.
        fillers = [each for each in (one, other) if each is not None and each[1] == FILLER_SIZE]
        places = [each[0] for each in (one, other) if each is not None]
        if places and not fillers and any(start <= place < end for place in places):
            return at, one, other
        if not places:
            return None
        at += 1
    return None


# -- committed offsets ----------------------------------------------------------------------------


def _offset_notes(master: StoppedStore, slave: StoppedStore) -> list[str]:
    """A slave copies its master's tables by a timer, so differences are no problems."""
    ours = {each[:3]: each.offset for each in committed_offsets(master)}
    theirs = {each[:3]: each.offset for each in committed_offsets(slave)}
    behind = sum(offset > theirs.get(name, -1) for name, offset in ours.items())
    ahead = sum(offset > ours.get(name, -1) for name, offset in theirs.items())
    notes = []
    if behind:
        notes.append(f"{slave.root}: {behind} committed offsets are behind those of the master")
    if ahead:
        notes.append(f"{slave.root}: {ahead} committed offsets are ahead of those of the master")
    return notes

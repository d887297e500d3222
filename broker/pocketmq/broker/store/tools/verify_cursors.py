"""Where verification stands in queues and index while it reads the log.

Both were written in the order of the log, so each is read once, from its beginning on, beside it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import Enum, unique

from pocketmq.broker.store.config import ENTRY_SIZE, SCHEDULE_TOPIC
from pocketmq.broker.store.index.index_file import ENTRY as INDEX_ENTRY
from pocketmq.broker.store.index.index_file import IndexFile
from pocketmq.broker.store.index.index_keys import tag_hash
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER_SIZE
from pocketmq.broker.store.tools.stopped_store import Problem, StoppedQueue, StoppedStore
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.stored.index_hash import key_hash
from pocketmq.protocol.stored.record_check import check_record

_NEVER = 1 << 63
"""Physical offset of no entry."""

_CHUNK_LOW, _CHUNK_HIGH = 16, 4096
"""Entries copied at once: 100,000 queues must not be 100,000 mappings."""
_MOST_TRIED = 64
_INT32_MAX = 2**31 - 1


@unique
class Outcome(Enum):
    """What a queue says about a record."""

    MATCHED = "matched"
    BEHIND = "behind"
    """The queue ends before it."""
    OLDER = "older"
    """The queue begins with a later record: its topic was deleted, and made again."""
    WRONG = "wrong"


class QueueCursor:
    """The entry of one queue that the next record of that queue must fit."""

    __slots__ = (
        "_chunk",
        "_first",
        "_queue",
        "_store",
        "entries",
        "is_schedule",
        "matched",
        "next",
    )

    def __init__(self, store: StoppedStore, queue: StoppedQueue) -> None:
        self.is_schedule = queue.topic == SCHEDULE_TOPIC
        self.matched = 0
        """Records that had the right entry."""
        self.next = -1
        """Number of the entry that comes next."""
        self.entries: Iterator[tuple[int, ...]] = iter(())
        """Entries from `next` on, a few."""
        self._chunk = _CHUNK_LOW
        self._first: int | None = None
        self._queue = queue
        self._store = store

    def seek(self, offset: int) -> None:
        """Let `entries` begin at entry `offset`; none come when it is not there."""
        self.entries = iter(())
        file = self._queue.row.find(offset * ENTRY_SIZE)
        if file is not None:
            position = offset * ENTRY_SIZE - file.start
            end = min(file.size, position + self._chunk * ENTRY_SIZE)
            self._chunk = min(_CHUNK_HIGH, 2 * self._chunk)
            chunk = bytes(file.view()[position : end - (end - position) % ENTRY_SIZE])
            self.entries = ENTRY.iter_unpack(chunk)

    def compare(
        self, offset: int, expected: tuple[int, int, int]
    ) -> tuple[Outcome, Problem | None]:
        """Compare entry `offset` with what its record wants there; go on with the one after it."""
        found = next(self.entries, None) if offset == self.next else None
        if found is None:
            # The cursor is somewhere else: find the entry again.
            self.seek(offset)
            found = next(self.entries, None)
        self.next = offset + 1
        if found == expected:
            self.matched += 1
            return Outcome.MATCHED, None
        # The record is older than the queue, whose topic was made again.
        if self._queue.first == 0 and expected[0] < self._first_physical():
            return Outcome.OLDER, None
        if offset >= self._queue.end:
            return Outcome.BEHIND, None
        what = "is missing" if found is None else f"is {_told(found)}"
        what = f"entry {offset} {what}, its record wants {_told(expected)}"
        return Outcome.WRONG, queue_problem(self._queue, offset, what)

    def _first_physical(self) -> int:
        """Log offset of the queue's first entry that is right; `_NEVER` when there is none."""
        if self._first is None:
            # The search reads the log, and the answer is the same for each of its records.
            self._first = _first_physical(self._store, self._queue, self._queue.end)
        return self._first


def _told(entry: Sequence[int]) -> str:
    return f"{entry[1]} bytes at {entry[0]} with tags code {entry[2]}"


def queue_problem(queue: StoppedQueue, offset: int, what: str) -> Problem:
    """A problem with entry `offset` of a queue."""
    file = queue.row.find(offset * ENTRY_SIZE)
    if file is None:
        return Problem(queue.row.directory, 0, what)
    return Problem(file.path, offset * ENTRY_SIZE - file.start, what)


def _first_physical(store: StoppedStore, queue: StoppedQueue, end: int) -> int:
    tried = 0
    low = store.log.files[0].start if store.log.files else 0
    for file in queue.row.files:
        view = file.view()
        physical: int
        for number, (physical, size, _) in enumerate(
            ENTRY.iter_unpack(view[: file.size // ENTRY_SIZE * ENTRY_SIZE]),
            file.start // ENTRY_SIZE,
        ):
            # Limit the search in a queue full of garbage.
            if number >= end or tried > _MOST_TRIED:
                return _NEVER
            if size == FILLER_SIZE or physical < low:
                continue
            tried += 1
            record = store.log.read(physical, size)
            message = None if record is None else check_record(record, 0, check_crc=False).message
            if (
                message is not None
                and message.commit_log_offset == physical
                and (message.topic, message.queue_id) == (queue.topic, queue.queue_id)
                and message.queue_offset == number
            ):
                return physical
    return _NEVER


class IndexCursor:
    """The index entry that the next record with a key must fit."""

    __slots__ = (
        "_file",
        "_files",
        "begin_ms",
        "entries",
        "hashed",
        "is_there",
        "matched",
        "number",
        "physical",
        "seconds",
    )

    def __init__(self, files: Sequence[IndexFile]) -> None:
        self._files = [file for file in files if file.next_entry > 1]
        self.is_there = bool(self._files)
        """Whether there is an index."""
        self.matched = 0
        """Entries that some record accounted for."""
        self.hashed = self.seconds = self.begin_ms = 0
        """Of the current entry, and the begin of its file."""
        self.physical = _NEVER
        """Record of the current entry; `_NEVER` behind the last."""
        self._file = -1
        self.number = 0
        """Of the current entry in its file."""
        self.entries: Iterator[tuple[int, ...]] = iter(())
        """Those after the current one in its file."""

    def seek(self, physical: int) -> None:
        """Go to the first entry for a record at or behind a log offset."""
        # Entries ascend by log offset over all files: bisect the files, then the entries.
        self._file = bisect_left(self._files, physical, key=lambda file: file.end_physical)
        if self._file < len(self._files):
            file = self._files[self._file]
            low, high = 1, file.next_entry
            view = file.entries(0)
            while low < high:
                middle = (low + high) // 2
                if INDEX_ENTRY.unpack_from(view, middle * INDEX_ENTRY.size)[1] < physical:
                    low = middle + 1
                else:
                    high = middle
            self._open(self._file, low)
        else:
            self._open(self._file, 1)

    def _open(self, file: int, number: int) -> None:
        self._file, self.number = file, number - 1
        self.entries = iter(())
        if file < len(self._files):
            self.begin_ms = self._files[file].begin_ms
            self.entries = INDEX_ENTRY.iter_unpack(self._files[file].entries(number))
        self.step()

    def step(self) -> None:
        """Go to the next entry."""
        entry = next(self.entries, None)
        if entry is not None:
            self.hashed, self.physical, self.seconds, _ = entry
            self.number += 1
        elif self._file + 1 < len(self._files):
            self._open(self._file + 1, 1)
        else:
            self.physical = _NEVER

    def compare(self, message: MessageExt, keys: Sequence[str]) -> tuple[list[Problem], bool]:
        """Compare a record's keys with the entries for it, and go on behind them.

        It may have one under its tag, and need not: the profile decides, and may have changed.

        Returns:
            What is wrong, and whether the index ends before this record.
        """
        physical = message.commit_log_offset
        while self.physical < physical:
            self.step()  # nobody accounts for it; `verify_index` says why
        wanted = {key_hash(message.topic, key) for key in keys}
        missing = set(wanted)
        if message.tags:
            wanted.add(tag_hash(message.topic, message.tags))
        problems = []
        while self.physical == physical:
            file = self._files[self._file]
            problem = self._misfit(message, wanted)
            if problem is None:
                self.matched += 1
                missing.discard(self.hashed)
            else:
                at = file.entry_at(self.number)
                problems.append(Problem(file.path, at, f"entry {self.number} {problem}"))
            self.step()
        # The index may have been started later, which is no fault.
        if not missing or physical < self._files[0].begin_physical:
            return problems, False
        # Behind the index's end: recovery would add it, so it is only counted.
        if all(file.end_physical < physical for file in self._files):
            return problems, True
        for hashed in missing:
            if any(file.holds(hashed, physical) for file in reversed(self._files)):
                self.matched += 1  # out of order, but whoever asks finds it
            else:
                path = self._files[min(self._file, len(self._files) - 1)].path
                what = f"no entry leads to a key of the record at log offset {physical}"
                problems.append(Problem(path, 0, what))
        return problems, False

    def _misfit(self, message: MessageExt, wanted: set[int]) -> str | None:
        if self.hashed not in wanted:
            return f"has hash {self.hashed}, which no key of the record at {self.physical} has"
        passed = max(0, (message.store_timestamp_ms - self.begin_ms) // 1000)
        # The first entry counts from the previous file's end, or not at all (S-47).
        if self.number > 1 and min(passed, _INT32_MAX) != self.seconds:
            return f"says {self.seconds} s, its record was stored after {passed} s"
        return None

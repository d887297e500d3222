"""`Unwritten`: what a member's disk lacks, and the writes that are under way to it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pocketmq.controller.raft.log import RaftLog
from pocketmq.controller.raft.messages import Entry, Write


class Unwritten:
    """Changes of term, vote and log since the last write."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._is_due = False
        self._replaces_all = False
        self._number = 0
        self._under_way: deque[tuple[int, int, int]] = deque()
        """Of each write: number, term, last index."""

    def change(self) -> None:
        """Term or vote have changed."""
        self._is_due = True

    def replace_all(self) -> None:
        """The log begins with another snapshot: all of it is written anew."""
        self._is_due = self._replaces_all = True

    def append(self, entry: Entry) -> None:
        """The log has got one more entry."""
        self._entries.append(entry)

    def overwrite(self, entries: Sequence[Entry]) -> None:
        """These follow in the log now, in place of any with their indexes and after."""
        first = entries[0].index
        self._entries = [entry for entry in self._entries if entry.index < first]
        self._entries += entries

    def take(self, term: int, vote: str, log: RaftLog) -> Write | None:
        """The write that brings the disk up to now; None if it lacks nothing."""
        if not self._is_due and not self._entries:
            return None
        self._number += 1
        # With a snapshot the whole log is written, otherwise only what is new.
        entries = log.tail(0) if self._replaces_all else self._entries
        snapshot = log.snapshot if self._replaces_all else None
        self._under_way.append((self._number, term, log.last_index))
        self._entries, self._is_due, self._replaces_all = [], False, False
        return Write(self._number, term, vote, entries, snapshot)

    def done(self, number: int) -> list[tuple[int, int]]:
        """All writes up to this number are on the disk: their terms and last indexes."""
        done = []
        while self._under_way and self._under_way[0][0] <= number:
            _, term, index = self._under_way.popleft()
            done.append((term, index))
        return done

"""`RaftLog`: the entries of one member behind its snapshot. Pure, and all in memory.

index      1   2   3 | 4   5   6   7
term       1   1   2 | 2   2   3   3
         in snapshot | entries
"""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.controller.raft.messages import MOST_ENTRIES, Entry, Snapshot

MOST_CHARACTERS = 256 * 1024
"""What one `Append` holds at most; a single longer entry travels alone."""


class RaftLog:
    """Entries with gapless indices, from the snapshot's on."""

    def __init__(self, snapshot: Snapshot, entries: Sequence[Entry]) -> None:
        self.snapshot = snapshot
        self._entries = list(entries)
        # A gap would put an entry in the place of another: the file is damaged.
        for index, entry in enumerate(self._entries, snapshot.index + 1):
            if entry.index != index:
                raise ValueError(f"the log has entry {entry.index} where entry {index} must be")

    @property
    def last_index(self) -> int:
        """Index of the last entry; 0 when there never was one."""
        return self.snapshot.index + len(self._entries)

    @property
    def last_term(self) -> int:
        """Its term."""
        return self._entries[-1].term if self._entries else self.snapshot.term

    def term_at(self, index: int) -> int | None:
        """The term of an entry; None when it is in the snapshot, or not there yet."""
        if index == self.snapshot.index:
            return self.snapshot.term
        at = index - self.snapshot.index - 1
        return self._entries[at].term if 0 <= at < len(self._entries) else None

    def entry(self, index: int) -> Entry:
        """The entry at an index behind the snapshot."""
        return self._entries[index - self.snapshot.index - 1]

    def tail(self, first: int) -> list[Entry]:
        """Everything from an index on."""
        return self._entries[max(0, first - self.snapshot.index - 1) :]

    def batch(self, first: int) -> list[Entry]:
        """As many entries from an index on as one message may hold."""
        chosen: list[Entry] = []
        characters = 0
        for entry in self.tail(first)[:MOST_ENTRIES]:
            characters += len(entry.command)
            if chosen and characters > MOST_CHARACTERS:
                break
            chosen.append(entry)
        return chosen

    def is_covered_by(self, last_index: int, last_term: int) -> bool:
        """Whether a log with this end holds at least what this one does."""
        # The term counts before the length: a longer log of an older term is not newer.
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def append(self, term: int, command: str) -> Entry:
        """A new entry at the end."""
        entry = Entry(self.last_index + 1, term, command)
        self._entries.append(entry)
        return entry

    def merge(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take a leader's entries, whose predecessor is here; those that are new here.

        Entries that are here already stay. At the first that has another term, it and everything
        behind it is replaced.
        """
        for at, entry in enumerate(entries):
            if entry.index <= self.snapshot.index:
                continue
            if self.term_at(entry.index) != entry.term:
                fresh = list(entries[at:])
                del self._entries[entry.index - self.snapshot.index - 1 :]
                self._entries += fresh
                return fresh
        return []

    def retry_from(self, index: int) -> int:
        """Where a leader should look for a common entry, when that at `index` is none.

        That is the end of this log, or what lies before all entries of the term found there.
        """
        if index > self.last_index:
            return self.last_index
        term = self.term_at(index)
        # Skip all entries of that term: the leader would otherwise ask for each of them.
        while index > self.snapshot.index and self.term_at(index) == term:
            index -= 1
        return index

    def compact(self, index: int, state: str) -> None:
        """Replace everything up to `index` by the state after it."""
        term = self.term_at(index)
        if term is None or index < self.snapshot.index:
            raise ValueError(
                f"the log has no entry {index}; it has the entries {self.snapshot.index} to "
                f"{self.last_index}"
            )
        rest = self.tail(index + 1)
        self.snapshot, self._entries = Snapshot(index, term, state), rest

    def install(self, snapshot: Snapshot) -> None:
        """Take a leader's snapshot; entries behind it stay if they continue it."""
        rest = self.tail(snapshot.index + 1) if self._continues(snapshot) else []
        self.snapshot, self._entries = snapshot, rest

    def _continues(self, snapshot: Snapshot) -> bool:
        return self.term_at(snapshot.index) == snapshot.term

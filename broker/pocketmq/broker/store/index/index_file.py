"""A hash table in a file: from a message's key to the records that carry it (S-45 to S-48).

    index/20240102030405678                  named by the local time at which it was made

    +--------+------------------+----------------------------------------------+
    | header | 5,000,000 slots  | entry 0 (never used), entry 1, ...           |
    +--------+------------------+----------------------------------------------+
    0        40                 20 MB                   20,000,000 entries, 420 MB

    slot: number of the newest entry whose hash falls into it; 0 for none

Entries of one slot form a chain from new to old. Only the hash of a key is kept, so whoever asks
compares the real key in the record.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pocketmq.broker.store.config import KIB, MIB
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.disk_worker import Job
from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.protocol.store_layout import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT

HEADER = INDEX_HEADER.struct
SLOT_SIZE = INDEX_SLOT.struct.size
ENTRY = INDEX_ENTRY.struct

_INT32_MAX = 2**31 - 1
_INT32 = INDEX_SLOT.struct
_SWAPS = sys.byteorder == "little"
"""Whether integers of this machine have to be turned round: the file's are big endian."""
_WINDOW_LOW = 64 * KIB
_WINDOW_HIGH = MIB


def index_file_size(slots: int, entries: int) -> int:
    """Bytes of an index file; 420,000,040 with RocketMQ's numbers."""
    return HEADER.size + slots * SLOT_SIZE + entries * ENTRY.size


@dataclass(slots=True)
class Walk:
    """How much of the index one search may look at: keys can be chosen to share a slot."""

    entries_left: int = 50_000
    """About 40 ms."""


class IndexFile:
    """One file of the index. `save_header` after puts: entries it does not count do not exist."""

    def __init__(self, disk: Disk, path: str, slots: int, entries: int) -> None:
        self.path = path
        self.slots = slots
        self.max_entries = entries
        self.begin_ms = self.end_ms = 0
        """Store times of the first and last message in it."""
        self.begin_physical = self.end_physical = 0
        """Log offsets of the first and last message in it."""
        self.used_slots = 0
        self.next_entry = 1
        """Number of the entry to be written next; entry 0 is never used."""
        self.room_until = 0
        """Entries with lower numbers have their blocks, and can be put."""
        self._file = MappedFile(disk, path, 0, index_file_size(slots, entries))
        self._entries_at = HEADER.size + slots * SLOT_SIZE

    def create(self) -> None:
        """Make the file; header and slots get their blocks now, as they are hit at random.

        Raises:
            DiskFullError: there is no space for them; no file remains.
        """
        # Allocate all slots: a put hits them at random, and a hole on a full disk would raise
        # SIGBUS.
        file = self._file
        file.disk.create_file(self.path, file.size)
        try:
            file.reserve(self._entries_at, low=_WINDOW_LOW, high=_WINDOW_LOW)
        except BaseException:
            # Without its blocks, the next start would use the file as it is.
            file.remove()
            raise

    def load(self) -> None:
        """Read the header of an existing file."""
        (
            self.begin_ms,
            self.end_ms,
            self.begin_physical,
            self.end_physical,
            self.used_slots,
            next_entry,
        ) = HEADER.unpack_from(self._file.view())
        # The file may be damaged, and this number limits loops.
        self.next_entry = max(1, min(next_entry, self.max_entries))
        # Which blocks exist is not known: reserve anew from the last entry's page on.
        self._file.wrote = self._entries_at + self.next_entry * ENTRY.size

    @property
    def is_full(self) -> bool:
        """Whether there is room for no more entries (S-45)."""
        return self.next_entry >= self.max_entries

    @property
    def directory(self) -> str:
        """Where it lies."""
        return os.path.dirname(self.path)

    @property
    def size(self) -> int:
        """Length of the file in bytes."""
        return self._file.size

    def reserve(self, count: int) -> None:
        """Make sure that `count` more entries can be written, or all that the file takes.

        Raises:
            DiskFullError: they cannot.
        """
        end = min(self.size, self._entries_at + (self.next_entry + count) * ENTRY.size)
        if end > self._file.reserved:
            self._file.reserve(end, low=_WINDOW_LOW, high=_WINDOW_HIGH)
            # Reserving is rare, so do not keep a descriptor.
            self._file.release()
        reserved = (self._file.reserved - self._entries_at) // ENTRY.size
        # Reserved pages may end within an entry, which does not count.
        self.room_until = min(self.max_entries, reserved)

    def put(
        self, hashes: Sequence[int], physical_offsets: Sequence[int], times_ms: Sequence[int]
    ) -> None:
        """Add an entry for each hash; there is room for all below `room_until`.

        The slots are written last: a process killed in between leaves every chain whole.

        Args:
            hashes: of keys, one at least.
            physical_offsets: of the messages that have them.
            times_ms: store times of these.
        """
        view = self._file.writable_view()
        count, first, slot_count = len(hashes), self.next_entry, self.slots
        slots = [hashed % slot_count for hashed in hashes]
        # Read slots as machine integers, swapped together, which is faster than a struct call for
        # each.
        cells = view[HEADER.size : self._entries_at].cast("I")
        words = array("I", [cells[slot] for slot in slots])
        if _SWAPS:
            words.byteswap()
        older = words.tolist()
        # After a crash, a slot may lead to an entry that the header does not count: find the older
        # one.
        if max(older) >= first:  # also of a negative one
            older = [self._newest(view, HEADER.size + slot * SLOT_SIZE) for slot in slots]
        if len(set(slots)) < count:  # some follow others of this call
            newest: dict[int, int] = {}
            # Entries of this call are not in the file yet, so link them here.
            for at, slot in enumerate(slots):
                older[at] = newest.get(slot, older[at])
                newest[slot] = first + at
        # Count before the slots are written: 0 marks an unused slot.
        self.used_slots += older.count(0)
        seconds = self._seconds_of(times_ms, physical_offsets[0])
        entries = INDEX_ENTRY.pack_columns(hashes, physical_offsets, seconds, older)
        # Entries before slots, so that a slot never leads to a missing entry.
        view[self.entry_at(first) : self.entry_at(first + count)] = entries
        numbers = array("I", range(first, first + count))
        if _SWAPS:
            numbers.byteswap()
        for slot, number in zip(slots, numbers, strict=True):
            cells[slot] = number
        self.next_entry = first + count
        self.end_physical, self.end_ms = physical_offsets[-1], times_ms[-1]

    def _seconds_of(self, times_ms: Sequence[int], physical_offset: int) -> list[int]:
        """`_seconds` of each entry to be put; the first one of a file says when that begins.

        Args:
            times_ms: store times of their messages.
            physical_offset: of the first message.
        """
        # Like RocketMQ, count a file's first entry from the end of the file before (S-47).
        before = self._seconds(times_ms[0])
        is_first = self.next_entry <= 1
        if is_first:
            self.begin_physical, self.begin_ms = physical_offset, times_ms[0]
        least = self._seconds(min(times_ms))
        # Usually all are of the same second.
        if self._seconds(max(times_ms)) == least:
            seconds = [least] * len(times_ms)
        else:
            seconds = list(map(self._seconds, times_ms))
        if is_first:
            seconds[0] = before
        return seconds

    def _seconds(self, store_ms: int) -> int:
        """A store time as entries hold it, counted from the file's first message (S-47)."""
        # The file is empty: its first message counts 0.
        if self.begin_ms <= 0:
            return 0
        # Limited as in RocketMQ, in case the clock was set back or far ahead.
        return min(max((store_ms - self.begin_ms) // 1000, 0), _INT32_MAX)

    def _newest(self, view: memoryview, slot_at: int) -> int:
        """Number of a slot's newest entry, 0 for none.

        A crash may have left a slot pointing to an entry that the header does not count yet; what
        that one replaced is still found behind it.
        """
        (number,) = _INT32.unpack_from(view, slot_at)
        while number >= self.next_entry:
            # The slot is damaged.
            if number >= self.max_entries:
                return 0
            older = ENTRY.unpack_from(view, self._entries_at + number * ENTRY.size)[3]
            # A chain must descend, or a damaged file could loop for ever.
            if older >= number:
                return 0
            number = older
        return max(0, int(number))

    def cut(self, log_end: int) -> None:
        """Take back the entries of messages at or behind `log_end`; the first message stays.

        Slots get their older entries back before the header counts fewer: a process killed in
        between leaves what a second call takes back.
        """
        view = self._file.writable_view()
        # Entries ascend by log offset.
        first = bisect_left(range(self.next_entry), log_end, lo=1, key=self._physical_offset)
        # From the newest back, so that each slot gets the entry before.
        for number in range(self.next_entry - 1, first - 1, -1):
            hashed, _, _, older = ENTRY.unpack_from(view, self.entry_at(number))
            _INT32.pack_into(view, self.slot_at(hashed % self.slots), older)
            self.used_slots -= older == 0
        self.next_entry = self.room_until = first
        # After a restart blocks are reserved from there on, and not behind what is gone.
        self._file.wrote = min(self._file.wrote, self.entry_at(first))
        _, self.end_physical, seconds, _ = ENTRY.unpack_from(view, self.entry_at(first - 1))
        if first == 2:  # its seconds count from the end of the file before
            seconds = 0
        # An entry has whole seconds; its message may have come at the end of its second.
        self.end_ms = min(self.end_ms, self.begin_ms + seconds * 1000 + 999)
        self.save_header()

    def _physical_offset(self, number: int) -> int:
        return int(ENTRY.unpack_from(self._file.view(), self.entry_at(number))[1])

    def save_header(self) -> None:
        """Make the entries put so far part of the file."""
        HEADER.pack_into(
            self._file.writable_view(),
            0,
            self.begin_ms,
            self.end_ms,
            self.begin_physical,
            self.end_physical,
            self.used_slots,
            self.next_entry,
        )

    def find(
        self, hashed: int, begin_ms: int, end_ms: int, walk: Walk | None = None
    ) -> Iterator[int]:
        """Physical offsets of entries with this hash and a time in between, newest first (S-48)."""
        walk = Walk() if walk is None else walk
        view = self._file.view()
        number = self._newest(view, HEADER.size + hashed % self.slots * SLOT_SIZE)
        # Keys can be chosen to share one slot, so limit the search.
        while number > 0 and walk.entries_left > 0:
            walk.entries_left -= 1
            at = self._entries_at + number * ENTRY.size
            found, physical_offset, seconds, older = ENTRY.unpack_from(view, at)
            # Negative seconds are damage, or an entry that was never written.
            if seconds < 0:
                return
            time_ms = self.begin_ms + seconds * 1000
            if found == hashed and begin_ms <= time_ms <= end_ms:
                yield physical_offset
            # Times descend along the chain, so older entries cannot match.
            if older >= number or time_ms < begin_ms:
                return
            number = older

    def holds(self, hashed: int, physical_offset: int) -> bool:
        """Whether the slot's newest entries include this one; older messages are not looked at."""
        view = self._file.view()
        number = self._newest(view, HEADER.size + hashed % self.slots * SLOT_SIZE)
        while number > 0:
            at = self._entries_at + number * ENTRY.size
            found, offset, _, older = ENTRY.unpack_from(view, at)
            # Chains descend by log offset, so the entry cannot follow.
            if offset < physical_offset:
                return False
            if found == hashed and offset == physical_offset:
                return True
            number = older if older < number else 0
        return False

    def entries(self, first: int) -> memoryview:
        """The packed entries from number `first` to the newest."""
        at, end = (self._entries_at + number * ENTRY.size for number in (first, self.next_entry))
        return self._file.view()[at : max(at, end)]

    def entry_at(self, number: int) -> int:
        """Position of an entry in the file."""
        return self._entries_at + number * ENTRY.size

    def slot_at(self, slot: int) -> int:
        """Position of a slot in the file."""
        return HEADER.size + slot * SLOT_SIZE

    def newest(self, hashed: int) -> int:
        """Number of the newest entry in this hash's slot, 0 for none."""
        return self._newest(self._file.view(), HEADER.size + hashed % self.slots * SLOT_SIZE)

    def slot_numbers(self) -> memoryview:
        """All slots as they stand: int32 each, big endian."""
        return self._file.view()[HEADER.size : self._entries_at]

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Whether it has messages of the time between."""
        return self.begin_ms <= end_ms and begin_ms <= self.end_ms

    def remove(self) -> None:
        """Delete the file."""
        self._file.remove()

    def take_out(self) -> Job:
        """Let go of the file; the result deletes it, which is slow."""
        return self._file.take_out()

    def close(self) -> None:
        """Let go of the mapping."""
        self._file.release()
        self._file.unmap()

"""Verifies the index by columns: its chains, and its entries against the log's records."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pocketmq.broker.store.index.index_file import IndexFile
from pocketmq.pipeline.columns.fixed_fields import INDEX_ENTRY, Ints
from pocketmq.pipeline.verify_shapes import INT32_MAX, Mask

UNUSUAL: Final = -2
"""Instead of a hash: the record must be checked by the broker's loop."""


def index_is_right(file: IndexFile) -> bool:
    """Whether chains, slots and header of an index file fit its entries.

    Takes 20 to 60 ns per entry; `index_file_problems`, which reports problems, 8 to 22 times that.

    An entry refers to the next older one of its slot, or to none. If each entry refers to an
    older one of the same slot, no entry is referred to twice, and each slot has one entry that
    none refers to, then the entries of a slot form one chain from the newest to the oldest.
    """
    entries = np.frombuffer(file.entries(1), INDEX_ENTRY)
    if not len(entries):
        return False
    places, hashes = entries["offset"].astype(np.int64), entries["hash"].astype(np.int32)
    if np.min(hashes) < 0 or np.min(entries["seconds"]) < 0 or (places[1:] < places[:-1]).any():
        return False
    if (places[0], places[-1]) != (file.begin_physical, file.end_physical):
        return False
    slots = hashes % np.int32(file.slots)
    older = entries["older"].astype(np.int32)
    rows = np.flatnonzero(older)
    named = older[rows] - 1
    if (named < 0).any() or (named >= rows).any() or (slots[named] != slots[rows]).any():
        return False
    is_newest = np.ones(len(entries), np.bool_)
    is_newest[named] = False
    newest = np.flatnonzero(is_newest)
    if len(newest) != len(entries) - len(rows):  # some are referred to twice
        return False
    said = np.frombuffer(file.slot_numbers(), ">i4")
    if (said[slots[newest]] != newest + 1).any():
        return False
    return int(np.count_nonzero(said.view(np.int32))) == len(newest)


class IndexEntries:
    """The entries of all index files; call `fits` with ascending records if `is_in_order`."""

    def __init__(self, files: Sequence[IndexFile]) -> None:
        self._files = [file for file in files if file.next_entry > 1]
        self.is_there = bool(self._files)

    @cached_property
    def is_in_order(self) -> bool:
        """Whether entries can be found by bisection, as in the broker's loop."""
        last = 0
        for file in self._files:
            places = np.frombuffer(file.entries(1), INDEX_ENTRY)["offset"].astype(np.int64)
            if places[0] < last or (places[1:] < places[:-1]).any():
                return False
            if (places[0], places[-1]) != (file.begin_physical, file.end_physical):
                return False
            last = file.end_physical
        return True

    def fits(self, offsets: Ints, stored_ms: Ints, hashes: Sequence[Ints]) -> tuple[Mask, Ints]:
        """Which records have exactly the index entries of their keys, and how many each has.

        Args:
            offsets: Log offsets of the records, ascending.
            stored_ms: Their store times.
            hashes: Hashes of their first keys, of their second keys, ..., and of their tags: a
                record need not have an entry under its tag, the profile decides.
        """
        expected = np.zeros(len(offsets), np.int64)
        fits = np.ones(len(offsets), np.bool_)
        if not len(offsets):
            return fits, expected
        found, base_ms = self._entries(int(offsets[0]), int(offsets[-1]) + 1)
        places = found["offset"].astype(np.int64)
        first: Ints
        count: Ints = np.zeros(len(offsets), np.int64)
        *of_keys, of_tags = hashes
        for column in of_keys:
            count += column >= 0
        if len(places) != count.sum():
            count += of_tags >= 0
        if len(places) == count.sum() and (places == np.repeat(offsets, count)).all():
            first = np.cumsum(count) - count  # each has as many as it has keys, nearly always
        else:
            first = np.searchsorted(places, offsets)
            count = np.searchsorted(places, offsets, "right") - first
        for column in hashes:
            has_key = column >= 0
            if column is of_tags:
                has_key &= expected < count
            else:
                fits &= column != UNUSUAL
                fits[has_key & (expected >= count)] = False
            rows = np.flatnonzero(has_key & (expected < count))
            at = first[rows] + expected[rows]
            passed = (stored_ms[rows] - base_ms[at]) // 1000
            fits[rows] &= found["hash"][at] == column[rows]
            fits[rows] &= np.clip(passed, 0, INT32_MAX) == found["seconds"][at]
            expected += has_key
        fits &= expected == count
        return fits, expected

    def _entries(self, start: int, end: int) -> tuple[npt.NDArray[Any], Ints]:
        """Entries of records between two log offsets, and the begin time in ms of their files."""
        parts = [(entries, file.begin_ms) for file, entries in self._parts(start, end)]
        if not parts:
            return np.empty(0, INDEX_ENTRY), np.empty(0, np.int64)
        entries = np.concatenate([part for part, _ in parts])
        return entries, np.repeat([ms for _, ms in parts], [len(part) for part, _ in parts])

    def _parts(self, start: int, end: int) -> Iterator[tuple[IndexFile, npt.NDArray[Any]]]:
        for file in self._files:
            if file.end_physical < start or file.begin_physical >= end:
                continue
            entries = np.frombuffer(file.entries(1), INDEX_ENTRY)
            low, high = between(entries["offset"], start, end)
            yield file, entries[low:high]


def between(column: npt.NDArray[Any], start: int, end: int) -> tuple[int, int]:
    """The index range in which ascending values are >= `start` and < `end`.

    By bisection in Python: `searchsorted` would first copy a big-endian column.
    """
    low = bisect_left(range(len(column)), start, key=column.__getitem__)
    return low, bisect_left(range(len(column)), end, low, key=column.__getitem__)

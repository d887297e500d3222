"""`pocketmq store verify` by columns: confirms with NumPy, quickly, the parts that are right.

Thousands of records at a time are compared with their queue entries and index entries. Whatever is
unusual or wrong is left to the broker's own loop, which goes record by record and reports problems
(`pocketmq.broker.store.tools.verify_log`). This module reports none: it only returns the sections
in which everything is certainly right.

    queue entries --> positions --> heads --> compared with queues
        tails --> a shape (verify_shapes.py), or properties (verify_properties.py) --> keys, tag
        keys --> compared with the index (verify_index.py) --> CRCs

A record of 1 KiB takes about 1.3 us, two thirds of it for the CRC. This speed is why the check
exists twice: the broker's loop takes 2.0 to 3.7 times as long, and 10 to 16 times where messages
have keys of their own (logs of 128 MiB to 1 GiB; docs/store.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from pocketmq.broker.store.config import ENTRY_SIZE, KIB, SCHEDULE_TOPIC
from pocketmq.broker.store.index.index_file import IndexFile
from pocketmq.broker.store.tools.stopped_store import StoppedStore
from pocketmq.broker.store.tools.verify_log import Right
from pocketmq.pipeline.columns.fixed_fields import HEAD, QUEUE_ENTRY, Bytes, Ints, gather
from pocketmq.pipeline.verify_index import IndexEntries, between, index_is_right
from pocketmq.pipeline.verify_shapes import LONGEST_TAIL, Mask, Shapes
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import FIXED_SIZE, MAGIC_V1

if TYPE_CHECKING:
    from pocketmq.pipeline.verify_properties import PropertiesReader

MOST_QUEUES: Final = 2000
"""With more queues, finding each queue's part takes longer than is saved."""

_ROWS: Final = 8192
"""Records that are compared at a time."""
_PAUSE: Final = 15
_FEW: Final = 512
"""While fewer than one record in this many has no known shape, those are left to the broker's loop:
splitting their properties would load Arrow."""
_CRC: Final = 0x7FFFFFFF
_COPIED_BODY: Final = 8 * KIB
_COPIED: Final = 128 * KIB
"""Bytes of bodies that are copied at once: they stay in the cache."""


class ColumnReader:
    """Finds the parts of a stopped store in which everything is right; a `QuickReader`."""

    def __init__(self, store: StoppedStore) -> None:
        self._store = store
        self._index = IndexEntries(store.index_files())
        queues = store.queues
        self._queue_ids = np.array([queue.queue_id for queue in queues], np.int64)
        self._topics = [queue.topic.encode() for queue in queues]
        hashes = [java_hash(queue.topic + "#") for queue in queues]
        self._topic_hashes = hashes
        self._shapes = Shapes(self._topics, hashes)
        self._properties: PropertiesReader | None = None
        self._pause = 0
        """For how many more blocks shapes are not tried, because they fitted few records."""
        self._seen = 0
        self._odd = 0
        """Records without a known shape, out of all those seen."""

    def right_stretches(self, start: int, end: int) -> Right:
        """The right sections of the log between two offsets; records must begin at both."""
        right = Right()
        log = self._store.log
        if len(self._topics) > MOST_QUEUES or not self._index.is_in_order:
            return right
        at = start
        while at < end and (file := log.find(at)) is not None:
            limit = min(end, file.end)
            buffer = np.frombuffer(file.view()[at - file.start : limit - file.start], np.uint8)
            entries = _entries(self._store, at, limit)
            for first in range(0, len(entries), _ROWS):
                self._look(buffer, at, entries.take(slice(first, first + _ROWS)), right)
            at = limit
        return right

    def index_is_right(self, file: IndexFile) -> bool:
        """Whether chains, slots and header of an index file fit its entries."""
        return index_is_right(file)

    def _look(self, buffer: Bytes, base: int, entries: _Entries, right: Right) -> None:
        """Add to `right` the records of these entries that are certainly right."""
        rows, counts = np.empty(0, np.int64), np.empty(0, np.int64)
        if self._pause:
            self._pause -= 1
        else:
            rows, counts = self._by_shapes(buffer, base, entries)
            if 2 * len(rows) < len(entries):
                self._pause = _PAUSE
        self._seen += len(entries)
        self._odd += len(entries) - len(rows)
        if len(rows) < len(entries) and self._odd > self._seen // _FEW:
            is_left = np.ones(len(entries), np.bool_)
            is_left[rows] = False
            left = np.flatnonzero(is_left)
            others, more = self._by_properties(buffer, base, entries.take(left))
            rows, counts = np.append(rows, left[others]), np.append(counts, more)
            rows.sort()
        entries = entries.take(rows)
        if not len(rows):
            return
        starts, ends = entries.offsets, entries.offsets + entries.sizes
        breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
        first, last = np.append(0, breaks), np.append(breaks - 1, len(rows) - 1)
        for span in zip(starts[first].tolist(), ends[last].tolist(), strict=True):
            right.add_span(*span)
        right.records += len(rows)
        right.indexed += int(counts.sum())
        for number, count in enumerate(np.bincount(entries.queues).tolist()):
            if count:
                queue = self._store.queues[number]
                name = queue.topic, queue.queue_id
                right.matched[name] = right.matched.get(name, 0) + count

    def _by_shapes(self, buffer: Bytes, base: int, entries: _Entries) -> tuple[Ints, Ints]:
        """Indices of the entries with a right record of a known shape, and its number of keys."""
        ends = entries.offsets - base + entries.sizes
        rows = np.flatnonzero((entries.sizes >= FIXED_SIZE) & (ends <= len(buffer)))
        head = gather(buffer, (entries.offsets - base)[rows], HEAD)
        body_len = head["body_len"].astype(np.int64)
        tails = entries.sizes[rows] - HEAD.itemsize - body_len
        good = self._heads_fit(head, entries.take(rows))
        good &= (head["magic"] == MAGIC_V1) & (head["size"] == entries.sizes[rows])
        good &= (head["sys_flag"].astype(np.int32) & MessageSysFlag.HOSTS_V6_MASK) == 0
        good &= (body_len >= 0) & (tails >= FIXED_SIZE - HEAD.itemsize) & (tails <= LONGEST_TAIL)
        if not good.all():
            rows, head, body_len, tails = rows[good], head[good], body_len[good], tails[good]
        known = entries.take(rows)
        good, hashes = self._shapes.recognise(buffer, ends[rows], tails, known.queues, known.tags)
        if not good.all():
            rows, head, body_len, tails = rows[good], head[good], body_len[good], tails[good]
            hashes = [column[good] for column in hashes]
            known, good = entries.take(rows), good[good]
        bodies = ends[rows] - tails - body_len, body_len
        found, counts = self._confirmed(buffer, known, head, good, hashes, bodies)
        return rows[found], counts

    def _by_properties(self, buffer: Bytes, base: int, entries: _Entries) -> tuple[Ints, Ints]:
        """The same for records of any kind."""
        if self._properties is None:
            from pocketmq.pipeline.verify_properties import PropertiesReader

            self._properties = PropertiesReader(self._topics, self._topic_hashes)
        places = entries.offsets - base
        columns, good, hashes = self._properties.read(
            buffer, places, entries.sizes, entries.queues, entries.tags
        )
        entries = entries.take(columns.rows)
        good &= self._heads_fit(columns.head, entries)
        bodies = columns.body_at, columns.body_len
        found, counts = self._confirmed(buffer, entries, columns.head, good, hashes, bodies)
        return columns.rows[found], counts

    def _confirmed(
        self,
        buffer: Bytes,
        entries: _Entries,
        head: npt.NDArray[Any],
        good: Mask,
        hashes: Sequence[Ints],
        bodies: tuple[Ints, Ints],
    ) -> tuple[Ints, Ints]:
        """Of records that are right so far, those with a right CRC and right index entries.

        Returns:
            Their indices, and how many index entries each has.
        """
        counts = np.zeros(len(entries), np.int64)
        if self._index.is_there:
            stored_ms = head["store_timestamp"].astype(np.int64)
            fits, counts = self._index.fits(entries.offsets, stored_ms, hashes)
            good &= fits
        rows = np.flatnonzero(good)
        crcs = _crcs(buffer, bodies[0][rows], bodies[1][rows])
        rows = rows[(crcs & _CRC) == head["body_crc"][rows]]
        return rows, counts[rows]

    def _heads_fit(self, head: npt.NDArray[Any], entries: _Entries) -> Mask:
        good: Mask = head["physical_offset"] == entries.offsets
        good &= head["queue_offset"] == entries.numbers
        good &= head["queue_id"] == self._queue_ids[entries.queues]
        good &= head["sys_flag"].astype(np.int32) & MessageSysFlag.TRANSACTION_MASK == 0
        return good


@dataclass(slots=True)
class _Entries:
    """Queue entries as columns, with queue and queue offset of each."""

    offsets: Ints
    sizes: Ints
    tags: Ints
    queues: Ints
    numbers: Ints

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, chosen: Ints | slice) -> _Entries:
        """The entries at these ascending indices, or of this slice."""
        if not isinstance(chosen, slice) and len(chosen) == len(self):
            return self
        columns = self.offsets, self.sizes, self.tags, self.queues, self.numbers
        return _Entries(*(column[chosen] for column in columns))


def _entries(store: StoppedStore, start: int, end: int) -> _Entries:
    """All queue entries of records between two log offsets, in the log's order."""
    none = np.empty(0, np.int64)
    found = [_Entries(none, none, none, none, none)]
    for number, queue in enumerate(store.queues):
        if queue.topic == SCHEDULE_TOPIC:
            continue  # in the queue of delayed messages tags codes are times
        for file in queue.row.files:
            first = file.start // ENTRY_SIZE
            count = max(0, min(file.size // ENTRY_SIZE, queue.end - first))
            entries = np.frombuffer(file.view(), QUEUE_ENTRY, count)
            low, high = between(entries["offset"], start, end)
            if low < high:
                part = entries[low:high]
                found.append(
                    _Entries(
                        part["offset"].astype(np.int64),
                        part["size"].astype(np.int64),
                        part["tags"].astype(np.int64),
                        np.full(high - low, number),
                        np.arange(first + low, first + high),
                    )
                )
    offsets = np.concatenate([part.offsets for part in found])
    order = np.argsort(offsets, kind="stable")
    # A damaged queue is not in order; bisection may have found entries of any log offset.
    order = order[slice(*np.searchsorted(offsets, (start, end), sorter=order))]
    return _Entries(
        offsets[order],
        np.concatenate([part.sizes for part in found])[order],
        np.concatenate([part.tags for part in found])[order],
        np.concatenate([part.queues for part in found])[order],
        np.concatenate([part.numbers for part in found])[order],
    )


def _crcs(buffer: Bytes, starts: Ints, lengths: Ints) -> Ints:
    """CRC of each body: most of the processor time, all of it in C."""
    length = int(lengths[0]) if len(lengths) else 0
    if 0 < length <= _COPIED_BODY and (lengths == length).all():
        # Slices of `bytes`, copied many bodies at once, take less time than slices of the array.
        step, body = _COPIED // length, np.dtype(f"V{length}")
        parts = (gather(buffer, starts[n : n + step], body) for n in range(0, len(starts), step))
        bodies = chain.from_iterable(map(np.ndarray.tolist, parts))
        return np.fromiter(map(crc32, bodies), np.int64, len(starts))
    slices = map(slice, starts.tolist(), (starts + lengths).tolist())
    return np.fromiter(map(crc32, map(buffer.data.__getitem__, slices)), np.int64, len(starts))

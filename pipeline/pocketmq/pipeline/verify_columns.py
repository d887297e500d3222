"""`pocketmq store verify` by columns: most of a log is right, and NumPy can say so quickly.

Every record with its queue entry and its index entries is compared for thousands of records at
once. What is in any way unusual, or wrong, is left to the broker's own loop, which goes record by
record and finds the words (`pocketmq.broker.store.verify_log`). So nothing here judges: it only
names the stretches in which there is nothing to judge.

    queue entries --> positions --> columns --> compared with queues and index --> CRCs
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.broker.store.config import ENTRY_SIZE, SCHEDULE_TOPIC
from pocketmq.broker.store.index_file import IndexFile
from pocketmq.broker.store.stopped_store import StoppedStore
from pocketmq.broker.store.verify_log import Right
from pocketmq.pipeline.property_columns import PropertyColumns, read_properties
from pocketmq.pipeline.record_columns import (
    ROWS,
    Bytes,
    Ints,
    RecordColumns,
    binary,
    gather,
    read_columns,
)
from pocketmq.pipeline.store_files import ENTRY
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.subscription import tags_code

INDEX_ENTRY: Final = np.dtype(
    [("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("older", ">i4")]
)
MOST_QUEUES: Final = 2000
"""With more of them, finding each queue's part takes longer than is won."""

_CRC: Final = 0x7FFFFFFF
_INT32_MAX: Final = 2**31 - 1

Mask: TypeAlias = npt.NDArray[np.bool_]


class ColumnReader:
    """Names the parts of a stopped store in which all is right; a `QuickReader`."""

    def __init__(self, store: StoppedStore) -> None:
        self._store = store
        self._index = _Index(store.index_files())
        queues = store.queues
        self._queue_ids = np.array([queue.queue_id for queue in queues], np.int64)
        self._topics = [queue.topic.encode() for queue in queues]
        self._topic_hashes = np.array([java_hash(q.topic + "#") for q in queues], np.int64)

    def right_stretches(self, start: int, end: int) -> Right:
        """Stretches of the log between two offsets where records begin."""
        right = Right()
        log = self._store.log
        if len(self._topics) > MOST_QUEUES:
            return right
        at = start
        while at < end and (file := log.find(at)) is not None:
            limit = min(end, file.end)
            buffer = np.frombuffer(file.view()[at - file.start : limit - file.start], np.uint8)
            entries = _entries(self._store, at, limit)
            for first in range(0, len(entries), ROWS):
                self._look(buffer, at, entries[first : first + ROWS], right)
            at = limit
        return right

    def index_is_right(self, file: IndexFile) -> bool:
        """Whether chains, slots and header of an index file fit its entries."""
        entries = np.frombuffer(file.entries(1), INDEX_ENTRY)
        if not len(entries):
            return False
        places, hashes = entries["offset"].astype(np.int64), entries["hash"].astype(np.int32)
        if hashes.min() < 0 or entries["seconds"].min() < 0 or (np.diff(places) < 0).any():
            return False
        if (places[0], places[-1]) != (file.begin_physical, file.end_physical):
            return False
        slots = hashes % np.int32(file.slots)
        order = np.argsort(slots, kind="stable")  # entries slot by slot, each from old to new
        in_order = slots[order]
        older = np.append(0, np.where(in_order[1:] == in_order[:-1], order[:-1] + 1, 0))
        if (entries["older"][order] != older).any():
            return False
        is_newest = np.append(in_order[1:] != in_order[:-1], True)
        newest = np.zeros(file.slots, ">i4")
        newest[in_order[is_newest]] = order[is_newest] + 1
        return newest.tobytes() == file.slot_numbers()

    def _look(self, buffer: Bytes, base: int, entries: npt.NDArray[Any], right: Right) -> None:
        """Add to `right` what is so among the records of these entries."""
        columns = read_columns(buffer, entries["offset"] - base, entries["size"])
        entries = entries[columns.rows]
        good = self._heads_fit(columns, entries) & self._topics_fit(columns, entries)
        properties = read_properties(columns.properties())
        good &= _tags_codes(properties) == entries["tags"]
        counts = np.zeros(len(entries), np.int64)
        if self._index.is_there:
            topics = self._topic_hashes[entries["queue"]]
            hashes = [_key_hashes(properties, name, topics) for name in ("UNIQ_KEY", "KEYS")]
            stored_ms = columns.head["store_timestamp"].astype(np.int64)
            fits, counts = self._index.fits(entries["offset"], stored_ms, hashes)
            good &= fits
        rows = np.flatnonzero(good)
        rows = rows[_crcs_fit(columns, rows)]
        if not len(rows):
            return
        starts, ends = entries["offset"][rows], (entries["offset"] + entries["size"])[rows]
        breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
        first, last = np.append(0, breaks), np.append(breaks - 1, len(rows) - 1)
        for span in zip(starts[first].tolist(), ends[last].tolist(), strict=True):
            right.add_span(*span)
        right.records += len(rows)
        right.indexed += int(counts[rows].sum())
        for number, count in enumerate(np.bincount(entries["queue"][rows]).tolist()):
            if count:
                queue = self._store.queues[number]
                name = queue.topic, queue.queue_id
                right.matched[name] = right.matched.get(name, 0) + count

    def _heads_fit(self, columns: RecordColumns, entries: npt.NDArray[Any]) -> Mask:
        head = columns.head
        good: Mask = head["physical_offset"] == entries["offset"]
        good &= head["queue_offset"] == entries["number"]
        good &= head["queue_id"] == self._queue_ids[entries["queue"]]
        good &= columns.sys_flags & MessageSysFlag.TRANSACTION_MASK == 0
        # A record that ends in a zero has a torn tail (`check_record`).
        ends = columns.buffer[columns.positions + columns.sizes - 1]
        good &= (ends != 0) | (columns.properties_len == 0)
        return good

    def _topics_fit(self, columns: RecordColumns, entries: npt.NDArray[Any]) -> Mask:
        names = binary(columns.buffer, columns.topic_at, columns.topic_len).dictionary_encode()
        known = {name: number for number, name in enumerate(names.dictionary.to_pylist())}
        of_queue = np.array([known.get(topic, -1) for topic in self._topics], np.int64)
        fits: Mask = _indices(names) == of_queue[entries["queue"]]
        return fits


_PLACED: Final = np.dtype(
    [("offset", "i8"), ("size", "i8"), ("tags", "i8"), ("queue", "i8"), ("number", "i8")]
)
"""A queue entry, with whose and which it is."""


def _entries(store: StoppedStore, start: int, end: int) -> npt.NDArray[Any]:
    """All queue entries that lead to records between two log offsets, in the log's order."""
    found = []
    for number, queue in enumerate(store.queues):
        if queue.topic == SCHEDULE_TOPIC:
            continue  # its entries hold times
        for file in queue.row.files:
            first = file.start // ENTRY_SIZE
            count = max(0, min(file.size // ENTRY_SIZE, queue.end - first))
            entries = np.frombuffer(file.view(), ENTRY, count)
            low, high = _between(entries["offset"], start, end)
            if low < high:
                part = np.empty(high - low, _PLACED)
                for name in ENTRY.names or ():
                    part[name] = entries[name][low:high]
                part["queue"] = number
                part["number"] = np.arange(first + low, first + high)
                found.append(part)
    if not found:
        return np.empty(0, _PLACED)
    placed = np.concatenate(found)
    # A damaged queue is not in order, and what bisection found in it may lead anywhere.
    placed = placed[(placed["offset"] >= start) & (placed["offset"] < end)]
    return placed[np.argsort(placed["offset"], kind="stable")]


def _between(column: npt.NDArray[Any], start: int, end: int) -> tuple[int, int]:
    """Indices between which ascending values are from `start` to below `end`.

    By bisection in Python: `searchsorted` would first copy a column that is big endian.
    """
    low = bisect_left(range(len(column)), start, key=column.__getitem__)
    return low, bisect_left(range(len(column)), end, low, key=column.__getitem__)


def _tags_codes(properties: PropertyColumns) -> Ints:
    """What `tags_code` says of each row's tag."""
    found = properties.find("TAGS")
    codes = np.full(properties.rows, tags_code(None), np.int64)
    if len(found):
        places = properties.value_at[found], properties.value_len[found]
        tags = binary(properties.data, *places).dictionary_encode()
        texts = (str(tag, "utf-8", "replace") for tag in tags.dictionary.to_pylist())
        codes[properties.row[found]] = np.array([tags_code(text) for text in texts])[_indices(tags)]
    return codes


def _indices(encoded: pa.DictionaryArray) -> npt.NDArray[np.int32]:
    """Which word of its dictionary each is. Arrow's own `to_numpy` would load pandas."""
    return np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))


def _crcs_fit(columns: RecordColumns, rows: Ints) -> Mask:
    """Which of these have bodies with the right CRC: most of the work, and all of it in C."""
    view = columns.buffer.data
    starts = columns.body_at[rows]
    slices = map(slice, starts.tolist(), (starts + columns.body_len[rows]).tolist())
    found = np.fromiter(map(crc32, map(view.__getitem__, slices)), np.int64, len(rows))
    fits: Mask = (found & _CRC) == columns.head["body_crc"][rows]
    return fits


_ABSENT: Final = -1
_UNUSUAL: Final = -2


def _key_hashes(properties: PropertyColumns, name: str, topics: Ints) -> Ints:
    """`index_file.key_hash` of each; `_ABSENT` without a key, `_UNUSUAL` if that is no plain one.

    Java's hash is a polynomial, so that of `topic#key` follows from the hashes of both parts.

    Args:
        properties: of the rows.
        name: which of them holds the key.
        topics: hash of each row's `topic#`.
    """
    hashes = np.full(properties.rows, _ABSENT, np.int64)
    found = properties.find(name)
    lengths = properties.value_len[found]
    for length in np.unique(lengths).tolist():
        same = found[lengths == length]
        rows = properties.row[same]
        powers = np.array([pow(31, length - 1 - i, 1 << 32) for i in range(length)], np.uint32)
        letters = gather(properties.data, properties.value_at[same], np.dtype(f"V{length}"))
        letters = letters.view(np.uint8).reshape(len(same), length)
        plain = ((letters < 0x80) & (letters != ord(" "))).all(axis=1)
        value = letters.astype(np.uint32) @ powers
        value += topics[rows].astype(np.uint32) * np.uint32(pow(31, length, 1 << 32))
        positive = np.abs(value.astype(np.int32).astype(np.int64))
        positive[positive > _INT32_MAX] = 0
        hashes[rows] = np.where(plain, positive, _UNUSUAL)
    return hashes


class _Index:
    """The index' entries, to be asked for those of ascending records."""

    def __init__(self, files: Sequence[IndexFile]) -> None:
        self._files = [file for file in files if file.next_entry > 1]
        self.is_there = bool(self._files)

    def fits(self, offsets: Ints, stored_ms: Ints, hashes: Sequence[Ints]) -> tuple[Mask, Ints]:
        """Which records have exactly the entries that their keys want, and how many that are.

        Args:
            offsets: log offsets of the records, ascending.
            stored_ms: their store times.
            hashes: of their first keys, of their second keys, ...
        """
        expected = np.zeros(len(offsets), np.int64)
        fits = np.ones(len(offsets), np.bool_)
        if not len(offsets):
            return fits, expected
        found, base_ms = self._entries(int(offsets[0]), int(offsets[-1]) + 1)
        places = found["offset"].astype(np.int64)
        if (np.diff(places) < 0).any():
            return np.zeros(len(offsets), np.bool_), expected
        first = np.searchsorted(places, offsets)
        count = np.searchsorted(places, offsets, "right") - first
        for wanted in hashes:
            fits &= wanted != _UNUSUAL
            rows = np.flatnonzero((wanted >= 0) & (expected < count))
            fits[(wanted >= 0) & (expected >= count)] = False
            at = first[rows] + expected[rows]
            passed = (stored_ms[rows] - base_ms[at]) // 1000
            fits[rows] &= found["hash"][at] == wanted[rows]
            fits[rows] &= np.clip(passed, 0, _INT32_MAX) == found["seconds"][at]
            expected += wanted >= 0
        fits &= expected == count
        return fits, expected

    def _entries(self, start: int, end: int) -> tuple[npt.NDArray[Any], Ints]:
        """Entries for records between two log offsets, and each one's begin of file in ms."""
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
            low, high = _between(entries["offset"], start, end)
            yield file, entries[low:high]

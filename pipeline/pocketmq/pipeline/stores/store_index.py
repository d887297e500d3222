"""Finds messages by key through a store's index, so that the log need not be read (S-45 to S-48).

An index file has the hash of each key and where in the log the message lies; entries of one slot
form a chain. The keys of a message are its UNIQ_KEY and each word of KEYS. What no index file
covers, such as messages that a running broker has not indexed yet, is said, and must be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pocketmq.pipeline.columns.fixed_fields import INDEX_ENTRY, INDEX_HEADER
from pocketmq.pipeline.errors import CorruptRecordError
from pocketmq.protocol.messages.properties import KEY_SEPARATOR
from pocketmq.protocol.store_layout import INDEX_ENTRY as ENTRY
from pocketmq.protocol.store_layout import INDEX_SLOT
from pocketmq.protocol.stored.index_hash import key_hash

if TYPE_CHECKING:
    from pocketmq.pipeline.stores.places import Bytes, Place

SLOT_BYTES: Final = INDEX_SLOT.struct.size
_ENTRIES_PER_SLOT: Final = 4
"""RocketMQ makes 5,000,000 slots and 20,000,000 entries; the file does not contain these."""

MOST_FOUND: Final = 20_000
"""With more places than this, reading the log in its order is cheaper."""
MOST_HASHES: Final = 10_000


class Span(NamedTuple):
    """Log offsets from `low` to `high`, both included."""

    low: int
    high: int


class Found(NamedTuple):
    """What an index says about some keys."""

    places: list[int]
    """Log offsets where records with these hashes begin, ascending."""
    covered: list[Span]
    """Where in the log every message has its entries, ascending."""


def hashes_of(topics: Collection[str], keys: Collection[str]) -> set[int] | None:
    """The hashes to look for; None when they are too many, or when a text has no key.

    Args:
        topics: Whose messages are wanted.
        keys: Values of column `keys` or `uniqKey`; several keys stand with blanks in between.
    """
    words = [next(iter(text.split(KEY_SEPARATOR)), "") for text in keys]
    # Without a word there is no hash; for very many hashes reading the log is as fast.
    if not all(words) or len(topics) * len(words) > MOST_HASHES:
        return None
    return {key_hash(topic, word) for topic in topics for word in words}


def find(root: Place, hashes: Collection[int], slots: int | None = None) -> Found | None:
    """Look hashes up in every index file of a store; None when there are too many messages.

    Args:
        root: The store.
        hashes: Of `hashes_of`.
        slots: Hash slots of a file, if not a quarter of its entries.

    Raises:
        CorruptRecordError: A file's length is that of no number of slots.
    """
    directory = root / "index"
    places: set[int] = set()
    covered: list[Span] = []
    for name, length, is_folder in directory.entries():
        # The file may be incomplete, or not be an index file.
        if is_folder or not name.isdigit() or length < INDEX_HEADER.itemsize:
            continue
        path = directory / name
        count = slots_of(path, length) if slots is None else slots
        file = path.open(in_blocks=True)
        try:
            header = np.frombuffer(_read(file, 0, INDEX_HEADER.itemsize), INDEX_HEADER)
            # Number 0 is never used, so this file has no entry.
            if not len(header) or header["next"][0] <= 1:
                continue
            covered.append(Span(int(header["begin_offset"][0]), int(header["end_offset"][0])))
            for hashed in hashes:
                places.update(_chain(file, hashed, count, int(header["next"][0])))
                if len(places) > MOST_FOUND:
                    return None
        finally:
            file.close()
    return Found(sorted(places), covered)


def _chain(file: Bytes, hashed: int, slots: int, end: int) -> Iterator[int]:
    """Places of the entries with a hash; a slot may name one that the header does not count yet."""
    slot = _read(file, INDEX_HEADER.itemsize + hashed % slots * SLOT_BYTES, SLOT_BYTES)
    # The file is shorter than its header says, for example a copy in progress.
    if len(slot) < SLOT_BYTES:
        return
    (number,) = INDEX_SLOT.struct.unpack(slot)
    entries_at = INDEX_HEADER.itemsize + slots * SLOT_BYTES
    while number > 0:
        data = _read(file, entries_at + number * INDEX_ENTRY.itemsize, INDEX_ENTRY.itemsize)
        if len(data) < INDEX_ENTRY.itemsize:
            return
        found, place, _, older = ENTRY.struct.unpack(data)
        # A chain also has entries with other hashes of the slot.
        if found == hashed and number < end:
            yield place
        # Older entries have smaller numbers; this check ends a chain that goes in a circle.
        number = older if older < number else 0


def _read(file: Bytes, position: int, size: int) -> bytearray:
    data = bytearray(size)
    with memoryview(data) as view:
        done = file.read_into(view, position)
    del data[done:]
    return data


def slots_of(path: Place, length: int) -> int:
    """Hash slots of an index file, by its length.

    Raises:
        CorruptRecordError: It is that of no number of slots.
    """
    per_slot = SLOT_BYTES + _ENTRIES_PER_SLOT * INDEX_ENTRY.itemsize
    slots, rest = divmod(length - INDEX_HEADER.itemsize, per_slot)
    if rest:
        raise CorruptRecordError(
            str(path),
            length,
            "the index file does not have four entries per slot, as RocketMQ's files do; give "
            "the number of slots with option indexSlots",
        )
    return slots


def uncovered(covered: Collection[Span], start: int, end: int) -> list[Span]:
    """What of the log from `start` to `end` no index file covers."""
    found = []
    at = start
    for span in sorted(covered):
        # Index files may overlap, or leave gaps where a broker died.
        if span.low > at:
            found.append(Span(at, min(span.low, end) - 1))
        at = max(at, span.high + 1)
    if at < end:
        found.append(Span(at, end - 1))
    return [span for span in found if span.low <= span.high]

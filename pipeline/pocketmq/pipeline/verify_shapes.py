"""Recognises records that differ only in their bodies and in the letters of their keys.

A record's tail, the part behind its body, has topic and properties. Nearly all messages of a topic
with the same tag have the same tail but for the values of `UNIQ_KEY` and `KEYS`: the same *shape*.
So one record is split into its properties, and the others are compared with it, eight bytes of all
of them at a time:

    2 order-topic 0x00 0x4a UNIQ_KEY 0x01 ................ 0x02 TAGS 0x01 paid 0x02
    = =========== ========= ============= letters, hashed  =======================

Takes about 100 ns per record, a tenth of splitting each one's properties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pocketmq.broker.store.index.index_keys import tag_hash
from pocketmq.pipeline.columns.fixed_fields import Bytes, Ints, gather
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.stored.record import MAX_TOPIC_BYTES_V1

Words: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

LONGEST_TAIL: Final = 1024
"""For longer tails, splitting the properties is faster."""
KEY_NAMES: Final = (b"UNIQ_KEY", b"KEYS")
"""Properties with keys, in the order of their index entries."""
ABSENT: Final = -1
"""Instead of a hash: the record does not have the key."""
INT32_MAX: Final = 2**31 - 1

_WORD: Final = np.dtype("<u8")
_FEW: Final = 256
"""No shape is made for fewer records."""
_MOST_OF_KIND: Final = 4
"""Shapes that are tried on records of the same topic, tail length and tags code."""
_MOST_KINDS: Final = 4096

# Bytes of a word are added in pairs, the sums in pairs, and again: the Java hash of 8 letters.
_PAIRS: Final = tuple(
    (np.uint64(mask), np.uint64(shift), np.uint64(31 ** (shift // 8)))
    for mask, shift in (
        (0x00FF00FF00FF00FF, 8),
        (0x0000FFFF0000FFFF, 16),
        (0x00000000FFFFFFFF, 32),
    )
)
_LETTERS_8: Final = np.uint64(pow(31, 8, 1 << 32))
_LOW_32: Final = np.uint64(0xFFFFFFFF)
_FIRST_PLAIN: Final = 0x2121212121212121
_HIGH_BITS: Final = np.uint64(0x8080808080808080)


@dataclass(slots=True)
class _Letters:
    """Where a key lies in the 8-byte words of a tail."""

    words: list[tuple[int, np.uint64, np.uint64]]
    """(index of the word, mask of the key's letters, plain letters to fill up its other bytes)."""
    factor: np.uint64
    """Corrects the hash of whole words for the bytes behind the key's last letter."""
    before: np.uint64
    """What the prefix `topic#` adds to the hash."""

    def hashes(self, words: Words) -> tuple[Ints, Mask]:
        """`index_file.key_hash` of each row's key, and whether the key is plain: the hash valid."""
        found = np.zeros(len(words), np.uint64)
        odd = np.zeros(len(words), np.uint64)
        for number, mask, rest in self.words:
            letters = words[:, number] & mask
            filled = letters | rest
            odd |= filled | (filled - np.uint64(_FIRST_PLAIN))  # high bit: above 0x7F, or a borrow
            for half, shift, power in _PAIRS:
                letters = (letters & half) * power + ((letters >> shift) & half)
            found *= _LETTERS_8
            found += letters
        found = (found * self.factor + self.before) & _LOW_32
        return positive(found.astype(np.uint32)), (odd & _HIGH_BITS) == 0


@dataclass(slots=True)
class _Shape:
    tags_code: int
    fixed: list[tuple[int, np.uint64, np.uint64]]
    """(index of the word, mask of its bits that are the same in all records, their value)."""
    keys: list[_Letters | None]
    """For each of `KEY_NAMES` where its key lies; None if the shape does not have it."""
    tag_hash: int
    """`tag_hash` of its tag; `ABSENT` if the shape does not have one."""

    def fits(self, words: Words) -> Mask:
        """Which tails have this shape; the letters of their keys are not compared."""
        different = np.zeros(len(words), np.uint64)
        for number, mask, value in self.fixed:
            different |= (words[:, number] ^ value) & mask
        same: Mask = different == 0
        return same

    def found(self, rows: Ints, words: Words) -> Iterator[tuple[Ints, list[Ints | None]]]:
        """Of tails with this shape, those whose keys are plain, and their keys' hashes."""
        plain = np.ones(len(rows), np.bool_)
        hashes: list[Ints | None] = []
        for letters in self.keys:
            hashed = None
            if letters is not None:
                hashed, is_plain = letters.hashes(words)
                plain &= is_plain
            hashes.append(hashed)
        hashes.append(np.full(len(rows), self.tag_hash, np.int64))
        if plain.all():
            yield rows, hashes
        else:
            yield rows[plain], [None if hashed is None else hashed[plain] for hashed in hashes]


class Shapes:
    """The shapes of all records so far.

    Args:
        topics: The topic of each queue.
        topic_hashes: For each queue, Java's hash of `topic#`.
    """

    def __init__(self, topics: Sequence[bytes], topic_hashes: Sequence[int]) -> None:
        numbers: dict[bytes, int] = {}
        for topic in topics:
            numbers.setdefault(topic, len(numbers))
        self._topic_of = np.array([numbers[topic] for topic in topics], np.int64)
        self._topics = list(numbers)
        self._hashes = dict(zip(topics, topic_hashes, strict=True))
        self._known: dict[tuple[int, int, int], list[_Shape]] = {}
        """Shapes by topic, length of the tail, and tags code."""
        self._varied: set[tuple[int, int, int]] = set()
        """Kinds for which no more shapes are made, because the latest ones fitted few records."""

    def recognise(
        self, buffer: Bytes, ends: Ints, tails: Ints, queues: Ints, codes: Ints
    ) -> tuple[Mask, list[Ints]]:
        """Which records have a known shape, with the topic of their queue and this tags code.

        Args:
            buffer: The bytes in which they lie.
            ends: Where each ends; at least 8 bytes of the buffer lie before its tail.
            tails: Length of each one's tail; from 3 to `LONGEST_TAIL`.
            queues: Index of its queue.
            codes: The tags code in its queue entry.

        Returns:
            Which have, and for each of `KEY_NAMES` their hashes, valid only for recognised records;
            behind these the hashes of their tags.
        """
        known = np.zeros(len(ends), np.bool_)
        hashes = [np.full(len(ends), ABSENT, np.int64) for _ in (*KEY_NAMES, b"TAGS")]
        topics = self._topic_of[queues]
        for rows in _groups((topics << 48) ^ (tails << 32) ^ (codes & 0xFFFFFFFF)):
            if len(rows) < _FEW:
                continue
            first = int(rows[0])
            kind = int(topics[first]), int(tails[first]), int(codes[first])
            if (codes[rows] != kind[2]).any():
                continue  # only a damaged tags code is wider than 32 bits
            width = -(-kind[1] // _WORD.itemsize) * _WORD.itemsize
            cells = gather(buffer, ends[rows] - width, np.dtype(f"V{width}"))
            words = cells.view(_WORD).reshape(len(rows), -1)
            for chosen, found in self._recognise(kind, words):
                known[rows[chosen]] = True
                for column, values in zip(hashes, found, strict=True):
                    if values is not None:
                        column[rows[chosen]] = values
        return known, hashes

    def _recognise(
        self, kind: tuple[int, int, int], words: Words
    ) -> Iterator[tuple[Ints, list[Ints | None]]]:
        """For each shape of this kind: (the tails that have it, hashes of their keys)."""
        if len(self._known) > _MOST_KINDS:
            self._known.clear()
            self._varied.clear()
        shapes = self._known.setdefault(kind, [])
        rows = np.arange(len(words))
        for number in range(_MOST_OF_KIND):
            if number >= len(shapes):
                if kind in self._varied:
                    return
                topic = self._topics[kind[0]]
                shape = _shape_of(words[0].tobytes()[-kind[1] :], topic, self._hashes[topic])
                if shape is None or shape.tags_code != kind[2]:
                    self._varied.add(kind)
                    return
                shapes.append(shape)
            shape = shapes[number]
            fits = shape.fits(words)
            if np.count_nonzero(fits) < _FEW:
                self._varied.add(kind)
            if fits.all():
                yield from shape.found(rows, words)
                return
            yield from shape.found(rows[fits], words[fits])
            rows, words = rows[~fits], words[~fits]
            if len(rows) < _FEW:
                return


def positive(hashes: npt.NDArray[np.uint32]) -> Ints:
    """Hashes as the index has them (S-46): absolute values, and 0 for -2**31, which has none."""
    values = np.abs(hashes.view(np.int32).astype(np.int64))
    values[values > INT32_MAX] = 0
    return values


def _groups(kinds: Ints) -> Iterator[Ints]:
    """The ascending rows of each kind."""
    if not len(kinds):
        return
    if (kinds == kinds[0]).all():
        yield np.arange(len(kinds))
        return
    order = np.argsort(kinds, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1)


def _shape_of(tail: bytes, topic: bytes, topic_hash: int) -> _Shape | None:
    """The shape of a record with this tail; None if it is an unusual one."""
    start = 3 + len(topic)
    text = tail[start:]
    head = bytes((len(topic),)) + topic + len(text).to_bytes(2, "big")
    # If its last byte is zero, the record's tail was not written (`check_record`).
    if len(topic) > MAX_TOPIC_BYTES_V1 or tail[:start] != head or text.endswith(b"\0"):
        return None
    places: dict[bytes, tuple[int, int]] = {}
    at = start
    for entry in text.removesuffix(b"\2").split(b"\2") if text else ():
        name, _, value = entry.partition(b"\1")
        if not name or not value or b"\1" in value or name in places:
            return None
        at += len(entry) + 1
        places[name] = at - 1 - len(value), at - 1
    tags = tail[slice(*places[b"TAGS"])] if b"TAGS" in places else b""
    width = -(-len(tail) // _WORD.itemsize) * _WORD.itemsize
    offset = width - len(tail)
    fixed = _bits(width, offset, width)
    keys: list[_Letters | None] = []
    for name in KEY_NAMES:
        place = places.get(name)
        if place is None:
            keys.append(None)
            continue
        first, end = offset + place[0], offset + place[1]
        letters = _bits(width, first, end)
        fixed = fixed & ~letters
        used = range(first // _WORD.itemsize, -(-end // _WORD.itemsize))
        behind = used.stop * _WORD.itemsize - end
        keys.append(
            _Letters(
                [(n, letters[n], np.uint64(_FIRST_PLAIN) & ~letters[n]) for n in used],
                np.uint64(pow(31, -behind, 1 << 32)),
                np.uint64(topic_hash * pow(31, end - first, 1 << 32) & 0xFFFFFFFF),
            )
        )
    words = np.frombuffer(bytes(offset) + tail, _WORD)
    tag = str(tags, "utf-8", "replace")
    return _Shape(
        tags_code(tag),
        [(n, mask, words[n]) for n, mask in enumerate(fixed) if mask],
        keys,
        tag_hash(topic.decode("utf-8", "replace"), tag) if tag else ABSENT,
    )


def _bits(width: int, first: int, end: int) -> Words:
    """Words with all bits set in bytes [first, end), and no other bit."""
    row = bytes(first) + b"\xff" * (end - first) + bytes(width - end)
    return np.frombuffer(row, _WORD)

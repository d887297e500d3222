"""Hashes of keys, as the index counts them (S-46).

A unique key is 32 hexadecimal digits, of which the last four count a client's messages and the
others change once a millisecond at most:

    7F0000011A2B18B4AAC21234567800 01        the hash of what comes before the last two digits is
    7F0000011A2B18B4AAC21234567800 02        kept, and these are added to it

Keys of other kinds, as those of acks, differ before their end:

    orders@1@4711@payments@1700000000000@broker-a@ack       each is hashed by itself; the hash of
    orders@1@4712@payments@1700000000000@broker-a@ack       the topic, which comes before, is kept
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Final

from pocketmq.protocol.java import java_hash
from pocketmq.protocol.stored.index_hash import key_hash

_MASK: Final = 0xFFFFFFFF
_INT32_MAX: Final = 2**31 - 1
_2_31: Final = 2**31
_2_32: Final = 2**32
_31_2: Final = 31**2
_MOST: Final = 31 * 127 + 127
"""The most that two characters of ASCII add."""
_MOST_ALIKE: Final = 512
"""More keys than these are hashed one by one: a `struct` takes 32 bytes for each, and is kept."""


def unique_key_hash(topic: str, key: str) -> int:
    """`key_hash`, quick for keys that have all but two characters at their end in common.

    A fourth of the time for a client's unique keys; right for every key.
    """
    # Java hashes UTF-16 units, which equal characters and bytes only in ASCII.
    if len(key) < 2 or not key.isascii():
        return key_hash(topic, key)
    return _positive(_start_hash(topic, key[:-2]) + 31 * ord(key[-2]) + ord(key[-1]))


def unique_key_hashes(topic: str, keys: Sequence[bytes]) -> list[int]:
    """`unique_key_hash` of each key, as UTF-8; a sixth of the time for the keys of one batch."""
    count, key_len = len(keys), len(keys[0])
    # With equal lengths, one `struct` call splits all keys.
    if key_len > 2 and count <= _MOST_ALIKE and list(map(len, keys)).count(key_len) == count:
        joined = b"".join(keys)
        # Only in ASCII do bytes equal Java's characters.
        if joined.isascii():
            starts = _starts(count, key_len).unpack(joined)
            before_last, last = joined[key_len - 2 :: key_len], joined[key_len - 1 :: key_len]
            # The keys of one producer often differ only at the end: hash their beginning once.
            if starts.count(starts[0]) == count:
                return _hashes(topic, starts[0], zip(before_last, last, strict=True))
            # With so many different beginnings, hashing each key alone is faster.
            if 2 * len(set(starts)) > count:
                return _hashes_apart(topic, keys)
            hashes: list[int] = []
            for start, run in groupby(zip(starts, before_last, last, strict=True), itemgetter(0)):
                hashes += _hashes(topic, start, [each[1:] for each in run])
            return hashes
    return [unique_key_hash(topic, key.decode()) for key in keys]


@lru_cache(maxsize=4096)
def tag_hash(topic: str, tag: str) -> int:
    """`key_hash` under which 5.5 has the messages of a topic with a tag (S-46)."""
    return key_hash(topic, f"T#{tag}")


def _hashes(topic: str, start: bytes, ends: Iterable[tuple[int, int]]) -> list[int]:
    """Of keys that begin alike, by their last two characters."""
    before = _start_hash(topic, start.decode())
    # No sum leaves the range, so no key needs a mask.
    if before + _MOST <= _INT32_MAX:
        return [before + 31 * high + low for high, low in ends]
    # All sums are negative in Java, so one subtraction gives the absolute value.
    if _2_31 < before <= _MASK - _MOST:
        negated = _2_32 - before
        return [negated - 31 * high - low for high, low in ends]
    return [_positive(before + 31 * high + low) for high, low in ends]


def _hashes_apart(topic: str, keys: Sequence[bytes]) -> list[int]:
    """Of keys of ASCII that are equally long and begin differently."""
    before = _before_key(topic, len(keys[0]))
    return [_positive(before + java_hash(key.decode())) for key in keys]


@lru_cache(maxsize=1024)
def _before_key(topic: str, key_len: int) -> int:
    """What `topic#` gives to the hash of a text with a key of so many characters behind it."""
    return java_hash(f"{topic}#") * pow(31, key_len, _2_32) & _MASK


@lru_cache(maxsize=64)
def _starts(count: int, key_len: int) -> struct.Struct:
    """Of so many keys all but the last two bytes."""
    return struct.Struct(f"{key_len - 2}s2x" * count)


def _positive(value: int) -> int:
    """Java's absolute value of a hash, given as a sum; 0 for the one that has none (S-46)."""
    value &= _MASK
    if value > _INT32_MAX:
        value = _2_32 - value
    # Java's Math.abs leaves the least integer negative; RocketMQ then uses 0.
    return 0 if value > _INT32_MAX else value


@lru_cache(maxsize=4096)
def _start_hash(topic: str, start: str) -> int:
    """What `topic#start` gives to the hash of a text with two characters more."""
    return java_hash(f"{topic}#{start}") * _31_2 & _MASK

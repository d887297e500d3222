"""Hashes of keys, as the index counts them (S-46).

A unique key is 32 hexadecimal digits, of which the last four count a client's messages and the
others change once a millisecond at most:

    7F0000011A2B18B4AAC212345678 0001        the hash of what comes before the counter is kept,
    7F0000011A2B18B4AAC212345678 0002        and the counter's two halves are looked up
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pocketmq.protocol.index_hash import key_hash
from pocketmq.protocol.java import java_hash

_MASK: Final = 0xFFFFFFFF
_INT32_MAX: Final = 2**31 - 1
_2_31: Final = 2**31
_2_32: Final = 2**32
_31_2: Final = 31**2
_31_4: Final = 31**4
_HEX: Final = "0123456789ABCDEFabcdef"
_PAIRS: Final = {a + b: 31 * ord(a) + ord(b) for a in _HEX for b in _HEX}
_LOW: Final = [_PAIRS[f"{pair:02X}"] for pair in range(256)]
"""What the last two digits give to the hash, by the byte that they stand for."""
_HIGH: Final = [value * _31_2 for value in _LOW]
"""The same for the two digits before them."""
_MOST_ALIKE: Final = 512
"""More keys than these are hashed one by one: a `struct` takes 64 bytes for each, and is kept."""


def unique_key_hash(topic: str, key: str) -> int:
    """`key_hash`, quick for keys that have all but four hexadecimal digits at their end in common.

    A fourth of the time for a client's unique keys; right for every key.
    """
    try:
        low = _PAIRS[key[-4:-2]] * _31_2 + _PAIRS[key[-2:]]
    except KeyError:
        return key_hash(topic, key)
    value = _start_hash(topic, key[:-4]) + low & _MASK
    return value if value <= _INT32_MAX else _positive(value)


def unique_key_hashes(topic: str, keys: Sequence[bytes]) -> list[int]:
    """`unique_key_hash` of each key, as UTF-8; a third of the time for the keys of one batch."""
    count, key_len = len(keys), len(keys[0])
    if key_len > 4 and count <= _MOST_ALIKE and list(map(len, keys)).count(key_len) == count:
        parts = _parted(count, key_len - 4).unpack(b"".join(keys))
        starts, counters = parts[0::2], b"".join(parts[1::2])
        if starts.count(starts[0]) == count and starts[0].isascii():
            try:
                pairs = bytes.fromhex(counters.decode())
            except ValueError:
                pairs = b""
            if pairs.hex().upper().encode() == counters:
                before, high, low = _start_hash(topic, starts[0].decode()), _HIGH, _LOW
                values = [  # as `_positive`, without a call for every second key
                    value
                    if (value := before + high[a] + low[b] & _MASK) <= _INT32_MAX
                    else _2_32 - value
                    for a, b in zip(pairs[0::2], pairs[1::2], strict=True)
                ]
                return [value & _INT32_MAX for value in values] if _2_31 in values else values
    return [unique_key_hash(topic, key.decode()) for key in keys]


@lru_cache(maxsize=64)
def _parted(count: int, start_len: int) -> struct.Struct:
    """So many keys, each as its start and its last four bytes."""
    return struct.Struct(f"{start_len}s4s" * count)


def _positive(value: int) -> int:
    """Java's absolute value of a 32-bit hash above 2^31 - 1; 0 for 2^31 (S-46)."""
    value = _MASK + 1 - value
    return 0 if value > _INT32_MAX else value


@lru_cache(maxsize=4096)
def _start_hash(topic: str, start: str) -> int:
    """What `topic#start` gives to the hash of a text with four characters more."""
    return java_hash(f"{topic}#{start}") * _31_4 & _MASK

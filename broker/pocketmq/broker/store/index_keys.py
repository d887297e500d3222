"""Hashes of keys, as the index counts them (S-46).

A unique key is 32 hexadecimal digits, of which the last four count a client's messages and the
others change once a millisecond at most:

    7F0000011A2B18B4AAC212345678 0001        the hash of what comes before the counter is kept,
    7F0000011A2B18B4AAC212345678 0002        and the counter's two halves are looked up
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pocketmq.protocol.java import java_hash

_MASK: Final = 0xFFFFFFFF
_INT32_MAX: Final = 2**31 - 1
_31_2: Final = 31**2
_31_4: Final = 31**4
_HEX: Final = "0123456789ABCDEFabcdef"
_PAIRS: Final = {a + b: 31 * ord(a) + ord(b) for a in _HEX for b in _HEX}


def key_hash(topic: str, key: str) -> int:
    """Hash of `topic#key`: Java's, made positive; 0 for the one that has no positive (S-46)."""
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value > _INT32_MAX else value


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


def unique_key_hashes(topic: str, keys: Sequence[str]) -> list[int]:
    """`unique_key_hash` of each key; half the time again for the keys of one batch."""
    start = keys[0][:-4]
    if not all(key.startswith(start) and len(key) == len(keys[0]) for key in keys):
        return [unique_key_hash(topic, key) for key in keys]
    before = _start_hash(topic, start)
    pairs = _PAIRS
    try:
        values = [before + pairs[key[-4:-2]] * _31_2 + pairs[key[-2:]] & _MASK for key in keys]
    except KeyError:
        return [unique_key_hash(topic, key) for key in keys]
    return [value if value <= _INT32_MAX else _positive(value) for value in values]


def _positive(value: int) -> int:
    """Java's absolute value of a 32-bit hash above 2^31 - 1; 0 for 2^31 (S-46)."""
    value = _MASK + 1 - value
    return 0 if value > _INT32_MAX else value


@lru_cache(maxsize=4096)
def _start_hash(topic: str, start: str) -> int:
    """What `topic#start` gives to the hash of a text with four characters more."""
    return java_hash(f"{topic}#{start}") * _31_4 & _MASK

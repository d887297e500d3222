"""Guava's consistent hash, by which messages of one group stay in one queue (G-65)."""

from __future__ import annotations

from typing import Final

_MULTIPLIER: Final = 2862933555777941757
_MASK: Final = (1 << 64) - 1


def consistent_hash(value: int, buckets: int) -> int:
    """The bucket of a number; few numbers move when there is a bucket more.

    Args:
        value: A Java `long`, of which a negative `int` has all high bits set.
        buckets: One at least.
    """
    # Java's longs wrap around, and Python's numbers do not.
    state, candidate = value & _MASK, 0
    while True:
        state = (state * _MULTIPLIER + 1) & _MASK
        high = state >> 33
        # Doubles, as in Guava: whole numbers would round otherwise, and move groups to other
        # queues.
        following = int((candidate + 1) / ((high + 1) / (1 << 31)))
        if not 0 <= following < buckets:
            return candidate
        candidate = following

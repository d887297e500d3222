"""Percentiles of many groups of durations in little memory: counts by duration, not durations.

Durations up to 1,023 ms have a count each; longer ones share one with those of the same 10 leading
bits, so a percentile is at most 0.2 % too high. What a group takes depends on how different its
durations are, not on how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

SHARES: Final = (0.5, 0.95, 0.99, 0.999)

_BITS: Final = 10
_SLOTS: Final = 1 << 16
"""More than there are buckets: 64 lengths of a number times 1,024."""
_MOST_PENDING: Final = 2_000_000


class Percentiles(NamedTuple):
    """One group's, in ms."""

    group: int
    total: int
    """How many durations."""
    p50: int
    p95: int
    p99: int
    p999: int
    max: int


def buckets(durations: Ints) -> Ints:
    """The bucket of each duration; negative ones count as 0."""
    values = np.maximum(durations, 0)
    exponent = np.zeros(len(values), np.int64)
    large = values >= 1 << _BITS
    if large.any():
        exponent[large] = np.floor(np.log2(values[large].astype(np.float64))).astype(np.int64)
        exponent[large] -= _BITS - 1
    return (exponent << _BITS) + (values >> exponent)


def highest(bucket: Ints) -> Ints:
    """The longest duration in each bucket."""
    exponent = bucket >> _BITS
    return (((bucket & ((1 << _BITS) - 1)) + 1) << exponent) - 1


class DurationCounts:
    """Counts durations by group; a group is a number that the caller gives."""

    def __init__(self) -> None:
        self._keys: Ints = np.empty(0, np.int64)
        self._counts: Ints = np.empty(0, np.int64)
        self._pending: list[Ints] = []
        self._waiting = 0

    def add(self, groups: Ints, durations: Ints) -> None:
        """Count durations in ms, each for its group."""
        self._pending.append(groups * _SLOTS + buckets(durations))
        self._waiting += len(groups)
        if self._waiting > _MOST_PENDING:
            self._merge()

    def _merge(self) -> None:
        if not self._pending:
            return
        keys, counts = np.unique(np.concatenate(self._pending), return_counts=True)
        every = np.concatenate([self._keys, keys])
        weights = np.concatenate([self._counts, counts.astype(np.int64)])
        self._keys, places = np.unique(every, return_inverse=True)
        self._counts = np.bincount(places, weights).astype(np.int64)
        self._pending, self._waiting = [], 0

    def results(self) -> Iterator[Percentiles]:
        """The percentiles of each group, by its number."""
        self._merge()
        groups, keys = self._keys // _SLOTS, self._keys % _SLOTS
        edges = np.flatnonzero(np.diff(groups)) + 1
        starts = np.append(0, edges) if len(groups) else edges
        for start, end in zip(starts, np.append(starts[1:], len(groups)), strict=True):
            sums = np.cumsum(self._counts[start:end])
            total = int(sums[-1])
            ranks = [int(np.ceil(share * total)) for share in SHARES]
            places = [*np.searchsorted(sums, ranks).tolist(), -1]
            p50, p95, p99, p999, most = highest(keys[start:end][places]).tolist()
            yield Percentiles(int(groups[start]), total, p50, p95, p99, p999, most)

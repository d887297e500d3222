"""Entries of several queues as columns, in the log's order, and which of them to read together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pocketmq.pipeline.fixed_fields import Ints
from pocketmq.pipeline.record_columns import ROWS
from pocketmq.pipeline.store_files import FileRow
from pocketmq.protocol.store_layout import FIXED_SIZE

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Read and decoded at a time: with it 1 KiB messages decode at 7 GB/s, mapped files at 5.8."""
FIRST_BYTES: Final = 64 * 1024
FIRST_ROWS: Final = 256
RUN_ROWS: Final = 256
"""Entries of each queue that are put in order at a time, where there are many queues."""
GAP_BYTES: Final = 16 * 1024
"""Gaps of up to this many bytes between records are read too: a second read takes as long."""


@dataclass(slots=True)
class Entries:
    """Entries of several queues, as columns."""

    offsets: Ints
    sizes: Ints
    queue: npt.NDArray[np.int32]
    """Index of the entry's slice in the part."""
    numbers: Ints
    """Queue offset."""

    @classmethod
    def sorted(cls, parts: Sequence[Entries]) -> Entries:
        """All of them, in the log's order."""
        if len(parts) == 1:
            joined = parts[0]
        else:
            columns = zip(*((p.offsets, p.sizes, p.queue, p.numbers) for p in parts), strict=True)
            joined = cls(*(np.concatenate(column) for column in columns))
        if joined.ascend:
            return joined
        return joined[np.argsort(joined.offsets, kind="stable")]

    @property
    def ascend(self) -> bool:
        """Whether they are in the log's order."""
        return bool((self.offsets[1:] >= self.offsets[:-1]).all())

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, rows: Any) -> Entries:
        return Entries(self.offsets[rows], self.sizes[rows], self.queue[rows], self.numbers[rows])

    @property
    def ends(self) -> Ints:
        """Log offset behind each record."""
        return self.offsets + self.sizes

    def outside(self, log: FileRow, file_end: int) -> npt.NDArray[np.bool_] | None:
        """Which entries cannot be right: too short, or beyond the end of their file.

        None if all can be.
        """
        ends = self.ends
        if (
            ends.max() <= file_end
            and self.sizes.min() >= FIXED_SIZE
            and self.sizes.max() <= CHUNK_BYTES
        ):
            return None
        beyond: npt.NDArray[np.bool_] = ends > file_end
        beyond |= self.sizes < FIXED_SIZE
        for row in np.flatnonzero((self.sizes > CHUNK_BYTES) & ~beyond).tolist():
            # Before so much memory is allocated, the record's own size field must be the same.
            head = log.read(int(self.offsets[row]), 4)
            beyond[row] = int.from_bytes(head, "big") != self.sizes[row]
        return beyond

    def sections(self) -> tuple[Ints, Ints, Ints]:
        """The sections of the log that are read at once, with the gaps in them.

        Returns:
            The first row of each, the log offset where it begins, and the one behind it.
        """
        ends = _furthest(self.ends)
        first = np.append(0, np.flatnonzero(self.offsets[1:] - ends[:-1] > GAP_BYTES) + 1)
        last = np.append(first[1:] - 1, len(self) - 1)
        return first, self.offsets[first], ends[last]

    def spread(self) -> float:
        """Bytes of the log from the first record to the last, for each byte of these records."""
        whole = int(self.offsets[-1] + self.sizes[-1] - self.offsets[0])
        return whole / max(int(self.sizes.sum()), 1)

    def chunks(
        self, most_bytes: int, gap_bytes: int | None = None, first_bytes: int | None = None
    ) -> Iterator[Entries]:
        """Entries to read and decode together: bounded in number and bytes.

        Args:
            most_bytes: Of the records of a chunk and the gaps that are read with them.
            gap_bytes: The largest such gap; by default all are.
            first_bytes: Of the first chunk; each following one may have twice as many.
        """
        count = len(self)
        size = first_bytes or most_bytes
        if count <= ROWS and self.ends[-1] - self.offsets[0] <= size:
            yield self
            return
        gaps = np.maximum(self.offsets[1:] - self.ends[:-1], 0)
        if gap_bytes is not None:
            gaps[gaps > gap_bytes] = 0
        taken = self.sizes.copy()
        taken[1:] += gaps
        until = np.cumsum(taken)
        low = 0
        while low < count:
            before = until[low - 1] if low else 0
            high = int(np.searchsorted(until, before + size, "right"))
            size = min(size * 2, most_bytes)
            high = min(max(high, low + 1), low + ROWS, count)
            yield self[low:high]
            low = high


@dataclass(slots=True)
class Run:
    """Entries of one queue as they are in its files; their records follow each other in the log."""

    queue: int
    """Index of their slice in the part."""
    raw: npt.NDArray[Any]
    first: int
    """Queue offset of the first one."""
    kept: npt.NDArray[Any] | None = None
    """Which ones are wanted, as distances to the first; all by default."""

    def __len__(self) -> int:
        return len(self.raw if self.kept is None else self.kept)

    def entries(self, start: int, end: int) -> Entries:
        """Those from one index to another."""
        if self.kept is None:
            raw = self.raw[start:end]
            numbers = np.arange(self.first + start, self.first + start + len(raw))
        else:
            chosen = self.kept[start:end]
            raw, numbers = self.raw[chosen], self.first + chosen
        return Entries(
            raw["offset"].astype(np.int64),
            raw["size"].astype(np.int64),
            np.full(len(raw), self.queue, np.int32),
            numbers,
        )


def in_log_order(runs: Sequence[Run]) -> Iterator[Entries]:
    """All entries of all runs in the log's order, some thousands at a time.

    The first are few, for a query that wants no more than some rows. A queue whose records do not
    follow each other, which only a broken one has, is in order for each time by itself.
    """
    left = sum(len(run) for run in runs)
    waiting = [(run, 0) for run in runs if len(run)]
    most = max(ROWS, RUN_ROWS * len(waiting))
    room = FIRST_ROWS
    while waiting:
        # Of each queue its share, as far as no queue has an earlier one that is not seen yet.
        share = min(room / left, 1)
        seen = [run.entries(done, done + ceil((len(run) - done) * share)) for run, done in waiting]
        ascend = [each.ascend for each in seen]
        limits = [
            int(each.offsets[-1])
            for each, is_right, (run, done) in zip(seen, ascend, waiting, strict=True)
            if is_right and done + len(each) < len(run)
        ]
        if limits:
            limit = min(limits)
            seen = [
                each[: np.searchsorted(each.offsets, limit, "right")] if is_right else each
                for each, is_right in zip(seen, ascend, strict=True)
            ]
        yield Entries.sorted(seen)
        left -= sum(len(each) for each in seen)
        waiting = [
            (run, done + len(each))
            for each, (run, done) in zip(seen, waiting, strict=True)
            if done + len(each) < len(run)
        ]
        room = min(room * 8, most)


def _furthest(ends: Ints) -> Ints:
    """The largest so far; they nearly always ascend."""
    if (ends[1:] >= ends[:-1]).all():
        return ends
    furthest: Ints = np.maximum.accumulate(ends)
    return furthest

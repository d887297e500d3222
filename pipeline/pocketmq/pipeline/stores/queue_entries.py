"""Entries of several queues as columns, in the log's order, and which of them to read together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pocketmq.pipeline.columns.fixed_fields import Ints
from pocketmq.pipeline.columns.record_columns import ROWS
from pocketmq.pipeline.stores.store_files import FileRow
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
        # For sound queues this check settles all entries at once.
        if (
            np.max(ends) <= file_end
            and np.min(self.sizes) >= FIXED_SIZE
            and np.max(self.sizes) <= CHUNK_BYTES
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
        # A broken entry may lie within another entry's record.
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
        # A small chunk is not split, so no sizes have to be added up.
        if count <= ROWS and self.ends[-1] - self.offsets[0] <= size:
            yield self
            return
        gaps = np.maximum(self.offsets[1:] - self.ends[:-1], 0)
        # Longer gaps are not read, so they take no room.
        if gap_bytes is not None:
            gaps[gaps > gap_bytes] = 0
        taken = self.sizes.copy()
        taken[1:] += gaps
        until = np.cumsum(taken)
        low = 0
        while low < count:
            before = until[low - 1] if low else 0
            high = int(np.searchsorted(until, before + size, "right"))
            # The first batch is small, for queries that want only a few rows; later ones grow.
            size = min(size * 2, most_bytes)
            # At least one record, however large.
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

    def offsets(self, start: int, end: int) -> Ints:
        """The log offsets of those from one index to another."""
        raw = self.raw[start:end] if self.kept is None else self.raw[self.kept[start:end]]
        found: Ints = raw["offset"].astype(np.int64)
        return found

    def sizes(self, start: int, end: int) -> npt.NDArray[Any]:
        """The sizes of these, in the bytes' order of the file."""
        raw = self.raw[start:end] if self.kept is None else self.raw[self.kept[start:end]]
        found: npt.NDArray[Any] = raw["size"]
        return found

    def numbers(self, start: int, end: int) -> Ints:
        """The queue offsets of these."""
        if self.kept is None:
            return np.arange(self.first + start, self.first + end)
        found: Ints = self.first + self.kept[start:end]
        return found


def in_log_order(runs: Sequence[Run]) -> Iterator[Entries]:
    """All entries of all runs in the log's order, some thousands at a time.

    The first are few, for a query that wants no more than some rows. A queue whose records do not
    follow each other, which only a broken one has, is in order for each time by itself.
    """
    left = sum(len(run) for run in runs)
    waiting = [(run, 0) for run in runs if len(run)]
    # Each of many queues needs its share: otherwise few entries of a round would be usable.
    most = max(ROWS, RUN_ROWS * len(waiting))
    room = FIRST_ROWS
    while waiting:
        # Of each queue its share, as far as no queue has an earlier one that is not seen yet.
        share = min(room / left, 1)
        ends = [min(done + ceil((len(run) - done) * share), len(run)) for run, done in waiting]
        seen = [run.offsets(done, end) for (run, done), end in zip(waiting, ends, strict=True)]
        limits = [
            int(offsets[-1])
            for offsets, (run, _), end in zip(seen, waiting, ends, strict=True)
            if end < len(run) and ascend(offsets)
        ]
        # After the earliest end, a queue may have entries that were not looked at yet.
        if limits:
            limit = min(limits)
            seen = [
                offsets[: np.searchsorted(offsets, limit, "right")] if ascend(offsets) else offsets
                for offsets in seen
            ]
        found = [
            (run, done, done + len(offsets))
            for offsets, (run, done) in zip(seen, waiting, strict=True)
        ]
        queues = np.array([run.queue for run, _, _ in found], np.int32)
        joined = Entries(
            np.concatenate(seen),
            np.concatenate([run.sizes(start, end) for run, start, end in found], dtype=np.int64),
            np.repeat(queues, [len(offsets) for offsets in seen]),
            np.concatenate([run.numbers(start, end) for run, start, end in found]),
        )
        # The entries of a single queue are already in order.
        if not ascend(joined.offsets):
            joined = joined[np.argsort(joined.offsets, kind="stable")]
        yield joined
        left -= len(joined)
        waiting = [(run, end) for run, _, end in found if end < len(run)]
        room = min(room * 8, most)


def ascend(offsets: Ints) -> bool:
    """Whether these are in the log's order."""
    return bool((offsets[1:] >= offsets[:-1]).all())


def _furthest(ends: Ints) -> Ints:
    """The largest so far; they nearly always ascend."""
    if (ends[1:] >= ends[:-1]).all():
        return ends
    furthest: Ints = np.maximum.accumulate(ends)
    return furthest

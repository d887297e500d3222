"""Files of a broker's store, read and never written: the log, the queues, the index (S-1 to S-4).

Bytes are read into memory of our own rather than mapped. A broker may cut or delete a file at any
time; a mapping would then kill this process (SIGBUS), while a read just returns less. It is no
slower: four megabytes fit the cache in which they are decoded next.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pocketmq.pipeline.fixed_fields import QUEUE_ENTRY, Ints
from pocketmq.protocol.store_layout import FILLER_SIZE as FILLER_SIZE

"""Size of an entry that stands for no message (S-33)."""

Entries = npt.NDArray[Any]


class FileRow:
    """Files named by the offset of their first byte, as one sequence of bytes.

    Args:
        directory: Need not exist: then there are no files.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        found = sorted(_files(directory))
        if found and found[-1][1] == 0:
            found.pop()  # what a crash left between creating and sizing it (S-3)
        self.starts = [start for start, _ in found]
        self.lengths = [length for _, length in found]
        self._open: dict[int, int] = {}

    def __enter__(self) -> FileRow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all descriptors."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def start(self) -> int:
        """Offset of the first byte that there is; 0 without files."""
        return self.starts[0] if self.starts else 0

    @property
    def end(self) -> int:
        """Offset behind the last file."""
        return self.starts[-1] + self.lengths[-1] if self.starts else 0

    def path(self, index: int) -> Path:
        """Where a file lies."""
        return self.directory / f"{self.starts[index]:020d}"

    def index(self, offset: int) -> int:
        """Which file holds a byte; -1 when none does."""
        found = bisect.bisect_right(self.starts, offset) - 1
        if found < 0 or offset >= self.starts[found] + self.lengths[found]:
            return -1
        return found

    def place(self, offset: int) -> tuple[Path, int]:
        """File and position of a byte, for messages; also of a byte that is gone."""
        found = bisect.bisect_right(self.starts, offset) - 1
        if found >= 0:
            return self.path(found), offset - self.starts[found]
        return self.directory, offset

    def read_into(self, target: memoryview, offset: int) -> int:
        """Fill `target` from byte `offset` on, within one file; returns how much there was."""
        index = self.index(offset)
        if index < 0:
            return 0
        descriptor = self._open.get(index)
        if descriptor is None:
            try:
                descriptor = os.open(self.path(index), os.O_RDONLY)
            except FileNotFoundError:  # retention took it after we had looked
                return 0
            self._open[index] = descriptor
        position = offset - self.starts[index]
        done = 0
        while done < len(target):
            count = os.preadv(descriptor, [target[done:]], position + done)
            if count == 0:
                break
            done += count
        return done

    def read(self, offset: int, size: int) -> bytearray:
        """Up to `size` bytes from byte `offset` on, within one file."""
        data = bytearray(size)
        with memoryview(data) as view:
            done = self.read_into(view, offset)
        del data[done:]
        return data


def _files(directory: Path) -> Iterator[tuple[int, int]]:
    """(first offset, length) of each file of a row; those that vanish meanwhile are left out."""
    if not directory.is_dir():
        return
    for name in os.listdir(directory):
        if len(name) == 20 and name.isdigit():
            try:
                length = (directory / name).stat().st_size
            except FileNotFoundError:
                continue
            yield int(name), length


class QueueFiles:
    """One queue's entries in `consumequeue/<topic>/<queueId>/`."""

    def __init__(self, root: Path, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.row = FileRow(root / "consumequeue" / topic / str(queue_id))
        self._last_read: tuple[int, Ints] | None = None

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id}"

    @property
    def first(self) -> int:
        """Number of the first entry for which there is a file."""
        return self.row.start // QUEUE_ENTRY.itemsize

    def entries(self, low: int, high: int) -> Entries:
        """Entries from number `low` to before `high`; fewer when the files end."""
        parts = []
        while low < high:
            index = self.row.index(low * QUEUE_ENTRY.itemsize)
            if index < 0:
                break
            file_end = (self.row.starts[index] + self.row.lengths[index]) // QUEUE_ENTRY.itemsize
            count = min(high, file_end) - low
            data = self.row.read(low * QUEUE_ENTRY.itemsize, count * QUEUE_ENTRY.itemsize)
            parts.append(np.frombuffer(data, QUEUE_ENTRY, len(data) // QUEUE_ENTRY.itemsize))
            if len(parts[-1]) < count:
                break
            low += count
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, QUEUE_ENTRY)

    def written_end(self) -> int:
        """Number behind the last entry that is written: files are longer than their content."""
        for index in range(len(self.row) - 1, -1, -1):
            low = self.row.starts[index] // QUEUE_ENTRY.itemsize
            count = self.row.lengths[index] // QUEUE_ENTRY.itemsize
            end = low + bisect.bisect_left(range(low, low + count), True, key=self._is_blank)
            if end > low:
                return end
        return self.first

    def _is_blank(self, number: int) -> bool:
        found = self.entries(number, number + 1)
        return not len(found) or found["size"][0] == 0

    def index_at(self, position: int, low: int, high: int) -> int:
        """First entry in [low, high) whose record begins at log offset `position` or later.

        Offsets rise along a queue; fillers are stepped over.
        """
        files = [
            index
            for index in range(len(self.row))
            if self._bounds(index)[0] < high and self._bounds(index)[1] > low
        ]
        # The first file whose first message lies behind the position: ours is the one before.
        later = bisect.bisect_left(
            files, True, key=lambda index: self._first_offset(index, low, high) >= position
        )
        if later == 0:
            return low
        begin, end = self._bounds(files[later - 1])
        begin, end = max(begin, low), min(end, high)
        offsets = self._offsets(files[later - 1], begin, end)
        return begin + int(np.searchsorted(offsets, position))

    def _bounds(self, index: int) -> tuple[int, int]:
        start = self.row.starts[index]
        return start // QUEUE_ENTRY.itemsize, (
            start + self.row.lengths[index]
        ) // QUEUE_ENTRY.itemsize

    def _first_offset(self, index: int, low: int, high: int) -> int:
        begin, end = self._bounds(index)
        begin, end = max(begin, low), min(end, high)
        at = begin
        while at < end:
            found = self.entries(at, min(end, at + 512))
            real = np.flatnonzero(found["size"] != FILLER_SIZE)
            if len(real):
                return int(found["offset"][real[0]])
            at += 512
        return -1

    def _offsets(self, index: int, begin: int, end: int) -> Ints:
        """Log offsets of some entries of a file, rising: a filler has that of its predecessor."""
        start, stop = self._bounds(index)
        if self._last_read is None or self._last_read[0] != index:
            found = self.entries(start, stop)["offset"].astype(np.int64)
            self._last_read = (index, np.maximum.accumulate(found))
        return self._last_read[1][begin - start : end - start]


def queues_of(root: Path) -> Iterator[tuple[str, int]]:
    """(topic, queue id) of each queue that has a directory, in order."""
    base = root / "consumequeue"
    if not base.is_dir():
        return
    for topic in sorted(each for each in base.iterdir() if each.is_dir()):
        ids = [int(each.name) for each in topic.iterdir() if each.name.isdecimal()]
        for queue_id in sorted(ids):
            yield topic.name, queue_id

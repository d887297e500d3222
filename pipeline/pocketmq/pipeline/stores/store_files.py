"""Reads files of a broker's store, and never writes: log, queues, index (S-1 to S-4).

The files may lie on this machine or elsewhere (`places`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pocketmq.pipeline.columns.fixed_fields import QUEUE_ENTRY, Ints
from pocketmq.pipeline.stores.places import Bytes, Entry, Place
from pocketmq.protocol.store_layout import FILLER_SIZE
from pocketmq.protocol.stored.ledger import FOLDER_PREFIX, ledger_of
from pocketmq.runtime.errors import DiskError

Entries = npt.NDArray[Any]
_PROBE: Final = 512
ABORT: Final = "abort"
"""A broker keeps this file while it runs (S-60)."""


class FileRow:
    """Files named by the offset of their first byte, read as one sequence of bytes.

    Args:
        directory: If it does not exist, there are no files.
        later: The directory with the files that follow, if they are not all in one.
        in_blocks: They are read in small pieces.
        in_use: Whether a broker may be writing to the last file, or has died.
    """

    def __init__(
        self,
        directory: Place,
        later: Place | None = None,
        *,
        in_blocks: bool = False,
        in_use: bool = True,
    ) -> None:
        self.directory = directory
        self._in_blocks = in_blocks
        self._in_use = in_use
        self.bytes_read = 0
        found = sorted(_files(directory))
        self._moved = len(found)
        self._later = later
        if later is not None:
            found += sorted(_files(later))
        if found and found[-1][1] == 0:
            found.pop()  # created by a broker that crashed before it gave it its size (S-3)
        self.starts = [start for start, _ in found]
        self.lengths = [length for _, length in found]
        self._open: dict[int, Bytes] = {}

    def __enter__(self) -> FileRow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def start(self) -> int:
        """Offset of the first byte; 0 without files."""
        return self.starts[0] if self.starts else 0

    @property
    def end(self) -> int:
        """Offset behind the last file."""
        return self.starts[-1] + self.lengths[-1] if self.starts else 0

    def path(self, index: int) -> Place:
        """Where a file lies."""
        in_later = self._later is not None and index >= self._moved
        directory = self._later if in_later and self._later is not None else self.directory
        return directory / f"{self.starts[index]:020d}"

    def index(self, offset: int) -> int:
        """Index of the file that holds a byte; -1 when none does."""
        found = bisect.bisect_right(self.starts, offset) - 1
        if found < 0 or offset >= self.starts[found] + self.lengths[found]:
            return -1
        return found

    def place(self, offset: int) -> tuple[Place, int]:
        """File and position of a byte, for error messages; also of a deleted byte."""
        found = bisect.bisect_right(self.starts, offset) - 1
        if found >= 0:
            return self.path(found), offset - self.starts[found]
        return self.directory, offset

    def read_into(self, target: memoryview, offset: int) -> int:
        """Fill `target` from byte `offset` on, within one file; returns the number of bytes."""
        index = self.index(offset)
        if index < 0:
            return 0
        file = self._file(index)
        if file is None:
            return 0
        done = file.read_into(target, offset - self.starts[index])
        self.bytes_read += done
        return done

    def _file(self, index: int) -> Bytes | None:
        file = self._open.get(index)
        if file is None:
            # Opened on demand: a store may have more files than a process may open at once.
            try:
                file = self.path(index).open(in_blocks=self._in_blocks)
            except FileNotFoundError:  # deleted by retention after the directory was listed
                return None
            self._open[index] = file
        return file

    def may_map(self, offset: int) -> bool:
        """Whether the file that holds a byte may be mapped: nothing cuts it.

        Brokers cut the last file, when they start after a crash or follow another master; what was
        mapped there would then kill this process (SIGBUS).
        """
        # The last file is included only if the store is not in use.
        return self.index(offset) < len(self) - (1 if self._in_use else 0)

    def mapped(self, offset: int, size: int) -> npt.NDArray[np.uint8] | None:
        """Some bytes of one file without a copy; None where that is not possible.

        Let go of them before long: as many pages count as this process's memory.
        """
        index = self.index(offset)
        file = None if index < 0 else self._file(index)
        view = None if file is None else file.mapped(offset - self.starts[index], size)
        if view is None:
            return None
        self.bytes_read += size
        return np.frombuffer(view, np.uint8)

    def read(self, offset: int, size: int) -> bytearray:
        """Up to `size` bytes from byte `offset` on, within one file."""
        data = bytearray(size)
        with memoryview(data) as view:
            done = self.read_into(view, offset)
        del data[done:]
        return data


def log_files(root: Place) -> FileRow:
    """The commit log of a store; DLedger's behind a plain one, if there is one (D-235).

    Raises:
        DiskError: There are two logs for the same offsets.
    """
    plain = root / "commitlog"
    listed = root.entries()
    in_use = any(each.name == ABORT for each in listed)
    found = {
        str(folder): (folder, [f"{start:020d}" for start, _ in sorted(_files(folder))])
        for folder in _ledgers(root, listed)
    }
    ledgers = {path: names for path, (_, names) in found.items() if names}
    if not ledgers:
        return FileRow(plain, in_use=in_use)
    try:
        names = [f"{start:020d}" for start, _ in _files(plain)]
        return FileRow(plain, found[ledger_of(names, ledgers)][0], in_use=in_use)
    except ValueError as exc:
        advice = "move the one away that is not to be read"
        raise DiskError(str(root), str(exc), advice=advice) from None


def is_store(root: Place) -> bool:
    """Whether a directory has a log, or queues."""
    listed = root.entries()
    names = {each.name for each in listed if each.is_folder}
    return bool(names & {"commitlog", "consumequeue"}) or any(
        folder.is_folder() for folder in _ledgers(root, listed)
    )


def _ledgers(root: Place, listed: Sequence[Entry]) -> list[Place]:
    return [
        root / each.name / "data"
        for each in listed
        if each.is_folder and each.name.startswith(FOLDER_PREFIX)
    ]


def _files(directory: Place) -> Iterator[tuple[int, int]]:
    """(first offset, length) of each file."""
    for each in directory.entries():
        if len(each.name) == 20 and each.name.isdigit():
            yield int(each.name), each.size


class QueueFiles:
    """Reads the entries of one queue, `consumequeue/<topic>/<queueId>/`."""

    def __init__(self, root: Place, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.row = FileRow(root / "consumequeue" / topic / str(queue_id), in_blocks=True)
        # The offsets of the file searched last: the searches of one plan are close to each other.
        self._last_read: tuple[int, Ints] | None = None

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id}"

    @property
    def first(self) -> int:
        """Queue offset of the first entry in the files."""
        return self.row.start // QUEUE_ENTRY.itemsize

    def entries(self, low: int, high: int, target: npt.NDArray[np.uint8] | None = None) -> Entries:
        """Entries of queue offsets [low, high); fewer when the files end before.

        Args:
            low: The first.
            high: Behind the last.
            target: Where they are put, if not into new memory; it has room for them.
        """
        width = QUEUE_ENTRY.itemsize
        # A caller with many queues passes one buffer for all of them.
        if target is None:
            target = np.empty(max(high - low, 0) * width, np.uint8)
        done, at = 0, low
        while at < high:
            index = self.row.index(at * width)
            if index < 0:
                break
            file_end = (self.row.starts[index] + self.row.lengths[index]) // width
            count = min(high, file_end) - at
            view = target[done : done + count * width].data
            found = self.row.read_into(view, at * width) // width
            done += found * width
            # The file has become shorter since it was listed.
            if found < count:
                break
            at += count
        return target[:done].view(QUEUE_ENTRY)

    def written_end(self) -> int:
        """Queue offset behind the last entry; the last file is longer than its content."""
        for index in range(len(self.row) - 1, -1, -1):
            low = self.row.starts[index] // QUEUE_ENTRY.itemsize
            count = self.row.lengths[index] // QUEUE_ENTRY.itemsize
            # A file has its full length from the start, so blank entries follow the written ones.
            end = low + bisect.bisect_left(range(low, low + count), True, key=self._is_blank)
            if end > low:
                return end
        return self.first

    def _is_blank(self, number: int) -> bool:
        found = self.entries(number, number + 1)
        return not len(found) or found["size"][0] == 0

    def index_at(self, position: int, low: int, high: int) -> int:
        """Queue offset of the first entry in [low, high) with a record at `position` or later.

        Physical offsets ascend along a queue; fillers are skipped.
        """
        files = [
            index
            for index in range(len(self.row))
            if self._bounds(index)[0] < high and self._bounds(index)[1] > low
        ]
        # Search the first file whose first message lies behind the position; take the one before.
        later = bisect.bisect_left(
            files, True, key=lambda index: self._first_offset(index, low, high) >= position
        )
        # Not even the first message is before the position.
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

    def first_offset(self, low: int, high: int) -> int:
        """Log offset of the first record of the entries [low, high); -1 if they are all fillers."""
        # Fillers are at the beginning of a queue, in one stretch.
        for at in range(low, high, _PROBE):
            found = self.entries(at, min(high, at + _PROBE))
            real = np.flatnonzero(found["size"] != FILLER_SIZE)
            if len(real):
                return int(found["offset"][real[0]])
        return -1

    def _first_offset(self, index: int, low: int, high: int) -> int:
        begin, end = self._bounds(index)
        return self.first_offset(max(begin, low), min(end, high))

    def _offsets(self, index: int, begin: int, end: int) -> Ints:
        """Log offsets of some entries of a file, ascending: a filler gets its predecessor's."""
        start = self._bounds(index)[0]
        known = self._last_read
        if known is None or known[0] != index or len(known[1]) < end - start:
            found = self.entries(start, end)["offset"].astype(np.int64)
            # A filler has the offset 0.
            if (found[1:] < found[:-1]).any():
                found = np.maximum.accumulate(found)
            known = self._last_read = (index, found)
        return known[1][begin - start : end - start]


def queues_of(root: Place) -> Iterator[tuple[str, int]]:
    """(topic, queue id) of each queue that has a directory, in order."""
    base = root / "consumequeue"
    for topic in base.entries():
        if not topic.is_folder:
            continue
        # Folders with other names come from tools or editors.
        ids = [int(each.name) for each in (base / topic.name).entries() if each.name.isdecimal()]
        for queue_id in sorted(ids):
            yield topic.name, queue_id

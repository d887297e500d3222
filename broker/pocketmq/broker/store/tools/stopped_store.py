"""A store that no broker has open: its files are read as they are; nothing is repaired.

The tools (`pocketmq store ...`) go through this and not through `MessageStore`, whose `load` is
recovery: it would mend, cut and count as gone what the tools are asked to show.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import msgspec

from pocketmq.broker.store.config import ENTRY_SIZE, MIB
from pocketmq.broker.store.disk.disk import Disk, DiskFile
from pocketmq.broker.store.disk.mapped_file import MappedFile, Mappings
from pocketmq.broker.store.flush.checkpoint import StoreCheckpoint
from pocketmq.broker.store.index.index_file import ENTRY as INDEX_ENTRY
from pocketmq.broker.store.index.index_file import HEADER as INDEX_HEADER
from pocketmq.broker.store.index.index_file import SLOT_SIZE, IndexFile
from pocketmq.broker.store.index.index_service import NAME_LENGTH as INDEX_NAME_LENGTH
from pocketmq.broker.store.queues.consume_queue import ENTRY
from pocketmq.broker.store.recovery.ledger_folder import ledger_folder
from pocketmq.protocol.stored.ledger import FOLDER_PREFIX, REST_OF_FILE, record_place
from pocketmq.protocol.stored.record_check import RecordKind, check_record
from pocketmq.runtime.errors import CallerError

_MARKS = ("commitlog", "consumequeue", "checkpoint", "config")
_MOST_MAPPED = 4096
_ENTRIES_PER_SLOT = 4
"""RocketMQ's own numbers, 5,000,000 and 20,000,000, have this ratio."""
_LOOK_BACK = 64 * 1024


class Problem(msgspec.Struct, frozen=True):
    """Something wrong, and exactly where."""

    path: str
    position: int
    """Byte in the file."""
    what: str

    def __str__(self) -> str:
        return f"{self.path}: byte {self.position}: {self.what}"


class StoreShape(NamedTuple):
    """The sizes that a store was written with, read off its files: none of them says."""

    log_file_size: int
    queue_file_size: int
    index_slots: int
    index_entries: int


class Row:
    """The files of a directory, in order, whatever their lengths and gaps.

    Args:
        disk: the file system.
        directory: where they are.
        mappings: bounds how many are mapped.
        later: more directories, each with the files that follow those of the one before.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        mappings: Mappings | None = None,
        later: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self._mappings = mappings
        self.files: list[MappedFile] = []
        """Each with its real length as `size`; what it holds is for the reader to find out."""
        self.unborn: str | None = None
        """A last file of length 0: a crash or a full disk came before it was sized (S-3)."""
        self._empty: list[str] = []
        for folder in (directory, *later):
            for name in disk.list_directory(folder):
                if len(name) != 20 or not name.isdigit():
                    continue
                path = os.path.join(folder, name)
                # Length 0: a crash came before the file was sized; the next start removes it (S-3).
                length = disk.file_size(path) or 0
                if self.unborn is not None:
                    self._empty.append(self.unborn)
                self.unborn = path if length == 0 else None
                if length == 0:
                    continue
                file = MappedFile(disk, path, int(name), length, mappings)
                file.wrote = length
                self.files.append(file)
        self._starts = [file.start for file in self.files]

    def find(self, offset: int) -> MappedFile | None:
        """The file that holds byte `offset`."""
        # Files may be missing, so search by name instead of dividing.
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or offset >= self.files[index].end:
            return None
        return self.files[index]

    def read(self, offset: int, size: int) -> memoryview | None:
        """`size` bytes at `offset`, not copied; None unless one file holds them all."""
        file = self.find(offset)
        if file is None or size < 0 or offset + size > file.end:
            return None
        return file.view()[offset - file.start : offset - file.start + size]

    def end_at(self, offset: int) -> None:
        """Know nothing of what lies behind an offset."""
        files = []
        for file in self.files:
            if file.start < offset:
                size = min(file.size, offset - file.start)
                # Shorten it, so that nothing behind the end is read.
                if size < file.size:
                    file = MappedFile(file.disk, file.path, file.start, size, self._mappings)
                    file.wrote = size
                files.append(file)
        self.files = files
        self.unborn = None
        self._empty = []
        self._starts = [file.start for file in files]

    def misfits(self, size: int) -> Iterator[Problem]:
        """Files of another length than `size`, and gaps between files (S-1, S-3)."""
        yield from (Problem(path, 0, "the file is empty") for path in self._empty)
        for index, file in enumerate(self.files):
            if file.size != size:
                yield Problem(file.path, file.size, f"the file ends here and not at {size}")
            if index and file.start != self.files[index - 1].start + size:
                yield Problem(file.path, 0, "the file before it is missing")


class StoppedQueue:
    """The entries of one queue, as its files hold them."""

    def __init__(
        self, disk: Disk, directory: str, topic: str, queue_id: int, mappings: Mappings
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.row = Row(disk, os.path.join(directory, topic, str(queue_id)), mappings)

    @property
    def first(self) -> int:
        """Number of the first entry that the files have room for."""
        return self.row.files[0].start // ENTRY_SIZE if self.row.files else 0

    @cached_property
    def end(self) -> int:
        """One behind the last entry that is not all zeros."""
        for file in reversed(self.row.files):
            count = _entries(file)
            if first_content(file, count * ENTRY_SIZE) is not None:  # zeros in between: damage
                count = -(-content_end(file) // ENTRY_SIZE)
            if count:
                return file.start // ENTRY_SIZE + count
        return self.first


def _entries(file: MappedFile) -> int:
    """How many entries come before the first of zeros, if all before that are not."""
    view = file.view()
    low, high = 0, file.size // ENTRY_SIZE
    while low < high:
        middle = (low + high) // 2
        if view[middle * ENTRY_SIZE : (middle + 1) * ENTRY_SIZE] == _ZEROS[:ENTRY_SIZE]:
            high = middle
        else:
            low = middle + 1
    return low


class StoppedStore:
    """One store root; use it as a context manager, it holds the store's lock meanwhile.

    `running_store.open_store` also opens one that a broker is working on.

    Args:
        disk: the file system.
        root: the store's directory.
        index_slots: hash slots of an index file, if it has not four entries to a slot.

    Raises:
        StoreLockedError: a broker has it open.
        DiskError: the directory cannot be read.
    """

    is_running: ClassVar[bool] = False
    """Whether a broker works on it meanwhile."""

    def __init__(self, disk: Disk, root: str, *, index_slots: int | None = None) -> None:
        self.disk = disk
        self.root = root
        self._lock = self._take_lock(disk, os.path.join(root, "lock"))
        ledger = ledger_folder(disk, root)
        self.log = Row(
            disk, os.path.join(root, "commitlog"), later=() if ledger is None else (ledger,)
        )
        self.is_ledger = ledger is not None
        """DLedger wrote the log or its last part (D-230): it is read and never written."""
        self.queues = self._list_queues()
        self.index_paths = index_paths(disk, root)
        self.shape = StoreShape(
            _file_size([self.log]),
            _file_size([queue.row for queue in self.queues]),
            *_index_shape(disk, self.index_paths, index_slots),
        )
        self.checkpoint = StoreCheckpoint(disk, root)
        self.checkpoint.load()
        self.is_clean = disk.file_size(os.path.join(root, "abort")) is None
        """The last process that had it open ended as it should (S-60)."""

    def _list_queues(self) -> list[StoppedQueue]:
        disk, mappings = self.disk, Mappings(_MOST_MAPPED)
        directory = os.path.join(self.root, "consumequeue")
        return [
            StoppedQueue(disk, directory, topic, int(name), mappings)
            for topic in disk.list_directory(directory)
            for name in sorted(disk.list_directory(os.path.join(directory, topic)))
            if name.isdigit()
        ]

    def _take_lock(self, disk: Disk, path: str) -> DiskFile | None:
        # Whoever opens a store makes the file first.
        return None if disk.file_size(path) is None else disk.lock(path)

    @property
    def log_start(self) -> int:
        """Log offset of the oldest byte."""
        return self.log.files[0].start if self.log.files else 0

    def known_end(self) -> int:
        """Log offset behind the last record that a queue knows."""
        known = [self.log_start]
        for queue in self.queues:
            entry = queue.row.read((queue.end - 1) * ENTRY_SIZE, ENTRY_SIZE) if queue.end else None
            # Count the last entry only if its record exists.
            if entry is not None:
                physical, size, _ = ENTRY.unpack(entry)
                record = self.log.read(physical, size)
                if record is not None and check_record(record, 0).physical_offset == physical:
                    known.append(physical + size)
        return max(known)

    def log_end(self) -> int:
        """Where records end: at `known_end`, or behind records that follow there."""
        offset = self.known_end()
        while (file := self.log.find(offset)) is not None:
            # A DLedger log has its own entries and blanks between the records (D-222, D-232).
            if self.is_ledger:
                place = record_place(file.view(), offset - file.start, offset)
                offset = file.end if place == REST_OF_FILE else file.start + place
                if place == REST_OF_FILE:
                    continue
            checked = check_record(file.view(), offset - file.start)
            # At anything else the log ends.
            if checked.kind not in (RecordKind.RECORD, RecordKind.BLANK):
                break
            offset += checked.size
        return offset

    def last_log_file(self) -> MappedFile:
        """The log file in which records end; behind it there may be one made ahead of time."""
        files = self.log.files
        return next((f for f in reversed(files) if first_content(f, 0) is not None), files[0])

    def index_files(self) -> list[IndexFile]:
        """The index files of the right length, from old to new."""
        found = []
        for path in self.index_paths:
            file = IndexFile(self.disk, path, self.shape.index_slots, self.shape.index_entries)
            if self.disk.file_size(path) == file.size:
                file.load()
                found.append(file)
        return found

    def close(self) -> None:
        """Let others open it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def find_stores(disk: Disk, directory: str) -> list[str]:
    """Store roots: `directory` itself, or else those right in it.

    Raises:
        CallerError: there is none.
    """
    directory = os.path.abspath(os.path.expanduser(directory))
    if _is_store(disk, directory):
        return [directory]
    found = [
        path
        for name in disk.list_directory(directory)
        if _is_store(disk, path := os.path.join(directory, name))
    ]
    if not found:
        raise CallerError(
            f"{directory} is not a store root and contains no store root; give the folder that "
            "contains commitlog/ and consumequeue/"
        )
    return found


def index_paths(disk: Disk, root: str) -> list[str]:
    """Every index file, from old to new."""
    directory = os.path.join(root, "index")
    return [
        os.path.join(directory, name)
        for name in disk.list_directory(directory)
        if len(name) == INDEX_NAME_LENGTH and name.isdigit()
    ]


def content_end(file: MappedFile) -> int:
    """Position behind the last byte of a file that is not zero. One comparison per 64 KiB."""
    view = file.view()
    end = file.size
    while end > 0:
        start = max(0, end - _LOOK_BACK)
        if view[start:end] != _ZEROS[: end - start]:
            return start + len(bytes(view[start:end]).rstrip(b"\0"))
        end = start
    return 0


_ZEROS = memoryview(bytes(_LOOK_BACK))


def first_content(file: MappedFile, position: int) -> int | None:
    """First position from `position` on whose byte is not zero; holes cost nothing."""
    view = file.view()
    at: int | None = position
    while at is not None and (at := file.disk.next_data(file.path, at)) is not None:
        stop = min(file.size, at + MIB)
        if stop <= at:
            return None
        chunk = bytes(view[at:stop])
        rest = chunk.lstrip(b"\0")
        if rest:
            return at + len(chunk) - len(rest)
        at = stop
    return None


def _is_store(disk: Disk, path: str) -> bool:
    names = disk.list_directory(path)
    return (
        "commitlog" in names
        or any(name.startswith(FOLDER_PREFIX) for name in names)
        # A lock file alone could belong to anything.
        or ("lock" in names and any(mark in names for mark in _MARKS))
    )


def _file_size(rows: Sequence[Row]) -> int:
    """Length of a row's files: the distance of two names, else the length that most files have."""
    distances: Counter[int] = Counter()
    lengths: Counter[int] = Counter()
    for row in rows:
        for left, right in zip(row.files, row.files[1:], strict=False):
            distances[right.start - left.start] += 1
        lengths.update(file.size for file in row.files if file.size)
    # Prefer distances between names, because the last file may be short.
    found = distances or lengths
    return found.most_common(1)[0][0] if found else 0


def _index_shape(disk: Disk, paths: Sequence[str], slots: int | None) -> tuple[int, int]:
    """Slots and entries of an index file; zeros when its length fits no such pair."""
    if not paths:
        return slots or 0, 0
    length = max(disk.file_size(path) or 0 for path in paths)
    body = length - INDEX_HEADER.size
    if slots is None:
        # RocketMQ's defaults have four entries for each slot; without that, the number is unknown.
        slots, rest = divmod(body, SLOT_SIZE + _ENTRIES_PER_SLOT * INDEX_ENTRY.size)
    else:
        rest = (body - slots * SLOT_SIZE) % INDEX_ENTRY.size
    if rest or slots <= 0 or body < slots * SLOT_SIZE:
        return 0, 0
    return slots, (body - slots * SLOT_SIZE) // INDEX_ENTRY.size

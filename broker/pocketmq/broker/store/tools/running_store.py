"""A store that a broker is working on, as it was when one began to look; nothing is touched.

Records and entries never change once they are there, and an entry is written after its record. So
the log is taken to end behind the last record that has its entry now, and queues and index
before the first entry that leads behind that. What the broker adds later is not looked at.
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar

from pocketmq.broker.store.config import ENTRY_SIZE
from pocketmq.broker.store.disk.disk import Disk, DiskFile, ReadOnlyDisk
from pocketmq.broker.store.errors import StoreLockedError
from pocketmq.broker.store.index.index_file import ENTRY as INDEX_ENTRY
from pocketmq.broker.store.index.index_file import IndexFile
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER_SIZE
from pocketmq.broker.store.tools.stopped_store import StoppedQueue, StoppedStore, index_paths
from pocketmq.protocol.stored.record_check import check_record
from pocketmq.runtime.errors import DiskError

_MOST_LOOKS = 100
"""At the header of an index file, which the broker writes field by field."""


class RunningStore(StoppedStore):
    """One store root on which a broker works; it is not locked, and read through `ReadOnlyDisk`.

    Args:
        root: the store's directory.
        index_slots: hash slots of an index file, if it has not four entries to a slot.

    Raises:
        DiskError: a file cannot be read, perhaps because the broker has removed it meanwhile.
    """

    is_running: ClassVar[bool] = True

    def __init__(self, root: str, *, index_slots: int | None = None) -> None:
        super().__init__(ReadOnlyDisk(), root, index_slots=index_slots)
        end = self.known_end()  # a record behind it may get its entry any moment
        # Anew: only now has every queue that was looked at early its entries up to there.
        self.queues = self._list_queues()
        self.index_paths = index_paths(self.disk, root)
        for queue in self.queues:
            queue.row.end_at(self._entries_below(queue, end) * ENTRY_SIZE)
            del queue.end  # it was looked up in the whole file
        self.log.end_at(end)
        self._index = self._index_below(end)

    def index_files(self) -> list[IndexFile]:
        """The index files as they were; the same objects each time."""
        return self._index

    def _take_lock(self, disk: Disk, path: str) -> DiskFile | None:
        return None

    def _entries_below(self, queue: StoppedQueue, log_end: int) -> int:
        """One behind the queue's last complete entry whose record is in the part looked at."""
        number = queue.end
        while number > queue.first:
            entry = queue.row.read((number - 1) * ENTRY_SIZE, ENTRY_SIZE)
            physical, size, _ = ENTRY.unpack(entry) if entry is not None else (log_end, 0, 0)
            if size == FILLER_SIZE or (
                physical + size <= log_end and self._is_there(physical, size)
            ):
                break
            number -= 1
        return number

    def _is_there(self, physical: int, size: int) -> bool:
        """Whether an entry leads to a record, or to one that was deleted: not half written."""
        if physical < self.log_start:
            return True
        record = self.log.read(physical, size)
        return record is not None and check_record(record, 0).physical_offset == physical

    def _index_below(self, log_end: int) -> list[IndexFile]:
        found = []
        for path in self.index_paths:
            file = IndexFile(self.disk, path, self.shape.index_slots, self.shape.index_entries)
            if self.disk.file_size(path) == file.size:
                _load_settled(file)
                _end_at(file, log_end)
                found.append(file)
        return found


class UnwritableStore(StoppedStore):
    """One store root on a medium that cannot be written: a snapshot, a disc, another's mount.

    A lock needs a file that can be written, so there is none. Nor can a broker work on it.

    Args:
        root: the store's directory.
        index_slots: as `RunningStore`.

    Raises:
        DiskError: a file cannot be read.
    """

    def __init__(self, root: str, *, index_slots: int | None = None) -> None:
        super().__init__(ReadOnlyDisk(), root, index_slots=index_slots)

    def _take_lock(self, disk: Disk, path: str) -> DiskFile | None:
        return None


def open_store(disk: Disk, root: str, *, index_slots: int | None = None) -> StoppedStore:
    """A store to be read, locked where nobody has it open and a lock is possible.

    Raises:
        DiskError: something cannot be read at all.
    """
    try:
        return StoppedStore(disk, root, index_slots=index_slots)
    except StoreLockedError:
        return RunningStore(os.path.abspath(root), index_slots=index_slots)
    except DiskError as exc:
        # Read-only media allow no lock and no broker; other errors are real.
        if not isinstance(exc.__cause__, OSError) or exc.__cause__.errno != errno.EROFS:
            raise
        return UnwritableStore(os.path.abspath(root), index_slots=index_slots)


def _load_settled(file: IndexFile) -> None:
    """Read a header that is not just being written: twice the same."""
    seen: tuple[int, ...] | None = None
    for _ in range(_MOST_LOOKS):
        file.load()
        now = (file.next_entry, file.end_physical, file.end_ms, file.used_slots)
        if now == seen:
            return
        seen = now


def _end_at(file: IndexFile, log_end: int) -> None:
    """Leave out entries of records that came later."""
    entries = file.entries(0)
    number = file.next_entry
    while number > 1:
        physical = INDEX_ENTRY.unpack_from(entries, (number - 1) * INDEX_ENTRY.size)[1]
        if physical < log_end:
            file.end_physical = physical
            break
        number -= 1
    file.next_entry = number

"""The timer log: files of 52-byte records, each leading to the one before it in its slot."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator

from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.disk_worker import Job
from pocketmq.broker.store.disk.mapped_file import PAGE, MappedFile
from pocketmq.broker.store.disk.mapped_files import MappedFiles
from pocketmq.broker.store.flush.flush_queues import DoubtfulPart, sync_file
from pocketmq.broker.timers.layout import (
    BLANK_SIZE,
    RECORD_SIZE,
    LogRecord,
    blank,
    is_blank,
)

_RESERVE_LOW = 64 * 1024
_RESERVE_HIGH = 4 * 1024 * 1024


class TimerLog:
    """Appends records and reads them back (T-112, T-113).

    Args:
        disk: the seam to the file system.
        root: the store's directory.
        file_size: bytes of one file.
    """

    def __init__(self, disk: Disk, root: str, file_size: int) -> None:
        self._disk = disk
        self._files = MappedFiles(disk, os.path.join(root, "timerlog"), file_size)
        self._is_in_doubt = False
        """Whether what is not flushed may be taken for clean by the system."""

    @property
    def end(self) -> int:
        """Position behind the last record."""
        return self._files.max_offset

    def append(self, record: LogRecord) -> int:
        """Add a record; its position.

        Raises:
            DiskFullError: it is not there; nothing else has changed.
        """
        files = self._files
        file = files.last
        # Keep 16 bytes for a blank behind the last record (T-113).
        if file is not None and file.size - file.wrote < RECORD_SIZE + BLANK_SIZE:
            if file.wrote < file.size:
                # The blank may lie behind the blocks reserved so far.
                if file.reserved < file.wrote + BLANK_SIZE:
                    file.reserve(file.wrote + BLANK_SIZE, low=0, high=0)
                file.append(blank(file.size - file.wrote))
                file.wrote = file.size
            file = None
        if file is None:
            file = files.add_file()
        end = file.wrote + RECORD_SIZE
        if file.reserved < end:
            file.reserve(end, low=_RESERVE_LOW, high=_RESERVE_HIGH)
        position = file.start + file.wrote
        file.append(record.encode())
        return position

    def place_of(self, count: int) -> int | None:
        """Where the first of `count` more records would lie; None: use `append` for each.

        They have a place at once when the file at hand has room for them, and blocks on the disk.
        """
        file = self._files.last
        if file is None:
            return None
        # Only where space is reserved: then a write of several records cannot fail half-way.
        end = file.wrote + count * RECORD_SIZE
        if end > file.reserved or end + BLANK_SIZE > file.size:
            return None
        return file.start + file.wrote

    def append_packed(self, records: bytes) -> None:
        """Add the records for which `place_of` had a place, encoded, in one write."""
        file = self._files.last
        assert file is not None, "place_of() came before"
        file.append(records)

    def read(self, position: int) -> LogRecord | None:
        """The record at a position; None when it is gone or never was."""
        file = self._files.find(position)
        if file is None:
            return None
        at = position - file.start
        if at + RECORD_SIZE > file.wrote:
            return None
        return LogRecord.decode(file.view(), at)

    def last_record(self) -> LogRecord | None:
        """The newest record."""
        for file in reversed(self._files.files[-2:]):
            newest = _newest_of(file)
            if newest is not None:
                return newest
        return None

    def newest_first(self) -> Iterator[LogRecord]:
        """All records, from the newest on."""
        for file in reversed(self._files.files):
            yield from _newest_first(file)

    # -- files --------------------------------------------------------------------------------

    def load(self) -> None:
        """Find the files.

        Raises:
            StoreFileError: one is missing or has a wrong length.
        """
        self._files.load()

    def recover(self, begin: int, found: Callable[[int, LogRecord], None]) -> int:
        """Call `found` for each record from the file of `begin` on; cut off what follows the last.

        What lies behind `begin` was perhaps never synced, so the next sync brings it to the disk.

        Returns:
            Position behind the last record.
        """
        files = list(self._files.files)
        end = files[0].start if files else 0
        for file in files:
            # Synced in an earlier run: need not be read.
            if file.end <= begin and file is not files[-1]:
                end = file.end
                continue
            end = file.start
            for position, record in self._records_of(file.start):
                found(position, record)
                end = position + RECORD_SIZE
            at = end - file.start
            # The log goes on in the next file only if this one is full or closed by a blank.
            view = file.view()
            if at < file.size and not is_blank(view, at):
                break
            end = file.end
        # Cut off everything from the first invalid record on (T-145).
        self._files.truncate(end)
        for file in self._files.files:
            # Only synced bytes count as flushed: a power cut may have lost the rest.
            file.flushed = min(file.flushed, file.wrote, max(0, begin - file.start))
            # The previous process may have failed to sync these bytes: write them again and read
            # them back.
            if file.flushed < file.wrote:
                self._is_in_doubt = True
        # The names in a new folder may not be synced yet.
        self._files.directory_synced = not self._files.files
        return end

    def _records_of(self, start: int) -> Iterator[tuple[int, LogRecord]]:
        file = self._files.find(start)
        assert file is not None
        view = file.view()
        at = 0
        while at + RECORD_SIZE <= min(file.wrote, file.size):
            record = LogRecord.decode(view, at)
            # Also at a blank, which is no record.
            if record is None:
                return
            yield start + at, record
            at += RECORD_SIZE

    # -- the disk -------------------------------------------------------------------------------

    async def sync(self, run: Callable[[Job], Awaitable[None]]) -> None:
        """Bring everything written so far to the disk.

        What a failed sync, or a process that was killed, has left in doubt is written once more and
        read back: the system may believe that it is on the disk.

        Args:
            run: has a worker do a job, and returns when that is done.

        Raises:
            DiskError: it failed; the next call begins anew.
        """
        disk, files = self._disk, self._files
        new_names, files.directory_synced = not files.directory_synced, True
        # Cleared only after a sync that succeeded.
        in_doubt, self._is_in_doubt = self._is_in_doubt, True
        marks = [(file, file.wrote) for file in files.files if file.flushed < file.wrote]
        doubtful = {
            file.path: DoubtfulPart(file.writable_view()[:wrote], file.flushed // PAGE * PAGE)
            for file, wrote in marks
            if in_doubt
        }

        def job() -> None:
            for file, _ in marks:
                sync_file(disk, file.path, doubtful.get(file.path))
            if new_names:
                disk.sync_directory(files.directory)
                disk.sync_directory(os.path.dirname(files.directory))

        try:
            await run(job)
        except BaseException:
            # The names may still be unsynced.
            files.directory_synced &= not new_names
            raise
        for file, wrote in marks:
            file.flushed = wrote
        self._is_in_doubt = False

    def clean(self, min_physical_offset: int) -> int:
        """Delete old files all of whose messages the commit log has deleted; how many (T-148)."""
        removed = 0
        while len(self._files.files) > 1:
            newest = _newest_of(self._files.files[0])
            # Records follow the order of the commit log, so the newest one's message expires last.
            if newest is not None and newest.physical_offset >= min_physical_offset:
                break
            self._files.remove_first()
            removed += 1
        return removed

    def close(self) -> None:
        """Let go of descriptors and mappings."""
        self._files.close()


def _newest_of(file: MappedFile) -> LogRecord | None:
    """The last record of a file; looked for from its end, for a file may have two million."""
    return next(_newest_first(file), None)


def _newest_first(file: MappedFile) -> Iterator[LogRecord]:
    view = file.view()
    for at in range(file.wrote // RECORD_SIZE * RECORD_SIZE - RECORD_SIZE, -1, -RECORD_SIZE):
        record = LogRecord.decode(view, at)
        if record is not None:
            yield record

"""The timer log: files of 52-byte records, each leading to the one before it in its slot."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from pocketmq.broker.store.disk import Disk
from pocketmq.broker.store.mapped_files import MappedFiles
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
        if file is not None and file.size - file.wrote < RECORD_SIZE + BLANK_SIZE:
            if file.wrote < file.size:
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
        if file is None or position < file.start:
            return None
        at = position - file.start
        if at + RECORD_SIZE > file.wrote:
            return None
        return LogRecord.decode(file.view(), at)

    def last_record(self) -> LogRecord | None:
        """The newest record."""
        newest: LogRecord | None = None
        for file in self._files.files[-2:]:
            for _, newest in self._records_of(file.start):  # noqa: B007 - the last one is wanted
                pass
        return newest

    # -- files --------------------------------------------------------------------------------

    def load(self) -> None:
        """Find the files.

        Raises:
            StoreFileError: one is missing or has a wrong length.
        """
        self._files.load()

    def recover(self, begin: int, found: Callable[[int, LogRecord], None]) -> int:
        """Call `found` for each record from the file of `begin` on; cut off what follows the last.

        Returns:
            Position behind the last record.
        """
        files = list(self._files.files)
        end = files[0].start if files else 0
        for file in files:
            if file.end <= begin and file is not files[-1]:
                end = file.end
                continue
            end = file.start
            for position, record in self._records_of(file.start):
                found(position, record)
                end = position + RECORD_SIZE
            at = end - file.start
            view = file.view()
            if at < file.size and not is_blank(view, at):
                break
            end = file.end
        self._files.truncate(end)
        if files and (last := self._files.last) is not None:
            last.wrote = min(last.size, max(0, end - last.start))
        return end

    def _records_of(self, start: int) -> Iterator[tuple[int, LogRecord]]:
        file = self._files.find(start)
        assert file is not None
        view = file.view()
        at = 0
        while at + RECORD_SIZE <= min(file.wrote, file.size):
            if is_blank(view, at):
                return
            record = LogRecord.decode(view, at)
            if record is None:
                return
            yield start + at, record
            at += RECORD_SIZE

    # -- the disk -------------------------------------------------------------------------------

    def sync_job(self) -> Callable[[], None]:
        """What brings everything written so far to the disk; for a worker."""
        disk, directory = self._disk, self._files.directory
        new_names = not self._files.directory_synced
        self._files.directory_synced = True
        dirty = [file for file in self._files.files if file.flushed < file.wrote]
        marks = [(file, file.wrote, file.path) for file in dirty]

        def job() -> None:
            for _, _, path in marks:
                handle = disk.open_file(path)
                try:
                    handle.sync()
                finally:
                    handle.close()
            if new_names:
                disk.sync_directory(directory)
                disk.sync_directory(os.path.dirname(directory))
            for file, wrote, _ in marks:
                file.flushed = wrote

        return job

    def clean(self, min_physical_offset: int) -> int:
        """Delete old files all of whose messages the commit log has deleted; how many (T-148)."""
        removed = 0
        while len(self._files.files) > 1:
            newest: LogRecord | None = None
            for _, newest in self._records_of(self._files.files[0].start):  # noqa: B007
                pass
            if newest is not None and newest.physical_offset >= min_physical_offset:
                break
            self._files.remove_first()
            removed += 1
        return removed

    def close(self) -> None:
        """Let go of descriptors and mappings."""
        self._files.close()

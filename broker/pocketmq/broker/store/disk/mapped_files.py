"""A row of equally long files that together are one endless byte sequence (S-1 to S-4).

    offset     0              1 GiB            2 GiB
               +----------------+----------------+----------------+
               | 000...00000000 | 000..073741824 | 000..147483648 |  each named by its first offset
               +----------------+----------------+----------------+
               ^ min_offset               wrote ^ max_offset

Old files go at the left, new ones come at the right. Byte x lies in file x // size, and finding
it is one division. RocketMQ's name for this is `MappedFileQueue`. Each file is mapped into memory
while it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.disk_worker import Job
from pocketmq.broker.store.disk.mapped_file import MappedFile, Mappings
from pocketmq.broker.store.errors import StoreFileError


def file_name(start: int) -> str:
    """`00000000001073741824`: a file is named by the offset of its first byte (S-1)."""
    return f"{start:020d}"


def _is_offset(name: str) -> bool:
    return len(name) == 20 and name.isdigit()


class MappedFiles:
    """Finds, adds, cuts and removes the files of one directory."""

    __slots__ = (
        "_lasting",
        "_mappings",
        "directory",
        "directory_synced",
        "disk",
        "file_size",
        "files",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        file_size: int,
        mappings: Mappings | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.file_size = file_size
        self.files: list[MappedFile] = []
        """In order of their offsets, without a gap."""
        self.directory_synced = True
        """False while a name in the directory may be lost by a power cut."""
        self._mappings = mappings
        self._lasting = lasting
        """Whether a file's name and length survive a power cut before a byte is in it: a row that
        loses one in the middle has lost what is behind it too."""

    def load(self) -> None:
        """Find the files that are there; every one counts as full until recovery says otherwise.

        A last file of length 0 is what a crash left between creating and sizing it, and is
        removed (S-3). A last file that is too short was being cut, and gets its length back.

        Raises:
            StoreFileError: another file has a wrong length, or one in the middle is missing.
        """
        # Skip other names, such as an editor's backups; RocketMQ would not start with them.
        names = [each for each in self.disk.list_directory(self.directory) if _is_offset(each)]
        self.files = []
        for index, name in enumerate(names):
            path = f"{self.directory}/{name}"
            is_last = index == len(names) - 1
            length = self.disk.file_size(path) or 0
            if length == 0 and is_last:
                self.disk.remove_file(path)
                continue
            # A crash during a cut left the file short; zeros replace what was cut.
            if length < self.file_size and is_last:
                self.disk.resize_file(path, self.file_size)
            elif length != self.file_size:
                # Another file size was configured; resizing the file would destroy messages.
                raise StoreFileError(
                    path,
                    f"the file must have {self.file_size} bytes, but has {length}",
                    position=length,
                    advice="start the broker with the file sizes of this store (options "
                    "--mapped-file-size-...)",
                )
            start = int(name)
            # Offsets are found by division, so a missing file would shift all later ones.
            if self.files and start != self.files[-1].end:
                missing = self.next_path()
                raise StoreFileError(
                    missing,
                    "this file is missing, although later files of the sequence exist",
                    advice="restore the file from a copy",
                )
            file = MappedFile(self.disk, path, start, self.file_size, self._mappings)
            # Treat files as full at first (S-3); recovery then finds the true end.
            file.wrote = file.flushed = file.size
            self.files.append(file)

    @property
    def min_offset(self) -> int:
        """Offset of the first byte; 0 when there is no file (S-4)."""
        return self.files[0].start if self.files else 0

    @property
    def max_offset(self) -> int:
        """Offset behind the last byte written; 0 when there is no file (S-4)."""
        if not self.files:
            return 0
        last = self.files[-1]
        return last.start + last.wrote

    @property
    def last(self) -> MappedFile | None:
        """The file that is written."""
        return self.files[-1] if self.files else None

    def find(self, offset: int) -> MappedFile | None:
        """The file that holds byte `offset`; None when it is gone or not yet there."""
        # Files have equal lengths and no gaps, so the index can be computed.
        files = self.files
        if not files:
            return None
        index = (offset - files[0].start) // self.file_size
        return files[index] if 0 <= index < len(files) else None

    def read(self, offset: int, size: int) -> memoryview | None:
        """`size` written bytes at `offset`, not copied; None unless one file holds them all."""
        files = self.files  # as `find`, whose call a pull would pay for each of its records
        if not files:
            return None
        index = (offset - files[0].start) // self.file_size
        if not 0 <= index < len(files):
            return None
        file = files[index]
        position = offset - file.start
        # Bytes beyond `wrote` are zeros or an unfinished record.
        if position + size > file.wrote:
            return None
        return file.view()[position : position + size]

    def add_file(self, offset: int | None = None) -> MappedFile:
        """Put a new, empty file at the right end, or take the one made ahead of time.

        Args:
            offset: an offset in the first file of an empty row (S-2); ignored otherwise.
        """
        if self.files:
            start = self.files[-1].end
        else:
            start = (offset or 0) - (offset or 0) % self.file_size
            self.disk.make_directory(self.directory)
        path = self.next_path() if self.files else self._path(start)
        if self.disk.file_size(path) != self.file_size:
            # Not `create_file`: a worker may be at it this moment, and either may come first.
            self.disk.write_file(path, b"")
            self.disk.resize_file(path, self.file_size)
        self.directory_synced = False
        file = MappedFile(self.disk, path, start, self.file_size, self._mappings)
        # Make the name durable before the file is used: if a power cut took it but kept a later
        # file, the store could not be opened.
        if self._lasting:
            file.handle().sync()
            self.disk.sync_directory(self.directory)
            # The first file may also bring a new directory.
            if not self.files:
                self.disk.sync_directory(os.path.dirname(self.directory))
        self.files.append(file)
        return file

    def next_path(self) -> str:
        """Where the file after the last one will be; it may be made ahead of time."""
        return self._path(self.files[-1].end)

    def _path(self, start: int) -> str:
        return os.path.join(self.directory, file_name(start))

    def truncate(self, offset: int) -> None:
        """Forget every byte from `offset` on: files behind it go, the one around it is cut.

        Raises:
            DiskError: none of them is read any more, and some may be there: truncate once more.
        """
        # From the end, so that a crash in between leaves no gap.
        while len(self.files) > 1 and self.files[-1].start >= offset:
            # First, so that readers stop seeing the file even if its deletion fails.
            self.files[-1].wrote = 0
            # Remove it from the list only after the deletion, so that a failed one can be repeated.
            self._take(self.files[-1])()
            self.files.pop()
        if self.files:
            last = self.files[-1]
            # The only file left stays even if it begins behind `offset`: its name shows where the
            # log goes on.
            last.cut(min(last.size, max(0, offset - last.start)))

    def remove_first(self) -> None:
        """Delete the oldest file; readers that hold views of it are not disturbed."""
        for delete in self.take_first():
            delete()

    def take_first(self) -> Iterator[Job]:
        """Take the oldest file out of the row; the one result deletes it, which is slow.

        Go on only when that has worked, and close or leave the iterator when it has not: then the
        file is in the row again, if it is still there. Without it the row would have a hole as
        soon as its neighbour is deleted.
        """
        first = self.files.pop(0)
        try:
            yield self._take(first)
        finally:
            # If the next file has gone too, putting this one back would make a gap.
            is_next = not self.files or self.files[0].start == first.end
            if is_next and self.disk.file_size(first.path) is not None:
                self.files.insert(0, first)

    def _take(self, file: MappedFile) -> Job:
        """Let go of a file; the result deletes it for good, before its neighbour goes.

        A power cut could bring it back without that one, and a row with a hole is not opened.
        """
        remove, disk, directory = file.take_out(), self.disk, self.directory
        # Until the directory is synced, a power cut may bring the name back.
        self.directory_synced = False

        def delete() -> None:
            remove()
            disk.sync_directory(directory)

        return delete

    def remove_all(self) -> None:
        """Delete every file, and the directory."""
        for file in self.files:
            file.remove()
        self.files.clear()
        self.disk.remove_directory(self.directory)

    def close(self) -> None:
        """Let go of descriptors and mappings."""
        for file in self.files:
            file.release()
            file.unmap()

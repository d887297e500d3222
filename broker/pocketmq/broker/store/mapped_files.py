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
from collections import OrderedDict
from collections.abc import Iterator

from pocketmq.broker.store.disk import Disk, DiskFile
from pocketmq.broker.store.disk_worker import Job
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.row_look import RowLook, row_names

PAGE = 4096
"""Page size: the flush rules count pages (S-50, S-52)."""
_CHUNK = 64 * 1024


def file_name(start: int) -> str:
    """`00000000001073741824`: a file is named by the offset of its first byte (S-1)."""
    return f"{start:020d}"


class Mappings:
    """Bounds how many files are mapped at once; the one unused for longest makes room.

    A store of 10,000 queues has 10,000 small files. Each is mapped when it is read or written,
    and unmapped when others are used more. "Longest" is approximate (the CLOCK algorithm): a
    file used since it was last considered is kept for another round.
    """

    def __init__(self, max_open: int) -> None:
        self.max_open = max_open
        self._ring: OrderedDict[MappedFile, None] = OrderedDict()
        """The oldest first. No list: a file that is deleted would be looked for in all of it."""

    def __len__(self) -> int:
        return len(self._ring)

    def opened(self, file: MappedFile) -> None:
        """Take note of a new mapping, and close another if there are too many."""
        ring = self._ring
        ring[file] = None
        ring.move_to_end(file)  # it may be there: unmapped, and mapped again
        while len(ring) > self.max_open:
            oldest, _ = ring.popitem(last=False)
            if oldest.recently_used and oldest.is_mapped:
                oldest.recently_used = False
                ring[oldest] = None
            else:
                oldest.unmap()

    def forget(self, file: MappedFile) -> None:
        """A file is gone for good."""
        self._ring.pop(file, None)


class MappedFile:
    """A file of fixed size: how far it is written, and access to its bytes.

    Positions count from the file's own first byte, offsets from the row's.
    """

    __slots__ = (
        "_handle",
        "_is_written",
        "_mappings",
        "_view",
        "disk",
        "flushed",
        "path",
        "ready",
        "recently_used",
        "reserved",
        "size",
        "start",
        "wrote",
    )

    def __init__(
        self, disk: Disk, path: str, start: int, size: int, mappings: Mappings | None = None
    ) -> None:
        self.disk = disk
        self.path = path
        self.start = start
        """Offset of the first byte; also the file's name."""
        self.size = size
        self.wrote = 0
        """Position behind the last byte written."""
        self.flushed = 0
        """Position up to which the file survives a power cut."""
        self.reserved = 0
        """Position up to which blocks are known to be there."""
        self.ready = 0
        """Position up to which pages were made ahead of time."""
        self.recently_used = False
        self._mappings = mappings
        self._view: memoryview | None = None
        self._is_written = False
        """Whether it was written in this life: from then on its mapping is one to write through."""
        self._handle: DiskFile | None = None

    @property
    def end(self) -> int:
        """Offset behind the last byte that the file can hold."""
        return self.start + self.size

    @property
    def is_mapped(self) -> bool:
        return self._view is not None

    def view(self) -> memoryview:
        """All bytes of the file, to be read. Slices of it may be kept as long as one likes.

        Reading allocates nothing; before the first write that may be a mapping of its own kind.
        """
        view = self._view
        if view is None:
            how = self.disk.map_file if self._is_written else self.disk.map_for_reading
            view = self._view = how(self.path, self.size)
            if self._mappings is not None:
                self._mappings.opened(self)
        self.recently_used = True
        return view

    def writable_view(self) -> memoryview:
        """All bytes of the file, to be written where blocks are known to be there."""
        if not self._is_written:
            self._is_written = True
            if self._view is not None and self._view.readonly:
                self.unmap()
        return self.view()

    def unmap(self) -> None:
        """Let the mapping go; it ends when its last reader does, and comes back when needed."""
        self._view = None

    def reserve(self, end: int, *, low: int, high: int) -> None:
        """Make sure that blocks exist up to position `end`, and a window beyond it.

        The window grows with the file, from `low` to `high` bytes: a queue of one message
        takes a page, and a busy log asks the disk once in 4 MiB.

        Raises:
            DiskFullError: there are not that many blocks; nothing was changed.
        """
        window = min(high, max(low, self.reserved))
        target = min(self.size, -(-(end + window) // PAGE) * PAGE)
        start = self.reserved or self.wrote // PAGE * PAGE
        self.handle().reserve(start, target - start)
        self.reserved = target

    def handle(self) -> DiskFile:
        """The open file, for reserving and syncing; `release` it when that is rare."""
        if self._handle is None:
            self._handle = self.disk.open_file(self.path)
        return self._handle

    def release(self) -> None:
        """Close the descriptor; the mapping stays."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def append(self, data: bytes | memoryview) -> None:
        """Write at the end; the caller has reserved the place."""
        wrote = self.wrote
        end = wrote + len(data)
        view = self._view if self._is_written else None
        if view is None:
            view = self.writable_view()
        self.recently_used = True
        view[wrote:end] = data
        self.wrote = end

    def make_ready(self, size: int) -> None:
        """Have the system make the pages of the next `size` bytes, where blocks are there.

        A zero is written into each: nothing else stands behind the end.
        """
        start = max(self.ready, -(-self.wrote // PAGE) * PAGE)
        end = min(self.reserved, self.wrote + size)
        if start < end:
            self.writable_view()[start:end:PAGE] = bytes(len(range(start, end, PAGE)))
            self.ready = end

    def cut(self, position: int) -> None:
        """Make every byte from `position` on zero again, and give its blocks back.

        Old bytes behind the end must not stay: a record that happens to begin where a later one
        ends would be taken for a message at the next recovery.
        """
        self.unmap()
        self.disk.resize_file(self.path, position)
        self.disk.resize_file(self.path, self.size)
        self.wrote = position
        self.flushed = min(self.flushed, position)
        self.reserved = self.ready = 0

    def has_data_behind(self, position: int) -> bool:
        """Whether any byte from `position` on is not zero. Holes behind two pages are not read."""
        view = self.disk.map_for_reading(self.path, self.size) if self._is_written else self.view()
        at: int | None = position
        length = 2 * PAGE  # as many blocks as a short queue has
        while at is not None and at < self.size:
            end = min(self.size, at - at % PAGE + length)
            if bytes(view[at:end]) != bytes(end - at):
                return True
            at = self.disk.next_data(self.path, end)
            length = min(2 * length, _CHUNK)
        return False

    def remove(self) -> None:
        """Delete the file. Views of it that readers hold stay valid."""
        self.take_out()()

    def take_out(self) -> Job:
        """Let go of the file; the result deletes it. For 1 GiB that takes 0.3 s: use a worker."""
        self.release()
        self.unmap()
        if self._mappings is not None:
            self._mappings.forget(self)
        disk, path = self.disk, self.path
        return lambda: disk.remove_file(path)


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

    def load(self, look: int = 0, *, is_kept: bool = False) -> RowLook | None:
        """Find the files that are there; every one counts as full until recovery says otherwise.

        A last file of length 0 is what a crash left between creating and sizing it, and is
        removed (S-3). A last file that is too short was being cut, and gets its length back.

        Args:
            look: bytes to read of the last file's start; 0 for none.
            is_kept: no name can have been lost: then a row of one file need not be listed.

        Returns:
            What was read, if that is the last file and has its length.

        Raises:
            StoreFileError: another file has a wrong length, or one in the middle is missing.
        """
        size = self.file_size if is_kept else 0
        seen = self.disk.look_at_row(self.directory, look, size) if look else None
        names = seen.names if seen else row_names(self.disk.list_directory(self.directory))
        self.files = []
        for index, name in enumerate(names):
            path = f"{self.directory}/{name}"
            is_last = index == len(names) - 1
            length = seen.size if seen and is_last else self.disk.file_size(path) or 0
            if length == 0 and is_last:
                self.disk.remove_file(path)
                seen = None
                continue
            if length < self.file_size and is_last:
                self.disk.resize_file(path, self.file_size)
                seen = None
            elif length != self.file_size:
                raise StoreFileError(
                    path,
                    f"the file has {length} bytes and not {self.file_size}; it ends",
                    position=length,
                    advice="start with the file size that the store was written with",
                )
            start = int(name)
            if self.files and start != self.files[-1].end:
                missing = self.next_path()
                raise StoreFileError(
                    missing, "the file is missing; the row breaks", advice="restore it from a copy"
                )
            file = MappedFile(self.disk, path, start, self.file_size, self._mappings)
            file.wrote = file.flushed = file.size
            self.files.append(file)
        return seen if self.files else None

    def restore(self, first: int, last: int, wrote: int) -> None:
        """Take files for there without looking: what `load` and recovery found out once before.

        Args:
            first: offset at which the first file begins.
            last: offset at which the last one begins.
            wrote: bytes of the last one that are written.
        """
        for start in range(first, last + 1, self.file_size):
            file = MappedFile(self.disk, self._path(start), start, self.file_size, self._mappings)
            file.wrote = file.flushed = self.file_size if start < last else wrote
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
        if self._lasting:
            file.handle().sync()
            self.disk.sync_directory(self.directory)
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
        """Forget every byte from `offset` on: files behind it go, the one around it is cut."""
        while self.files and self.files[-1].start >= offset and len(self.files) > 1:
            self._take(self.files.pop())()
        if self.files:
            last = self.files[-1]
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
            is_next = not self.files or self.files[0].start == first.end
            if is_next and self.disk.file_size(first.path) is not None:
                self.files.insert(0, first)

    def _take(self, file: MappedFile) -> Job:
        """Let go of a file; the result deletes it for good, before its neighbour goes.

        A power cut could bring it back without that one, and a row with a hole is not opened.
        """
        remove, disk, directory = file.take_out(), self.disk, self.directory
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

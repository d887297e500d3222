"""One file of a row, mapped into memory while it is used; `mapped_files.py` is the row."""

from __future__ import annotations

from collections import OrderedDict

from pocketmq.broker.store.disk.disk import Disk, DiskFile
from pocketmq.broker.store.disk.disk_worker import Job

PAGE = 4096
"""Page size: the flush rules count pages (S-50, S-52)."""
_CHUNK = 64 * 1024


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
            # CLOCK: a file used since the last round stays for one more; its mark is removed.
            if oldest.recently_used and oldest.is_mapped:
                oldest.recently_used = False
                ring[oldest] = None
            else:
                # Readers that hold slices keep the mapping alive; it is made again when needed.
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
        "_is_short",
        "_is_written",
        "_mappings",
        "_view",
        "disk",
        "flushed",
        "path",
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
        self.recently_used = False
        self._mappings = mappings
        self._view: memoryview | None = None
        self._is_written = False
        """Whether it was written in this life: from then on its mapping is one to write through."""
        self._is_short = False
        """Whether a cut has failed that may have left the file shorter than `size`."""
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
            # On tmpfs, reading a hole through a writable mapping would allocate a page.
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
            # Readers keep the read-only mapping; the next one is writable.
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
        # A small window for small files, because most queues stay short; a large one for growing
        # files, to save system calls.
        window = min(high, max(low, self.reserved))
        target = min(self.size, -(-(end + window) // PAGE) * PAGE)
        # After a start, allocated blocks are unknown: reserve from the next page to be written.
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
        # Avoid a call in the usual case, because a busy log does this for each put.
        view = self._view if self._is_written else None
        if view is None:
            view = self.writable_view()
        self.recently_used = True
        view[wrote:end] = data
        self.wrote = end

    def cut(self, position: int) -> None:
        """Make every byte from `position` on zero again, and give its blocks back.

        Old bytes behind the end must not stay: a record that happens to begin where a later one
        ends would be taken for a message at the next recovery.

        Raises:
            DiskError: they are not read any more, and may still be in the file: cut once more.
        """
        # Unmap first: touching the mapping between the two resizes could raise SIGBUS.
        self.unmap()
        self.wrote = position
        self.flushed = min(self.flushed, position)
        self.reserved = 0
        # Until both resizes have worked, the file is too short to be mapped.
        self._is_short = True
        # Shrinking and growing again frees the blocks and leaves zeros.
        self.disk.resize_file(self.path, position)
        self.disk.resize_file(self.path, self.size)
        self._is_short = False

    def has_data_behind(self, position: int) -> bool:
        """Whether any byte from `position` on is not zero. Holes behind two pages are not read.

        True also after a cut that failed: the file may end there, and cannot be read behind.
        """
        if self._is_short:
            return True
        # A writable mapping could allocate the holes that are read here.
        view = self.disk.map_for_reading(self.path, self.size) if self._is_written else self.view()
        at: int | None = position
        length = 2 * PAGE  # as many blocks as a short queue has
        while at is not None and at < self.size:
            # Whole pages in growing steps: most files end soon, but a log may go on for long.
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
        # The job must not use state that belongs to the loop.
        disk, path = self.disk, self.path
        return lambda: disk.remove_file(path)

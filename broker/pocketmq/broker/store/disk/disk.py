"""The seam to the file system: every effect that the store has on a disk is one call of `Disk`.

Production uses `OsDisk`. Tests put another disk in its place: one that counts calls, fails or
kills the process at the N-th, or keeps un-synced pages apart and then "cuts the power".

The store relies on three properties of every disk:

* A mapping is a `memoryview`. It stays valid as long as anybody holds it or a slice of it, even
  when its file has been removed; the last one gone unmaps it. It costs no file descriptor.
* Bytes below `DiskFile.reserve` have blocks, so writing them through a mapping cannot fail. A
  full disk is a `DiskFullError` from `reserve`, never a SIGBUS.
* What a mapping holds survives the death of the process. It survives a power cut only after
  `DiskFile.sync`, and a new name only after `sync_directory`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pocketmq.broker.store.disk.disk_worker import DiskWorker, ThreadWorker
from pocketmq.broker.store.disk.mapping import (
    advise_small_writes,
    map_read_only,
    map_readable,
    map_shared,
)
from pocketmq.broker.store.errors import StoreFileError, StoreLockedError
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.descriptors import FOR_FILES
from pocketmq.runtime.files.text_files import OsTextFiles, TextFiles, disk_error, explained


class DiskUsage(NamedTuple):
    """Space of the partition that holds a path."""

    total_bytes: int
    used_bytes: int
    """Everything but what an ordinary user may still fill."""

    @property
    def used_ratio(self) -> float:
        """0.0 empty, 1.0 full (B-163..B-165)."""
        return self.used_bytes / self.total_bytes if self.total_bytes else 0.0


class DiskFile(Protocol):
    """An open file, kept where blocks are reserved or synced often."""

    def reserve(self, start: int, length: int) -> None:
        """Give `length` bytes from `start` their blocks; content does not change.

        Raises:
            DiskFullError: there are not that many.
        """

    def sync(self) -> None:
        """Return when every byte written so far, by call or mapping, survives a power cut."""

    def verify(self, start: int, expected: memoryview) -> None:
        """Compare what the medium itself holds, past the page cache, with `expected`.

        Raises:
            DiskError: they differ, or it cannot be read.
        """

    def close(self) -> None:
        """Give the descriptor back; mappings of the file stay."""


class Disk(TextFiles, Protocol):
    """What the store asks of a file system. Paths are absolute; names sort as text."""

    def list_directory(self, path: str) -> list[str]:
        """Names in `path`, sorted; none when it does not exist."""

    def modified_ms(self, path: str) -> int:
        """When the file's content last changed, in epoch milliseconds."""

    def create_file(self, path: str, size: int) -> None:
        """Make a new sparse file of zeros at its full length."""

    def resize_file(self, path: str, size: int) -> None:
        """Cut the file, or lengthen it by zeros that take no blocks."""

    def open_file(self, path: str) -> DiskFile:
        """Open an existing file for `reserve` and `sync`."""

    def map_file(self, path: str, size: int) -> memoryview:
        """The file's first `size` bytes, readable and writable.

        Raises:
            StoreFileError: it is shorter; touching what lies behind its end would be a SIGBUS.
        """

    def map_for_reading(self, path: str, size: int) -> memoryview:
        """The same bytes, to be read: where a file system allocates a page to whoever looks at a
        hole, as tmpfs does, this mapping does not, and cannot be written then.

        Raises:
            StoreFileError: as `map_file`.
        """

    def expect_small_writes(self, view: memoryview, start: int) -> None:
        """From `start` on a mapping will be written in small pieces, each synced. Advice only."""

    def next_data(self, path: str, position: int) -> int | None:
        """First byte at or behind `position` that may not be zero; None when there is none.

        Finds the end of a sparse file's content without reading a gigabyte of holes.
        """

    def read_file(self, path: str) -> bytes | None:
        """A small file's content; None when there is no such file."""

    def write_file(self, path: str, content: bytes) -> None:
        """Create or overwrite a small file, in place and unsynced."""

    def remove_file(self, path: str) -> None:
        """Forget the name; mappings of the file stay valid."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory and all that is in it."""

    def usage(self, path: str) -> DiskUsage:
        """Space of the partition that holds `path`."""

    def lock(self, path: str) -> DiskFile:
        """Hold `path` against other processes until the result is closed.

        Raises:
            StoreLockedError: somebody else holds it.
        """

    def boot_id(self) -> bytes:
        """16 bytes that change when un-synced data may have been lost: at a reboot."""

    def memory_bytes(self) -> int:
        """Size of this machine's memory, most of which is page cache (B-61, B-62)."""

    def start_worker(self, name: str) -> DiskWorker:
        """A worker for slow calls of this disk, so that the event loop goes on meanwhile."""


class OsDisk(OsTextFiles):
    """The real file system of a POSIX machine."""

    def list_directory(self, path: str) -> list[str]:
        with explained(path):
            try:
                return sorted(os.listdir(path))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def modified_ms(self, path: str) -> int:
        with explained(path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def create_file(self, path: str, size: int) -> None:
        with explained(path):
            # O_EXCL: an existing file may hold messages and must not be reused.
            descriptor = FOR_FILES.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.ftruncate(descriptor, size)
            finally:
                # A mapping needs no descriptor, and a store has thousands of files.
                os.close(descriptor)

    def resize_file(self, path: str, size: int) -> None:
        with explained(path):
            os.truncate(path, size)

    def open_file(self, path: str) -> DiskFile:
        with explained(path):
            return _OsFile(path, FOR_FILES.open(path, os.O_RDWR))

    def map_file(self, path: str, size: int) -> memoryview:
        return self._map(path, size, map_shared)

    def map_for_reading(self, path: str, size: int) -> memoryview:
        return self._map(path, size, map_readable)

    def _map(
        self,
        path: str,
        size: int,
        how: Callable[[int, int], memoryview],
        flags: int = os.O_RDWR,
    ) -> memoryview:
        with explained(path):
            descriptor = FOR_FILES.open(path, flags)
            try:
                length = os.fstat(descriptor).st_size
                # A mapping may go beyond the end of the file; touching that part would raise
                # SIGBUS.
                if length < size:
                    raise StoreFileError(
                        path,
                        f"the file must have {size} bytes, but has only {length}",
                        position=length,
                        advice=(
                            "restore the file, or start the broker, so that its recovery "
                            "checks the file"
                        ),
                    )
                return how(descriptor, size)
            finally:
                os.close(descriptor)

    def expect_small_writes(self, view: memoryview, start: int) -> None:
        advise_small_writes(view, start)

    def next_data(self, path: str, position: int) -> int | None:
        with explained(path):
            descriptor = FOR_FILES.open(path, os.O_RDONLY)
            try:
                return os.lseek(descriptor, position, os.SEEK_DATA)
            except OSError as exc:
                if exc.errno == errno.ENXIO:  # also at and behind the file's end
                    return None
                if exc.errno == errno.EINVAL:  # a file system that does not tell
                    return position if position < os.fstat(descriptor).st_size else None
                raise
            finally:
                os.close(descriptor)

    def read_file(self, path: str) -> bytes | None:
        with explained(path):
            try:
                with open(path, "rb", opener=FOR_FILES.open) as file:
                    return file.read()
            except FileNotFoundError:
                return None

    def write_file(self, path: str, content: bytes) -> None:
        with explained(path), open(path, "wb", opener=FOR_FILES.open) as file:
            file.write(content)

    def remove_file(self, path: str) -> None:
        # A missing file is no error: a deletion may be repeated after a crash.
        with explained(path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        with explained(path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def usage(self, path: str) -> DiskUsage:
        try:
            space = os.statvfs(path)
        except OSError as exc:
            raise disk_error(path, exc) from exc
        used, block_bytes = space.f_blocks - space.f_bfree, space.f_frsize
        # Blocks kept for root count as absent, as in RocketMQ and in `df`.
        return DiskUsage((used + space.f_bavail) * block_bytes, used * block_bytes)

    def lock(self, path: str) -> DiskFile:
        with explained(path):
            descriptor = FOR_FILES.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                # Java's FileLock is this kind of lock, so a RocketMQ broker is noticed too.
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
            except OSError as exc:
                os.close(descriptor)
                if exc.errno in (errno.EACCES, errno.EAGAIN):
                    raise StoreLockedError(os.path.dirname(path)) from exc
                raise
            # RocketMQ writes this word too; the lock is on the first byte.
            os.pwrite(descriptor, b"lock", 0)
            return _OsFile(path, descriptor)

    def boot_id(self) -> bytes:
        text = self.read_file("/proc/sys/kernel/random/boot_id")
        if text is None:
            return os.urandom(16)  # not Linux: assume the worst, that every restart is a reboot
        return bytes.fromhex(text.decode("ascii").strip().replace("-", ""))

    def memory_bytes(self) -> int:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def start_worker(self, name: str) -> DiskWorker:
        return ThreadWorker(name)


class ReadOnlyDisk(OsDisk):
    """The real file system for tools that look at a store while a broker works on it.

    What the store's readers call opens files for reading only, so that not even a mistake could
    change, allocate or lock anything.
    """

    def map_file(self, path: str, size: int) -> memoryview:
        return self.map_for_reading(path, size)

    def map_for_reading(self, path: str, size: int) -> memoryview:
        return self._map(path, size, map_read_only, os.O_RDONLY)

    def open_file(self, path: str) -> DiskFile:
        raise _read_only(path)

    def create_file(self, path: str, size: int) -> None:
        raise _read_only(path)

    def resize_file(self, path: str, size: int) -> None:
        raise _read_only(path)

    def write_file(self, path: str, content: bytes) -> None:
        raise _read_only(path)

    def remove_file(self, path: str) -> None:
        raise _read_only(path)

    def remove_directory(self, path: str) -> None:
        raise _read_only(path)

    def lock(self, path: str) -> DiskFile:
        raise _read_only(path)


def _read_only(path: str) -> DiskError:
    return DiskError(path, "it is read while a broker works on it", advice="stop that broker first")


class _OsFile:
    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def reserve(self, start: int, length: int) -> None:
        if hasattr(os, "posix_fallocate"):  # macOS has none: there a full disk stays a SIGBUS
            # Unlike ftruncate, this allocates blocks: writing into a hole of a mapping on a full
            # disk would raise SIGBUS.
            with explained(self._path):
                os.posix_fallocate(self._descriptor, start, length)

    def sync(self) -> None:
        with explained(self._path):
            # fdatasync leaves out only metadata that reading does not need, such as times.
            _fdatasync(self._descriptor)

    def verify(self, start: int, expected: memoryview) -> None:
        # O_DIRECT bypasses the page cache, which would only show what this process wrote. It needs
        # offset, length and address in whole blocks.
        first = start // _BLOCK * _BLOCK
        with mmap.mmap(-1, _VERIFY_BYTES) as buffer, explained(self._path):  # O_DIRECT: aligned
            try:
                descriptor = FOR_FILES.open(self._path, os.O_RDONLY | _O_DIRECT)
            except OSError as exc:
                if exc.errno != errno.EINVAL:
                    raise
                descriptor = FOR_FILES.open(self._path, os.O_RDONLY)  # tmpfs has no medium
            try:
                while first < start + len(expected):
                    count = os.preadv(descriptor, [buffer], first)
                    low, high = max(start, first), min(start + len(expected), first + count)
                    # Compare only the overlap: the first and the last block contain other bytes
                    # too.
                    if buffer[low - first : high - first] != expected[low - start : high - start]:
                        raise DiskError(
                            self._path,
                            f"the bytes read from the disk at offset {low} differ from the bytes "
                            "synced there",
                        )
                    first += count
            finally:
                os.close(descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


_BLOCK = 4096
_VERIFY_BYTES = 1024 * 1024
_O_DIRECT = getattr(os, "O_DIRECT", 0)
_fdatasync = getattr(os, "fdatasync", os.fsync)

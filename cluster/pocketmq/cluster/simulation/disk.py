"""`MemoryDisk`: the store's disk seam in memory. It outlives the processes that write to it.

A killed process loses nothing that it wrote: the dictionary plays the page cache. Power cuts are
not simulated here; tests/broker/store does that.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from pocketmq.broker.store.disk import DiskFile, DiskUsage
from pocketmq.broker.store.disk_worker import DiskWorker, InlineWorker
from pocketmq.broker.store.errors import StoreFileError, StoreLockedError

GIB = 1024**3


class _File:
    """Bytes that mappings look at; a cut or lengthened file keeps its buffer where it can."""

    __slots__ = ("buffer", "modified_ms", "size")

    def __init__(self, size: int, modified_ms: int) -> None:
        self.buffer = bytearray(size)
        self.size = size
        self.modified_ms = modified_ms

    def resize(self, size: int) -> None:
        if size < self.size:
            self.buffer[size : self.size] = bytes(self.size - size)
        elif size > len(self.buffer):
            longer = bytearray(size)
            longer[: self.size] = self.buffer[: self.size]
            self.buffer = longer
        self.size = size


class MemoryDisk:
    """One machine's files.

    Args:
        time_ms: Stamps files.
    """

    def __init__(self, time_ms: Callable[[], int]) -> None:
        self._time_ms = time_ms
        self._files: dict[str, _File] = {}
        self._locked: set[str] = set()

    def release_locks(self) -> None:
        """The process that held them is dead."""
        self._locked.clear()

    def make_directory(self, path: str) -> None:
        """Directories are there by themselves."""

    def list_directory(self, path: str) -> list[str]:
        start = path.rstrip("/") + "/"
        return sorted(
            {name[len(start) :].split("/", 1)[0] for name in self._files if name.startswith(start)}
        )

    def file_size(self, path: str) -> int | None:
        file = self._files.get(path)
        return None if file is None else file.size

    def modified_ms(self, path: str) -> int:
        return self._files[path].modified_ms

    def create_file(self, path: str, size: int) -> None:
        self._files[path] = _File(size, self._time_ms())

    def resize_file(self, path: str, size: int) -> None:
        self._files[path].resize(size)

    def open_file(self, path: str) -> DiskFile:
        if path not in self._files:
            raise StoreFileError(path, "there is no such file", advice="this is a bug")
        return _Open(self, path)

    def map_file(self, path: str, size: int) -> memoryview:
        file = self._files.get(path)
        if file is None or file.size < size:
            raise StoreFileError(path, "it is missing or too short", advice="this is a bug")
        return memoryview(file.buffer)[:size]

    def next_data(self, path: str, position: int) -> int | None:
        file = self._files[path]
        rest = bytes(memoryview(file.buffer)[position : file.size]).lstrip(b"\0")
        return file.size - len(rest) if rest else None

    def read_file(self, path: str) -> bytes | None:
        file = self._files.get(path)
        return None if file is None else bytes(file.buffer[: file.size])

    def write_file(self, path: str, content: bytes) -> None:
        file = self._files[path] = _File(0, self._time_ms())
        file.buffer = bytearray(content)
        file.size = len(content)

    async def read_text(self, path: str) -> str | None:
        content = self.read_file(path)
        return None if content is None else content.decode()

    async def write_text(self, path: str, text: str) -> None:
        self.write_file(path, text.encode())

    async def rename(self, source: str, target: str) -> None:
        self._files[target] = self._files.pop(source)

    def remove_file(self, path: str) -> None:
        self._files.pop(path, None)

    def remove_directory(self, path: str) -> None:
        start = path.rstrip("/") + "/"
        for name in [name for name in self._files if name.startswith(start)]:
            del self._files[name]

    def sync_directory(self, path: str) -> None:
        """Nothing can be lost."""

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(100 * GIB, 10 * GIB)

    def lock(self, path: str) -> DiskFile:
        if path in self._locked:
            raise StoreLockedError(os.path.dirname(path))
        self._locked.add(path)
        return _Open(self, path, locks=True)

    def boot_id(self) -> bytes:
        return b"simulated-boot-1"

    def memory_bytes(self) -> int:
        return 8 * GIB

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()

    def unlock(self, path: str) -> None:
        """A lock was closed."""
        self._locked.discard(path)


class _Open:
    __slots__ = ("_disk", "_locks", "_path")

    def __init__(self, disk: MemoryDisk, path: str, *, locks: bool = False) -> None:
        self._disk = disk
        self._path = path
        self._locks = locks

    def reserve(self, start: int, length: int) -> None:
        """Memory is there."""

    def sync(self) -> None:
        """Nothing can be lost."""

    def verify(self, start: int, expected: memoryview) -> None:
        """There is no medium."""

    def close(self) -> None:
        if self._locks:
            self._disk.unlock(self._path)
            self._locks = False

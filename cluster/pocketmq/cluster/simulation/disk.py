"""Disks in memory: the brokers', which outlive the processes that write to them, and the clients'.

A killed process loses nothing that it wrote: the dictionary plays the page cache. A power cut takes
what was not synced: every page, length and name that differs from what the medium holds survives
or not, each by chance. tests/broker/store cuts in every possible way; here it happens to a broker
in the middle of a cluster.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

from pocketmq.broker.store.disk import DiskFile, DiskUsage
from pocketmq.broker.store.disk_worker import DiskWorker, InlineWorker
from pocketmq.broker.store.errors import StoreFileError, StoreLockedError

GIB = 1024**3
PAGE = 4096


class _File:
    """Bytes that mappings look at; a cut or lengthened file keeps its buffer where it can."""

    __slots__ = ("buffer", "durable", "modified_ms", "size")

    def __init__(self, size: int, modified_ms: int) -> None:
        self.buffer = bytearray(size)
        self.size = size
        self.modified_ms = modified_ms
        self.durable = b""
        """Content as of the last sync."""

    def resize(self, size: int) -> None:
        if size < self.size:
            self.buffer[size : self.size] = bytes(self.size - size)
        elif size > len(self.buffer):
            longer = bytearray(size)
            longer[: self.size] = self.buffer[: self.size]
            self.buffer = longer
        self.size = size

    @property
    def content(self) -> bytes:
        return bytes(memoryview(self.buffer)[: self.size])


class MemoryDisk:
    """One machine's files.

    Args:
        time_ms: Stamps files.
        power_cuts: Whether it keeps what the medium holds apart from what processes see.
    """

    def __init__(self, time_ms: Callable[[], int], *, power_cuts: bool = False) -> None:
        self._time_ms = time_ms
        self._power_cuts = power_cuts
        self._files: dict[str, _File] = {}
        self._certain: dict[str, _File] = {}
        """Names that survive a power cut, and where they lead."""
        self._locked: set[str] = set()
        self._boot = 1
        self.on_removed: Callable[[str, bytes], None] | None = None
        """Called with each removed file's path and content."""

    # -- the machine ----------------------------------------------------------------------------

    def release_locks(self) -> None:
        """The process that held them is dead."""
        self._locked.clear()

    def cut_power(self, chance: random.Random) -> None:
        """What is on the medium is all that is left."""
        share = chance.choice([0.0, 0.5, 1.0])
        left: dict[str, _File] = {}
        for path in sorted({*self._files, *self._certain}):
            live, certain = self._files.get(path), self._certain.get(path)
            file = live if live is certain or chance.random() < share else certain
            if file is not None:
                left[path] = _after_cut(file, file is live, share, chance)
        self._files, self._certain = left, dict(left)
        self._locked.clear()
        self._boot += 1

    def synced(self, path: str) -> None:
        """The content is on the medium from now on."""
        file = self._files.get(path)
        if self._power_cuts and file is not None:
            file.durable = file.content

    def _sync_names(self, directory: str) -> None:
        if not self._power_cuts:
            return
        for path in {*self._files, *self._certain}:
            if os.path.dirname(path) != directory:
                continue
            file = self._files.get(path)
            if file is None:
                del self._certain[path]
            else:
                self._certain[path] = file

    # -- the seam -------------------------------------------------------------------------------

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

    def map_for_reading(self, path: str, size: int) -> memoryview:
        return self.map_file(path, size)

    def expect_small_writes(self, view: memoryview, start: int) -> None:
        """Nothing is read ahead here."""

    def next_data(self, path: str, position: int) -> int | None:
        file = self._files[path]
        rest = bytes(memoryview(file.buffer)[position : file.size]).lstrip(b"\0")
        return file.size - len(rest) if rest else None

    def read_file(self, path: str) -> bytes | None:
        file = self._files.get(path)
        return None if file is None else file.content

    def write_file(self, path: str, content: bytes) -> None:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = _File(0, self._time_ms())
        file.buffer = bytearray(content)
        file.size = len(content)

    async def read_text(self, path: str) -> str | None:
        content = self.read_file(path)
        return None if content is None else content.decode()

    async def write_text(self, path: str, text: str) -> None:
        self.write_file(path, text.encode())
        self.synced(path)

    async def rename(self, source: str, target: str) -> None:
        self._files[target] = self._files.pop(source)
        self._sync_names(os.path.dirname(target))

    def remove_file(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is not None and self.on_removed is not None:
            self.on_removed(path, file.content)

    def remove_directory(self, path: str) -> None:
        start = path.rstrip("/") + "/"
        for name in [name for name in self._files if name.startswith(start)]:
            del self._files[name]

    def sync_directory(self, path: str) -> None:
        self._sync_names(path.rstrip("/"))

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(100 * GIB, 10 * GIB)

    def lock(self, path: str) -> DiskFile:
        if path in self._locked:
            raise StoreLockedError(os.path.dirname(path))
        self._locked.add(path)
        return _Open(self, path, locks=True)

    def boot_id(self) -> bytes:
        return b"simulated-boot%02d" % self._boot

    def memory_bytes(self) -> int:
        return 8 * GIB

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()

    def unlock(self, path: str) -> None:
        """A lock was closed."""
        self._locked.discard(path)


def _after_cut(file: _File, is_live: bool, share: float, chance: random.Random) -> _File:
    """What the next boot finds of a file; a removed or replaced one is as it was last synced."""
    durable, live = file.durable, file.content if is_live else file.durable
    size = len(live) if chance.random() < share else len(durable)
    image = bytearray(durable[:size].ljust(size, b"\0"))
    for page in _changed_pages(durable, live):
        if page < size and chance.random() < share:
            end = min(page + PAGE, size)
            image[page:end] = live[page:end].ljust(end - page, b"\0")
    left = _File(0, file.modified_ms)
    left.buffer, left.size, left.durable = image, size, bytes(image)
    return left


def _changed_pages(before: bytes, after: bytes) -> Iterator[int]:
    for page in range(0, max(len(before), len(after)), PAGE):
        if before[page : page + PAGE] != after[page : page + PAGE]:
            yield page


class _Open:
    __slots__ = ("_disk", "_locks", "_path")

    def __init__(self, disk: MemoryDisk, path: str, *, locks: bool = False) -> None:
        self._disk = disk
        self._path = path
        self._locks = locks

    def reserve(self, start: int, length: int) -> None:
        """Memory is there."""

    def sync(self) -> None:
        self._disk.synced(self._path)

    def verify(self, start: int, expected: memoryview) -> None:
        """There is no medium that could differ."""

    def close(self) -> None:
        if self._locks:
            self._disk.unlock(self._path)
            self._locks = False


class MemoryOffsetFiles:
    """A broadcasting consumer's offset file and its backup; they outlive the process.

    Args:
        on_replaced: Called with each new content.
    """

    def __init__(self, on_replaced: Callable[[bytes], None]) -> None:
        self._content: bytes | None = None
        self._backup: bytes | None = None
        self._on_replaced = on_replaced

    async def read(self, *, backup: bool) -> bytes | None:
        return self._backup if backup else self._content

    async def replace(self, content: bytes) -> None:
        self._backup, self._content = self._content, content
        self._on_replaced(content)

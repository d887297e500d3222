"""Disks in memory: those of brokers, which outlive their processes, and those of clients.

A killed process loses nothing that it wrote: the files in memory are the page cache. At a power cut
unsynced data may be lost: every page, length and name that differs from the medium survives or not,
each by chance. (tests/broker/store tests every possible outcome; here it happens to a broker of a
running cluster.)

With power cuts, syncs take time (disk_work.py): when a sync ends, the medium has the content that
the file had at its begin. A failed sync leaves pages that the system believes to be clean: later
syncs skip them, until they are written again and compared with the medium.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Protocol

from pocketmq.broker.store.disk.disk import DiskFile, DiskUsage
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker
from pocketmq.broker.store.errors import StoreFileError, StoreLockedError
from pocketmq.runtime.errors import DiskError
from pocketmq.simulation.disk_files import (
    PAGE,
    SPARSE,
    Content,
    Image,
    MemoryFile,
    SparseFile,
    after_cut,
)
from pocketmq.simulation.disk_work import DiskTrouble, Effect, TimedWorker

GIB = 1024**3


class DiskWatch(Protocol):
    """Is told what reaches the medium of a disk with power cuts."""

    def noted(self, path: str, content: bytes) -> None:
        """A sync or rename begins: the content may be on the medium from now on."""

    def kept(self, path: str, content: Content) -> None:
        """The content survives a power cut from now on."""

    def failed(self, path: str) -> None:
        """A write of a configuration file, or a sync of a directory's names, has failed."""


class MemoryDisk:
    """One machine's files.

    Args:
        time_ms: Returns the time in epoch ms, for modification times of files.
        power_cuts: Whether the medium's content is kept apart from the page cache.
        trouble: How long syncs take, and which fail; None if they are immediate and none fails.
        watch: Is told what reaches the medium.
        on_removed: Called with each removed file's path and content.
    """

    def __init__(
        self,
        time_ms: Callable[[], int],
        *,
        power_cuts: bool = False,
        trouble: DiskTrouble | None = None,
        watch: DiskWatch | None = None,
        on_removed: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self.trouble = trouble
        self._time_ms = time_ms
        self._power_cuts = power_cuts
        self._recorded: list[Effect] | None = None
        """Effects on the medium of the running job, which happen when it ends."""
        self._files: dict[str, MemoryFile] = {}
        self._certain: dict[str, MemoryFile] = {}
        """Name -> file, for names that survive a power cut."""
        self._locked: set[str] = set()
        self._boot = 1
        self._watch = watch
        self._on_removed = on_removed

    # -- the machine ----------------------------------------------------------------------------

    def release_locks(self) -> None:
        """Release all locks, because the process that held them is dead."""
        self._locked.clear()

    def cut_power(self, chance: random.Random) -> None:
        """Reduce all files to what is on the medium."""
        if self._watch is not None:
            for path, file in self._files.items():
                content = file.content
                if content != file.durable or self._certain.get(path) is not file:
                    self._watch.noted(path, content)  # the system may have written it by itself
        share = chance.choice([0.0, 0.5, 1.0])
        left: dict[str, MemoryFile] = {}
        for path in sorted({*self._files, *self._certain}):
            live, certain = self._files.get(path), self._certain.get(path)
            found = live if live is certain or chance.random() < share else certain
            if found is not None:
                left[path] = after_cut(found, found is live, share, chance)
        self._files, self._certain = left, dict(left)
        self._locked.clear()
        self._boot += 1

    def medium(self, path: str) -> Content | None:
        """Content of a file that certainly survives a power cut; None if its name may be lost."""
        file = self._certain.get(path)
        return None if file is None else file.durable

    def surviving(self) -> list[str]:
        """Names that certainly survive a power cut."""
        return list(self._certain)

    def sync_now(self, path: str) -> None:
        """Write a file's content to the medium: at once, or when the running job ends."""
        file = self._files.get(path)
        if not self._power_cuts or file is None:
            return
        content = file.image()
        if self._watch is not None and isinstance(content, bytes):
            self._watch.noted(path, content)
        self._take_effect(
            Effect(lambda: self._reached(path, file, content),
                   lambda: file.could_not_be_written(content))
        )  # fmt: skip

    def _reached(self, path: str, file: MemoryFile, content: Image) -> None:
        file.reached(content)
        if self._watch is not None and self._certain.get(path) is file:
            self._watch.kept(path, file.durable)

    def _take_effect(self, effect: Effect) -> None:
        if self._recorded is not None:
            self._recorded.append(effect)
        elif self.trouble is not None and self.trouble.fails():
            effect.failed()
            raise DiskError("disk", "a sync has failed")
        else:
            effect.done()

    def record(self, job: Callable[[], None]) -> list[Effect]:
        """Run a worker's job; returns its effects on the medium, which happen when it ends."""
        before, self._recorded = self._recorded, []
        try:
            job()
            return self._recorded
        finally:
            self._recorded = before

    def verify(self, path: str, start: int, expected: memoryview) -> None:
        """Compare the medium with rewritten pages, which later syncs do not skip any more.

        Raises:
            DiskError: They differ.
        """
        file = self._files.get(path)
        if file is None or not self._power_cuts:
            return
        end = start + len(expected)
        for page in [page for page in file.passed_over if page + PAGE > start and page < end]:
            del file.passed_over[page]
        if self._recorded is not None:
            return  # the previous sync of the same job will write them
        file.reached(file.image())
        if file.durable[start:end] != bytes(expected):
            raise DiskError(path, "the file does not have the bytes that were synced")

    async def _write_behind(self, path: str, effect: Effect) -> None:
        """Wait for a write of a configuration file.

        Raises:
            DiskError: It failed.
        """
        trouble = self.trouble
        if trouble is None:
            effect.done()
            return
        fails = await trouble.pass_time()
        if fails:
            effect.failed()
            if self._watch is not None:
                self._watch.failed(path)
            raise DiskError(path, "a write has failed")
        effect.done()

    def _sync_names(self, directory: str) -> None:
        if not self._power_cuts:
            return
        in_it = [
            path
            for path in {*self._files, *self._certain}
            if path.startswith(directory) and path.rpartition("/")[0] == directory
        ]
        for path in sorted(in_it):
            file = self._files.get(path)
            if file is None:
                del self._certain[path]
            elif self._certain.get(path) is not file:
                self._certain[path] = file
                if self._watch is not None:
                    self._watch.kept(path, file.durable)

    # -- the seam -------------------------------------------------------------------------------

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        """Directories are there by themselves."""
        above = os.path.dirname(path)
        if lasting and above != "/":  # above a machine's folder there is nothing to sync
            self.sync_directory(above)

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
        made = SparseFile if size >= SPARSE else MemoryFile
        self._files[path] = made(size, self._time_ms())

    def resize_file(self, path: str, size: int) -> None:
        self._files[path].resize(size)

    def open_file(self, path: str) -> DiskFile:
        if path not in self._files:
            raise StoreFileError(path, "there is no such file", advice="this is a bug")
        return _Open(self, path)

    def reserve(self, path: str, start: int, length: int) -> None:
        """Reserve a part of a file, which matters for sparse ones only."""
        file = self._files.get(path)
        if isinstance(file, SparseFile):
            file.reserve(start, length)

    def map_file(self, path: str, size: int) -> memoryview:
        file = self._files.get(path)
        if file is None or file.size < size:
            raise StoreFileError(path, "it is missing or too short", advice="this is a bug")
        return memoryview(file.buffer)[:size]

    def map_for_reading(self, path: str, size: int) -> memoryview:
        return self.map_file(path, size)

    def expect_small_writes(self, view: memoryview, start: int) -> None:
        """There is no read-ahead here."""

    def next_data(self, path: str, position: int) -> int | None:
        file = self._files[path]
        if isinstance(file, SparseFile):
            ends = (max(page, position) for page in file.used if page + PAGE > position)
            return min(ends, default=None)
        rest = bytes(memoryview(file.buffer)[position : file.size]).lstrip(b"\0")
        return file.size - len(rest) if rest else None

    def read_file(self, path: str) -> bytes | None:
        file = self._files.get(path)
        return None if file is None else file.content

    def write_file(self, path: str, content: bytes) -> None:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = MemoryFile(0, self._time_ms())
        file.buffer = bytearray(content)
        file.size = len(content)

    async def read_text(self, path: str) -> str | None:
        content = self.read_file(path)
        return None if content is None else content.decode()

    async def write_text(self, path: str, text: str) -> None:
        self.write_file(path, text.encode())
        file = self._files[path]
        content = file.content
        await self._write_behind(path, Effect(lambda: self._reached(path, file, content)))

    async def rename(self, source: str, target: str) -> None:
        file = self._files[target] = self._files.pop(source)
        if self._watch is not None and self._power_cuts:
            self._watch.noted(target, file.content)
        await self._write_behind(target, Effect(lambda: self._sync_names(os.path.dirname(target))))

    def remove_file(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is not None and self._on_removed is not None:
            self._on_removed(path, file.content)

    def remove_directory(self, path: str) -> None:
        start = path.rstrip("/") + "/"
        for name in [name for name in self._files if name.startswith(start)]:
            del self._files[name]

    def sync_directory(self, path: str) -> None:
        if not self._power_cuts:
            return
        try:
            self._take_effect(Effect(lambda: self._sync_names(path.rstrip("/"))))
        except DiskError:
            if self._watch is not None:
                self._watch.failed(path)
            raise

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
        if self.trouble is None:
            return InlineWorker()
        return TimedWorker(self.record, self.trouble, log="log" in name)

    def unlock(self, path: str) -> None:
        """Release a lock."""
        self._locked.discard(path)


class _Open:
    __slots__ = ("_disk", "_locks", "_path")

    def __init__(self, disk: MemoryDisk, path: str, *, locks: bool = False) -> None:
        self._disk = disk
        self._path = path
        self._locks = locks

    def reserve(self, start: int, length: int) -> None:
        self._disk.reserve(self._path, start, length)

    def sync(self) -> None:
        self._disk.sync_now(self._path)

    def verify(self, start: int, expected: memoryview) -> None:
        self._disk.verify(self._path, start, expected)

    def close(self) -> None:
        if self._locks:
            self._disk.unlock(self._path)
            self._locks = False


class MemoryTextFiles:
    """The file system with the offsets of a broadcasting consumer; it outlives the process.

    Args:
        on_replaced: Called with each new text of `offsets.json`.
    """

    def __init__(self, on_replaced: Callable[[str], None]) -> None:
        self._texts: dict[str, str] = {}
        self._on_replaced = on_replaced

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        """Directories are there by themselves."""

    def sync_directory(self, path: str) -> None:
        """There are no power cuts here."""

    def file_size(self, path: str) -> int | None:
        text = self._texts.get(path)
        return None if text is None else len(text.encode())

    async def read_text(self, path: str) -> str | None:
        return self._texts.get(path)

    async def write_text(self, path: str, text: str) -> None:
        self._texts[path] = text

    async def rename(self, source: str, target: str) -> None:
        text = self._texts[target] = self._texts.pop(source)
        if not target.endswith(".bak"):
            self._on_replaced(text)

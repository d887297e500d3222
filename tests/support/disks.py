"""Disks that misbehave: one fails or "kills" at a chosen call, one forgets what was not synced."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from pocketmq.broker.store.disk.disk import Disk, DiskFile, OsDisk
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.text_files import explained

PAGE = 4096


class Killed(BaseException):
    """Stands for SIGKILL at a call of the disk: nothing after it happens in this process."""


class FullDisk(OsDisk):
    """Writes no text while `is_full`."""

    is_full = False

    async def write_text(self, path: str, text: str) -> None:
        if self.is_full:
            raise DiskError(path, "no space")
        await super().write_text(path, text)


class SteppedDisk(OsDisk):
    """The real disk; every call that changes something is a numbered step.

    `on_step(number, operation, path)` may raise: an OSError is explained as the real disk would,
    `Killed` ends the process that the test plays. Syncs are steps too, but sync nothing: no test
    cuts the real power, and the real disk is slow.
    """

    def __init__(self, on_step: Callable[[int, str, str], None] | None = None) -> None:
        self.steps: list[tuple[str, str]] = []
        self.on_step = on_step
        self.boot = b"boot-of-the-test"

    def step(self, operation: str, path: str) -> None:
        self.steps.append((operation, path))
        if self.on_step is not None:
            with explained(path):
                self.on_step(len(self.steps), operation, path)

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        self.step("make_directory", path)
        super().make_directory(path, lasting=lasting)

    def create_file(self, path: str, size: int) -> None:
        self.step("create_file", path)
        super().create_file(path, size)

    def resize_file(self, path: str, size: int) -> None:
        self.step("resize_file", path)
        super().resize_file(path, size)

    def open_file(self, path: str) -> DiskFile:
        return SteppedFile(self, path, super().open_file(path))

    def map_file(self, path: str, size: int) -> memoryview:
        self.step("map_file", path)
        return super().map_file(path, size)

    def map_for_reading(self, path: str, size: int) -> memoryview:
        self.step("map_file", path)
        return super().map_for_reading(path, size)

    def write_file(self, path: str, content: bytes) -> None:
        self.step("write_file", path)
        super().write_file(path, content)

    async def write_text(self, path: str, text: str) -> None:
        self.step("write_text", path)
        with explained(path):
            await asyncio.to_thread(Path(path).write_text, text)

    async def rename(self, source: str, target: str) -> None:
        self.step("rename", target)
        with explained(target):
            os.replace(source, target)

    def remove_file(self, path: str) -> None:
        self.step("remove_file", path)
        super().remove_file(path)

    def remove_directory(self, path: str) -> None:
        self.step("remove_directory", path)
        super().remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self.step("sync_directory", path)
        with explained(path):
            os.stat(path)  # as the real disk, it has to be there

    def boot_id(self) -> bytes:
        return self.boot

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()


class SteppedFile:
    def __init__(self, disk: SteppedDisk, path: str, file: DiskFile) -> None:
        self.disk, self.path, self.file = disk, path, file

    def reserve(self, start: int, length: int) -> None:
        self.disk.step("reserve", self.path)
        self.file.reserve(start, length)

    def sync(self) -> None:
        self.disk.step("sync", self.path)

    def verify(self, start: int, expected: memoryview) -> None:
        self.disk.step("verify", self.path)
        self.file.verify(start, expected)

    def close(self) -> None:
        self.file.close()


def fail_with(number: int) -> OSError:
    """ENOSPC, EIO and the like, as the system raises them."""
    return OSError(number, os.strerror(number))


NO_SPACE = errno.ENOSPC
BROKEN = errno.EIO


class PowerCutDisk(SteppedDisk):
    """The real disk, and beside it what of it would survive a power cut at this moment.

    A file's pages survive once they were synced, its name once its directory was. `cut` writes a
    copy of `root` as the next boot would find it, with any chosen un-synced pages on top.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = str(root)
        self.durable: dict[str, bytes] = {}
        """Content of each synced file when it was last synced."""
        self.named: set[str] = set()
        """Paths whose names survive."""

    def open_file(self, path: str) -> DiskFile:
        return PowerCutFile(self, path, OsDisk.open_file(self, path))

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        present = {os.path.join(path, name) for name in self.list_directory(path)}
        gone = {
            name for name in self.named if os.path.dirname(name) == path and name not in present
        }
        self.named = {
            n for n in self.named if not any(n == g or n.startswith(g + "/") for g in gone)
        }
        self.named |= present

    def synced(self, path: str) -> None:
        self.durable[path] = Path(path).read_bytes()

    def survivors(self) -> list[str]:
        """Files whose names survive, with those of all directories above them."""
        found = []
        for folder, _, names in os.walk(self.root):
            above = folder
            while above != self.root and above in self.named:
                above = os.path.dirname(above)
            if above == self.root:
                found += [p for n in names if (p := os.path.join(folder, n)) in self.named]
        return sorted(found)

    def dirty_pages(self) -> list[tuple[str, int]]:
        """(path, page number) of every page that would not survive."""
        dirty: list[tuple[str, int]] = []
        for path in self.survivors():
            now, then = Path(path).read_bytes(), self._durable(path)
            dirty += [
                (path, at // PAGE)
                for at in range(0, max(len(now), len(then)), PAGE)
                if now[at : at + PAGE] != then[at : at + PAGE]
            ]
        return dirty

    def cut(self, target: Path, kept: Iterable[tuple[str, int]] = ()) -> None:
        """Write what the next boot finds to `target`; of the dirty pages only `kept` made it."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        pages: dict[str, list[int]] = {}
        for path, page in kept:
            pages.setdefault(path, []).append(page)
        for path in self.survivors():
            now, content = Path(path).read_bytes(), bytearray(self._durable(path))
            content = content.ljust(len(now), b"\0")
            for page in pages.get(path, ()):
                content[page * PAGE : (page + 1) * PAGE] = now[page * PAGE : (page + 1) * PAGE]
            copy = target / os.path.relpath(path, self.root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)

    def _durable(self, path: str) -> bytes:
        return self.durable.get(path, b"\0" * os.path.getsize(path))


class PowerCutFile(SteppedFile):
    def sync(self) -> None:
        super().sync()
        assert isinstance(self.disk, PowerCutDisk)
        self.disk.synced(self.path)


def as_disk(disk: SteppedDisk) -> Disk:
    """Proof for mypy that the stand-ins fit the seam."""
    return disk

"""A disk whose every path stays in one directory, whatever names peers chose.

Topics and groups become folders. A name that is more than one path component would lead to another
topic's files, or out of the store; here it ends, for each disk and every caller alike.
"""

from __future__ import annotations

import re
from typing import Final

from pocketmq.broker.store.disk.disk import Disk, DiskFile, DiskUsage
from pocketmq.broker.store.disk.disk_worker import DiskWorker
from pocketmq.broker.store.errors import IllegalPathError
from pocketmq.protocol.messages.validation import is_folder_name

_is_usual: Final = re.compile(r"(?:[\w%-]{1,255}/)*[\w%-]{1,255}", re.ASCII).fullmatch
"""Whether a path has names without dots only, as many bytes as characters: then each is a folder's.
Most are such, and a start looks at several paths for each queue."""


def child(directory: str, name: str) -> str:
    """The path of `name` in `directory`.

    Raises:
        IllegalPathError: the name is not one path component.
    """
    if not is_folder_name(name):
        raise IllegalPathError(directory, name)
    return f"{directory}/{name}"


def rooted(disk: Disk, root: str) -> Disk:
    """`disk`, kept below `root`; itself when it is already.

    Args:
        disk: any.
        root: absolute and normal path of a directory.
    """
    if isinstance(disk, RootedDisk) and disk.root == root:
        return disk
    return RootedDisk(disk, root)


class RootedDisk:
    """Passes each call on, once its path is known to lie in `root`.

    Raises:
        IllegalPathError: from every call whose path does not.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self.root = root
        self._disk = disk
        self._start = root.rstrip("/") + "/"

    def _inside(self, path: str) -> str:
        if path == self.root:
            return path
        if not path.startswith(self._start):
            raise IllegalPathError(self.root, path)
        if _is_usual(path, len(self._start)):
            return path
        for name in path[len(self._start) :].split("/"):
            if not is_folder_name(name):
                raise IllegalPathError(self.root, path)
        return path

    def _below(self, path: str) -> str:
        if path == self.root:
            raise IllegalPathError(self.root, path)
        return self._inside(path)

    # -- the seam --------------------------------------------------------------------------------

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        self._disk.make_directory(self._inside(path), lasting=lasting)

    def list_directory(self, path: str) -> list[str]:
        return self._disk.list_directory(self._inside(path))

    def file_size(self, path: str) -> int | None:
        return self._disk.file_size(self._inside(path))

    def modified_ms(self, path: str) -> int:
        return self._disk.modified_ms(self._inside(path))

    def create_file(self, path: str, size: int) -> None:
        self._disk.create_file(self._below(path), size)

    def resize_file(self, path: str, size: int) -> None:
        self._disk.resize_file(self._below(path), size)

    def open_file(self, path: str) -> DiskFile:
        return self._disk.open_file(self._below(path))

    def map_file(self, path: str, size: int) -> memoryview:
        return self._disk.map_file(self._below(path), size)

    def map_for_reading(self, path: str, size: int) -> memoryview:
        return self._disk.map_for_reading(self._below(path), size)

    def expect_small_writes(self, view: memoryview, start: int) -> None:
        self._disk.expect_small_writes(view, start)

    def read_ahead(self, view: memoryview, start: int, end: int) -> None:
        self._disk.read_ahead(view, start, end)

    def next_data(self, path: str, position: int) -> int | None:
        return self._disk.next_data(self._below(path), position)

    def read_file(self, path: str) -> bytes | None:
        return self._disk.read_file(self._below(path))

    def write_file(self, path: str, content: bytes) -> None:
        self._disk.write_file(self._below(path), content)

    async def read_text(self, path: str) -> str | None:
        return await self._disk.read_text(self._below(path))

    async def write_text(self, path: str, text: str) -> None:
        await self._disk.write_text(self._below(path), text)

    async def rename(self, source: str, target: str) -> None:
        await self._disk.rename(self._below(source), self._below(target))

    def remove_file(self, path: str) -> None:
        self._disk.remove_file(self._below(path))

    def remove_directory(self, path: str) -> None:
        self._disk.remove_directory(self._below(path))

    def sync_directory(self, path: str) -> None:
        self._disk.sync_directory(self._inside(path))

    def usage(self, path: str) -> DiskUsage:
        return self._disk.usage(self._inside(path))

    def lock(self, path: str) -> DiskFile:
        return self._disk.lock(self._below(path))

    def boot_id(self) -> bytes:
        return self._disk.boot_id()

    def memory_bytes(self) -> int:
        return self._disk.memory_bytes()

    def start_worker(self, name: str) -> DiskWorker:
        return self._disk.start_worker(name)

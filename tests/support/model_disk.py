"""A disk that knows what a power cut would leave: every un-synced page and name, chosen one by one.

`ModelDisk` works on a real directory, which is what the running process sees. Beside it it keeps
what is certain to survive: a file's pages and length as of its last sync, a name as of the last
sync of its directory. Whatever differs at some moment is a **loose end**: a page, a length or a
name that may or may not have reached the medium, each independently of all others. That is more
than any real file system does to us; who survives every choice survives them all. Only the lock
file is left out: what it holds means nothing.

    moment = disk.moment()                  what the process and the medium have, now
    moment.loose                            the loose ends
    moment.write(folder, chosen)            the disk after a cut at which just these made it
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from typing import NamedTuple

from pocketmq.broker.store.disk.disk import DiskFile, OsDisk
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker

PAGE = 4096


class LooseEnd(NamedTuple):
    """One thing that a power cut decides."""

    kind: str
    """`page`, `length` or `name`."""
    path: str
    number: int = 0
    """Of the page."""


class Moment:
    """All that a cut at one moment can leave.

    Args:
        live: content of each file as the process sees it.
        durable: content of each file as of its last sync, by the path that it has now.
        named: paths whose names are certain to survive.
        lost_names: certain names of files that the process has removed or replaced, with the
            content of those.
    """

    def __init__(
        self,
        live: dict[str, bytes],
        durable: dict[str, bytes],
        named: set[str],
        lost_names: dict[str, bytes],
    ) -> None:
        self._live = live
        self._durable = durable
        self._named = named
        self._lost_names = lost_names
        self.loose = [
            *(LooseEnd("name", path) for path in sorted({*live, *lost_names} - named)),
            *(
                LooseEnd("length", path)
                for path, content in sorted(live.items())
                if len(content) != len(durable[path])
            ),
            *(
                LooseEnd("page", path, page)
                for path, content in sorted(live.items())
                for page in _changed_pages(durable[path], content)
            ),
        ]
        """What may have reached the medium or not. A name is its newest change: that it came, that
        it leads to another file now, that it has gone."""

    def write(self, target: Path, chosen: Collection[LooseEnd]) -> None:
        """Make `target` what the next boot finds when just the `chosen` ends reached the medium."""
        for path, content in self._live.items():
            if path not in self._named and LooseEnd("name", path) not in chosen:
                continue
            image = bytearray(self._durable[path])
            if len(content) != len(image) and LooseEnd("length", path) in chosen:
                image = image[: len(content)].ljust(len(content), b"\0")
            for page in _changed_pages(self._durable[path], content):
                if LooseEnd("page", path, page) in chosen:
                    end = min(len(image), len(content), (page + 1) * PAGE)
                    image[page * PAGE : end] = content[page * PAGE : end]
            _put(target / path, bytes(image))
        for path, content in self._lost_names.items():
            if LooseEnd("name", path) not in chosen:
                _put(target / path, content)

    def choices(self, most: int, chance: Random) -> Iterator[frozenset[LooseEnd]]:
        """Every subset of the loose ends if there are no more than `most`, else a sample.

        A sample has the extremes, all but one and only one end, and random ones.
        """
        loose = self.loose
        if 1 << len(loose) <= most:
            for size in range(len(loose) + 1):
                yield from map(frozenset, combinations(loose, size))
            return
        picked: dict[frozenset[LooseEnd], None] = {frozenset(): None, frozenset(loose): None}
        singles = [frozenset([end]) for end in loose]
        singles += [frozenset(loose) - single for single in singles]
        for single in chance.sample(singles, min(len(singles), most // 2)):
            picked[single] = None
        while len(picked) < most:
            share = chance.random()
            picked[frozenset(end for end in loose if chance.random() < share)] = None
        yield from list(picked)[:most]


def _changed_pages(before: bytes, after: bytes) -> Iterator[int]:
    for at in range(0, max(len(before), len(after)), PAGE):
        if before[at : at + PAGE].ljust(PAGE, b"\0") != after[at : at + PAGE].ljust(PAGE, b"\0"):
            yield at // PAGE


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


class _Inode:
    """A file apart from its name."""

    __slots__ = ("durable",)

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable
        """Content as of the last sync."""


class ModelDisk(OsDisk):
    """The real disk under `root`, and what of it is certain to survive a power cut.

    Args:
        root: an empty directory, or one whose whole content is certain.
        boot: the machine's present run; the next one has another.
    """

    def __init__(self, root: Path, boot: bytes = b"the first boot..") -> None:
        self.root = str(root)
        self.on_call: Callable[[str, str], None] | None = None
        """Called before each call that changes or syncs something: (operation, path)."""
        self._boot = boot
        self._inodes: dict[str, _Inode] = {}
        self._named: dict[str, _Inode] = {}
        """Names that are certain, and the files that they lead to. Directories are among them."""
        for path, content in self._files():
            self._inodes[path] = self._named[path] = _Inode(content)
        for path, _, _ in os.walk(self.root):
            self._named.setdefault(path, _Inode())

    def moment(self) -> Moment:
        """What a cut right now can leave. Paths in it are relative to the root."""
        relative = {path: os.path.relpath(path, self.root) for path in self._inodes}
        live = dict(self._files())
        named = {
            relative[path]
            for path, inode in self._inodes.items()
            if self._named.get(path) is inode and self._is_reachable(path)
        }
        lost = {
            os.path.relpath(path, self.root): inode.durable
            for path, inode in self._named.items()
            if self._inodes.get(path) is not inode
            and not os.path.isdir(path)
            and inode.durable
            and self._is_reachable(path)
        }
        return Moment(
            {relative[path]: content for path, content in live.items()},
            {relative[path]: self._inodes[path].durable for path in live},
            named,
            lost,
        )

    def _files(self) -> Iterator[tuple[str, bytes]]:
        for folder, _, names in os.walk(self.root):
            for name in names:
                if name != "lock":
                    path = os.path.join(folder, name)
                    yield path, Path(path).read_bytes()

    def _is_reachable(self, path: str) -> bool:
        while path != self.root:
            path = os.path.dirname(path)
            if path not in self._named:
                return False
        return True

    def _call(self, operation: str, path: str) -> None:
        if self.on_call is not None:
            self.on_call(operation, path)

    def synced(self, path: str) -> None:
        """A file's content is certain from now on."""
        self._inodes[path].durable = Path(path).read_bytes()

    # -- the seam --------------------------------------------------------------------------------

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        self._call("make_directory", path)
        super().make_directory(path, lasting=lasting)

    def create_file(self, path: str, size: int) -> None:
        self._call("create_file", path)
        super().create_file(path, size)
        self._inodes[path] = _Inode()

    def resize_file(self, path: str, size: int) -> None:
        self._call("resize_file", path)
        super().resize_file(path, size)

    def open_file(self, path: str) -> DiskFile:
        return _ModelFile(self, path, super().open_file(path))

    def write_file(self, path: str, content: bytes) -> None:
        self._call("write_file", path)
        super().write_file(path, content)
        self._inodes.setdefault(path, _Inode())

    async def write_text(self, path: str, text: str) -> None:
        self._call("write_text", path)
        await asyncio.to_thread(Path(path).write_text, text)
        self._inodes.setdefault(path, _Inode())
        self._call("sync", path)
        self.synced(path)

    async def rename(self, source: str, target: str) -> None:
        self._call("rename", target)
        os.replace(source, target)
        self._inodes[target] = self._inodes.pop(source)
        self._sync_names(os.path.dirname(target))  # file systems rename as a whole or not at all

    def remove_file(self, path: str) -> None:
        self._call("remove_file", path)
        super().remove_file(path)
        self._inodes.pop(path, None)

    def remove_directory(self, path: str) -> None:
        self._call("remove_directory", path)
        super().remove_directory(path)
        for name in [name for name in self._inodes if name.startswith(path + os.sep)]:
            del self._inodes[name]

    def sync_directory(self, path: str) -> None:
        if f"{path}/".startswith(f"{self.root}/"):  # what is above the root is certain
            self._call("sync_directory", path)
            self._sync_names(path)

    def _sync_names(self, path: str) -> None:
        for name in [name for name in self._named if os.path.dirname(name) == path]:
            if not os.path.exists(name):
                for gone in [n for n in self._named if n == name or n.startswith(name + os.sep)]:
                    del self._named[gone]
        for entry in self.list_directory(path):
            name = os.path.join(path, entry)
            self._named[name] = self._inodes.get(name) or self._named.get(name) or _Inode()

    def boot_id(self) -> bytes:
        return self._boot

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()


class _ModelFile:
    __slots__ = ("_disk", "_file", "_path")

    def __init__(self, disk: ModelDisk, path: str, file: DiskFile) -> None:
        self._disk, self._path, self._file = disk, path, file

    def reserve(self, start: int, length: int) -> None:
        self._file.reserve(start, length)

    def sync(self) -> None:
        self._disk._call("sync", self._path)
        self._disk.synced(self._path)

    def verify(self, start: int, expected: memoryview) -> None:
        self._file.verify(start, expected)

    def close(self) -> None:
        self._file.close()

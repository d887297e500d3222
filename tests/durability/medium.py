"""What a power cut can leave of a folder, whoever writes into it, and by whatever calls.

`Medium` watches a real folder below the Python code that writes there: `os`, `open` and the few
functions that took theirs at import. So it takes a broker's files through `Disk`, texts through
`TextFiles`, and plain `Path.write_text` alike. Beside what the process sees it keeps what is
certain to survive: a file's content as of its last fsync, a name as of the last fsync of its
folder. What differs is a **loose end**, and each may reach the medium or not, alone:

    part      some bytes of a file, as many as the writer's grain
    length    of a file
    names     what one call changed: a rename counts as a whole, as file systems have it

Nothing is really synced while a medium watches: the folder is thrown away.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import aiofiles.os

from pocketmq.broker.store.disk import disk as broker_disk

EVERY = 12
"""Up to so many loose ends every subset is a choice."""
SAMPLES = 48
"""Seeded subsets of more."""

_CHANGES = (
    *("open", "mkdir", "rename", "replace", "unlink", "remove", "rmdir"),
    *("truncate", "ftruncate", "link", "symlink"),
)
_SYNCS = ("fsync", "fdatasync")


class Content(NamedTuple):
    """A file's bytes: parts of the grain's size that are not all zero, by their number."""

    size: int
    parts: dict[int, bytes]

    @property
    def key(self) -> object:
        """Equal for equal bytes."""
        return self.size, tuple(sorted(self.parts.items()))


EMPTY = Content(0, {})
Image = dict[str, Content | None]
"""What the next boot finds: files, and folders as None, by their path."""


class End(NamedTuple):
    """One thing that a power cut decides."""

    kind: str
    """`names`, `length` or `part`."""
    node: int
    """Of a file; of names the number of the call."""
    part: int = 0

    def __repr__(self) -> str:
        return f"{self.kind}:{self.node}:{self.part}"


class _Change(NamedTuple):
    """Names that one call gave or took; durable with the sync of one of their folders."""

    number: int
    names: tuple[tuple[int, str, int | None], ...]
    """Folder, name, and what it leads to from now on."""


@dataclass
class _Node:
    """A file or folder apart from its names."""

    is_folder: bool
    durable: Content = EMPTY
    live: Content = EMPTY
    names: dict[str, int] = field(default_factory=dict)
    """Of a folder, as the process sees them."""


class Moment:
    """All that a cut at one moment can leave.

    Args:
        root: Number of the folder.
        folders: Durable names of each folder.
        files: What is durable of each file, and what the process sees.
        changes: Names that are not durable, in the order of the calls.
        promised: How much the life had said by then.
    """

    def __init__(
        self,
        root: int,
        folders: dict[int, dict[str, int]],
        files: dict[int, tuple[Content, Content]],
        changes: tuple[_Change, ...],
        promised: int,
    ) -> None:
        self._root, self._folders, self._files = root, folders, files
        self._changes = changes
        self.promised = promised
        reached = {
            *(node for names in folders.values() for node in names.values()),
            *(node for change in changes for _, _, node in change.names if node is not None),
        }
        self.ends = [End("names", change.number) for change in changes]
        """In the order of the calls, then of the files."""
        for node, (durable, live) in sorted(files.items()):
            if node in reached:
                if durable.size != live.size:
                    self.ends.append(End("length", node))
                self.ends += [End("part", node, part) for part in _differing(durable, live)]

    def choices(self, chance: Random, every: int = EVERY) -> Iterator[frozenset[End]]:
        """All subsets of up to `every` ends; of more prefixes, one, all but one, and samples."""
        ends = self.ends
        if len(ends) <= every:
            for size in range(len(ends) + 1):
                yield from map(frozenset, combinations(ends, size))
            return
        for size in range(len(ends) + 1):
            yield frozenset(ends[:size])
        for end in ends:
            yield frozenset([end])
            yield frozenset(ends) - {end}
        for _ in range(SAMPLES):
            share = chance.random()
            yield frozenset(end for end in ends if chance.random() < share)

    def image(self, chosen: Collection[End]) -> Image:
        """What the next boot finds when just these ends reached the medium."""
        folders = self._folders
        if self._changes:
            folders = {number: dict(names) for number, names in folders.items()}
            for change in self._changes:
                if End("names", change.number) in chosen:
                    for folder, name, node in change.names:
                        if node is None:
                            folders[folder].pop(name, None)
                        else:
                            folders[folder][name] = node
        found: Image = {}
        self._walk(folders, self._root, "", chosen, found)
        return found

    def _walk(
        self,
        folders: dict[int, dict[str, int]],
        number: int,
        path: str,
        chosen: Collection[End],
        found: Image,
    ) -> None:
        for name, node in folders[number].items():
            below = f"{path}/{name}" if path else name
            if node in folders:
                found[below] = None
                self._walk(folders, node, below, chosen, found)
            else:
                found[below] = self._content(node, chosen)

    def _content(self, node: int, chosen: Collection[End]) -> Content:
        durable, live = self._files[node]
        if durable is live:
            return durable
        size = live.size if End("length", node) in chosen else durable.size
        parts = dict(durable.parts)
        for part in _differing(durable, live):
            if End("part", node, part) in chosen:
                if part in live.parts:
                    parts[part] = live.parts[part]
                else:
                    parts.pop(part, None)
        return Content(size, parts)


def _differing(one: Content, other: Content) -> list[int]:
    if one is other:
        return []
    both = one.parts.keys() | other.parts.keys()
    return sorted(part for part in both if one.parts.get(part) != other.parts.get(part))


def write_image(image: Image, target: Path, grain: int) -> None:
    """Make a folder of what a cut has left."""
    target.mkdir(parents=True)
    for path, content in image.items():
        if content is None:
            (target / path).mkdir(parents=True, exist_ok=True)
            continue
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(target / path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, content.size)
            for part, data in content.parts.items():
                room = content.size - part * grain
                if room > 0:
                    os.pwrite(descriptor, data[:room], part * grain)
        finally:
            os.close(descriptor)


def key_of(image: Image) -> object:
    """Equal for images that are equal."""
    return tuple(
        (path, None if content is None else content.key) for path, content in sorted(image.items())
    )


class Medium:
    """Watches a folder, whose present content is certain to survive.

    Args:
        root: The folder.
        grain: So many bytes reach the medium together. A page has 4,096, a sector 512; a text that
            is appended to may be cut anywhere.
        promised: How much has been promised so far.
    """

    def __init__(self, root: Path, grain: int, promised: Callable[[], int]) -> None:
        self.root = root
        self.moments: list[Moment] = []
        self._grain = grain
        self._promised = promised
        self._numbers: dict[int, int] = {}
        """Inode -> number of the file: the system gives an inode's number again, we do not."""
        self._nodes: dict[int, _Node] = {}
        self._durable_names: dict[int, dict[str, int]] = {}
        self._changes: list[_Change] = []
        self._made = 0
        self._lock = threading.RLock()  # texts are written by threads
        self._root = self._number(root.stat().st_ino, is_folder=True)
        self._take()
        self._changes.clear()
        for number, node in self._nodes.items():
            node.durable = node.live
            if node.is_folder:
                self._durable_names[number] = dict(node.names)

    # -- what there is ------------------------------------------------------------------------

    def look(self, *, one_call: bool = False) -> None:
        """Keep this moment; with `one_call` all names that changed did so together."""
        with self._lock:
            self._take(one_call=one_call)
            moment = Moment(
                self._root,
                {number: dict(names) for number, names in self._durable_names.items()},
                {
                    number: (node.durable, node.live)
                    for number, node in self._nodes.items()
                    if not node.is_folder
                },
                tuple(self._changes),
                self._promised(),
            )
            self.moments.append(moment)

    def _number(self, inode: int, *, is_folder: bool) -> int:
        number = self._numbers.get(inode)
        if number is None:
            self._made += 1
            number = self._numbers[inode] = self._made
            self._nodes[number] = _Node(is_folder)
            if is_folder:
                self._durable_names[number] = {}
        return number

    def _take(self, *, one_call: bool = False) -> None:
        """Compare the folder with what was known; what is gone gives its inode's number back."""
        seen: set[int] = set()
        changed: list[tuple[int, str, int | None]] = []
        self._walk(str(self.root), self._root, seen, changed)
        for inode in [inode for inode, number in self._numbers.items() if number not in seen]:
            del self._numbers[inode]
        if one_call and changed:
            self._note(tuple(changed))
        else:
            for each in changed:
                self._note((each,))

    def _note(self, names: tuple[tuple[int, str, int | None], ...]) -> None:
        self._made += 1
        self._changes.append(_Change(self._made, names))

    def _walk(
        self,
        path: str,
        number: int,
        seen: set[int],
        changed: list[tuple[int, str, int | None]],
    ) -> None:
        seen.add(number)
        names: dict[str, int] = {}
        before = self._nodes[number].names
        below: list[tuple[str, int]] = []
        with os.scandir(path) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                names[entry.name] = child = self._number(entry.inode(), is_folder=is_folder)
                if is_folder:
                    below.append((entry.path, child))
                elif child not in seen:
                    seen.add(child)
                    self._read(entry.path, self._nodes[child])
        changed += [
            (number, name, names.get(name))
            for name in sorted({*names, *before})
            if names.get(name) != before.get(name)
        ]
        self._nodes[number].names = names
        for below_path, child in sorted(below):
            self._walk(below_path, child, seen, changed)

    def _read(self, path: str, node: _Node) -> None:
        content = _content_of(path, self._grain)
        if content != node.live:
            node.live = node.durable if content == node.durable else content

    # -- what is certain ----------------------------------------------------------------------

    def synced(self, descriptor: int) -> None:
        """A file's content, or a folder's names, are certain from now on."""
        with self._lock:
            self.look()
            number = self._numbers.get(os.fstat(descriptor).st_ino)
            if number is None:
                return
            node = self._nodes[number]
            if not node.is_folder:
                node.durable = node.live
                return
            kept = []
            for change in self._changes:
                if all(folder != number for folder, _, _ in change.names):
                    kept.append(change)
                    continue
                for folder, name, leads_to in change.names:
                    if leads_to is None:
                        self._durable_names[folder].pop(name, None)
                    else:
                        self._durable_names[folder][name] = leads_to
            self._changes = kept

    # -- watching -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Keep a moment at each call that changes or syncs something."""
        with contextlib.ExitStack() as stack:
            for name in _CHANGES:
                stack.enter_context(patch.object(os, name, self._changing(getattr(os, name))))
            for module in (builtins, io):
                stack.enter_context(patch.object(module, "open", self._changing(open)))
            for name in ("replace", "rename", "remove", "unlink", "mkdir", "rmdir"):
                wrapped = aiofiles.os.wrap(getattr(os, name))
                stack.enter_context(patch.object(aiofiles.os, name, wrapped))
            for name in _SYNCS:
                stack.enter_context(patch.object(os, name, self.sync))
            stack.enter_context(patch.object(broker_disk, "_fdatasync", self.sync))
            yield
            self.look()

    def sync(self, descriptor: Any) -> None:
        """In place of fsync."""
        self.synced(descriptor if isinstance(descriptor, int) else descriptor.fileno())

    def _changing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        name = call.__name__

        def changing(*args: Any, **named: Any) -> Any:
            with self._lock:
                self.look()  # what was written through mappings and files since
                result = call(*args, **named)
                self.look(one_call=name in ("rename", "replace"))
                return result

        return changing


def _content_of(path: str, grain: int) -> Content:
    """A file's parts; holes are not read."""
    descriptor = _OPEN(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        if size == 0:
            return EMPTY
        parts: dict[int, bytes] = {}
        at = 0
        while at < size:
            try:
                begin = os.lseek(descriptor, at, os.SEEK_DATA) // grain * grain
            except OSError:  # only a hole is left
                break
            end = os.lseek(descriptor, max(begin, at), os.SEEK_HOLE)
            data = os.pread(descriptor, end - begin, begin)
            for start in range(0, len(data), grain):
                part = data[start : start + grain]
                if part.count(0) != len(part):
                    parts[(begin + start) // grain] = part.ljust(grain, b"\0")
            at = end if end % grain == 0 else end // grain * grain + grain
        return Content(size, parts)
    finally:
        os.close(descriptor)


_OPEN = os.open


@contextlib.contextmanager
def nothing_synced() -> Iterator[None]:
    """What is judged is thrown away, so it need not reach a real disk."""
    with contextlib.ExitStack() as stack:
        for name in _SYNCS:
            stack.enter_context(patch.object(os, name, lambda _descriptor: None))
        stack.enter_context(patch.object(broker_disk, "_fdatasync", lambda _descriptor: None))
        yield


def remove(folder: Path) -> None:
    """Throw a judged folder away."""
    shutil.rmtree(folder, ignore_errors=True)

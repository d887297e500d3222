"""Where a store's files lie: on this machine, or wherever fsspec reaches (`s3://`, `memory://`).

A place is a file or a folder. It travels from the driver to the workers, so it holds no
connection; each process opens its own.
"""

from __future__ import annotations

import mmap
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from pocketmq.runtime.errors import MissingToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK_BYTES: Final = 256 * 1024
"""Remote files that are read in small pieces are fetched in blocks of this size."""
_BLOCKS: Final = 64
_ELSEWHERE: Final = "://"
_LOCAL: Final = "file://"
_HUGE: Final = 2 * 1024 * 1024
_POPULATE_READ: Final = 22
"""Linux 5.14's MADV_POPULATE_READ, which Python's `mmap` has no name for."""


class Entry(NamedTuple):
    """What a folder has."""

    name: str
    size: int
    is_folder: bool


class Bytes(Protocol):
    """An open file."""

    def read_into(self, target: memoryview, position: int) -> int:
        """Fill `target` from a position on; returns the number of bytes, fewer at the end."""

    def mapped(self, position: int, size: int) -> memoryview | None:
        """Some bytes without a copy, all of them in memory; None where that is not possible."""

    def close(self) -> None:
        """Let go of it."""


class Place(Protocol):
    """A file or a folder, which need not exist."""

    def __truediv__(self, name: str) -> Place:
        """What is called so in this folder."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    @property
    def is_local(self) -> bool:
        """Whether other machines may have something else there."""

    def is_folder(self) -> bool:
        """Whether it is a folder that exists."""

    def entries(self) -> Sequence[Entry]:
        """What the folder has, by name; nothing if there is no such folder."""

    def folder(self) -> Place | None:
        """The folder around it."""

    def open(self, *, in_blocks: bool = False) -> Bytes:
        """Open the file for reading.

        Args:
            in_blocks: It is read in small pieces; where each read takes a request, more is fetched.

        Raises:
            FileNotFoundError: It does not exist.
        """

    def read_bytes(self) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: It does not exist.
        """


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A path of this machine."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> LocalPlace:
        return LocalPlace(self.path / name)

    @property
    def name(self) -> str:
        """The last part, also of `.` and of links."""
        # Resolved first, since the name of `.` or of a link is no broker's name.
        return self.path.resolve().name

    @property
    def is_local(self) -> bool:
        """It is."""
        return True

    def is_folder(self) -> bool:
        """Whether it is a folder that exists."""
        return self.path.is_dir()

    def entries(self) -> list[Entry]:
        """By name; files that are deleted meanwhile are left out."""
        found = []
        try:
            with os.scandir(self.path) as listed:
                for each in listed:
                    # Retention deletes files while the folder is listed.
                    try:
                        found.append(Entry(each.name, each.stat().st_size, each.is_dir()))
                    except FileNotFoundError:
                        continue
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(found)

    def folder(self) -> LocalPlace:
        """The folder around it."""
        return LocalPlace(self.path.parent)

    def open(self, *, in_blocks: bool = False) -> LocalBytes:
        """Open it; the kernel keeps blocks."""
        return LocalBytes(self.path)

    def read_bytes(self) -> bytes:
        """The whole file."""
        return self.path.read_bytes()


class LocalBytes:
    """An open file of this machine.

    It is read rather than mapped, as a rule. A broker may truncate a file; access to a mapping
    would then kill this process (SIGBUS), while a read just returns less. It is hardly slower:
    4 MiB fit into the cache, from which they are decoded next. Mapped are files that nothing cuts
    any more, for whoever looks at few of their bytes.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read_into(self, target: memoryview, position: int) -> int:
        """One system call, as a rule."""
        done = 0
        while done < len(target):
            # One call may return less than was asked for.
            count = os.preadv(self._descriptor, [target[done:]], position + done)
            if count == 0:
                break
            done += count
        return done

    def mapped(self, position: int, size: int) -> memoryview | None:
        """Map the pages, and have the kernel read them: what it cannot read is no signal then.

        The mapping begins and ends at multiples of 2 MiB, as the kernel maps pages that it keeps
        as one of 2 MiB in one step, for a hundredth of the time, if all of it is asked for.
        """
        if sys.platform != "linux":
            return None
        start = position - position % _HUGE
        first = position % _HUGE // mmap.PAGESIZE * mmap.PAGESIZE
        end = position + size - start
        try:
            file_end = os.fstat(self._descriptor).st_size - start
            # Touching a mapped page after the file's end kills the process (SIGBUS).
            if end > file_end:
                return None
            found = mmap.mmap(
                self._descriptor,
                min(-(-end // _HUGE) * _HUGE, file_end),
                prot=mmap.PROT_READ,
                offset=start,
            )
            # Pages are loaded now, so that a disk fault raises an error here, and no signal later.
            found.madvise(_POPULATE_READ, first, end - first)
        except (OSError, ValueError):  # an older kernel, a damaged disk
            return None
        return memoryview(found)[position - start : end]

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """An address that fsspec knows, such as `s3://bucket/broker-a`."""

    protocol: str
    path: str
    """As the file system names it, without the protocol."""
    storage: tuple[tuple[str, str], ...] = ()
    """Options of the file system; values as JSON."""

    def __str__(self) -> str:
        return f"{self.protocol}{_ELSEWHERE}{self.path.lstrip('/')}"

    def __truediv__(self, name: str) -> RemotePlace:
        return RemotePlace(self.protocol, f"{self.path}/{name}", self.storage)

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def is_local(self) -> bool:
        """`memory://` is: each process has its own."""
        return self.protocol == "memory"

    @property
    def _files(self) -> Any:
        # Cached by process id: forked workers must not share connections.
        return _file_system(os.getpid(), self.protocol, self.storage)

    def is_folder(self) -> bool:
        """Whether something is below it."""
        return bool(self._files.isdir(self.path))

    def entries(self) -> list[Entry]:
        """By name."""
        try:
            listed = self._files.ls(self.path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = [
            Entry(
                each["name"].rstrip("/").rsplit("/", 1)[-1],
                int(each["size"] or 0),
                each["type"] == "directory",
            )
            for each in listed
            if each["name"].strip("/") != self.path.strip("/")  # S3 may list the folder itself
        ]
        return sorted(found)

    def folder(self) -> RemotePlace | None:
        """The folder around it."""
        above = self.path.rpartition("/")[0]
        return RemotePlace(self.protocol, above, self.storage) if above else None

    def open(self, *, in_blocks: bool = False) -> RemoteBytes:
        """Each read is a request; a file that is not there reads as nothing."""
        return RemoteBytes(self._files, self.path, BLOCK_BYTES if in_blocks else 0)

    def read_bytes(self) -> bytes:
        """The whole file."""
        return bytes(self._files.cat_file(self.path))


class RemoteBytes:
    """A file behind fsspec.

    Args:
        files: The file system.
        path: As it names the file.
        block_bytes: Smaller reads fetch a whole block, and blocks are kept; 0 for exact reads.
    """

    def __init__(self, files: Any, path: str, block_bytes: int) -> None:
        self._files = files
        self._path = path
        self._block_bytes = block_bytes
        self._blocks: dict[int, bytes] = {}

    def read_into(self, target: memoryview, position: int) -> int:
        """A request, or none where the block is known."""
        size, block = len(target), self._block_bytes
        first = position // block if block else 0
        # Only reads within one block use the cache; longer ones are fetched directly.
        if block and (position + size - 1) // block == first:
            start = position - first * block
            data = self._block(first)[start : start + size]
        else:
            data = self._fetch(position, position + size)
        target[: len(data)] = data
        return len(data)

    def _block(self, number: int) -> bytes:
        found = self._blocks.get(number)
        if found is None:
            if len(self._blocks) >= _BLOCKS:
                # The oldest block is dropped, since entries are read in ascending order.
                self._blocks.pop(next(iter(self._blocks)))
            found = self._fetch(number * self._block_bytes, (number + 1) * self._block_bytes)
            self._blocks[number] = found
        return found

    def _fetch(self, start: int, end: int) -> bytes:
        try:
            return bytes(self._files.cat_file(self._path, start=start, end=end))
        except FileNotFoundError:
            # Like a local file that ends here: the reader finds that bytes are missing.
            return b""

    def mapped(self, position: int, size: int) -> None:
        """Nothing can be mapped from there."""

    def close(self) -> None:
        """Forget the blocks."""
        self._blocks.clear()


@lru_cache(maxsize=32)
def _file_system(process: int, protocol: str, storage: tuple[tuple[str, str], ...]) -> Any:
    """The file system of this process; a forked one must not use its parent's connections."""
    import json

    import fsspec

    options = {name: json.loads(value) for name, value in storage}
    # Without cached listings, since a store in use gets new files.
    return fsspec.filesystem(protocol, use_listings_cache=False, **options)


def place_of(text: str, storage: tuple[tuple[str, str], ...] = ()) -> Place:
    """The place that a user's text means: an address with `://`, or else a local path.

    Raises:
        MissingToolError: What reaches such addresses is not installed.
        ValueError: Nothing knows such addresses.
    """
    # `file://` means this machine, whose files are read directly.
    if _ELSEWHERE not in text or text.startswith(_LOCAL):
        return LocalPlace(Path(text.removeprefix(_LOCAL)).expanduser())
    try:
        import fsspec
    except ImportError:
        raise MissingToolError("fsspec", text, "pip install 'pocketmq[remote]'") from None
    protocol, _, _ = text.partition(_ELSEWHERE)
    try:
        kind = fsspec.get_filesystem_class(protocol)
    except ImportError as exc:
        raise MissingToolError(str(exc), text, "pip install 'pocketmq[remote]'") from None
    return RemotePlace(protocol, str(kind._strip_protocol(text)).rstrip("/"), storage)


def read_at(path: Place, position: int, size: int) -> bytearray:
    """Some bytes of a file; fewer at its end."""
    data = bytearray(size)
    file = path.open()
    try:
        with memoryview(data) as view:
            done = file.read_into(view, position)
    finally:
        file.close()
    del data[done:]
    return data

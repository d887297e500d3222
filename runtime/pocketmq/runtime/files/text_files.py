"""The part of the file system that small files need: the seam under `DurableFile`.

A broker's `Disk` has these calls and more, so a table of a broker is written by the same code as a
nameserver's and a client's file, and meets the same faults in tests and in the simulation.
"""

from __future__ import annotations

import errno
import os
from typing import Protocol

import aiofiles
import aiofiles.os

from pocketmq.runtime.errors import DiskError, DiskFullError
from pocketmq.runtime.files.descriptors import FOR_FILES
from pocketmq.runtime.files.new_folders import make_folders, sync_folder, sync_names

_FULL = (errno.ENOSPC, errno.EDQUOT)


class TextFiles(Protocol):
    """Texts that are read and written as a whole. Paths are absolute.

    Raises:
        DiskError: from every call that the file system refuses.
    """

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        """Make `path` and its missing parents.

        `lasting`: its name, and those of the parents that it made, survive a power cut when it
        returns. What lies under a name that does not survive is lost, however well it was synced.
        """

    def file_size(self, path: str) -> int | None:
        """Length in bytes; None when there is no such file."""

    async def read_text(self, path: str) -> str | None:
        """A file's text; None when there is no such file."""

    async def write_text(self, path: str, text: str) -> None:
        """Create or overwrite a file; its content then survives a power cut."""

    async def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what had it; durable when it returns."""

    def sync_directory(self, path: str) -> None:
        """Return when names made, changed or removed in `path` survive a power cut."""


class AppendFiles(TextFiles, Protocol):
    """Texts that also grow."""

    async def append_text(self, path: str, text: str) -> None:
        """Add to the end of a file that exists; what was added then survives a power cut."""


class OsTextFiles:
    """Those of a POSIX machine; what is created is for this user alone (0700, 0600)."""

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        with explained(path):
            made = make_folders(path, 0o700)
        if lasting:
            sync_names(path, made, self.sync_directory)

    def file_size(self, path: str) -> int | None:
        try:
            return os.stat(path).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise disk_error(path, exc) from exc

    async def read_text(self, path: str) -> str | None:
        with explained(path):
            try:
                async with aiofiles.open(path, encoding="utf-8", opener=FOR_FILES.open) as file:
                    return await file.read()
            except FileNotFoundError:
                return None
            except UnicodeDecodeError as exc:
                raise DiskError(path, f"byte {exc.start} is not UTF-8") from exc

    async def write_text(self, path: str, text: str) -> None:
        with explained(path):
            await _write(path, "w", text)

    async def append_text(self, path: str, text: str) -> None:
        with explained(path):
            await _write(path, "a", text)

    async def rename(self, source: str, target: str) -> None:
        with explained(target):
            await aiofiles.os.replace(source, target)
            await aiofiles.os.wrap(self.sync_directory)(os.path.dirname(target))

    def sync_directory(self, path: str) -> None:
        with explained(path):
            sync_folder(path)


@aiofiles.os.wrap
def _write(path: str, mode: str, text: str) -> None:
    """Write and sync in one go: who waits for it may be cancelled, and the file is closed."""
    with open(path, mode, encoding="utf-8", opener=FOR_FILES.open) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


class explained:  # a function to who calls it; a generator would take twice the time
    """Turn the system's errors into PocketMQ's, which name the file: `with explained(path):`.

    Raises:
        DiskFullError: for a lack of space.
        DiskError: for any other refusal.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise disk_error(self._path, error) from error


def disk_error(path: str, exc: OSError) -> DiskError:
    """What `explained` raises for an error of the system."""
    reason = exc.strerror or str(exc)
    if exc.errno in _FULL:
        return DiskFullError(path, reason, advice="free space on its partition")
    return DiskError(path, reason)

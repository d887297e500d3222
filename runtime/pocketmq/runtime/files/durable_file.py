"""A small file that is replaced as a whole, with its previous content beside it.

    x.json        the present content
    x.json.bak    the one before it
    x.json.tmp    the next one, while it is written

`replace` writes and syncs the `.tmp`, then renames: present to `.bak`, `.tmp` to present. Whenever
the machine stops, the present or the one before it is whole, so `load` tries both in that order.
Nameservers, brokers and clients keep their JSON files this way, each in its own dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import structlog

from pocketmq.runtime.errors import DiskError, PocketMQError
from pocketmq.runtime.files.text_files import TextFiles

T = TypeVar("T")

log = structlog.get_logger()


class DamagedFileError(DiskError):
    """A file is there, and neither it nor its `.bak` can be used."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason, advice="repair it, or move it and its .bak away")


class Loaded(NamedTuple, Generic[T]):
    """What `DurableFile.load` has found."""

    value: T
    text: str
    is_backup: bool
    """Whether it is the previous content, because the present one cannot be used."""


def backup_of(path: Path) -> Path:
    """Where the content before the present one is."""
    return path.with_name(path.name + ".bak")


class DurableFile:
    """One file and its `.bak`. Writers of one file must follow each other.

    Args:
        path: Of the present content; its folder is made when it is first written.
        files: The seam to the file system.
        has_folder: The folder is there, and its name is safe: somebody else sees to it.
    """

    def __init__(self, path: Path, files: TextFiles, *, has_folder: bool = False) -> None:
        self.path = path.absolute()
        self.backup_path = backup_of(self.path)
        self._files = files
        self._has_directory = has_folder
        self._is_damaged = False
        """Whether the present content, as it was found, cannot be used."""

    async def load(self, parse: Callable[[str], T | None]) -> Loaded[T] | None:
        """The present content, or the one before it; None when there is neither.

        Args:
            parse: Makes the value of a text, None when nothing is in it. What it raises, a
                ValueError or one of PocketMQ's errors, says why the text cannot be used.

        Raises:
            DamagedFileError: something is there, and none of it can be used.
        """
        problems: list[str] = []
        for path in (self.path, self.backup_path):
            try:
                text = await self._files.read_text(str(path))
                value = None if text is None else parse(text)
            except (PocketMQError, ValueError) as exc:
                problems.append(f"{path.name}: {exc}")
                log.warning("file.unreadable", path=str(path), error=str(exc))
                continue
            if text is not None and value is not None:
                self._is_damaged = path is self.backup_path
                return Loaded(value, text, self._is_damaged)
        # A damaged file is not a missing one: the role would start empty and overwrite it.
        if problems:
            raise DamagedFileError(self.path, "; ".join(problems))
        return None

    async def replace(self, text: str) -> None:
        """Make the present content the backup, and `text` the present.

        What `load` found damaged becomes no backup: the one that it took instead stays until the
        new content has the name.

        Raises:
            DiskError: it cannot be written; the present or the previous content is still whole.
        """
        self._make_directory()
        present, new = str(self.path), str(self._beside(".tmp"))
        await self._files.write_text(new, text)
        # An empty one, as a crash may leave, is no backup either.
        if not self._is_damaged and self._files.file_size(present):
            await self._files.rename(present, str(self.backup_path))
        # Until this rename only the backup exists, which `load` then reads.
        await self._files.rename(new, present)
        self._is_damaged = False

    def _make_directory(self) -> None:
        """Have the directory, whose name survives a power cut; once, for it costs a sync."""
        if self._has_directory:
            return
        self._files.make_directory(str(self.path.parent), lasting=True)
        self._has_directory = True

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

"""A small file that is replaced as a whole, with its previous content beside it.

    x.json        the present content
    x.json.bak    the one before it
    x.json.tmp    the next one, while it is written

`replace` writes and syncs the `.tmp`, then renames: present to `.bak`, `.tmp` to present, and syncs
the folder. Whenever the machine stops, the present or the one before it is whole, so a reader tries
both in that order. Nameservers and clients keep their files this way; a broker does the same
through its `Disk`, which the simulation replaces.
"""

from __future__ import annotations

import os
from pathlib import Path

import aiofiles
import aiofiles.os

from pocketmq.runtime.errors import DiskError

_fsync = aiofiles.os.wrap(os.fsync)


class DurableFile:
    """One file and its `.bak`. Writers of one file must follow each other.

    Args:
        path: Of the present content; its folder is made when it is first written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.backup_path = path.with_name(path.name + ".bak")

    async def read(self, *, backup: bool) -> bytes | None:
        """The present or the previous content; None when there is no file or nothing in it.

        Raises:
            DiskError: it is there and cannot be read.
        """
        path = self.backup_path if backup else self.path
        try:
            async with aiofiles.open(path, "rb") as file:
                return await file.read() or None
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise DiskError(path, exc.strerror or str(exc)) from exc

    async def replace(self, content: bytes) -> None:
        """Make the present content the backup, and `content` the present.

        Raises:
            DiskError: it cannot be written; the present or the previous content is still whole.
        """
        unfinished = self.path.with_name(self.path.name + ".tmp")
        try:
            await aiofiles.os.makedirs(self.path.parent, exist_ok=True)
            async with aiofiles.open(unfinished, "wb") as file:
                await file.write(content)
                await file.flush()
                await _fsync(file.fileno())
            if await self.read(backup=False) is not None:
                await aiofiles.os.replace(self.path, self.backup_path)
            await aiofiles.os.replace(unfinished, self.path)
            await _sync_directory(self.path.parent)
        except OSError as exc:
            raise DiskError(self.path, exc.strerror or str(exc)) from exc


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_sync_directory = aiofiles.os.wrap(_sync)

"""The files under `<store>/config/`: JSON that RocketMQ reads too, replaced atomically (E-67).

    topics.json        the present content
    topics.json.bak    the one before it
    topics.json.tmp    the next one, while it is written

A save writes and syncs the `.tmp`, then renames: present to `.bak`, `.tmp` to present. Whenever a
crash comes, the present or the one before it is whole. RocketMQ writes raw integer keys,
`{"offsetTable":{"T@g":{0:5}}}`; they are read, and written quoted, which it reads in turn.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import structlog

from pocketmq.broker.store.disk import Disk
from pocketmq.protocol import fastjson
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()


class JsonFileError(DiskError):
    """Neither a configuration file nor its `.bak` can be read."""


class JsonFile:
    """One configuration file.

    Args:
        path: of the file itself, absolute.
        disk: the seam to the file system.
    """

    def __init__(self, path: Path | str, disk: Disk) -> None:
        self.path = Path(path)
        self._disk = disk
        self._saving = asyncio.Lock()
        self._saved: str | None = None
        self._has_directory = False

    async def load(self) -> Any:
        """The content, or that of `.bak` when the file is missing or broken; None for neither.

        Keys of objects are strings, also those that were raw integers in the file.

        Raises:
            JsonFileError: something is there, and none of it can be read.
        """
        problems: list[str] = []
        for path in (self.path, self._beside(".bak")):
            try:
                text = await self._disk.read_text(str(path))
                if text is None:
                    continue
                value = _parse(text)
            except (DiskError, ValueError) as exc:
                problems.append(f"{path.name}: {exc}")
                log.warning("config.unreadable", path=str(path), error=str(exc))
                continue
            if path == self.path:
                self._saved = text
            return value
        if problems:
            raise JsonFileError(
                self.path, "; ".join(problems), advice="repair it, or remove it to start anew"
            )
        return None

    async def save(self, value: Any) -> bool:
        """Replace the content by `value`; whether it differed from what was there.

        Saves of one file follow each other; a cancelled one leaves the old or the new content.

        Args:
            value: anything msgspec turns into JSON; integer keys come out quoted.

        Raises:
            DiskError: the old content is still there, under its name or as `.bak`.
        """
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        async with self._saving:
            if text == self._saved:
                return False
            self._make_directory()
            new, old = str(self._beside(".tmp")), str(self._beside(".bak"))
            await self._disk.write_text(new, text)
            if self._disk.file_size(str(self.path)):
                await self._disk.rename(str(self.path), old)
            await self._disk.rename(new, str(self.path))
            self._saved = text
            return True

    def _make_directory(self) -> None:
        """Have the directory, and its own name survive a power cut; once, it costs a sync."""
        if not self._has_directory:
            self._disk.make_directory(str(self.path.parent))
            self._disk.sync_directory(str(self.path.parent.parent))
            self._has_directory = True

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


def _parse(text: str) -> Any:
    """Standard JSON by the fast reader, RocketMQ's dialect by the tolerant one.

    Raises:
        ValueError: it is neither; says where.
    """
    if not text.strip():
        raise ValueError("the file is empty")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return fastjson.parse(text)

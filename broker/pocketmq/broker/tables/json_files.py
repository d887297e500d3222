"""The files under `<store>/config/`: JSON that RocketMQ reads too, replaced atomically (E-67).

RocketMQ writes raw integer keys, `{"offsetTable":{"T@g":{0:5}}}`; they are read, and written
quoted, which it reads in turn. How a file and its `.bak` are replaced:
runtime/files/durable_file.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from pocketmq.protocol import fastjson
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.files.durable_file import DurableFile
from pocketmq.runtime.files.text_files import TextFiles

LARGE_BYTES = 256 * 1024
"""JSON from which on a pause is made before it is formatted: 5 MB take 12 ms."""


class JsonFile:
    """One configuration file.

    Args:
        path: of the file itself, absolute.
        disk: the seam to the file system.
        clock: with it others have their turn within the save of a large file.
    """

    def __init__(self, path: Path | str, disk: TextFiles, clock: Clock | None = None) -> None:
        self.path = Path(path)
        self._clock = clock
        self._file = DurableFile(self.path, disk)
        self._saving = asyncio.Lock()
        self._saved: str | None = None

    async def load(self) -> Any:
        """The content, or that of `.bak` when the file is missing or broken; None for neither.

        Keys of objects are strings, also those that were raw integers in the file.

        Raises:
            DamagedFileError: something is there, and none of it can be read.
        """
        loaded = await self._file.load(_parse)
        if loaded is None:
            return None
        if not loaded.is_backup:
            self._saved = loaded.text
        return loaded.value

    async def save(self, value: Any) -> bool:
        """Replace the content by `value` as it is now; whether it differed from what was there.

        Saves of one file follow each other; a cancelled one leaves the old or the new content.

        Args:
            value: anything msgspec turns into JSON; integer keys come out quoted.

        Raises:
            DiskError: the old content is still there, under its name or as `.bak`.
        """
        encoded = msgspec.json.encode(value)
        async with self._saving:
            if self._clock is not None and len(encoded) >= LARGE_BYTES:
                await self._clock.sleep(0)
            text = msgspec.json.format(encoded, indent=2).decode()
            if text == self._saved:
                return False
            self._saved = None  # a write that fails may have put the new text there all the same
            await self._file.replace(text)
            self._saved = text
            return True


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

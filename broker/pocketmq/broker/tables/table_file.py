"""One table of `config/`: a typed content, and the manager that it comes from and goes to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from pocketmq.broker.store import Disk
from pocketmq.broker.tables.json_files import JsonFile
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.files.durable_file import DamagedFileError

TableT = TypeVar("TableT")


class TableFile(Generic[TableT]):
    """Reads and writes one table; when, is up to `SavedTable` or `PeriodicTable`.

    Args:
        path: of the file, absolute.
        disk: the seam to the file system.
        clock: as `JsonFile`.
        cls: the content, typed.
        load: takes over what the file holds.
        content: what the file shall hold now.
    """

    def __init__(
        self,
        path: Path,
        disk: Disk,
        clock: Clock,
        cls: type[TableT],
        load: Callable[[TableT], None],
        content: Callable[[], TableT],
    ) -> None:
        self.name = path.name
        self._file = JsonFile(path, disk, clock)
        self._cls = cls
        self._load = load
        self._content = content

    async def load(self) -> None:
        """Pass the content of the file on, if there is one.

        Raises:
            DamagedFileError: a table is there, and it cannot be read nor can the one before it.
        """
        content = await self._file.load()
        if content is None:
            return
        try:
            table = msgspec.convert(content, self._cls, strict=False, str_keys=True)
        except msgspec.ValidationError as exc:
            raise DamagedFileError(self._file.path, str(exc)) from exc
        self._load(table)

    async def save(self) -> None:
        """Write the content as it is now.

        Raises:
            DiskError: the old content is still there.
        """
        await self._file.save(self._content())

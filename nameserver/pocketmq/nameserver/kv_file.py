"""`kvConfig.json` and its `.bak`: the KV configuration on disk (N-1, N-33).

The file is `{"configTable":{namespace:{key:value}}}`, indented by tabs as RocketMQ writes it.
How it and its `.bak` are replaced: runtime/durable_file.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from pocketmq.nameserver.kv_config import KvConfig, KvTable
from pocketmq.protocol.body import BodyStruct, always, decode_json
from pocketmq.runtime.durable_file import DurableFile
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.text_files import OsTextFiles, TextFiles

log = structlog.get_logger()


class KvStorage(Protocol):
    """Where the KV table is kept while no nameserver runs."""

    async def load(self) -> KvTable:
        """What was saved last; empty when nothing ever was.

        Raises:
            DiskError: it is there and cannot be read.
        """
        ...

    async def save(self, table: KvTable) -> None:
        """Replace what was saved.

        Raises:
            DiskError: it cannot be written; what was saved before is still whole.
        """
        ...


class KvFileBody(BodyStruct, kw_only=True):
    """The file's one object."""

    config_table: dict[str, dict[str, str]] = always(dict)


class KvFile:
    """The table in a JSON file."""

    def __init__(self, path: Path, files: TextFiles | None = None) -> None:
        self.path = path
        self._file = DurableFile(path, files or OsTextFiles())
        self.backup_path = self._file.backup_path

    async def load(self) -> KvTable:
        loaded = await self._file.load(_parse)
        return {} if loaded is None else loaded.value

    async def save(self, table: KvTable) -> None:
        text = json.dumps({"configTable": table}, indent="\t", separators=(",", ":"))
        try:
            await self._file.replace(text)
        except DiskError as exc:
            raise DiskError(
                self.path, exc.reason, advice="choose another --kv-config-path"
            ) from exc


def _parse(text: str) -> KvTable | None:
    return decode_json(text.encode(), KvFileBody).config_table if text else None


class KvWriter:
    """Saves a table after changes; changes made during a save share the next one.

    Args:
        config: The table.
        storage: Where it goes.
    """

    def __init__(self, config: KvConfig, storage: KvStorage) -> None:
        self._config = config
        self._storage = storage
        self._waiting: list[Callable[[DiskError | None], None]] = []
        self._task: asyncio.Task[None] | None = None

    def save(self, on_saved: Callable[[DiskError | None], None]) -> None:
        """Save the table as it is now or becomes until the save begins, then call `on_saved`."""
        self._waiting.append(on_saved)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="kv_file.save")

    async def stop(self) -> None:
        """Return when everything asked for so far is saved."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            error: DiskError | None = None
            try:
                await self._storage.save(self._config.snapshot())
            except DiskError as exc:
                log.error("kv_file.write_failed", reason=str(exc))
                error = exc
            for on_saved in waiting:
                on_saved(error)

"""`kvConfig.json` and its `.bak`: the KV configuration on disk (N-1, N-33).

The file is `{"configTable":{namespace:{key:value}}}`, indented by tabs as RocketMQ writes it. The
previous content becomes the `.bak` before the new content takes its place, and the new content is
on the disk before it gets the name: whenever the machine stops, one of the two is whole.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import aiofiles
import aiofiles.os
import structlog

from pocketmq.nameserver.kv_config import KvConfig, KvTable
from pocketmq.protocol.body import BodyStruct, always, decode_json
from pocketmq.protocol.errors import BadRequestError
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()

_fsync = aiofiles.os.wrap(os.fsync)


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

    def __init__(self, path: Path) -> None:
        self.path = path
        self.backup_path = path.with_name(path.name + ".bak")

    async def load(self) -> KvTable:
        problems: list[str] = []
        for path in (self.path, self.backup_path):
            try:
                content = await _read(path)
                if content is None:
                    continue
                table = decode_json(content, KvFileBody).config_table
            except BadRequestError as exc:
                problems.append(f"{path.name}: {exc}")
                continue
            if problems:
                log.warning("kv_file.restored", path=str(path), because=problems[0])
            return table
        if problems:
            raise DiskError(
                self.path,
                f"no usable content ({'; '.join(problems)})",
                advice="mend it, or move it away to start with an empty KV configuration",
            )
        return {}

    async def save(self, table: KvTable) -> None:
        text = json.dumps({"configTable": table}, indent="\t", separators=(",", ":"))
        unfinished = self.path.with_name(self.path.name + ".tmp")
        try:
            await aiofiles.os.makedirs(self.path.parent, exist_ok=True)
            await _write(unfinished, text.encode())
            previous = await _read(self.path)
            if previous is not None:
                await _write(self.backup_path, previous)
            await aiofiles.os.replace(unfinished, self.path)
        except OSError as exc:
            raise DiskError(
                self.path, exc.strerror or str(exc), advice="choose another --kv-config-path"
            ) from exc


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


async def _read(path: Path) -> bytes | None:
    """The file's content; None when there is no file or nothing in it."""
    try:
        async with aiofiles.open(path, "rb") as file:
            return await file.read() or None
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise DiskError(path, exc.strerror or str(exc)) from exc


async def _write(path: Path, content: bytes) -> None:
    async with aiofiles.open(path, "wb") as file:
        await file.write(content)
        await file.flush()
        await _fsync(file.fileno())

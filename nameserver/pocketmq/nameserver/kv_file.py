"""`kvConfig.json` and its `.bak`: the KV configuration on disk (N-1, N-33).

The file is `{"configTable":{namespace:{key:value}}}`, indented by tabs as RocketMQ writes it.
How it and its `.bak` are replaced: runtime/files/durable_file.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import structlog

from pocketmq.nameserver.kv_config import KvConfig, KvTable
from pocketmq.protocol.body import BodyStruct, always, decode_json
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.durable_file import DurableFile
from pocketmq.runtime.files.shared_writes import SharedWrites
from pocketmq.runtime.files.text_files import OsTextFiles

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

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = DurableFile(path, OsTextFiles())
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
    # An empty file is valid, and has no table.
    return decode_json(text.encode(), KvFileBody).config_table if text else None


def kv_writer(config: KvConfig, storage: KvStorage) -> SharedWrites:
    """What saves the table after changes."""
    return SharedWrites("kv_file", lambda: storage.save(config.snapshot()))

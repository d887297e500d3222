"""Offsets of broadcasting consumers, in RocketMQ's local JSON file (C-66).

    <directory>/<clientId>/<group>/offsets.json         and the previous content in offsets.json.bak

    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:12}}

The keys are objects, which no JSON parser but fastjson's takes; ours writes and reads them, so that
a Java client under the same client id goes on where we stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import structlog

from pocketmq.client.consumer.progress.offset_table import Offset, OffsetTable, ReadOffsetType
from pocketmq.protocol.body import BodyStruct, decode_json, mq_key, parse_mq_key
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.scalars import Int64
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.durable_file import DurableFile
from pocketmq.runtime.files.text_files import OsTextFiles, TextFiles

log = structlog.get_logger()

DEFAULT_DIRECTORY: Final = Path("~/.rocketmq_offsets")


class LocalOffsetsBody(BodyStruct, kw_only=True):
    """The file's one object; keys are JSON texts of queues."""

    offset_table: dict[str, Int64] = {}  # noqa: RUF012 - msgspec copies empty defaults


class LocalFileOffsetStore:
    """Offsets in a file of this client and group.

    Args:
        directory: `rocketmq.client.localOffsetStoreDir`.
        client_id: Stable, because broadcasting consumers keep the instance name `DEFAULT` (P-1).
        group: Consumer group.
        files: The seam to the file system; by default the real one.
    """

    def __init__(
        self, directory: Path, client_id: str, group: str, *, files: TextFiles | None = None
    ) -> None:
        self.table = OffsetTable()
        self.path = directory.expanduser() / client_id / group / "offsets.json"
        self._file = DurableFile(self.path, files or OsTextFiles())
        self._known: tuple[str, dict[MessageQueue, int]] = ("", {})
        """The text that was read or written last, and its offsets. At a start each queue is looked
        for in the file, and to parse the same text again costs as much as all queues."""
        self._unsaved: dict[MessageQueue, int] = {}
        """What could not be written. The queues may be given up, and `table` not have them."""
        self._writing = asyncio.Lock()
        """A queue may be given up while all are written."""

    async def load(self) -> None:
        """Fill the memory from the file.

        Raises:
            DamagedFileError: file and backup are both broken.
        """
        for queue, offset in (await self._read()).items():
            self.table.update(queue, offset, increase_only=False)

    async def read(self, queue: MessageQueue, kind: ReadOffsetType) -> int:
        """Memory, or the file; -1 for none."""
        if kind is not ReadOffsetType.READ_FROM_STORE:
            offset = self.table.get(queue)
            if offset >= 0 or kind is ReadOffsetType.READ_FROM_MEMORY:
                return offset
        try:
            stored = self._unsaved.get(queue)
            if stored is None:
                stored = (await self._read()).get(queue)
        except DiskError as exc:
            log.warning("offset.query_failed", queue=str(queue), reason=str(exc))
            return Offset.NOT_FOUND
        if stored is None:
            return Offset.NOT_FOUND
        self.table.update(queue, stored, increase_only=False)
        return stored

    async def persist(self, queue: MessageQueue) -> None:
        """Write one queue's offset into the file, keeping the others."""
        offset = self.table.get(queue)
        if offset >= 0:
            await self._merge({queue: offset})

    async def persist_all(self, queues: Iterable[MessageQueue]) -> None:
        """Write these queues' offsets into the file, keeping the others."""
        noted = {queue: self.table.get(queue) for queue in queues}
        await self._merge({queue: offset for queue, offset in noted.items() if offset >= 0})

    def persist_at_once(self, queues: Iterable[MessageQueue]) -> bool:
        return False  # it is written into a file

    async def _merge(self, offsets: Mapping[MessageQueue, int]) -> None:
        if not offsets and not self._unsaved:
            return
        try:
            async with self._writing:
                self._unsaved.update(offsets)
                stored = await self._read()
                merged = {**stored, **self._unsaved}
                if merged != stored:
                    text = encode_offsets(merged)
                    await self._file.replace(text)
                    self._known = text, merged
                self._unsaved.clear()
        except DiskError as exc:  # the next call writes them
            log.warning("offsets.persist_failed", path=str(self.path), reason=str(exc))

    async def _read(self) -> dict[MessageQueue, int]:
        loaded = await self._file.load(self._offsets_in)
        return {} if loaded is None else loaded.value

    def _offsets_in(self, text: str) -> dict[MessageQueue, int] | None:
        if not text:
            return None
        if text != self._known[0]:
            self._known = text, decode_offsets(text)
        return self._known[1]


def encode_offsets(offsets: Mapping[MessageQueue, int]) -> str:
    """The file's content as fastjson writes it, indented by tabs and sorted."""
    entries = ",\n".join(f"\t\t{mq_key(queue)}:{offsets[queue]}" for queue in sorted(offsets))
    return f'{{\n\t"offsetTable":{{\n{entries}\n\t}}\n}}'


def decode_offsets(text: str) -> dict[MessageQueue, int]:
    """What `encode_offsets`, fastjson, or a strict writer with quoted keys wrote.

    Raises:
        BadRequestError: it is none of them.
    """
    body = decode_json(text.encode(), LocalOffsetsBody)
    return {parse_mq_key(key): offset for key, offset in body.offset_table.items()}

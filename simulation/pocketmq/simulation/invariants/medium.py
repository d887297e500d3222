"""What certainly is on one broker's medium: the log's records in order, and small files. Pure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.stored.record_check import RecordKind, check_record

LOG_FOLDER = "commitlog"
NAME_DIGITS = 20


class Identity(NamedTuple):
    """Identifies one copy of a message: retries have the same key."""

    key: str
    topic: str
    times: int


class Kept(NamedTuple):
    """A record that survives a power cut."""

    start: int
    end: int
    topic: str
    queue_id: int
    queue_offset: int
    message: MessageExt

    def identity(self, topic: str | None = None) -> Identity:
        """Its identity in its own topic, or in the topic that it will be delivered to."""
        message = self.message
        key = message.uniq_key or bytes(message.body).decode()
        return Identity(key, topic or self.topic, message.reconsume_times)


class Medium:
    """Reads what was synced to one broker's disk.

    Args:
        root: Directory of the store.
        read: Returns a file's content that certainly survives a power cut; None if none does.
        names: Returns the paths that certainly survive a power cut.
    """

    def __init__(
        self,
        root: str,
        read: Callable[[str], bytes | bytearray | None],
        names: Callable[[], Collection[str]],
    ) -> None:
        self.root = root
        self.read = read
        self.log_end = 0
        """Log offset below which every record survives."""
        self.records: list[Kept] = []
        self.by_start: dict[int, Kept] = {}
        self.queue_ends: dict[tuple[str, int], int] = {}
        """(topic, queue) -> offset behind its last surviving record."""
        self._names = names
        self._last_file: dict[str, int] = {}
        """Folder -> start offset of the file that was found last."""

    def path(self, *parts: str) -> str:
        """Path of a file of the store."""
        return os.path.join(self.root, *parts)

    def read_on(self) -> list[Kept]:
        """Records newly on the medium since the last call; call it after each sync of the log."""
        new: list[Kept] = []
        while (place := self.file_of(self.path(LOG_FOLDER), self.log_end)) is not None:
            start, content = place
            at = self.log_end - start
            checked = check_record(content, at, len(content))
            if checked.kind is RecordKind.BLANK:
                self.log_end += checked.size
            elif checked.message is None or checked.physical_offset != self.log_end:
                break
            else:
                message, end = checked.message, self.log_end + checked.size
                kept = Kept(
                    self.log_end, end, message.topic, message.queue_id, message.queue_offset,
                    message,
                )  # fmt: skip
                new.append(kept)
                self.by_start[kept.start] = kept
                self.queue_ends[kept.topic, kept.queue_id] = kept.queue_offset + 1
                self.log_end = end
        self.records += new
        return new

    def starts(self, folder: str) -> list[int]:
        """Where the surviving files of a folder begin, in order."""
        folder += "/"
        return sorted(int(name[len(folder) :]) for name in self._names() if name.startswith(folder))

    def file_of(self, folder: str, offset: int) -> tuple[int, bytes | bytearray] | None:
        """The surviving file in a folder that has an offset: its start offset and content."""
        folder += "/"
        row = self._last_file.get(folder, 0)
        content = self.read(f"{folder}{row:0{NAME_DIGITS}d}")
        if content is not None and row <= offset < row + len(content):
            return row, content
        starts = self.starts(folder.rstrip("/"))
        begin = max((start for start in starts if start <= offset), default=None)
        if begin is None:
            return None
        self._last_file[folder] = begin
        content = self.read(f"{folder}{begin:0{NAME_DIGITS}d}")
        return None if content is None or offset - begin >= len(content) else (begin, content)


def table_of(content: bytes | bytearray) -> dict[str, Any]:
    """Parse a configuration file; empty if it is incomplete."""
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

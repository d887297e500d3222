"""The index by key, over as many files as it takes (S-46 to S-49)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime

import structlog

from pocketmq.broker.store.disk import Disk
from pocketmq.broker.store.index_file import IndexFile, key_hash

log = structlog.get_logger()

NAME_LENGTH = 17
"""Digits of an index file's name: year to millisecond (S-49)."""


class IndexService:
    """Puts the keys of dispatched messages into index files, and finds messages by key.

    Args:
        disk: where the files are.
        root: the store's directory.
        slots: hash slots of a file.
        entries: entries of a file, of which the first is never used.
        on_full: called with a file that takes no more entries, to have it flushed (S-49).
    """

    def __init__(
        self,
        disk: Disk,
        root: str,
        slots: int,
        entries: int,
        on_full: Callable[[IndexFile], None] | None = None,
    ) -> None:
        self.directory = os.path.join(root, "index")
        self.files: list[IndexFile] = []
        """From old to new; the last one is written."""
        self._disk = disk
        self._slots = slots
        self._entries = entries
        self._on_full = on_full

    @property
    def end_physical(self) -> int:
        """Log offset of the last message indexed; -1 when there is none."""
        last = self.files[-1] if self.files else None
        return -1 if last is None or last.next_entry <= 1 else last.end_physical

    def load(self, *, safe_until_ms: int | None) -> int:
        """Open the files that are there; how many were unusable and are removed.

        Args:
            safe_until_ms: after a power cut, files with later messages are not to be trusted and
                are removed (S-65), as is one that was still written: any of its pages may be
                missing, the header's too. None keeps all.
        """
        removed = 0
        for name in self._disk.list_directory(self.directory):
            if len(name) != NAME_LENGTH or not name.isdigit():
                continue
            file = IndexFile(
                self._disk, os.path.join(self.directory, name), self._slots, self._entries
            )
            length = self._disk.file_size(file.path)
            if length != file.size:
                log.warning("index.removed", path=file.path, length=length, expected=file.size)
                self._disk.remove_file(file.path)
                removed += 1
                continue
            file.load()
            if file.next_entry <= 1:
                # A crash came between making and filling it, or a power cut took all its pages.
                file.remove()
                removed += 1
                continue
            if safe_until_ms is not None and (file.end_ms > safe_until_ms or not file.is_full):
                log.warning("index.removed", path=file.path, end_ms=file.end_ms, safe=safe_until_ms)
                file.remove()
                removed += 1
                continue
            self.files.append(file)
        return removed

    def put(
        self,
        topic: str,
        physical_offset: int,
        store_ms: int,
        uniq_key: str | None,
        keys: str | None,
    ) -> None:
        """Index one message under its unique key and each of its keys.

        A message that is in the index already is passed over, so dispatching a stretch of log
        twice does no harm. Follow a batch of puts by `save`.

        Raises:
            DiskFullError: the message is in the index under none of its keys, or some.
        """
        hashes = [] if uniq_key is None else [key_hash(topic, uniq_key)]
        if keys:
            hashes += [key_hash(topic, key) for key in keys.split(" ") if key]
        if not hashes:
            return
        file = self.files[-1] if self.files else self._add_file(store_ms)
        if physical_offset <= file.end_physical and (file.next_entry > 1 or len(self.files) > 1):
            if physical_offset < file.end_physical:
                return
            hashes = [h for h in hashes if not file.holds(h, physical_offset)]
        for hashed in hashes:
            if file.next_entry >= file.room_until:
                if file.is_full:
                    file = self._add_file(store_ms)
                file.reserve(1)
            file.put(hashed, physical_offset, store_ms)

    def save(self) -> None:
        """Make what was put part of the file."""
        if self.files:
            self.files[-1].save_header()

    def _add_file(self, now_ms: int) -> IndexFile:
        self._disk.make_directory(self.directory)
        while self._disk.file_size(path := self._path(now_ms)) is not None:
            now_ms += 1
        file = IndexFile(self._disk, path, self._slots, self._entries)
        file.create()
        if self.files:
            last = self.files[-1]
            # As in RocketMQ: the first entry counts its seconds from the previous file's end.
            file.begin_ms = file.end_ms = last.end_ms
            file.begin_physical = file.end_physical = last.end_physical
            last.save_header()
            if self._on_full is not None:
                self._on_full(last)
        self.files.append(file)
        return file

    def _path(self, time_ms: int) -> str:
        local = datetime.fromtimestamp(time_ms / 1000).astimezone()
        return os.path.join(self.directory, f"{local:%Y%m%d%H%M%S}{time_ms % 1000:03d}")

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Log offsets of messages that may have this key, newest first (S-48).

        They match by hash and time; the caller compares the key.
        """
        hashed = key_hash(topic, key)
        for file in reversed(self.files):
            if file.overlaps(begin_ms, end_ms):
                yield from file.find(hashed, begin_ms, end_ms)
            if file.begin_ms < begin_ms:
                return

    def remove_before(self, min_physical: int) -> int:
        """Remove files whose messages are all deleted, but never the last (S-73); how many."""
        removed = 0
        while len(self.files) > 1 and self.files[0].end_physical < min_physical:
            self.files.pop(0).remove()
            removed += 1
        return removed

    def truncate(self, log_end: int) -> None:
        """Remove the files with messages at or behind the log's end; those messages were lost."""
        while self.files and self.files[-1].end_physical >= log_end:
            self.files.pop().remove()

    def close(self) -> None:
        """Let go of all mappings."""
        for file in self.files:
            file.close()

"""The index by key, over as many files as it takes (S-46 to S-49)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import structlog

from pocketmq.broker.store.disk import Disk
from pocketmq.broker.store.index_file import IndexFile, Walk
from pocketmq.broker.store.index_keys import key_hash, unique_key_hash

log = structlog.get_logger()

NAME_LENGTH = 17
"""Digits of an index file's name: year to millisecond (S-49)."""


def hashes_of(topic: str, uniq_key: str | None, keys: str | None) -> list[int]:
    """Under what a message is indexed: its unique key, and each of its keys (S-46).

    Args:
        topic: of the message.
        uniq_key: UNIQ_KEY, None without one.
        keys: KEYS, separated by spaces.
    """
    hashes = [] if uniq_key is None else [unique_key_hash(topic, uniq_key)]
    if keys:
        hashes += [key_hash(topic, key) for key in keys.split(" ") if key]
    return hashes


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

    def put(self, keys: Sequence[tuple[int, int]], store_ms: int) -> None:
        """Index messages that were stored at one time, in the log's order.

        Messages that are in the index already are passed over, so dispatching a stretch of log
        twice does no harm. Follow puts by `save`.

        Args:
            keys: (hash, physical offset) for each key of each message; see `hashes_of`.
            store_ms: when they were stored.

        Raises:
            DiskFullError: some of it is in the index.
        """
        if not keys:
            return
        file = self.files[-1] if self.files else self._add_file(store_ms)
        known = file.end_physical
        if keys[0][1] <= known and (file.next_entry > 1 or len(self.files) > 1):
            keys = [
                (hashed, physical_offset)
                for hashed, physical_offset in keys
                if physical_offset > known
                or (physical_offset == known and not file.holds(hashed, physical_offset))
            ]
        at = 0
        while at < len(keys):
            if file.next_entry >= file.room_until:
                if file.is_full:
                    file = self._add_file(store_ms)
                file.reserve(len(keys) - at)
            end = at + file.room_until - file.next_entry
            file.put(keys[at:end], store_ms)
            at = end

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

        They match by hash and time; the caller compares the key. A search ends after 50,000
        entries, whatever it found.
        """
        hashed, walk = key_hash(topic, key), Walk()
        for file in reversed(self.files):
            if file.overlaps(begin_ms, end_ms):
                yield from file.find(hashed, begin_ms, end_ms, walk)
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

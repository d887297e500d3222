"""The index by key, over as many files as it takes (S-46 to S-49)."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import structlog

from pocketmq.broker.store.config import KIB
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.disk_worker import Job
from pocketmq.broker.store.index.index_file import IndexFile, Walk
from pocketmq.broker.store.index.index_keys import tag_hash, unique_key_hash
from pocketmq.protocol.stored.index_hash import key_hash

log = structlog.get_logger()

NAME_LENGTH = 17
"""Digits of an index file's name: year to millisecond (S-49)."""

_MOST_WAITING = 512
_MOST_WAITING_BYTES = 256 * KIB
"""So many messages, or so much of the log, are indexed together: about 0.4 ms."""


def hashes_of(
    topic: str, uniq_key: str | None, keys: str | None, tag: str | None = None
) -> list[int]:
    """Under what a message is indexed: its unique key, each of its keys, and its tag (S-46).

    Args:
        topic: of the message.
        uniq_key: UNIQ_KEY, None without one.
        keys: KEYS, separated by spaces.
        tag: TAGS, where the profile indexes tags; None or empty without one.
    """
    hashes = [] if uniq_key is None else [unique_key_hash(topic, uniq_key)]
    if keys:
        # Like RocketMQ, split by single spaces and skip empty keys.
        hashes += [key_hash(topic, key) for key in keys.split(" ") if key]
    if tag:
        hashes.append(tag_hash(topic, tag))
    return hashes


class KeyColumns(NamedTuple):
    """Index entries to be written, in the log's order."""

    hashes: list[int]
    """Of the keys; see `hashes_of`."""
    physical_offsets: list[int]
    """Of the messages that have them."""
    times_ms: list[int]
    """Store times of these."""

    def add(self, hashes: Sequence[int], physical_offset: int, time_ms: int) -> None:
        """Append the keys of one message."""
        self.hashes.extend(hashes)
        self.physical_offsets.extend([physical_offset] * len(hashes))
        self.times_ms.extend([time_ms] * len(hashes))

    def add_keys_to(self, columns: KeyColumns, *, tags: bool) -> None:
        """Append all of this, whose tags were added by whoever made it."""
        columns.hashes.extend(self.hashes)
        columns.physical_offsets.extend(self.physical_offsets)
        columns.times_ms.extend(self.times_ms)


class KeySource(Protocol):
    """Messages that were dispatched together."""

    def add_keys_to(self, columns: KeyColumns, *, tags: bool) -> None:
        """Append an entry for each key of each message that has a place in the index (S-22).

        Args:
            columns: get the entries.
            tags: whether a message's tag is one of its keys, by profile (S-46).
        """


def _ascending(columns: KeyColumns) -> KeyColumns:
    """Without the entries that come after those of a later message, or a second time."""
    left = KeyColumns([], [], [])
    last, seen = -1, set[int]()
    for hashed, physical_offset, time_ms in zip(*columns, strict=True):
        # Skip messages that come again after later ones: they are indexed already.
        if physical_offset > last:
            last, seen = physical_offset, set()
        # A message's keys may have equal hashes, or be added by both recovery and dispatch.
        if physical_offset == last and hashed not in seen:
            seen.add(hashed)
            left.add([hashed], physical_offset, time_ms)
    return left


def _unknown(columns: KeyColumns, file: IndexFile, known: int) -> KeyColumns:
    """What is behind the messages that a file has already; `known` is its last one."""
    # The last known message may lack some keys, because the file before was full.
    left = [
        entry
        for entry in zip(*columns, strict=True)
        if entry[1] > known or (entry[1] == known and not file.holds(entry[0], entry[1]))
    ]
    return KeyColumns(*map(list, zip(*left, strict=True))) if left else KeyColumns([], [], [])


class IndexService:
    """Puts the keys of dispatched messages into index files, and finds messages by key.

    RocketMQ's index is behind the queues, too. Here messages wait until some have come together:
    an entry then costs a third. `AfterPut` writes them when answers are on their way. Whoever asks
    calls `flush` before; a crash leaves the rest to recovery, which reads the log from the index'
    end on.

    Args:
        disk: where the files are.
        root: the store's directory.
        slots: hash slots of a file.
        entries: entries of a file, of which the first is never used.
        on_full: called with a file that takes no more entries, to have it flushed (S-49).
        tags: messages are indexed under their tags too, by profile (S-46).
    """

    def __init__(
        self,
        disk: Disk,
        root: str,
        slots: int,
        entries: int,
        on_full: Callable[[IndexFile], None] | None = None,
        *,
        tags: bool = False,
    ) -> None:
        self.tags = tags
        """Whether messages are indexed under their tags too."""
        self.directory = os.path.join(root, "index")
        self.files: list[IndexFile] = []
        """From old to new; the last one is written."""
        self._disk = disk
        self._slots = slots
        self._entries = entries
        self._on_full = on_full
        self._waiting: list[KeySource] = []
        """Added and not yet written, in the log's order."""
        self.waiting = 0
        """Messages that were added and are not yet written."""
        self._waiting_bytes = 0

    @property
    def end_physical(self) -> int:
        """Log offset of the last message indexed; -1 when there is none."""
        last = self.files[-1] if self.files else None
        # A fresh file holds the previous file's `end_physical`.
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
            # Other numbers of slots or entries were configured: rebuild the index from the log.
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
            # After a power cut, pages may be missing: only full files that the checkpoint covers
            # are whole (S-65).
            if safe_until_ms is not None and (file.end_ms > safe_until_ms or not file.is_full):
                log.warning("index.removed", path=file.path, end_ms=file.end_ms, safe=safe_until_ms)
                file.remove()
                removed += 1
                continue
            self.files.append(file)
        return removed

    def add(self, source: KeySource, messages: int, size_bytes: int) -> None:
        """Have messages indexed soon: when some have come together, or at the next `flush`.

        Messages that are in the index already are passed over, so dispatching a stretch of log
        twice does no harm.

        Args:
            source: their keys; it follows what was added before in the log.
            messages: how many.
            size_bytes: about what `source` keeps in memory.

        Raises:
            DiskFullError: these are not added; those before them stay and are tried again.
        """
        # Before it is added: if writing fails, only older sources are waiting.
        if self.waiting >= _MOST_WAITING or self._waiting_bytes >= _MOST_WAITING_BYTES:
            self.flush()
        self._waiting.append(source)
        self.waiting += messages
        self._waiting_bytes += size_bytes

    def flush(self) -> None:
        """Index all that was added.

        Raises:
            DiskFullError: some of it is in the index; the next flush goes on.
        """
        if not self._waiting:
            return
        # The header last: the next flush writes again what it does not count.
        self._write(self._gathered())
        self.save()
        self._waiting.clear()
        self.waiting = self._waiting_bytes = 0

    def _gathered(self) -> KeyColumns:
        """All that waits, ascending. Recovery may add a record twice, the second time too late."""
        columns = KeyColumns([], [], [])
        offsets, is_ascending = columns.physical_offsets, True
        for source in self._waiting:
            at = len(offsets)
            source.add_keys_to(columns, tags=self.tags)
            # Strictly ascending across sources, because a record dispatched twice has equal
            # offsets.
            is_ascending &= not 0 < at < len(offsets) or offsets[at - 1] < offsets[at]
        is_ascending = is_ascending and sorted(offsets) == offsets
        return columns if is_ascending else _ascending(columns)

    def put(self, keys: Sequence[tuple[int, int]], store_ms: int) -> None:
        """Index messages that were stored at one time, at once. Follow puts by `save`.

        Args:
            keys: (hash, physical offset) for each key of each message; see `hashes_of`.
            store_ms: when they were stored.

        Raises:
            DiskFullError: some of it is in the index.
        """
        # Waiting entries first: they come before these in the log.
        self.flush()
        hashes, offsets = [hashed for hashed, _ in keys], [offset for _, offset in keys]
        self._write(KeyColumns(hashes, offsets, [store_ms] * len(keys)))

    def _write(self, columns: KeyColumns) -> None:
        if not columns.hashes:
            return
        file = self.files[-1] if self.files else self._add_file(columns.times_ms[0])
        known = file.end_physical
        # In the first file, empty yet, `known` is 0 by default: a record may be at 0.
        if columns.physical_offsets[0] <= known and (file.next_entry > 1 or len(self.files) > 1):
            columns = _unknown(columns, file, known)
        hashes, offsets, times_ms = columns
        at, count = 0, len(hashes)
        while at < count:
            if file.next_entry >= file.room_until:
                if file.is_full:
                    file = self._add_file(times_ms[at])
                file.reserve(count - at)
            # What does not fit goes into the next file.
            end = at + file.room_until - file.next_entry
            file.put(hashes[at:end], offsets[at:end], times_ms[at:end])
            at = end

    def save(self) -> None:
        """Make what was put part of the file."""
        if self.files:
            self.files[-1].save_header()

    def _add_file(self, now_ms: int) -> IndexFile:
        self._disk.make_directory(self.directory)
        # Names must differ, even of files made in the same millisecond.
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
            # After its header is saved; the flusher then notes its last time (S-49).
            if self._on_full is not None:
                self._on_full(last)
        self.files.append(file)
        return file

    def _path(self, time_ms: int) -> str:
        local = datetime.fromtimestamp(time_ms / 1000).astimezone()
        return os.path.join(self.directory, f"{local:%Y%m%d%H%M%S}{time_ms % 1000:03d}")

    def find(
        self, topic: str, key: str, begin_ms: int, end_ms: int, *, by_tag: bool = False
    ) -> Iterator[int]:
        """Log offsets of messages that may have this key or tag, newest first (S-48).

        They match by hash and time; the caller compares the key. A search ends after 50,000
        entries, whatever it found. What was added is looked for after `flush`.
        """
        hashed, walk = tag_hash(topic, key) if by_tag else key_hash(topic, key), Walk()
        for file in reversed(self.files):
            if file.overlaps(begin_ms, end_ms):
                yield from file.find(hashed, begin_ms, end_ms, walk)
            # All earlier files are older still.
            if file.begin_ms < begin_ms:
                return

    def take_before(self, min_physical: int) -> Iterator[Job]:
        """Let go of files whose messages are all deleted, but never the last (S-73).

        Each result deletes one, which is slow. When that fails, close or leave the iterator: the
        file is back in its place then.
        """
        while len(self.files) > 1 and self.files[0].end_physical < min_physical:
            first = self.files.pop(0)
            try:
                yield first.take_out()
            finally:
                # The deletion failed or never began: keep the file in the list.
                if self._disk.file_size(first.path) is not None:
                    self.files.insert(0, first)

    def truncate(self, log_end: int) -> None:
        """Take back the entries of messages at or behind the log's end; these were lost."""
        if self._waiting:
            left = self._gathered()
            count = bisect_left(left.physical_offsets, log_end)
            self._waiting = [KeyColumns(*(column[:count] for column in left))]
        while self.files and self.files[-1].end_physical >= log_end:
            last = self.files[-1]
            if last.next_entry > 1 and last.begin_physical < log_end:
                last.cut(log_end)
                return
            last.remove()  # before it leaves the row: if that fails, this is called once more
            self.files.pop()

    def close(self) -> None:
        """Let go of all mappings."""
        for file in self.files:
            file.close()

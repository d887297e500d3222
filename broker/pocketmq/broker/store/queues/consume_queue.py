"""One queue of a topic: which records of the log are its messages, in order (S-30 to S-36).

    consumequeue/<topic>/<queueId>/00000000000000000000
    +---------+---------+---------+-- ...
    | entry 0 | entry 1 | entry 2 |             entry n at byte n * 20
    +---------+---------+---------+-- ...

300,000 entries make a file. An entry has a fixed size, so that a queue offset leads to it by
arithmetic, and holds the hash of the tag, so that a pull can pass a message over without reading
it. Two messages of 112 bytes with tag TagA, at the beginning of the log:

    0000000000000000 00000070 000000000027a807    entry 0: offset 0, 112 bytes, hash 2598919
    0000000000000070 00000070 000000000027a807    entry 1: offset 112

Messages of other queues may lie between two of this one; the log is shared, the queue is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache

import structlog

from pocketmq.broker.store.config import ENTRY_SIZE, KIB, SCHEDULE_TOPIC
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.mapped_file import MappedFile, Mappings
from pocketmq.broker.store.disk.mapped_files import MappedFiles
from pocketmq.broker.store.disk.paths import child
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.protocol.store_layout import FILLER_SIZE as FILLER_SIZE
from pocketmq.protocol.store_layout import QUEUE_ENTRY
from pocketmq.protocol.stored.record import topic_field

log = structlog.get_logger()

ENTRY = QUEUE_ENTRY.struct
FILLER = ENTRY.pack(0, FILLER_SIZE, 0)
"""The filler where no message is: before a queue's first offset, and in a gap (S-32, S-33)."""

_FILLER_RUN = 4096  # entries written at once
_WINDOW_LOW = 4 * KIB
_WINDOW_HIGH = 256 * KIB


class ConsumeQueue:
    """The entries of one queue. Takes little memory: a broker may have 10,000 queues."""

    __slots__ = (
        "checked_below",
        "files",
        "is_schedule",
        "max_offset",
        "max_physical",
        "min_offset",
        "next_offset",
        "queue_id",
        "topic",
        "topic_bytes",
        "topic_field",
    )

    def __init__(
        self,
        disk: Disk,
        root: str,
        topic: str,
        queue_id: int,
        file_size: int,
        mappings: Mappings | None = None,
    ) -> None:
        self.topic = topic
        directory, self.topic_bytes, self.topic_field = _of_topic(root, topic)
        self.queue_id = queue_id
        self.is_schedule = topic == SCHEDULE_TOPIC
        self.files = MappedFiles(disk, f"{directory}/{queue_id}", file_size, mappings)
        self.next_offset = 0
        """Offset that the next message put into the log will get (S-12)."""
        self.max_offset = 0
        """One behind the last entry; what consumers may read. Trails `next_offset` (S-24)."""
        self.min_offset = 0
        """First entry whose record still exists (S-34)."""
        self.max_physical = 0
        """End of the last record that has an entry here; recovery skips what lies before (S-32)."""
        self.checked_below = 0
        """Entries below it date from before the start: each is tested when first read."""

    def put(self, offset: int, entries: bytes, max_physical: int) -> None:
        """Write a run of entries, the first of them number `offset`.

        What is already there is left alone, so dispatching a stretch of log twice does no harm. A
        gap before `offset` is filled with fillers, so that every later position stays right.

        Args:
            offset: number of the first entry.
            entries: any number of packed entries.
            max_physical: end of the last one's record.

        Raises:
            DiskFullError: nothing of the last file's share was written; put the same again later.
        """
        if offset != self.max_offset:
            if offset < self.max_offset:
                # Only fillers are replaced: the entry of a record never changes.
                self._fill_holes(offset, entries)
                entries = entries[(self.max_offset - offset) * ENTRY_SIZE :]
            else:
                self._fill_up_to(offset)
        self._append(entries)
        # After the entries: otherwise a failed write would look complete to recovery (S-32).
        if max_physical > self.max_physical:
            self.max_physical = max_physical
        # Recovery and replication put without taking an offset first.
        if self.max_offset > self.next_offset:
            self.next_offset = self.max_offset

    def _fill_holes(self, offset: int, entries: bytes) -> None:
        """Put entries where so far there are only fillers."""
        known = min(len(entries) // ENTRY_SIZE, self.max_offset - offset)
        for index in range(known):
            view = self.entries(offset + index, 1)
            # A filler marks a record that was not dispatched before its successors.
            if view is not None and view == FILLER:
                view = self.writable_entry(offset + index)
                assert view is not None
                view[:] = entries[index * ENTRY_SIZE : (index + 1) * ENTRY_SIZE]

    def restart(self) -> None:
        """Forget all entries: the queue is empty and begins at 0."""
        self.files.remove_all()
        self.next_offset = self.max_offset = self.min_offset = 0
        self.max_physical = self.checked_below = 0

    def _append(self, entries: bytes) -> None:
        at = 0
        while at < len(entries):
            row = self.files.files
            file = row[-1] if row else None
            if file is None or file.wrote == file.size:
                file = self.files.add_file(self.max_offset * ENTRY_SIZE)
            chunk = entries[at : at + file.size - file.wrote]
            end = file.wrote + len(chunk)
            if end > file.reserved:
                file.reserve(end, low=_WINDOW_LOW, high=_WINDOW_HIGH)
                # Queues are many and descriptors few, so keep none.
                file.release()
            file.append(chunk)
            at += len(chunk)
            # In each round, so that a later failure does not lose the count.
            self.max_offset += len(chunk) // ENTRY_SIZE

    def _fill_up_to(self, offset: int) -> None:
        if self.max_offset == 0:
            # A queue may begin anywhere: then its first file begins at that file's boundary (S-33).
            per_file = self.files.file_size // ENTRY_SIZE
            # From the start of the file, because entries are found by division (S-33).
            self.max_offset = offset - offset % per_file
            self.min_offset = offset
        else:
            log.warning(
                "queue.hole_filled",
                topic=self.topic,
                queue_id=self.queue_id,
                first=self.max_offset,
                missing=offset - self.max_offset,
            )
        while self.max_offset < offset:
            # In portions, because a gap may be millions of entries long.
            self._append(FILLER * min(_FILLER_RUN, offset - self.max_offset))

    def entries(self, offset: int, max_count: int) -> memoryview | None:
        """Packed entries from number `offset` on, not copied, up to the end of their file.

        At most `max_count`, at least one; None when the file that should hold `offset` is gone.
        """
        file = self.files.find(offset * ENTRY_SIZE)
        if file is None:
            return None
        position = offset * ENTRY_SIZE - file.start
        end = min(file.wrote, position + max_count * ENTRY_SIZE)
        return file.view()[position:end] if position < end else None

    def writable_entry(self, offset: int) -> memoryview | None:
        """The packed entry number `offset`, to be written in place; None when there is none."""
        file = self.files.find(offset * ENTRY_SIZE)
        if file is None:
            return None
        position = offset * ENTRY_SIZE - file.start
        return (
            file.writable_view()[position : position + ENTRY_SIZE]
            if position < file.wrote
            else None
        )

    def entry(self, offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code) of one message; None outside the queue."""
        if not self.min_offset <= offset < self.max_offset:
            return None
        view = self.entries(offset, 1)
        return None if view is None else ENTRY.unpack(view)

    def next_file_offset(self, offset: int) -> int:
        """Number of the first entry in the file after the one that should hold `offset` (B-59)."""
        # The whole file is missing, so go on with the next one.
        per_file = self.files.file_size // ENTRY_SIZE
        return offset - offset % per_file + per_file

    def dirty_pages(self) -> int:
        """Pages of the last file that a power cut could take; a full file counts as many."""
        # A file that has just been filled may still wait for its flush.
        return sum(_dirty_pages(file) for file in self.files.files[-2:])


@lru_cache(maxsize=16)
def _of_topic(root: str, topic: str) -> tuple[str, bytes, bytes]:
    """What the queues of a topic share: their directory, its name, its name as records hold it."""
    name = topic.encode()
    return child(root, topic), name, topic_field(name)


class ConsumeQueues:
    """All queues of a store (RocketMQ's `ConsumeQueueStore`).

    Finds them, makes them on demand (S-36), forgets them with their topic.
    """

    def __init__(self, disk: Disk, root: str, file_size: int, max_open_files: int) -> None:
        self.directory = os.path.join(root, "consumequeue")
        self.file_size = file_size
        """Bytes of each file."""
        self._disk = disk
        self._mappings = Mappings(max_open_files)
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, when it exists."""
        queues = self._topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, empty and without a file when it is new.

        Raises:
            IllegalPathError: the topic cannot be the name of a folder.
        """
        queue = self.get(topic, queue_id)
        if queue is None:
            queue = ConsumeQueue(
                self._disk, self.directory, topic, queue_id, self.file_size, self._mappings
            )
            self._topics.setdefault(topic, {})[queue_id] = queue
        return queue

    def of(self, messages: Sequence[StoredMessage]) -> list[ConsumeQueue]:
        """The queue of each message, made if it is new.

        Raises:
            IllegalPathError: a topic among them cannot be the name of a folder.
        """
        topics = self._topics
        try:
            # Queues are nearly always known, and an exception then costs less than a test.
            return [topics[message.topic][message.queue_id] for message in messages]
        except KeyError:
            return [self.get_or_create(message.topic, message.queue_id) for message in messages]

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self._topics.values():
            yield from queues.values()

    def __len__(self) -> int:
        return sum(len(queues) for queues in self._topics.values())

    def topics_on_disk(self) -> list[str]:
        """The topics that have a directory, sorted."""
        return self._disk.list_directory(self.directory)

    def find_on_disk(self, topic: str) -> Iterator[ConsumeQueue]:
        """Queue objects, their files not yet loaded, for every directory of a topic's queue."""
        for name in self._disk.list_directory(child(self.directory, topic)):
            # Ignore other names: they must not prevent a start.
            if name.isdigit():
                yield self.get_or_create(topic, int(name))

    def delete_topic(self, topic: str) -> list[ConsumeQueue]:
        """Remove a topic's queues and their files; the queues that are gone."""
        # First, so that the next put makes the queue anew.
        gone = list(self._topics.pop(topic, {}).values())
        for queue in gone:
            queue.files.remove_all()
        # Remove the whole directory, or the topic would come back at the next start.
        self._disk.remove_directory(child(self.directory, topic))
        return gone

    def close(self) -> None:
        """Let go of all mappings."""
        for queue in self:
            queue.files.close()


def _dirty_pages(file: MappedFile) -> int:
    if file.flushed == file.wrote:
        return 0
    if file.wrote == file.size:
        return 1 << 20  # a full file is always flushed (S-50)
    return file.wrote // 4096 - file.flushed // 4096

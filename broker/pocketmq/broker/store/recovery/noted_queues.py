"""The bounds of all queues, noted by a clean stop: the next start opens no queue's files.

A start otherwise looks into the last file of each queue to find its end, and compares its last
entry with the log. With 4,000 queues that takes half as long as all else, and a cold disk is
asked for 16,000 blocks. So a stop that has brought everything to the disk writes `queueBounds`, and
the next start removes it before it writes anything. RocketMQ knows no such file, and leaves it
alone.

What is noted counts only if nothing has happened since:

* there was no crash, PocketMQ was the last to write the checkpoint, and that still names the same
  end of the log and the same number of entries;
* for each queue: no file came or went in its folder, as the folder's time of change shows. A folder
  that changed shortly before the stop could change once more without showing it; it does not count.

Other queues are loaded as ever. A file that was damaged in place is found when it is read: each
entry from before the start is tested then (`ConsumeQueue.checked_below`).
"""

from __future__ import annotations

import os
from zlib import crc32

import msgspec
import structlog

from pocketmq.broker.store.config import ENTRY_SIZE
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.rooted_disk import child
from pocketmq.broker.store.flush.checkpoint import StoreCheckpoint
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue, ConsumeQueues
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()

LEAST_QUEUES = 100
"""With fewer, loading them takes no longer than reading what was noted."""
_FRESH_NS = 2_000_000_000
"""Some file systems tell times in steps of 2 s."""
_CRC_SIZE = 4
_VERSION = 1
_NAME = "queueBounds"


class QueueBounds(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One queue: what `load_queue` and `correct_min_offset` would find out."""

    queue_id: int
    changed_ns: int
    """When a file came or went in its folder."""
    first_file: int
    """Byte at which its first file begins; -1 when it has none."""
    last_file: int
    wrote: int
    """Bytes of its last file that are entries."""
    min_offset: int
    max_physical: int

    def restore(self, queue: ConsumeQueue) -> int:
        """Give a queue its bounds; the number of its entries, as `load_queue`."""
        queue.files.restore(self.first_file, self.last_file, self.wrote)
        queue.max_offset = queue.checked_below = (self.last_file + self.wrote) // ENTRY_SIZE
        queue.min_offset = self.min_offset
        queue.max_physical = self.max_physical
        return queue.max_offset


class _Topic(msgspec.Struct, array_like=True, gc=False, frozen=True):
    name: str
    changed_ns: int
    queues: list[QueueBounds]


class _Noted(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """Content of the file."""

    version: int = _VERSION
    durable_offset: int = 0
    durable_entries: int = 0
    log_min: int = 0
    file_size: int = 0
    topics: list[_Topic] = []


class NotedQueues:
    """What the last stop noted of the queues whose folders have not changed since.

    Args:
        disk: where the store is.
        root: the store's directory.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._path = path_of(root)
        self._noted = _Noted()
        self._topics: dict[str, _Topic] = {}
        self._fresh_from_ns = 0
        """Folders that changed from then on may have changed once more without showing it."""

    def take(self) -> None:
        """Read what the last stop noted, and remove it: it is true once."""
        content = self._disk.read_file(self._path)
        if content is None:
            return
        [written_ns] = self._disk.changed_ns(os.path.dirname(self._path), [_NAME])
        self._disk.remove_file(self._path)
        packed = content[_CRC_SIZE:]
        if written_ns is None or crc32(packed).to_bytes(_CRC_SIZE, "big") != content[:_CRC_SIZE]:
            return
        try:
            noted = msgspec.msgpack.decode(packed, type=_Noted)
        except msgspec.DecodeError:
            return  # of another version
        if noted.version == _VERSION:
            self._noted = noted
            self._fresh_from_ns = written_ns - _FRESH_NS

    def confirm(self, checkpoint: StoreCheckpoint, log_min: int, file_size: int) -> None:
        """From now on it counts, if log and checkpoint are what they were; call after a clean stop.

        Args:
            checkpoint: as it was loaded.
            log_min: offset at which the log begins.
            file_size: bytes of a queue file by the present options.
        """
        noted = self._noted
        found = (checkpoint.durable_offset, checkpoint.durable_entries, log_min, file_size)
        if checkpoint.is_ours and found == (
            noted.durable_offset,
            noted.durable_entries,
            noted.log_min,
            noted.file_size,
        ):
            self._topics = {topic.name: topic for topic in noted.topics}

    def in_topic(self, directory: str, topic: str) -> dict[int, QueueBounds | None] | None:
        """A topic's queues by id; None when its folder has to be listed to know them.

        Those without bounds have to be loaded.

        Args:
            directory: of all topics.
            topic: the name of one.
        """
        noted = self._topics.get(topic)
        if noted is None or not self._is_same(
            noted.changed_ns, *self._disk.changed_ns(directory, [topic])
        ):
            return None
        ids = [str(bounds.queue_id) for bounds in noted.queues]
        changed = self._disk.changed_ns(child(directory, topic), ids)
        return {
            bounds.queue_id: (
                bounds
                if bounds.first_file >= 0 and self._is_same(bounds.changed_ns, changed_ns)
                else None
            )
            for bounds, changed_ns in zip(noted.queues, changed, strict=True)
        }

    def _is_same(self, noted_ns: int, changed_ns: int | None) -> bool:
        return noted_ns == changed_ns and noted_ns < self._fresh_from_ns


def path_of(root: str) -> str:
    """Where they are noted."""
    return os.path.join(root, _NAME)


def note(
    disk: Disk, root: str, queues: ConsumeQueues, checkpoint: StoreCheckpoint, log_min: int
) -> None:
    """Note the bounds of all queues; everything has been brought to the disk before.

    Args:
        disk: where the store is.
        root: the store's directory.
        queues: all of them.
        checkpoint: as it was written last.
        log_min: offset at which the log begins.
    """
    if len(queues) < LEAST_QUEUES:
        return
    try:
        topics = [_noted(disk, queues.directory, name, of) for name, of in queues.by_topic()]
        noted = _Noted(
            durable_offset=checkpoint.durable_offset,
            durable_entries=checkpoint.durable_entries,
            log_min=log_min,
            file_size=queues.file_size,
            topics=topics,
        )
        content = msgspec.msgpack.encode(noted)
        crc = crc32(content).to_bytes(_CRC_SIZE, "big")
        disk.write_file(path_of(root), crc + content)  # torn by a power cut: the CRC tells
    except DiskError as exc:
        log.warning("queues.not_noted", error=str(exc), effect="the next start takes longer")


def _noted(disk: Disk, directory: str, name: str, queues: list[ConsumeQueue]) -> _Topic:
    ids = [str(queue.queue_id) for queue in queues]
    changed = disk.changed_ns(child(directory, name), ids)
    [changed_ns] = disk.changed_ns(directory, [name])
    return _Topic(
        name,
        changed_ns or 0,
        [
            _bounds(queue, folder_ns)
            for queue, folder_ns in zip(queues, changed, strict=True)
            if folder_ns is not None  # else nothing was ever put into it
        ],
    )


def _bounds(queue: ConsumeQueue, changed_ns: int) -> QueueBounds:
    files = queue.files.files
    return QueueBounds(
        queue.queue_id,
        changed_ns,
        files[0].start if files else -1,
        files[-1].start if files else -1,
        files[-1].wrote if files else 0,
        queue.min_offset,
        queue.max_physical,
    )

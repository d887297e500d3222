"""Makes queues and index anew from the log, which alone is the truth (S-60).

It is recovery when everything but the log is gone, which reads the log from its beginning. A store
that was not closed cleanly is recovered as it is first: where its log ends has to be known before
what could tell is removed. The checkpoint is changed before the rest, so that the next start of a
broker finishes a rebuild that was interrupted.

Queues of deleted topics come back, as far as the log still has their records.
"""

from __future__ import annotations

import os

from pocketmq.broker.store.config import StoreConfig
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.flush.checkpoint import StoreCheckpoint
from pocketmq.broker.store.message_store import MessageStore
from pocketmq.broker.store.recovery.ledger_folder import refuse_ledger
from pocketmq.broker.store.recovery.recovery import Recovery
from pocketmq.broker.store.tools.stopped_store import StoppedStore, StoreShape
from pocketmq.protocol.messages.properties import DELAY_LEVELS
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.profile.broker import BrokerProfile


class Rebuild:
    """One rebuild; `run` may work on another thread than the one that watches `done_bytes`.

    Args:
        disk: the file system.
        root: the store's directory.
        clock: not moved, not waited for; stores have one.
        profile: as the broker has it.
        index_slots: slots of an index file, when it has not four entries to each.
        queue_file_size: bytes of a queue file, when no queue is left to tell.
        delay_levels: what the broker has as `message_delay_level`.

    Raises:
        StoreLockedError: a broker has the store open.
        StoreFileError: the sizes to build with cannot be read off the files.
        DiskError: DLedger wrote the log.
    """

    def __init__(
        self,
        disk: Disk,
        root: str,
        clock: Clock,
        profile: BrokerProfile,
        *,
        index_slots: int | None = None,
        queue_file_size: int | None = None,
        delay_levels: str = DELAY_LEVELS,
    ) -> None:
        self._disk = disk
        self._root = root
        refuse_ledger(disk, root)
        with StoppedStore(disk, root, index_slots=index_slots) as store:
            shape = _shape_to_build(store, queue_file_size)
            last = store.last_log_file() if store.log.files else None
            self.start_offset = store.log.files[0].start if store.log.files else 0
            """Log offset at which the log begins."""
            self.end_offset = 0 if last is None else last.end
            """Log offset at which the file ends in which the log does."""
        self.lost: list[tuple[int, int, str]] = []
        """(log offset, bytes, reason) of each damaged stretch of the log."""
        self._is_clean = store.is_clean
        self._clock = clock
        self._profile = profile
        self._config = StoreConfig(
            store_path_root_dir=root,
            mapped_file_size_commit_log=shape.log_file_size,
            mapped_file_size_consume_queue=shape.queue_file_size,
            max_hash_slot_num=shape.index_slots,
            max_index_num=shape.index_entries,
            message_delay_level=delay_levels,
        )
        self._store = self._open()

    @property
    def reached_offset(self) -> int:
        """Log offset up to which all is built."""
        return max(self.start_offset, self._store.queue_dispatcher.offset)

    def run(self) -> Recovery:
        """Do it, and bring it to the disk.

        Raises:
            StoreLockedError: a broker has opened the store in the meantime.
            DiskError: the disk is full or refuses; run it again later.
        """
        # Recovery must cut the log first, or old bytes behind its end would count as records.
        if not self._is_clean:
            store = self._open()
            store.load()
            store.close_files()
        disk, root = self._disk, self._root
        # Lock again, because the recovery above has released the lock.
        lock = disk.lock(os.path.join(root, "lock"))
        try:
            # The checkpoint first: after a kill, the next start rebuilds the queues.
            self._forget_queues()
            disk.remove_directory(os.path.join(root, "consumequeue"))
            disk.remove_directory(os.path.join(root, "index"))
        finally:
            lock.close()
        recovery = self._store.load()
        self.lost = recovery.lost
        # Flush, so that a power cut afterwards does no harm.
        self._store.close_files()
        return recovery

    def _forget_queues(self) -> None:
        """Write a checkpoint for a whole log without any reliable queue."""
        checkpoint = StoreCheckpoint(self._disk, self._root)
        checkpoint.load()
        checkpoint.durable_offset = self.end_offset
        # No count can match, so recovery reads the whole log.
        checkpoint.durable_entries = -1
        checkpoint.boot_id = self._disk.boot_id()
        checkpoint.write()
        checkpoint.sync()
        checkpoint.close()
        self._disk.sync_directory(self._root)

    def _open(self) -> MessageStore:
        return MessageStore(self._config, self._disk, self._clock, self._profile)

    @property
    def entries(self) -> int:
        """Queue entries that were made, over all queues."""
        return sum(queue.max_offset - queue.min_offset for queue in self._store.consume_queues)

    @property
    def index_entries(self) -> int:
        """Index entries that were made."""
        index = self._store.index
        return 0 if index is None else sum(file.next_entry - 1 for file in index.files)


def _shape_to_build(store: StoppedStore, queue_file_size: int | None) -> StoreShape:
    defaults = StoreConfig()
    log, queue, slots, entries = store.shape
    if store.index_paths and not entries:
        path = store.index_paths[-1]
        # The files do not show the number of slots, and a wrong one would make a useless index.
        raise StoreFileError(
            path,
            "the index file does not have four entries for each hash slot, so its number of "
            "slots is unknown",
            position=store.disk.file_size(path) or 0,
            advice="give the number of hash slots with --index-slots",
        )
    return StoreShape(
        log or defaults.mapped_file_size_commit_log,
        queue_file_size or queue or defaults.mapped_file_size_consume_queue,
        slots or defaults.max_hash_slot_num,
        entries or defaults.max_index_num,
    )

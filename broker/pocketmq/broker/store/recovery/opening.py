"""The files of one store as a whole: taken over from the process before, and left to the next.

    load     lock -> recovery -> what it read is synced -> `abort` is written
    close    flush -> `abort` is removed -> lock

As long as `abort` is there, a store was not left in order, and the next load has to look (S-60).
"""

from __future__ import annotations

import os

from pocketmq.broker.store.disk.disk import DiskFile
from pocketmq.broker.store.flush.flush_service import FlushService
from pocketmq.broker.store.flush.store_files import StoreFiles
from pocketmq.broker.store.recovery.ledger_folder import refuse_ledger
from pocketmq.broker.store.recovery.recovery import Recoverer, Recovery


class StoreOpening:
    """Opens and closes them; call `load`, then `close`.

    Args:
        files: what recovery makes agree.
        flush: brings to the disk what has to be there before anything is put.
    """

    def __init__(self, files: StoreFiles, flush: FlushService) -> None:
        self._files = files
        self._disk = files.disk
        self._root = files.root
        self._checkpoint = files.checkpoint
        self._flush = flush
        self._abort = os.path.join(files.root, "abort")
        self._lock: DiskFile | None = None

    def load(self, *, check_crc: bool, abort_text: str) -> Recovery:
        """Lock the store, and recover what a crash left.

        Args:
            check_crc: test the bodies of messages that are read.
            abort_text: what stands in the file `abort`.

        Raises:
            StoreLockedError, StoreFileError, DiskError: as `MessageStore.load`.
        """
        # Durable, because a power cut that took the root would take everything in it.
        self._disk.make_directory(self._root, lasting=True)
        refuse_ledger(self._disk, self._root)
        # Before anything is read: two processes would damage each other's files.
        self._lock = self._disk.lock(os.path.join(self._root, "lock"))
        try:
            recovery = self._recover(check_crc)
            # From here on a crash is one, and the mark has to survive a power cut too (S-60).
            self._disk.write_file(self._abort, abort_text.encode())
            self._disk.sync_directory(self._root)
        except BaseException:
            self._unlock()
            raise
        return recovery

    def _recover(self, check_crc: bool) -> Recovery:
        # Only a missing `abort` proves that the last process closed all files (S-60).
        clean = self._disk.file_size(self._abort) is None
        self._checkpoint.load()
        boot_id = self._disk.boot_id()
        # A kill keeps the page cache, so entries from the same boot are whole even if never synced.
        is_same_boot = self._checkpoint.is_ours and self._checkpoint.boot_id == boot_id
        recoverer = Recoverer(
            self._files,
            clean=clean,
            boot_id=boot_id,
            check_crc=check_crc,
        )
        recovery = recoverer.run()
        # After a clean stop, everything was flushed.
        if not clean:
            self._flush.read_back(
                recovery.confirmed,
                recovery.scanned_from,
                recoverer.doubtful,
                is_same_boot=is_same_boot,
            )
        # Recovery has read the log to its end.
        self._flush.all_flushed(self._checkpoint.physic_msg_timestamp)
        # Save it before the first put, so that a crash soon after need not begin earlier.
        self._checkpoint.write()
        self._checkpoint.sync()
        return recovery

    def close(self) -> None:
        """Flush and release all files at once, so that the next load has nothing to do."""
        if self._lock is None:
            return
        if self._flush.flush_everything():
            self._disk.remove_file(self._abort)  # else the next load must look (S-60)
        # Release all files before the lock.
        self._files.commit_log.files.close()
        self._files.consume_queues.close()
        index = self._files.queue_dispatcher.index
        if index is not None:
            index.close()
        self._checkpoint.close()
        self._unlock()

    def _unlock(self) -> None:
        assert self._lock is not None
        self._lock.close()
        self._lock = None

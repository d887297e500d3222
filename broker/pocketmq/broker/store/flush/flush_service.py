"""Decides when data is flushed (S-49 to S-53), and makes the next log file ahead of time.

What was written lies in the page cache of the system: it survives the end of the process, but not a
power cut, until it was *flushed* (synced) to the disk. Two periodic passes do that: over the log
every 500 ms, over the consume queues every 1 s. A pass syncs when enough pages of 4 KiB are dirty,
and a *thorough* one, after 10 s for the log and 60 s for the queues, in any case:

    10.0 s    thorough pass over the log; the next is due at 20.0 s
    10.2 s    8 KiB are appended
    10.5 s    pass: 2 dirty pages are fewer than 4, nothing is synced
    12.1 s    64 KiB are appended
    12.5 s    pass: 18 dirty pages, synced. A power cut at 12.4 s would have lost 72 KiB
    15.0 s    4 KiB are appended
    20.0 s    thorough pass: 1 dirty page, synced

With SYNC_FLUSH a send waits for its own flush as well (`LogFlusher.wait` in flush.py). While
nothing is dirty, no timer runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import structlog

from pocketmq.broker.store.config import StoreConfig
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker
from pocketmq.broker.store.flush.flush_log import LogFlusher, flush_job, restore_job
from pocketmq.broker.store.flush.flush_queues import IndexFlusher, Progress, QueueFlusher
from pocketmq.broker.store.flush.store_files import StoreFiles
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue
from pocketmq.broker.store.readiness import Readiness
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

SYNC_FAILED = "a sync of the commit log failed"


class Flushers(NamedTuple):
    """What syncs each kind of file."""

    log: LogFlusher
    """Shared with those who wait for it."""
    queues: QueueFlusher
    index_files: IndexFlusher


class FlushService:
    """The two periodic passes, and their workers.

    Args:
        files: are flushed; the next one of the log is made ahead of time.
        config: intervals and thresholds.
        clock: times the passes.
        flushers: sync; thorough passes also move the checkpoint.
        readiness: where a failed sync is noted, so that no message is taken.
    """

    def __init__(
        self,
        files: StoreFiles,
        config: Callable[[], StoreConfig],
        clock: Clock,
        flushers: Flushers,
        readiness: Readiness,
    ) -> None:
        self.stored_ms = 0
        """Store time of the last message put."""
        self._disk = files.disk
        self._config = config
        self._clock = clock
        self._log = files.commit_log
        self._queues = files.consume_queues
        self._queue_dispatcher = files.queue_dispatcher
        self._log_flusher, self._queue_flusher, self._index_flusher = flushers
        self._readiness = readiness
        self._log_worker: DiskWorker = InlineWorker()
        self._queue_worker: DiskWorker = InlineWorker()
        self._log_passes = PeriodicService(
            "FlushCommitLog",
            clock,
            lambda: config().flush_interval_commit_log_ms / 1000,
            self.flush_log,
        )
        self._queue_passes = PeriodicService(
            "FlushConsumeQueue",
            clock,
            lambda: config().flush_interval_consume_queue_ms / 1000,
            self.flush_queues,
        )
        self._log_thorough_at = self._queue_thorough_at = clock.monotonic()
        self._prepared_behind = -1
        self._is_confirm_wanted = False
        """The checkpoint is to move as soon as the pass that runs is over."""

    def start(self) -> None:
        """Begin, on the running loop."""
        self._log_worker = self._disk.start_worker("log-flush")
        self._queue_worker = self._disk.start_worker("queue-flush")
        self._log_flusher.start(self._log_worker)
        self._queue_flusher.start(self._queue_worker)
        self._index_flusher.start(self._queue_worker)
        if not self._queue_flusher.is_clean:
            # Recovery had to dispatch again. The first pass flushes it, so that the next need not.
            self._queue_thorough_at = -math.inf
        self._log_passes.start()
        self._queue_passes.start()

    async def stop(self) -> None:
        """End the passes; those under way are waited for."""
        # The passes first, because they need their workers.
        await self._log_passes.stop()
        await self._queue_passes.stop()
        self._log_worker.close()
        self._queue_worker.close()
        # From here on inline: `flush_everything` runs without an event loop.
        inline = self._log_worker = self._queue_worker = InlineWorker()
        self._log_flusher.start(inline)
        self._queue_flusher.start(inline)
        self._index_flusher.start(inline)
        await self._clock.sleep(0)  # one turn of the loop, in which the last outcomes arrive

    def appended(self, now_ms: int) -> None:
        """Note that the log has grown; its passes resume if they rested."""
        self.stored_ms = now_ms
        self._log_passes.resume()

    def dispatched(self) -> None:
        """Note that queues were written; their passes resume if they rested."""
        self._queue_passes.resume()

    def flush_log(self) -> float | None:
        """One periodic pass over the log (S-50); none follows while nothing is dirty."""
        # After a failed sync, each pass tries to repair the log, and puts are refused.
        if self._log_flusher.failed:
            self._log_flusher.restore(lambda: self._readiness.unblock(SYNC_FAILED))
            return None
        now = self._clock.monotonic()
        config = self._config()
        pages = config.flush_commit_log_least_pages
        # By the clock, not by the number of passes, whose period may change.
        waited_ms = (now - self._log_thorough_at) * 1000
        if waited_ms >= config.flush_commit_log_thorough_interval_ms:
            self._log_thorough_at = now
            pages = 0
        if self._log_flusher.is_due(pages):
            self._log_flusher.flush()
        # Early, so that the worker has time to create the next file.
        self._prepare_next_file()
        return AT_REST if self._log_flusher.dirty_bytes <= 0 else None

    def flush_queues(self) -> float | None:
        """One periodic pass over the queues, and the checkpoint (S-52, S-53).

        No further pass follows once the checkpoint covers all that was dispatched.
        """
        # Index first: a power cut could otherwise lose keys of confirmed messages.
        is_indexed = self._finish_index()
        now, config = self._clock.monotonic(), self._config()
        unconfirmed = self._queue_dispatcher.offset - self._queue_flusher.confirmed
        waited_ms = (now - self._queue_thorough_at) * 1000
        is_due = self._is_confirm_wanted or (
            unconfirmed != 0
            and (
                waited_ms >= config.flush_consume_queue_thorough_interval_ms
                # A restart reads at most this much, however busy the broker was.
                or unconfirmed >= config.confirm_distance_bytes
            )
        )
        if is_due and is_indexed and not self._queue_flusher.is_running:
            self._queue_thorough_at = now
            self._is_confirm_wanted = False
            self._queue_flusher.flush_thoroughly(self._progress())
        else:
            self._queue_flusher.flush()
        is_clean = not unconfirmed and self._queue_flusher.is_clean and is_indexed
        is_clean = is_clean and not self._queue_flusher.is_running  # it may fail
        return AT_REST if is_clean and not self._is_confirm_wanted else None

    def log_flushed(self) -> None:
        """Note that the log was flushed; the checkpoint may have waited for that."""
        self._queue_flusher.confirm()

    def forget(self, queues: Iterable[ConsumeQueue]) -> None:
        """Flush no more of them: their topic was deleted."""
        self._queue_flusher.forget(queues)

    def confirm_soon(self) -> None:
        """Move the checkpoint now, as after a topic is deleted: its entries are no longer there.

        Not while a pass runs: entries of 80,000 queues take 5 ms to count, and of many topics that
        are deleted each would count them.
        """
        if self._queue_flusher.is_running or not self._finish_index():
            self._is_confirm_wanted = True
        else:
            self._queue_flusher.flush_thoroughly(self._progress())
        if self._is_confirm_wanted or self._queue_flusher.is_running:
            self._queue_passes.resume()  # the one that runs may fail

    def flush_everything(self) -> bool:
        """Flush everything before returning; returns whether that worked. Call when stopped."""
        # Restart the flushers with inline workers, whose calls run at once.
        self._log_flusher.start(self._log_worker)
        self._queue_flusher.start(self._queue_worker)
        if not self._finish_index():
            return False
        index = self._queue_dispatcher.index
        if index is not None:
            self._index_flusher.flush_after(index.files)
        progress = self._progress()
        self._queue_flusher.flush_thoroughly(progress)
        confirmed = self._queue_flusher.confirmed
        return (
            # Otherwise something is not on the disk, and `abort` must stay (S-60).
            confirmed == progress.offset == self._log.max_offset and not self._index_flusher.failed
        )

    def cut(self, end: int) -> None:
        """Take note that log, queues and index were cut at `end`."""
        # Count the entries anew, because the cut took some from many queues.
        entries = sum(queue.max_offset for queue in self._queues)
        self._queue_flusher.cut(end, entries)
        # The cut may have removed the file that was made in advance.
        self._prepared_behind = -1

    def read_back(
        self, confirmed: int, scanned_from: int, doubtful: Iterable[str], *, is_same_boot: bool
    ) -> None:
        """Sync what recovery has read after a crash: it must not be taken back later.

        Args:
            confirmed: log offset below which everything is on the disk.
            scanned_from: log offset from which recovery has read.
            doubtful: queue files that an earlier process may have failed to sync.
            is_same_boot: the machine has not been started anew since.

        Raises:
            DiskError: it cannot be synced.
        """
        if is_same_boot:
            # A sync may have failed before the last process died: the system counts such pages
            # as clean, so the next sync alone would pass them over and prove nothing.
            # Recovery has tested the records: only rewrite, sync and verify them.
            restore_job(self._log, confirmed, is_whole=False)()
            self._queue_flusher.doubt(doubtful)
        # Even if nothing failed: consumers will see these records, so make them durable.
        flush_job(self._log, scanned_from)()

    def all_flushed(self, stored_ms: int) -> None:
        """Note that the whole log is on the disk, as after recovery.

        Args:
            stored_ms: store time of its last message.
        """
        self._log_flusher.mark_flushed(self._log.max_offset)
        self.stored_ms = stored_ms

    def _finish_index(self) -> bool:
        """Have all in the index that is dispatched; what is confirmed has to be there."""
        index = self._queue_dispatcher.index
        if index is not None:
            try:
                index.flush()
            except DiskError as exc:
                log.error("index.write_failed", error=str(exc))
                return False
        return True

    def _progress(self) -> Progress:
        entries = sum(queue.max_offset for queue in self._queues)
        return Progress(self._queue_dispatcher.offset, entries, self.stored_ms)

    def _prepare_next_file(self) -> None:
        """Make the next file ahead of time, so that the change of files costs no system call."""
        row = self._log.files
        last = row.last
        if last is None or last.start == self._prepared_behind or last.wrote < last.size // 2:
            return
        self._prepared_behind = last.start
        disk, path, size = self._disk, row.next_path(), row.file_size

        def job() -> None:
            # An append may have created it already.
            if disk.file_size(path) is None:
                disk.create_file(path, size)

        def done(failure: Exception | None) -> None:
            # No harm: `add_file` creates it when needed.
            if failure is not None:
                log.warning("log.next_file_failed", path=path, error=str(failure))

        self._log_worker.submit(job, done)

"""Flushing what is derived from the log, and confirming how far that has come (S-52 to S-54).

Queues and index can be made again from the log, so nobody waits for them to be flushed. But how
long a restart takes depends on it: recovery reads the log from the **confirmed offset** on, below
which log, queues and index were all on the disk. It moves on with each thorough pass: every 60 s,
and after every 64 MiB of log.

There may be many thousands of queues, each with a few bytes to flush. So the look that comes each
second is at those that were written since the look before, and a pass takes its queues in portions:
between two of them the loop serves others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import structlog

from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker
from pocketmq.broker.store.disk.mapped_file import PAGE, MappedFile
from pocketmq.broker.store.flush.checkpoint import StoreCheckpoint
from pocketmq.broker.store.flush.flush_log import LogFlusher
from pocketmq.broker.store.flush.store_files import StoreFiles
from pocketmq.broker.store.index.index_file import IndexFile
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()

PORTION = 1_000
"""Queues that one job of a pass syncs, and one turn of the loop looks at."""


class Progress(msgspec.Struct, frozen=True):
    """How far dispatching had come at one moment."""

    offset: int
    """Every record below it was dispatched."""
    entries: int
    """Sum of all queues' max offsets."""
    stored_ms: int
    """Store time of the last message."""


@dataclass(slots=True)
class _Pass:
    """One pass over some queues, portion by portion."""

    left: deque[ConsumeQueue]
    """What it has yet to sync."""
    progress: Progress | None
    """What it is to confirm."""
    cuts: int
    """The flusher's `_cuts` when it began."""
    gone: set[ConsumeQueue] | None = None
    """Queues deleted since the worker got its portion; None while it has none."""
    goes_on: bool = False
    """`_go_on` is being executed."""

    def give_up(self) -> None:
        """Sync no further queue, and confirm nothing."""
        self.left.clear()
        self.progress = None


class QueueFlusher:
    """Syncs dirty consume queues; after a thorough pass moves the checkpoint.

    Args:
        files: the queues, and the checkpoint that is moved.
        log_flusher: the log has to be flushed as far as the checkpoint says.
        least_pages: dirty pages that make a queue worth flushing before the thorough pass.
    """

    def __init__(
        self,
        files: StoreFiles,
        log_flusher: LogFlusher,
        least_pages: int,
    ) -> None:
        self._disk = files.disk
        self._root = files.root
        self._checkpoint = files.checkpoint
        self._log_flusher = log_flusher
        self._dirty = files.queue_dispatcher.dirty
        """The queues written since the last look at them."""
        self._few: set[ConsumeQueue] = set()
        """Queues that had too few dirty pages when they were looked at."""
        self._least_pages = least_pages
        self._worker: DiskWorker | None = None
        self._pass: _Pass | None = None
        """The one under way; none begins meanwhile."""
        self._doubtful: set[str] = set()
        """Paths whose sync failed: the system may have marked clean what it could not write."""
        self._unconfirmed: Progress | None = None
        """Progress whose queues are flushed, but whose log is not yet."""
        self._cuts = 0
        """How often entries were taken away; what was counted before is no progress after it."""
        self._file_cuts = 0
        """Those of them that cut files: what a sync then under way has flushed is not known."""

    def start(self, worker: DiskWorker) -> None:
        """From now on passes go to `worker`."""
        self._worker = worker

    @property
    def confirmed(self) -> int:
        """Log offset below which log, queues and index are on the disk."""
        return self._checkpoint.durable_offset

    def cut(self, end: int, entries: int) -> None:
        """Take note that log, queues and index were cut at `end`.

        Args:
            end: of the log.
            entries: sum of all queues' max offsets now.
        """
        self._cuts += 1
        self._file_cuts += 1
        self._unconfirmed = None
        # A count beyond the cut would make the next start read the whole log.
        checkpoint = self._checkpoint
        if checkpoint.durable_offset > end:
            checkpoint.durable_offset, checkpoint.durable_entries = end, entries
        # Save at once, because the checkpoint must not go beyond the cut.
        self.save_checkpoint()

    def doubt(self, paths: Iterable[str]) -> None:
        """Their next sync writes them once more, and reads them back."""
        # Marked as flushed, although the sync of an earlier process may have failed.
        self._doubtful.update(paths)

    @property
    def is_running(self) -> bool:
        """Whether a pass is under way; none begins meanwhile."""
        return self._pass is not None

    @property
    def is_clean(self) -> bool:
        """Whether no queue waits for its flush; a pass may still be under way."""
        return not self._dirty and not self._few

    def forget(self, queues: Iterable[ConsumeQueue]) -> None:
        """They were deleted, with their files; what was counted with their entries is void."""
        # The unconfirmed count includes entries that are gone.
        self._cuts += 1
        self._unconfirmed = None
        for queue in queues:
            self._dirty.discard(queue)
            self._few.discard(queue)
            # The worker may be syncing one of them: a failure must not make it dirty again.
            if self._pass is not None and self._pass.gone is not None:
                self._pass.gone.add(queue)

    def flush(self) -> None:
        """Begin a pass over the queues that have enough dirty pages.

        O(queues written since the last look): without a further write a queue gets no dirtier.
        """
        if self._pass is not None or self._worker is None:
            return
        written = list(self._dirty)
        chosen = [queue for queue in written if queue.dirty_pages() >= self._least_pages]
        # Queues with few dirty pages wait for the thorough pass.
        self._few.update(written)
        self._dirty.clear()
        if chosen:
            self._begin(chosen, None)

    def flush_thoroughly(self, progress: Progress) -> None:
        """Begin a pass over all dirty queues, and move the checkpoint to `progress` after it."""
        # The log first: entries are confirmed only up to its flushed end.
        self._log_flusher.flush()
        # A pass that is running has chosen its queues before, and proves nothing about `progress`.
        if self._pass is None and self._worker is not None:
            # Include queues with few dirty pages, or the checkpoint would promise too much.
            self._begin(self._dirty | self._few, progress)

    def _begin(self, chosen: Iterable[ConsumeQueue], progress: Progress | None) -> None:
        self._pass = _Pass(deque(chosen), progress, self._cuts)
        self._go_on(self._pass)

    def _go_on(self, run: _Pass) -> None:
        """Begin the next portion, or end the pass; called again when that portion is synced."""
        if run.goes_on:
            return  # a worker without a thread has synced it already: the loop below sees that
        run.goes_on = True
        try:
            while run.left and run.gone is None:
                self._sync_some(run)
        finally:
            run.goes_on = False
        if run.gone is None:
            self._pass = None
            # A cut or a deletion meanwhile has made the count wrong: confirm nothing.
            if run.progress is not None and run.cuts == self._cuts:
                self._unconfirmed = run.progress
                self.confirm()

    def _sync_some(self, run: _Pass) -> None:
        assert self._worker is not None
        portion = [run.left.popleft() for _ in range(min(PORTION, len(run.left)))]
        # Those that are in neither set were deleted while their turn had not come.
        chosen = [queue for queue in portion if queue in self._dirty or queue in self._few]
        # Clear the marks before the job, because new entries make a queue dirty again.
        self._dirty.difference_update(chosen)
        self._few.difference_update(chosen)
        # The sync covers at least the bytes written by now.
        marks = [(file, file.wrote) for queue in chosen for file in dirty_files(queue)]
        try:
            doubtful = {
                file.path: DoubtfulPart(file.writable_view()[:wrote], file.flushed // PAGE * PAGE)
                for file, wrote in marks
                if file.path in self._doubtful
            }
        except Exception:  # no descriptor or memory may be left for a mapping
            log.exception("queues.flush_failed", queues=len(chosen))
            # Dirty again, for the next look; this pass confirms nothing.
            self._dirty.update(chosen)
            run.give_up()
            return
        cuts = self._file_cuts
        directories = self._new_directories(chosen)
        disk = self._disk

        def job() -> None:
            for file, _ in marks:
                if disk.file_size(file.path) is not None:  # its topic may be deleted by now
                    sync_file(disk, file.path, doubtful.get(file.path))
            # Sync the files before their names.
            for directory in directories:
                try:
                    disk.sync_directory(directory)
                except DiskError:
                    if disk.file_size(directory) is not None:
                        raise  # else its topic was deleted, and there is nothing to sync

        def done(failure: Exception | None) -> None:
            gone, run.gone = run.gone or set(), None
            if failure is not None:
                log.error("queues.flush_failed", error=str(failure), queues=len(chosen))
                left = [queue for queue in chosen if queue not in gone]
                self._dirty.update(left)
                # The pages may have been marked clean: the next sync must write and verify them.
                self._doubtful.update(file.path for file, _ in marks)
                for queue in left:
                    queue.files.directory_synced = False
                # Stop this pass, as it would meet the same disk; the next tick begins a new one.
                run.give_up()
            elif self._file_cuts != cuts:
                # What was synced may be gone, and other bytes written in its place.
                self._dirty.update(queue for queue in chosen if queue not in gone)
            else:
                for file, wrote in marks:
                    file.flushed = max(file.flushed, wrote)
                    self._doubtful.discard(file.path)
            self._go_on(run)

        run.gone = set()
        self._worker.submit(job, done)

    def confirm(self) -> None:
        """Move the checkpoint if a thorough pass has waited for the log; call when that moved."""
        progress = self._unconfirmed
        # The log must be flushed up to here too; its flush calls this again.
        if progress is None or progress.offset > self._log_flusher.flushed_offset:
            return
        self._unconfirmed = None
        checkpoint = self._checkpoint
        checkpoint.durable_offset = progress.offset
        checkpoint.durable_entries = progress.entries
        # Log and queues are confirmed together, so one time serves both (S-63).
        checkpoint.physic_msg_timestamp = progress.stored_ms
        checkpoint.logics_msg_timestamp = progress.stored_ms
        self.save_checkpoint()

    def save_checkpoint(self) -> None:
        """Write the checkpoint now, and bring it to the disk soon (S-53)."""
        self._checkpoint.write()
        # On the queues' worker, after the syncs that the checkpoint relies on.
        if self._worker is not None:
            self._worker.submit(self._checkpoint.sync, _report_checkpoint)

    def _new_directories(self, queues: Iterable[ConsumeQueue]) -> list[str]:
        """Directories with names that a power cut could take, the deepest first."""
        found: set[str] = set()
        for queue in queues:
            if not queue.files.directory_synced:
                # All directories from the queue's up to the root may be new.
                queue.files.directory_synced = True
                path = queue.files.directory
                while len(path) >= len(self._root):
                    found.add(path)
                    path = path.rpartition("/")[0]
        # The deepest first: sync what a directory contains before its own name.
        return sorted(found, key=len, reverse=True)


class IndexFlusher:
    """Syncs index files that are full, then notes their last time in the checkpoint (S-49).

    Args:
        disk: where the files are.
        checkpoint: gets the times.
    """

    def __init__(self, disk: Disk, checkpoint: StoreCheckpoint) -> None:
        self.failed = False
        """A file could not be synced: the next start has to look at it."""
        self._disk = disk
        self._checkpoint = checkpoint
        self._worker: DiskWorker = InlineWorker()

    def start(self, worker: DiskWorker) -> None:
        """From now on files go to `worker`."""
        self._worker = worker

    def flush(self, file: IndexFile) -> None:
        """Sync one file; also its name, which is new."""
        disk, checkpoint = self._disk, self._checkpoint
        end_ms = file.end_ms

        def job() -> None:
            # The content before the name: an index file that the checkpoint covers must be whole.
            sync_file(disk, file.path)
            disk.sync_directory(file.directory)

        def done(failure: Exception | None) -> None:
            if failure is not None:
                log.error("index.flush_failed", path=file.path, error=str(failure))
                self.failed = True
            elif end_ms > checkpoint.index_msg_timestamp:
                # Only after the sync; a power cut removes later files, which are made again (S-65).
                checkpoint.index_msg_timestamp = end_ms

        self._worker.submit(job, done)

    def flush_after(self, files: Iterable[IndexFile]) -> None:
        """Sync those with messages later than the checkpoint says."""
        for file in files:
            if file.end_ms > self._checkpoint.index_msg_timestamp:
                self.flush(file)


def _report_checkpoint(failure: Exception | None) -> None:
    if failure is not None:
        log.error("checkpoint.flush_failed", error=str(failure))


def dirty_files(queue: ConsumeQueue) -> list[MappedFile]:
    """The files of a queue that hold entries which were never flushed. O(those files).

    They are its last ones, apart from an empty one behind them.
    """
    found: list[MappedFile] = []
    # A written file that is not dirty: all earlier ones are flushed too.
    for file in reversed(queue.files.files):
        if file.flushed < file.wrote:
            found.append(file)
        elif file.wrote:
            break
    return found[::-1]


class DoubtfulPart(NamedTuple):
    """The part of a file that is in doubt since a sync failed."""

    view: memoryview
    start: int


def sync_file(disk: Disk, path: str, doubtful: DoubtfulPart | None = None) -> None:
    """Open, sync, close: for files that are synced too rarely to keep a descriptor.

    What is in doubt is written once more and read back from the medium: a second sync alone would
    succeed and prove nothing.
    """
    file = disk.open_file(path)
    try:
        if doubtful is not None:
            view, start = doubtful
            view[start:] = bytes(view[start:])  # makes its pages dirty again
        file.sync()
        if doubtful is not None:
            file.verify(start, view[start:])
    finally:
        file.close()

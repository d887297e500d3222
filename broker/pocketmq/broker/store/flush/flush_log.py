"""When data reaches the disk (S-50 to S-54).

Under ASYNC_FLUSH a pass every 500 ms syncs what is dirty. Under SYNC_FLUSH sends wait, and one
sync answers all that came before it began: **group commit**. While it runs the next group
gathers, so the slower the disk, the larger the groups.

Everything here runs on the event loop's thread. A pass hands the system calls to a worker and
learns of their outcome on the loop, so there is nothing to lock.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from itertools import takewhile

import structlog

from pocketmq.broker.store.config import MIB
from pocketmq.broker.store.disk.disk_worker import DiskWorker, Job
from pocketmq.broker.store.disk.mapped_file import PAGE, MappedFile
from pocketmq.broker.store.dispatch.store_events import NO_STORE_EVENTS, StoreEvents
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.log.commit_log import CommitLog
from pocketmq.broker.store.stored_message import PutStatus
from pocketmq.protocol.stored.record_check import RecordKind, check_record
from pocketmq.runtime.clock import Clock, Timer

log = structlog.get_logger()

FlushCallback = Callable[[PutStatus], None]


class LogFlusher:
    """Syncs the commit log, and calls back those that wait for it.

    Args:
        commit_log: what is synced.
        clock: times the waits.
        timeout_ms: after this a waiter gets FLUSH_DISK_TIMEOUT (10).
        on_flushed: called after each successful pass; `flushed_offset` has moved.
        on_failure: called when a sync failed. What it covered is then in an unknown state, and no
            further pass starts until `restore`: a second sync would succeed without having written.
        events: tells of each pass.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        clock: Clock,
        timeout_ms: int,
        on_flushed: Callable[[], None],
        on_failure: Callable[[Exception], None],
        events: StoreEvents = NO_STORE_EVENTS,
    ) -> None:
        self.flushed_offset = 0
        """Every byte of the log below it survives a power cut."""
        self.failed = False
        """A sync failed, and what it covered has not been restored."""
        self._log = commit_log
        self._clock = clock
        self._timeout_s = timeout_ms / 1000
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._events = events
        self._worker: DiskWorker | None = None
        self._waiting: deque[tuple[int, float, FlushCallback]] = deque()
        self._timer: Timer | None = None
        self._running = False
        self._cuts = 0
        """How often the log was cut: a pass from before a cut proves nothing of what came after."""

    def start(self, worker: DiskWorker) -> None:
        """From now on passes go to `worker`."""
        self._worker = worker

    def cut(self, end: int) -> None:
        """Take note that the log was cut at `end`."""
        # A pass that is running may end beyond the cut, whose bytes are written anew.
        self._cuts += 1
        # Bytes written after the cut are not synced, even at offsets that were.
        self.flushed_offset = min(self.flushed_offset, end)

    @property
    def dirty_bytes(self) -> int:
        """Bytes of the log that a power cut would take."""
        return self._log.max_offset - self.flushed_offset

    def is_due(self, least_pages: int) -> bool:
        """Whether a periodic pass is worth while: enough dirty pages, or a full file (S-50)."""
        if self.dirty_bytes <= 0:
            return False
        last = self._log.files.last
        # Like RocketMQ, flush a full file at once.
        crossed_file = last is not None and self.flushed_offset < last.start
        return crossed_file or self.dirty_bytes // PAGE >= least_pages

    # behaviour 59
    def wait(self, end: int, callback: FlushCallback) -> None:
        """Call back once the log is flushed up to `end`; at once if it is."""
        if end <= self.flushed_offset:
            callback(PutStatus.PUT_OK)
            return
        # Until `restore`, no sync proves anything, so waiting would be useless.
        if self.failed:
            callback(PutStatus.FLUSH_DISK_TIMEOUT)
            return
        # Ends ascend as the log grows, so the first waits for the least.
        self._waiting.append((end, self._clock.monotonic() + self._timeout_s, callback))
        self._arm()
        # If a pass is running, the next one covers this message together with others.
        self.flush()

    async def reached(self, end: int) -> PutStatus:
        """Wait until the log is flushed up to `end`.

        Returns:
            PUT_OK, or FLUSH_DISK_TIMEOUT when it took too long or failed.
        """
        done: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()

        def resolve(status: PutStatus) -> None:
            if not done.done():  # whoever asked may have been cancelled
                done.set_result(status)

        self.wait(end, resolve)
        return await done

    def flush(self) -> None:
        """Begin a pass; while one is running, another follows it if there is more to flush."""
        if self._running or self.failed or self._worker is None or self.dirty_bytes <= 0:
            return
        self._running = True
        # Taken before the job begins: it need not cover what is appended meanwhile.
        target, cuts = self._log.max_offset, self._cuts
        job = flush_job(self._log, self.flushed_offset)
        self._worker.submit(job, lambda failure: self._passed(target, cuts, failure))

    def _passed(self, target: int, cuts: int, failure: Exception | None) -> None:
        self._running = False
        if cuts != self._cuts:
            # Its success proves nothing beyond the cut; its failure still counts.
            target = min(target, self.flushed_offset)
        if failure is not None:
            # Pages that failed may now be marked clean, so later syncs cannot be trusted.
            self.failed = True
            self._log.files.directory_synced = False
            # RocketMQ's clients take FLUSH_DISK_TIMEOUT as stored (H-54).
            self._answer_all(PutStatus.FLUSH_DISK_TIMEOUT)
            self._on_failure(failure)
            return
        before = self.flushed_offset
        self.mark_flushed(target)
        if target > before and self._events.sink.is_on:
            self._events.flushed(before, target)
        waiting = self._waiting
        while waiting and waiting[0][0] <= target:
            waiting.popleft()[2](PutStatus.PUT_OK)
        # These came while the pass ran: begin the next one at once.
        if waiting:
            self.flush()
        self._on_flushed()  # last, so that those that waited come first

    def mark_flushed(self, target: int) -> None:
        """Take note that the log is on the disk up to `target`."""
        self.flushed_offset = max(self.flushed_offset, target)
        files = self._log.files
        # From the newest back to the first file that is completely flushed.
        for file in reversed(files.files):
            if file is not files.last and file.flushed == file.size:
                break
            file.flushed = max(file.flushed, min(file.size, target - file.start))
            if file is not files.last:
                # A full, flushed file is never synced again.
                file.release()

    def restore(self, then: Callable[[], None]) -> None:
        """Try to repair the log after a failed sync, and call `then` when that worked.

        The system may have marked pages clean that it could not write, so syncing again would
        succeed and prove nothing. The files are opened anew; what was not flushed is tested record
        by record, written once more, synced, and compared with what the medium then holds.
        """
        if not self.failed or self._running or self._worker is None:
            return
        self._running = True
        target = self._log.max_offset
        job = restore_job(self._log, self.flushed_offset)

        def done(failure: Exception | None) -> None:
            self._running = False
            if failure is not None:
                log.error("log.restore_failed", error=str(failure))
                return
            self.failed = False
            self.mark_flushed(target)
            self._on_flushed()
            # Only now can puts be accepted again.
            then()

        self._worker.submit(job, done)

    def _arm(self) -> None:
        """Keep one timer, for the one that has waited longest; one that came too soon is set again.

        It is not cancelled when nobody waits: the next send would have to make another.
        """
        if self._timer is None and self._waiting and self._worker is not None:
            # One timer is enough: all wait equally long, so the oldest one ends first.
            self._timer = self._clock.call_at(self._waiting[0][1], self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._waiting and self._waiting[0][1] <= now:
            self._waiting.popleft()[2](PutStatus.FLUSH_DISK_TIMEOUT)
        self._arm()

    def _answer_all(self, status: PutStatus) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, _, callback in waiting:
            callback(status)


def flush_job(commit_log: CommitLog, flushed_offset: int) -> Job:
    """The system calls that bring the log to the disk, from `flushed_offset` on."""
    row = commit_log.files
    handles = [file.handle() for file in _dirty(commit_log, flushed_offset)]
    directory = None if row.directory_synced else row.directory
    # Set in advance; `_passed` takes it back if the job fails.
    row.directory_synced = True
    disk = row.disk

    def job() -> None:
        for handle in handles:
            # In order: after a power cut the log may end early, but must not lack a file in
            # between.
            handle.sync()
        if directory is not None:
            disk.sync_directory(directory)
            # At the first start, the directory itself is new in the store's root.
            disk.sync_directory(os.path.dirname(directory))

    return job


def restore_job(commit_log: CommitLog, flushed_offset: int, *, is_whole: bool = True) -> Job:
    """Test, rewrite, sync and compare the log from `flushed_offset` on.

    Args:
        commit_log: what is brought to the disk.
        flushed_offset: every byte below it is there.
        is_whole: whether only sound records may stand there; recovery has tested them itself.
    """
    row = commit_log.files
    if row.files:  # a store that was killed at its first start may not have the folder yet
        # The failed sync may have lost names of new files too.
        row.directory_synced = False
    stretches = []
    for file in _dirty(commit_log, flushed_offset):
        file.release()  # an old descriptor may not report the next error
        start = max(0, flushed_offset - file.start)
        stretches.append((file, file.writable_view()[: file.wrote], start, file.handle()))
    sync = flush_job(commit_log, flushed_offset)

    def job() -> None:
        for file, view, start, _ in stretches:
            if is_whole:
                # Write only whole records, because the bytes in memory may be damaged too.
                _test_records(file, view, start)
            for at in range(start, len(view), MIB):
                view[at : at + MIB] = bytes(view[at : at + MIB])  # makes its pages dirty again
        sync()
        # After the sync, because before it the disk need not have the bytes.
        for _, view, start, handle in stretches:
            handle.verify(start, view[start:])

    return job


def _dirty(commit_log: CommitLog, flushed_offset: int) -> list[MappedFile]:
    """The files that hold bytes from `flushed_offset` on, in their order. O(those files)."""
    # Newest first, because usually only the last one or two files are dirty.
    newest_first = reversed(commit_log.files.files)
    found = list(takewhile(lambda file: file.start + file.wrote > flushed_offset, newest_first))
    return found[::-1]


def _test_records(file: MappedFile, view: memoryview, position: int) -> None:
    """Raise unless whole records stand from `position` to the view's end."""
    while position < len(view):
        checked = check_record(view, position)
        if checked.kind is RecordKind.BLANK:
            return
        if checked.physical_offset != file.start + position:
            raise StoreFileError(
                file.path,
                "a record that is not flushed yet is damaged",
                position=position,
                advice="restart the broker, so that its recovery cuts the log there",
            )
        position += checked.size

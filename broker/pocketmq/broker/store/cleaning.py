"""Deletes expired files, and makes room on a full disk (S-70 to S-74, B-163 to B-167).

What counts is age and space, never whether a message was consumed (S-74). Whole log files go, the
oldest first; queues and index follow the log's new beginning. A reader that holds views of a
deleted file is not disturbed: its mapping lives as long as it does, so nothing has to wait for
readers as RocketMQ does (S-72).

A round over many queues takes long, and pauses so that others are served. Files of the log and the
index are deleted on a thread: 1 GiB takes 0.3 s. Whatever is read in a pause, no entry leads to a
record that is gone:

    1  each queue begins at its first message behind the files that will go
    2  these files of the log are deleted, one after the other
    3  files of queues and of the index go that lead to nothing else
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from typing import TypeAlias

import structlog

from pocketmq.broker.store.config import ENTRY_SIZE, StoreConfig
from pocketmq.broker.store.disk.disk import Disk, DiskUsage
from pocketmq.broker.store.disk.disk_worker import DiskWorker, Job, run_on
from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.broker.store.flush.store_files import StoreFiles
from pocketmq.broker.store.queues.consume_queue import ENTRY, ConsumeQueue
from pocketmq.broker.store.readiness import Readiness
from pocketmq.broker.store.recovery.queue_recovery import correct_min_offset
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import PeriodicService

log = structlog.get_logger()

DISK_FULL = "the disk is full"

_FILES_PER_ROUND = 10
_MANUAL_ROUNDS = 20
_PAUSE_S = 0.1
_FIRST_ROUND_S = 60.0
_HOUR_MS = 3_600_000
PORTION = 200
"""Queues that are looked at between two pauses; a file may have to be mapped for each."""

Steps: TypeAlias = Iterator[Job | None]
"""After each others have their turn: None, or a job for a worker that is to be done first."""

Round: TypeAlias = Generator[Job | None, None, float | None]
"""Steps, and in how many seconds the next round is wanted; None: at the usual time."""


class Cleaner:
    """Looks at age and space every 10 s.

    Args:
        files: those of the log are deleted, queues and index cut to what is left. A file of the log
            stays until the checkpoint says that the entries of its records are on the disk.
        config: levels and times, now.
        readiness: where a full disk is noted, so that no message is taken.
        full_down_to_forcible: a disk that was full is so until the forcible level, by profile.
    """

    def __init__(
        self,
        files: StoreFiles,
        config: Callable[[], StoreConfig],
        readiness: Readiness,
        *,
        full_down_to_forcible: bool,
    ) -> None:
        self._checkpoint = files.checkpoint
        self._disk = files.disk
        self._root = files.root
        self._config = config
        self._log = files.commit_log
        self._queues = files.consume_queues
        self._index = files.queue_dispatcher.index
        self._readiness = readiness
        self._full_down_to_forcible = full_down_to_forcible
        self._manual_rounds = 0

    def delete_soon(self) -> None:
        """Delete expired files in the next rounds, whatever the hour (S-70)."""
        self._manual_rounds = _MANUAL_ROUNDS

    def run(self, now_ms: int) -> Round:
        """One round."""
        # Read space and options once: changes during this round apply to the next one.
        usage, config = self._disk.usage(self._root), self._config()
        self._note_level(usage, config)
        if len(self._log.files.files) < 2:  # the last file never goes, so the hour does not matter
            self._manual_rounds = max(0, self._manual_rounds - 1)
            return None
        # Above the forcible level age does not count: a full log would stop all producers, which is
        # worse than losing unread messages (B-164).
        forced = usage.used_ratio > config.forcible_ratio and config.clean_file_forcibly_enable
        is_due = (
            # Local time, as in RocketMQ: operators choose an hour in which their brokers are idle.
            datetime.fromtimestamp(now_ms / 1000).astimezone().hour in config.delete_hours()
            or usage.used_ratio > config.max_used_ratio
            or self._manual_rounds > 0
        )
        # A manual round counts even if it deletes nothing, as in RocketMQ.
        self._manual_rounds = max(0, self._manual_rounds - 1)
        if not is_due and not forced:
            return None
        doomed = self._doomed(now_ms, forced=forced)
        if not doomed:
            return None
        # An entry must never lead to a deleted record: hide the entries, then delete the records,
        # and the files of the entries last.
        log_min = doomed[-1].end
        yield from self._begin_at(log_min)
        yield from self._delete_below(log_min, now_ms, forced=forced)
        yield from self._follow_log()
        # If one round cannot delete all that is due, the next one follows at once (S-71).
        return _PAUSE_S if len(doomed) == _FILES_PER_ROUND else None

    def _note_level(self, usage: DiskUsage, config: StoreConfig) -> None:
        """Take no more messages above the warning level, and take them again with space (B-166)."""
        # With only one level for both, puts near it would switch the store off and on (B-166).
        if usage.used_ratio > config.warning_ratio:
            # Log it once, as this runs every 10 s.
            if DISK_FULL not in self._readiness.reasons:
                log.error("disk.full", used_ratio=round(usage.used_ratio, 3), path=self._root)
            self._readiness.block(DISK_FULL)
        elif DISK_FULL in self._readiness.reasons and not (
            self._full_down_to_forcible and usage.used_ratio > config.forcible_ratio
        ):
            log.info("disk.has_space", used_ratio=round(usage.used_ratio, 3), path=self._root)
            self._readiness.unblock(DISK_FULL)

    def _doomed(self, now_ms: int, *, forced: bool) -> list[MappedFile]:
        """The first log files, as far as they may go (S-71); the last one never may."""
        found: list[MappedFile] = []
        # The last file stays: the next append goes there, and its name shows where the log ends.
        for file in self._log.files.files[:-1][:_FILES_PER_ROUND]:
            if file.flushed < file.wrote:
                break  # a worker may be syncing it now
            if self._checkpoint.durable_offset < file.end:
                # A power cut would take the entries, and nothing would be left to make them again
                # from: the queue would begin anew at offset 0, far behind its consumers.
                break
            # A file was last modified by its newest message (S-71).
            if not forced and self._age_ms(file, now_ms) < (
                self._config().file_reserved_time_h * _HOUR_MS
            ):
                break
            found.append(file)
        return found

    def _age_ms(self, file: MappedFile, now_ms: int) -> int:
        return now_ms - self._disk.modified_ms(file.path)

    def _begin_at(self, log_min: int) -> Steps:
        """Hide messages that stand before it (S-34)."""
        # Copy the list, because queues may come and go during a pause.
        for number, queue in enumerate(list(self._queues), 1):
            if self._log.max_offset < log_min:
                return  # a replica's log was cut in a pause
            correct_min_offset(queue, log_min)
            if number % PORTION == 0:
                yield None

    def _delete_below(self, log_min: int, now_ms: int, *, forced: bool) -> Steps:
        row = self._log.files
        # Check at each step: the log may be cut while a worker deletes a file.
        while len(row.files) > 1 and row.files[0].end <= log_min:
            if self._log.max_offset < log_min:
                return  # cut, as above: what would go is now the log's end
            first = row.files[0]
            age_ms = self._age_ms(first, now_ms)
            yield from row.take_first()
            log.info("file.deleted", path=first.path, age_h=age_ms // _HOUR_MS, forced=forced)

    def _follow_log(self) -> Steps:
        """Delete what leads only to records that are gone (S-73)."""
        log_min = self._log.min_offset
        if self._index is not None:
            # After the log: a crash in between leaves entries without records, which readers skip.
            yield from self._index.take_before(log_min)
        for number, queue in enumerate(list(self._queues), 1):
            while _first_file_is_old(queue, log_min):
                queue.files.remove_first()  # short, and its topic may be deleted in a pause
                yield None
            if number % PORTION == 0:
                yield None


def cleaning_service(
    cleaner: Cleaner, disk: Disk, clock: Clock, config: Callable[[], StoreConfig]
) -> PeriodicService:
    """Runs a cleaner, first a minute after the start; `wakeup` begins a round at once."""

    async def one_round() -> float | None:
        # Start the worker for the first deletion; most rounds delete nothing.
        worker: DiskWorker | None = None
        steps = cleaner.run(clock.time_ms())
        try:
            while True:
                try:
                    job = next(steps)
                except StopIteration as ended:
                    wait_s: float | None = ended.value
                    return wait_s
                if job is None:
                    # After each portion of queues, let other requests run.
                    await clock.sleep(0)
                else:
                    worker = worker or disk.start_worker("delete files")
                    await run_on(worker, job)
        finally:
            if worker is not None:
                # Wait for a running deletion, so that none goes on after the store is closed.
                worker.close()
            steps.close()  # not before: a file that could not be deleted comes back now

    return PeriodicService(
        "CleanCommitLog",
        clock,
        lambda: config().clean_resource_interval_ms / 1000,
        one_round,
        initial_delay_s=_FIRST_ROUND_S,
    )


def _first_file_is_old(queue: ConsumeQueue, log_min: int) -> bool:
    """Whether all records of the queue's first file are deleted; the last file always stays."""
    if len(queue.files.files) < 2:
        return False
    first = queue.files.files[0]
    # Entries ascend by log offset, so the last one of a full file is the newest.
    physical: int = ENTRY.unpack_from(first.view(), first.size - ENTRY_SIZE)[0]
    return physical < log_min

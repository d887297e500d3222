"""What survives a crash, and why (S-60 to S-66).

A killed process loses nothing that it wrote: the page cache outlives it. A power cut keeps what
was synced, and of the rest any subset of its 4 KiB pages. Both leave the queues behind the log.
So recovery

1. takes the **confirmed offset** from the checkpoint: below it log, queues and index agreed and
   were on the disk. After a power cut it drops the queues' entries above it;
2. reads the log from there, tests each record, and dispatches those that a queue lacks;
3. cuts the log where sound records end, and zeroes what is behind the cut.

After a clean stop the confirmed offset is the end, and there is nothing to read. A store that
RocketMQ was the last to write holds no promise of ours; then its own rules say where to begin.

A body's CRC is computed before its record is dispatched again, and of all that is read when pages
may be missing. Otherwise it is computed when a consumer comes to the message: see `mend.py`.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import msgspec
import structlog

from pocketmq.broker.store.config import ENTRY_SIZE
from pocketmq.broker.store.dispatch.log_scan import NEVER, LogScan, walk
from pocketmq.broker.store.flush.store_files import StoreFiles
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue
from pocketmq.broker.store.recovery.queue_recovery import (
    correct_min_offset,
    cut_at,
    load_queue,
    zero_behind_end,
)
from pocketmq.protocol.stored.record_check import check_record

log = structlog.get_logger()

_CHECKPOINT_SLACK_MS = 3000


class Recovery(msgspec.Struct):
    """What `MessageStore.load` found and did."""

    clean: bool
    """The last process ended as it should: there was no abort file (S-60)."""
    confirmed: int = 0
    """Log offset below which the checkpoint promised everything to be on the disk."""
    scanned_from: int = 0
    """Log offset at which reading began."""
    end: int = 0
    """Log offset at which the next message goes."""
    records: int = 0
    """Sound records read."""
    lost: list[tuple[int, int, str]] = []
    """(log offset, bytes, reason) of each damaged stretch that was stepped over."""
    end_reason: str = ""
    """Why the log was cut, when what stood there was not zeros."""


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Spare the garbage collector: thousands of queues are made, and none of them is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Recoverer:
    """One run of recovery over a store whose files are not yet loaded.

    Args:
        files: loaded and cut; queues and index are filled. The checkpoint is as the last process
            left it; afterwards it tells what recovery relied on.
        clean: no abort file was there.
        boot_id: of the machine's present run.
        check_crc: test bodies too.
    """

    def __init__(
        self,
        files: StoreFiles,
        *,
        clean: bool,
        boot_id: bytes,
        check_crc: bool = True,
    ) -> None:
        checkpoint = files.checkpoint
        self._log = files.commit_log
        self._queues = files.consume_queues
        self._queue_dispatcher = files.queue_dispatcher
        self._checkpoint = checkpoint
        self._boot_id = boot_id
        self._check_crc = check_crc
        self._power_cut = not clean and (not checkpoint.is_ours or checkpoint.boot_id != boot_id)
        """Whether un-synced pages may be missing. A kill alone loses none."""
        self._is_complete = clean and checkpoint.is_ours
        """Whether we stopped properly, so that nothing lies behind the confirmed offset."""
        self._clean = clean
        self.doubtful: set[str] = set()
        """Queue files with entries that the page cache holds, and the disk perhaps not."""
        self._found: dict[ConsumeQueue, int] = {}
        """Entries of each queue that was on the disk, as `load_queue` counts them."""

    def run(self) -> Recovery:
        """Load all files and make them agree.

        Raises:
            StoreFileError: a commit-log file is missing or has a wrong length.
        """
        self._log.files.load()
        # Without a log, queues and index mean nothing (S-64).
        if not self._log.files.files:
            self._forget_all()
            return Recovery(self._clean)
        confirmed = self._confirmed_offset()
        with _without_collection():
            complete, entries = self._load_queues(confirmed)
        # If a queue is missing or wrong, read the whole log; entries that exist are skipped (S-32).
        start = confirmed if complete else self._log.min_offset
        start = min(start, self._load_index(confirmed))
        unread, stepped = start, 0
        # Without a power cut no page is missing, so records that the queues have can be skipped.
        if complete and not self._power_cut:
            unread, stepped = self._first_undispatched(start, entries)
        scan = LogScan(
            self._log,
            self._queues,
            self._queue_dispatcher,
            torn_from=self._torn_from(confirmed, complete=complete),
            check_crc=self._check_crc,
            check_known=self._check_crc and self._power_cut,
            queues_from=confirmed if complete else 0,
        )
        # The scan finds the log's end, to which queues and index are cut (S-61, S-64).
        end = scan.run(unread)
        self._end_log(end, cut=not self._clean or bool(scan.end_reason))
        for queue in self._queues:
            self._finish(queue, end)
        # After the scan, which may have added to the index.
        if self._queue_dispatcher.index is not None:
            self._queue_dispatcher.index.truncate(end)
        self._queue_dispatcher.offset = end
        self._remember(start, entries if complete else 0, end)
        records = stepped + scan.records
        return Recovery(self._clean, confirmed, start, end, records, scan.lost, scan.end_reason)

    def _finish(self, queue: ConsumeQueue, end: int) -> None:
        """Make a queue agree with the log, which ends at `end`."""
        cut_at(queue, end)
        if not self._clean:
            # A clean stop leaves zeros behind the end, but a crash may leave entries.
            zero_behind_end(queue)
        correct_min_offset(queue, self._log.min_offset)
        if not self._clean:
            found = max(0, self._found.get(queue, 0))
            self._doubt(queue, found)
        # The next message follows what recovery has dispatched (S-66).
        queue.next_offset = queue.max_offset

    def _forget_all(self) -> None:
        """Without a log, queues and index mean nothing (S-64)."""
        for topic in self._queues.topics_on_disk():
            if any(self._queues.find_on_disk(topic)):
                self._queues.delete_topic(topic)
        self._load_index(0)
        if self._queue_dispatcher.index is not None:
            self._queue_dispatcher.index.truncate(0)
        self._remember(0, 0, 0)

    def _confirmed_offset(self) -> int:
        """Log offset below which log and queues agree, as far as anybody promised (S-63)."""
        checkpoint, files = self._checkpoint, self._log.files.files
        low = self._log.min_offset
        if checkpoint.is_ours:
            return max(low, min(checkpoint.durable_offset, files[-1].end))
        # RocketMQ's own rule: 3 s before the times in its checkpoint (S-63).
        known_ms = min(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp)
        for file in reversed(files):
            first = check_record(file.view(), 0, check_crc=False)
            # Skip files that do not begin with a record, such as one made in advance.
            if first.message is None or first.physical_offset != file.start:
                continue
            if first.store_timestamp_ms <= known_ms - _CHECKPOINT_SLACK_MS:
                return file.start
        return low

    def _load_queues(self, confirmed: int) -> tuple[bool, int]:
        """Load each queue up to the confirmed offset; whether all is there, and how much."""
        # After a power cut, pages above the confirmed offset may be missing.
        limit = confirmed if self._power_cut else NEVER
        complete = True
        entries = 0
        for topic in self._queues.topics_on_disk():
            for queue in self._queues.find_on_disk(topic):
                found = self._found[queue] = load_queue(queue, self._log, confirmed, limit)
                complete &= found >= 0
                entries += max(0, found)
        # Only the sum reveals a missing queue.
        if self._checkpoint.is_ours and entries != self._checkpoint.durable_entries:
            expected = self._checkpoint.durable_entries
            log.warning("queues.incomplete", entries=entries, expected=expected)
            complete = False
        return complete, entries

    def _doubt(self, queue: ConsumeQueue, found: int) -> None:
        """Flush entries that were read back: they may be in the page cache only (S-54).

        The process that wrote them was killed before it synced them, and the next power cut would
        take what the checkpoint then says is there.
        """
        queue.files.directory_synced = False  # a file whose entries have all expired was in doubt
        if queue.max_offset <= found:
            return
        safe = found * ENTRY_SIZE
        for file in queue.files.files:
            if safe < file.start + file.wrote:
                file.flushed = min(file.flushed, max(0, safe - file.start))
                self.doubtful.add(file.path)
                self._queue_dispatcher.dirty.add(queue)

    def _torn_from(self, confirmed: int, *, complete: bool) -> int:
        """Log offset from which on a bad record was never whole, and ends the log."""
        # After a power cut, pages may be missing above this offset.
        if self._power_cut or self._is_complete:
            return confirmed
        if not complete:
            return NEVER
        # A kill tears only what was being appended, and that no queue knows yet. The copying is
        # not in order of address: sound records may follow a torn one there.
        return max((queue.max_physical for queue in self._queues), default=confirmed)

    def _first_undispatched(self, start: int, entries: int) -> tuple[int, int]:
        """Log offset from which records have to be looked at one by one; how many are before.

        No page is missing, so if the queues have as many entries more as the log has records,
        they have them all. A kill in the middle of a batch is what makes them fewer.
        """
        # By lengths alone, because a kill may leave gigabytes to go through.
        end, counted = walk(self._log, start)
        if sum(queue.max_offset for queue in self._queues) != entries + counted:
            return start, 0
        # The index may be behind the queues: read those records again.
        index = self._queue_dispatcher.index
        if index is not None and index.end_physical < end:
            end = max(start, index.end_physical)
        return end, counted

    def _load_index(self, confirmed: int) -> int:
        """Load the index; the log offset from which it has to be built again."""
        index = self._queue_dispatcher.index
        if index is None:
            return confirmed
        # After a power cut, index pages may be missing too: trust only what the checkpoint covers.
        safe_until_ms = self._checkpoint.index_msg_timestamp if self._power_cut else None
        removed = index.load(safe_until_ms=safe_until_ms)
        if removed == 0:
            return confirmed
        return max(self._log.min_offset, index.end_physical)

    def _end_log(self, end: int, *, cut: bool) -> None:
        row = self._log.files
        if cut:
            row.truncate(end)
        else:
            # Files behind the end were made ahead of time; the next roll takes them up.
            while len(row.files) > 1 and row.files[-1].start >= end:
                row.files.pop()
            last = row.files[-1]
            last.wrote = last.flushed = min(last.size, end - last.start)

    def _remember(self, start: int, entries: int, end: int) -> None:
        """Until the first thorough flush, a crash would have to begin where this run did."""
        checkpoint = self._checkpoint
        # Replicas may have had more than is left here; a RocketMQ that opens this store next would
        # begin to dispatch there (H-146).
        checkpoint.confirm_phy_offset = min(checkpoint.confirm_phy_offset, end)
        checkpoint.durable_offset = start
        checkpoint.durable_entries = entries
        checkpoint.boot_id = self._boot_id

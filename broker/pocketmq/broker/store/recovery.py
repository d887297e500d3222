"""What survives a crash, and why (S-60 to S-66).

A killed process loses nothing that was written: the page cache outlives it. A power cut keeps what
was synced, and of the rest any subset of its 4 KiB pages. Both leave the queues behind the log.
So recovery

1. takes the queues' entries below the **confirmed offset** of the checkpoint, where log and queues
   were all on the disk, and cuts off what lies above;
2. reads the log from there, tests each record, and dispatches it again;
3. cuts the log where sound records end, and zeroes what is behind the cut.

After a clean stop the confirmed offset is the end, and there is nothing to read. A store that
RocketMQ was the last to write has no promise of ours; then its own rules say where to begin.
"""

from __future__ import annotations

import msgspec
import structlog

from pocketmq.broker.store.checkpoint import StoreCheckpoint
from pocketmq.broker.store.commit_log import CommitLog
from pocketmq.broker.store.config import ENTRY_SIZE
from pocketmq.broker.store.consume_queue import ENTRY, FILLER_SIZE, ConsumeQueue
from pocketmq.broker.store.consume_queues import ConsumeQueues
from pocketmq.broker.store.dispatch import Dispatcher
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.mapped_file import PAGE, MappedFile
from pocketmq.broker.store.stored_message import PutResult, PutStatus, StoredMessage
from pocketmq.protocol.message import MessageExt
from pocketmq.protocol.record import RecordKind, check_record
from pocketmq.protocol.subscription import tags_code

log = structlog.get_logger()

_CHECKPOINT_SLACK_MS = 3000


class Recovery(msgspec.Struct):
    """What `MessageStore.load` found and did."""

    clean: bool
    """The last process ended as it should: there was no abort file (S-60)."""
    scanned_from: int = 0
    """Log offset at which reading began."""
    end: int = 0
    """Log offset at which the next message goes."""
    records: int = 0
    """Records read."""
    cut_reason: str = ""
    """Why the log was cut, when a record was not whole."""


class Recoverer:
    """One run of recovery over a store whose files are not yet loaded."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        checkpoint: StoreCheckpoint,
        *,
        clean: bool,
        check_crc: bool = True,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._dispatcher = dispatcher
        self._checkpoint = checkpoint
        self._check_crc = check_crc
        self.result = Recovery(clean)

    def run(self) -> Recovery:
        """Load all files and make them agree.

        Raises:
            StoreFileError: a commit-log file is missing or has a wrong length.
        """
        result = self.result
        self._log.files.load()
        if not self._log.files.files:
            self._forget_queues()
            return result
        start = self._start()
        if not self._load_queues(start):
            start = self._log.min_offset
        result.scanned_from = start
        result.end = self._scan(start)
        self._cut_log(result.end)
        for queue in self._queues:
            cut_queue(queue, result.end)
            queue.next_offset = queue.max_offset
            correct_min_offset(queue, self._log.min_offset)
        return result

    def _forget_queues(self) -> None:
        """Without a log the queues mean nothing (S-64)."""
        for topic in {queue.topic for queue in self._queues.find_on_disk()}:
            self._queues.delete_topic(topic)

    def _start(self) -> int:
        """Log offset below which log and queues agree."""
        checkpoint, files = self._checkpoint, self._log.files.files
        low = self._log.min_offset
        if checkpoint.is_ours:
            return max(low, min(checkpoint.confirm_phy_offset, files[-1].end))
        known_ms = min(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp)
        for file in reversed(files):
            first = check_record(file.view(), 0, check_crc=False)
            if first.kind is RecordKind.RECORD and (
                0 < first.store_timestamp_ms <= known_ms - _CHECKPOINT_SLACK_MS
            ):
                return file.start
        return low

    def _load_queues(self, confirmed: int) -> bool:
        """Load each queue up to the confirmed offset; whether they are all there."""
        complete = True
        entries = 0
        for queue in self._queues.find_on_disk():
            try:
                queue.files.load()
            except StoreFileError as exc:
                log.warning("queue.rebuilt", topic=queue.topic, id=queue.queue_id, error=str(exc))
                queue.files.files.clear()
                queue.files.remove_all()
                complete = False
            load_queue(queue, confirmed)
            queue.checked_below = queue.max_offset
            entries += queue.max_offset
        if self._checkpoint.is_ours and entries != self._checkpoint.confirmed_entries:
            log.warning(
                "queues.incomplete", entries=entries, expected=self._checkpoint.confirmed_entries
            )
            complete = False
        return complete

    def _scan(self, start: int) -> int:
        """Dispatch every sound record from `start` on; the offset where they end."""
        row = self._log.files
        offset = start
        while (file := row.find(offset)) is not None:
            view = file.view()
            position = offset - file.start
            while True:
                checked = check_record(view, position, file.size, check_crc=self._check_crc)
                if checked.kind is not RecordKind.RECORD or checked.message is None:
                    break
                if checked.physical_offset != file.start + position:
                    self.result.cut_reason = f"the record at {offset} is from elsewhere"
                    return file.start + position
                self._dispatch(checked.message)
                self.result.records += 1
                position += checked.size
            if checked.kind is not RecordKind.BLANK:
                self.result.cut_reason = checked.reason
                return file.start + position
            offset = file.end
        return offset

    def _dispatch(self, record: MessageExt) -> None:
        queue = self._queues.get_or_create(record.topic, record.queue_id)
        result = PutResult(
            PutStatus.PUT_OK,
            record.queue_offset,
            record.commit_log_offset,
            record.store_size,
            record.store_timestamp_ms,
        )
        self._dispatcher.dispatch([message_of(record)], [queue], [result])

    def _cut_log(self, end: int) -> None:
        row = self._log.files
        if self.result.cut_reason:
            log.warning("log.cut", at=end, reason=self.result.cut_reason)
        if not self.result.clean or self.result.cut_reason:
            row.truncate(end)
        else:
            # Files behind the end were made ahead of time; the next roll takes them up.
            while len(row.files) > 1 and row.files[-1].start >= end:
                row.files.pop()
            last = row.files[-1]
            last.wrote = last.flushed = max(0, end - last.start)


def load_queue(queue: ConsumeQueue, confirmed: int) -> None:
    """Set a loaded queue's end behind its last entry of a record below `confirmed`.

    Entries of one queue point ever further into the log, so the end is found by bisection.
    """
    files = queue.files.files
    while files and _is_live(files[-1], 0, confirmed) is False and len(files) > 1:
        files.pop().remove()
    if not files:
        return
    last = files[-1]
    low, high = 0, last.size // ENTRY_SIZE
    while low < high:
        middle = (low + high) // 2
        if _is_live(last, middle, confirmed):
            low = middle + 1
        else:
            high = middle
    last.wrote = low * ENTRY_SIZE
    last.flushed = last.wrote
    queue.max_offset = last.start // ENTRY_SIZE + low
    if low == 0 and len(files) == 1:
        if last.start == 0:
            queue.max_offset = 0
        return
    physical, size, _ = ENTRY.unpack_from(last.view(), (low - 1) * ENTRY_SIZE) if low else (0, 0, 0)
    queue.max_physical = 0 if size == FILLER_SIZE else physical + size


def _is_live(file: MappedFile, index: int, confirmed: int) -> bool:
    physical, size, _ = ENTRY.unpack_from(file.view(), index * ENTRY_SIZE)
    return bool(size > 0 and 0 <= physical < confirmed)


def cut_queue(queue: ConsumeQueue, log_end: int) -> None:
    """Zero what lies behind a queue's end (S-64); its entries all point below `log_end`."""
    last = queue.files.last
    if last is not None and any(last.view()[last.wrote : last.wrote + PAGE]):
        last.cut(last.wrote)


def correct_min_offset(queue: ConsumeQueue, log_min: int) -> None:
    """Set the first offset whose record still exists (S-34)."""
    low = queue.files.min_offset // ENTRY_SIZE
    high = queue.max_offset
    while low < high:
        middle = (low + high) // 2
        view = queue.entries(middle, 1)
        physical, size, _ = ENTRY.unpack(view) if view is not None else (0, FILLER_SIZE, 0)
        if size == FILLER_SIZE or physical < log_min:
            low = middle + 1
        else:
            high = middle
    queue.min_offset = low


def message_of(record: MessageExt) -> StoredMessage:
    """A record as the message that it was, as far as dispatching needs it."""
    return StoredMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        body=b"",
        properties=b"",
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=b"",
        store_host=b"",
        tags_code=tags_code(record.tags),
        delay_level=record.delay_level,
        uniq_key=record.uniq_key,
        keys=record.keys,
    )

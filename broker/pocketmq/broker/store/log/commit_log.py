"""The log that holds every message of every topic (S-10 to S-16).

    commitlog/00000000000000000000
    +--------+--------+----------+-- ... --+--------+-----------------------+
    | record | record | record   |         | record | blank: rest i32, magic|
    +--------+--------+----------+-- ... --+--------+-----------------------+
    0                                                                    1 GiB

A *physical offset* counts bytes from the beginning of the first file, and a file is named by the
offset of its first byte; so any offset leads to its file by arithmetic. Records are laid out by
`pocketmq.protocol.stored.record`. A record never crosses the end of a file: when it does not fit
with 8 bytes to spare, a blank fills the rest, and the record goes to the next file (S-14):

    1,073,741,638    a record of 112 bytes; 186 bytes were left
    1,073,741,750    74 bytes are left, too few for the next record: blank 0000004a cbd43194
    1,073,741,824    the record, as the first of file 00000000001073741824

A batch of messages is one assignment to a slice of the mapped file: a write for each message would
cost a hundred times as much.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

import structlog

from pocketmq.broker.store.config import KIB, MIB, StoreConfig
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.broker.store.disk.mapped_files import MappedFiles
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue
from pocketmq.broker.store.stored_message import (
    BatchResult,
    PutResult,
    PutStatus,
    QueueBatch,
    StoredMessage,
)
from pocketmq.protocol.messages.message import Buffer
from pocketmq.protocol.messages.properties import MAX_PROPERTIES_BYTES
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import (
    FIXED_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    RECORD,
    store_time_ms,
)
from pocketmq.protocol.stored.record import (
    MAX_TOPIC_BYTES_V1,
    encode_blank,
    record_parts,
)
from pocketmq.protocol.stored.record_batch import BatchLengths, batch_lengths, batch_records
from pocketmq.runtime.errors import DiskError, DiskFullError

log = structlog.get_logger()

BLANK_SIZE = 8
"""Least length of what covers the end of a file."""

_RETRY_PREFIX = "%RETRY%"

_WINDOW_LOW = 256 * KIB
_WINDOW_HIGH = 4 * MIB

_OK = PutStatus.PUT_OK
_NO_SPACE = PutStatus.SERVICE_NOT_AVAILABLE
_NO_FILE = PutStatus.CREATE_MAPPED_FILE_FAILED
_TRANSACTION = MessageSysFlag.TRANSACTION_MASK
UNCOUNTED = (MessageSysFlag.TRANSACTION_PREPARED, MessageSysFlag.TRANSACTION_ROLLBACK)
"""Transaction types that get no place in their queue (S-13, S-22)."""

OFFSET_AT = RECORD.offset_of("PHYSICALOFFSET")
"""Where a record holds its own physical offset (S-5)."""
_OFFSET = struct.Struct(">q")
_SIZE_MAGIC_OFFSET = struct.Struct(f">ii{OFFSET_AT - 8}xq")


class CommitLog:
    """Appends records, and reads them by physical offset. The caller dispatches what is new."""

    def __init__(
        self,
        disk: Disk,
        root: str,
        file_size: int,
        *,
        config: Callable[[], StoreConfig],
        retry_topic_max: int = 255,
        synced_often: bool = False,
    ) -> None:
        self.files = MappedFiles(disk, os.path.join(root, "commitlog"), file_size, lasting=True)
        self._config = config
        """The store's options as they are now."""
        self._retry_topic_max = retry_topic_max
        self._synced_often = synced_often
        """Whether a few messages at a time are brought to the disk (SYNC_FLUSH)."""

    @property
    def min_offset(self) -> int:
        """Offset of the oldest byte."""
        return self.files.min_offset

    @property
    def max_offset(self) -> int:
        """Offset at which the next record goes."""
        return self.files.max_offset

    # behaviour 56
    def append(
        self,
        messages: Sequence[StoredMessage],
        queues: Sequence[ConsumeQueue],
        now_ms: int,
    ) -> list[PutResult]:
        """Write independent messages; the results stand in the order of the messages.

        A message that is too long is refused alone. When the disk is full, the messages that no
        longer went in get SERVICE_NOT_AVAILABLE, and their queue offsets are free again.

        Args:
            messages: what to write.
            queues: the queue of each message, which hands out its offset (S-12).
            now_ms: store timestamp of all of them.
        """
        results: list[PutResult] = []
        try:
            while len(results) < len(messages):
                self._fill_file(messages, queues, now_ms, results)
        except DiskError as exc:
            missing = len(messages) - len(results)
            # Results from earlier rounds stay: their messages are in the file before.
            results += [PutResult(_failed(exc, missing))] * missing
        return results

    def append_batch(self, batch: QueueBatch, queue: ConsumeQueue, now_ms: int) -> BatchResult:
        """Write the messages of one batch request: all in one file, or none (S-14).

        Args:
            batch: what to write; it takes a place in its queue, whatever its system flag says.
            queue: of the batch; it hands out the offsets (S-12).
            now_ms: store timestamp of all of them.
        """
        lengths = batch_lengths(batch, queue.topic_field)
        # Check the whole batch before anything is written (S-14).
        if (refusal := self._batch_refusal(lengths, queue)) is not None:
            return BatchResult(refusal)
        size = lengths.total
        # `next_offset` moves only after the write, so that a failed one uses no offsets.
        first = queue.next_offset
        try:
            file = self._writable_file()
            # It fits in no file, and a batch is never split.
            if size > file.size - BLANK_SIZE:
                return BatchResult(PutStatus.MESSAGE_ILLEGAL)
            if file.wrote + size > file.size - BLANK_SIZE:
                # Close this file even though the batch may still fail: the log then goes on in the
                # next one.
                self._end_file(file)
                file = self._writable_file()
            begin = file.start + file.wrote
            # The records contain their own places, which are known only now (S-5).
            offsets, records = batch_records(
                batch, lengths, queue.topic_field, first, begin, now_ms
            )
            self._write(file, records)
        except DiskError as exc:
            return BatchResult(_failed(exc, len(batch.bodies)))
        queue.next_offset = first + len(offsets)
        return BatchResult(_OK, first, offsets, begin + size, now_ms)

    def _batch_refusal(self, lengths: BatchLengths, queue: ConsumeQueue) -> PutStatus | None:
        if lengths.longest_body > self._config().max_message_size:
            return PutStatus.MESSAGE_ILLEGAL
        if lengths.longest_properties > MAX_PROPERTIES_BYTES:
            return PutStatus.PROPERTIES_SIZE_EXCEEDED
        return PutStatus.MESSAGE_ILLEGAL if self._is_too_long(queue) else None

    def _end_file(self, file: MappedFile) -> None:
        """Cover the rest of a file; the next record begins another."""
        # A blank sends readers to the next file (S-14).
        self._write(file, encode_blank(file.size - file.wrote))
        # Only the blank's head of 8 bytes is written; the rest of the file counts as used.
        file.wrote = file.size

    def _fill_file(
        self,
        messages: Sequence[StoredMessage],
        queues: Sequence[ConsumeQueue],
        now_ms: int,
        results: list[PutResult],
    ) -> None:
        """Write the messages behind `results` until they or the file end; then roll over."""
        file = self._writable_file()
        base = file.start
        position = file.wrote
        room = file.size - BLANK_SIZE
        parts: list[Buffer] = []
        first = len(results)
        is_full = False
        most_bytes = self._config().max_message_size
        for message, queue in zip(messages[first:], queues[first:], strict=True):
            # A quick test first; only long messages need `_refusal`.
            if (
                len(message.body) > most_bytes
                or len(message.properties) > MAX_PROPERTIES_BYTES
                or len(queue.topic_bytes) > MAX_TOPIC_BYTES_V1
            ) and (refusal := self._refusal(message, queue)) is not None:
                results.append(PutResult(refusal))
                continue
            counted = message.sys_flag & _TRANSACTION not in UNCOUNTED
            # The record holds its queue offset, so that is given before anything is written, and
            # taken back below if the disk refuses.
            queue_offset = queue.next_offset if counted else 0
            size, record = record_parts(
                message, queue.topic_field, queue_offset, base + position, now_ms
            )
            # Keep 8 bytes for a blank behind the last record (S-14).
            if position + size > room:
                if size > room:  # in no file of this size, however empty
                    results.append(PutResult(PutStatus.MESSAGE_ILLEGAL))
                    continue
                is_full = True
                break
            # Noted before the write; `_take_back` removes it if the disk refuses.
            results.append(PutResult(_OK, queue_offset, base + position, size, now_ms))
            parts += record
            position += size
            if counted:
                queue.next_offset = queue_offset + 1
        try:
            # One copy into the mapping for all of them: it costs less than one for each.
            if parts:
                self._write(file, b"".join(parts))
            # After the records: a crash in between leaves a file that can go on.
            if is_full:
                self._end_file(file)
        except DiskError:
            self._take_back(messages, queues, results, first)
            raise

    def _refusal(self, message: StoredMessage, queue: ConsumeQueue) -> PutStatus | None:
        if len(message.body) > self._config().max_message_size:
            return PutStatus.MESSAGE_ILLEGAL
        if len(message.properties) > MAX_PROPERTIES_BYTES:
            return PutStatus.PROPERTIES_SIZE_EXCEEDED
        return PutStatus.MESSAGE_ILLEGAL if self._is_too_long(queue) else None

    def _is_too_long(self, queue: ConsumeQueue) -> bool:
        """Whether a queue's topic has a longer name than records may hold (S-11)."""
        if len(queue.topic_bytes) <= MAX_TOPIC_BYTES_V1:
            return False
        # 5.x allows 255 bytes for retry topics, which contain two names (S-10).
        limit = (
            self._retry_topic_max if queue.topic.startswith(_RETRY_PREFIX) else MAX_TOPIC_BYTES_V1
        )
        return len(queue.topic_bytes) > limit

    def _take_back(
        self,
        messages: Sequence[StoredMessage],
        queues: Sequence[ConsumeQueue],
        results: list[PutResult],
        first: int,
    ) -> None:
        """Free the queue offsets of what was not written after all."""
        # Only messages of this file; earlier ones are in the log.
        for index in range(first, len(results)):
            counted = messages[index].sys_flag & _TRANSACTION not in UNCOUNTED
            if counted and results[index].status is _OK:
                queues[index].next_offset -= 1
        del results[first:]

    def _write(self, file: MappedFile, data: bytes | memoryview) -> None:
        end = file.wrote + len(data)
        # Reserve ahead, to save a system call for each put.
        if end > file.reserved:
            file.reserve(end, low=_WINDOW_LOW, high=_WINDOW_HIGH)
            # Once for each window: earlier bytes are only read from now on.
            if self._synced_often:
                self.files.disk.expect_small_writes(file.writable_view(), file.wrote)
        file.append(data)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes of another broker's log at the end; an empty log begins at `offset`.

        Blanks and padding are among them: nothing is added here (W-22).

        Raises:
            DiskError: part of it may be written; `max_offset` says how much.
        """
        at = 0
        # The bytes may cross the end of a file, and include the master's blanks (W-22).
        while at < len(data):
            last = self.files.last
            if last is None:
                last = self.files.add_file(offset)
                # The log begins in the middle of this file: earlier bytes do not exist here.
                last.wrote = last.flushed = offset - last.start
            elif last.wrote == last.size:
                last = self.files.add_file()
            chunk = data[at : at + last.size - last.wrote]
            self._write(last, chunk)
            at += len(chunk)

    def _writable_file(self) -> MappedFile:
        files = self.files.files
        if not files or files[-1].wrote == files[-1].size:
            return self.files.add_file()
        return files[-1]

    def read(self, physical_offset: int, size: int) -> memoryview | None:
        """`size` bytes of the log, not copied; None when they are not all there."""
        return self.files.read(physical_offset, size)

    def record_at(self, physical_offset: int) -> memoryview | None:
        """The record that begins at `physical_offset`; None if none plausibly does."""
        # The head gives the record's length.
        head = self.files.read(physical_offset, FIXED_SIZE)
        if head is None:
            return None
        size, magic, offset = _SIZE_MAGIC_OFFSET.unpack_from(head)
        # Offsets may come from clients (B-80, B-102), so test what is there.
        if magic not in (MAGIC_V1, MAGIC_V2) or size < FIXED_SIZE or offset != physical_offset:
            return None
        return self.files.read(physical_offset, size)

    def store_time(self, physical_offset: int) -> int:
        """Store timestamp of the record at `physical_offset`; -1 when it cannot be read."""
        record = self.record_at(physical_offset)
        return -1 if record is None else store_time_ms(record)


def _failed(error: DiskError, messages: int) -> PutStatus:
    """What messages get that could not be written."""
    log.error("append.failed", error=str(error), messages=messages)
    # A producer then tries another broker (B-111).
    return _NO_SPACE if isinstance(error, DiskFullError) else _NO_FILE

"""Reads the log record by record, tests each and dispatches it: recovery, and catching up.

A bad record can mean two things. Behind a power cut it is where the log ends: pages that were
never synced are missing, and what follows must not survive either, or there would be a hole. In
any other place the record was damaged later; it alone is lost, and reading goes on with the next
sound one. `torn_from` says from which offset on it is the former.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import structlog

from pocketmq.broker.store.config import KIB, MIB
from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.broker.store.dispatch.queue_dispatch import QueueDispatcher
from pocketmq.broker.store.dispatch.stored_batches import StoredBatch
from pocketmq.broker.store.index.index_service import KeyColumns, hashes_of
from pocketmq.broker.store.log.commit_log import UNCOUNTED, CommitLog
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue, ConsumeQueues
from pocketmq.broker.store.stored_message import PutResult, PutStatus, StoredMessage
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import is_folder_name
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import FIXED_SIZE, MAGIC_V1, MAGIC_V2, RECORD
from pocketmq.protocol.stored.record_check import Checked, RecordKind, check_record
from pocketmq.runtime.errors import DiskFullError

log = structlog.get_logger()

NEVER = 1 << 63
"""As `torn_from`: no power cut can have happened."""

# Of the record's head what the fast path looks at; `check_record` knows the whole layout.
_HEAD = RECORD.picking(
    "TOTALSIZE", "MAGICCODE", "BODYCRC", "QUEUEID", "PHYSICALOFFSET", "SYSFLAG", "body length"
)
_BODY_AT = _HEAD.size
_STEP = RECORD.picking("TOTALSIZE", "MAGICCODE", "PHYSICALOFFSET", "SYSFLAG")
_TRANSACTION = MessageSysFlag.TRANSACTION_MASK
_ROLLBACK = MessageSysFlag.TRANSACTION_ROLLBACK
_V6 = MessageSysFlag.HOSTS_V6_MASK
_MAGICS = (MAGIC_V1.to_bytes(4, "big", signed=True), MAGIC_V2.to_bytes(4, "big", signed=True))
_MAGIC_AT = _MAGIC_SIZE = 4
_BATCH = 512
_MOST_KEYS = 4096
"""Added to the index together; of what a killed broker had not indexed yet it is all."""
_NEAR = 64 * KIB
_MAX_QUEUES = 1 << 16


class LogScan:
    """One reading of a stretch of the log.

    Args:
        commit_log: what is read.
        queues: those of the records; made on demand.
        queue_dispatcher: gets the records that a queue or the index lacks.
        torn_from: from here on a bad record is the log's end.
        check_crc: test the body of each record before it is dispatched.
        check_known: test also those that need no dispatching.
        queues_from: queues have all records before it that belong to them; those go to the index
            alone. A topic that was deleted since must not come back with its old messages.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        queue_dispatcher: QueueDispatcher,
        *,
        torn_from: int = NEVER,
        check_crc: bool = True,
        check_known: bool = False,
        queues_from: int = 0,
    ) -> None:
        self.records = 0
        """Sound records read."""
        self.lost: list[tuple[int, int, str]] = []
        """(log offset, bytes, reason) of each damaged stretch that was stepped over."""
        self.end_reason = ""
        """Why reading ended, when it was not at zeros."""
        self._log = commit_log
        self._queues = queues
        self._queue_dispatcher = queue_dispatcher
        self._torn_from = torn_from
        self._check_crc = check_crc
        self._check_known = check_known
        self._queues_from = queues_from
        self._next: dict[ConsumeQueue, int] = {}
        """Queue offset behind the last record of each queue."""
        self._anew: dict[ConsumeQueue, MessageExt] = {}
        """Records with which a queue may begin anew."""
        self._leapt: dict[ConsumeQueue, MessageExt] = {}
        """Records that leave places before them empty, if it is true what they say."""
        self._known: dict[tuple[bytes, int], ConsumeQueue] = {}
        self._keys = KeyColumns([], [], [])
        """Of records that are in their queues, and maybe not in the index."""
        self._messages: list[StoredMessage] = []
        self._of_queues: list[ConsumeQueue] = []
        self._results: list[PutResult] = []

    def run(self, start: int, end: int = NEVER) -> int:
        """Read from `start`, where a record begins, up to `end`; the offset where records stop."""
        self._known = {(queue.topic_bytes, queue.queue_id): queue for queue in self._queues}
        offset = start
        while offset < end and (file := self._log.files.find(offset)) is not None:
            position = self._run_in_file(
                file, offset - file.start, min(file.size, end - file.start)
            )
            offset = file.start + position
            if position < file.size:
                break
        # These last records have none behind them that could contradict, so accept them.
        for queue, record in self._anew.items():
            self._begin_anew(queue, record)
        for queue, record in self._leapt.items():
            self._add(queue, record)
        self._dispatch(offset)
        self._finish_index()
        return offset

    def _run_in_file(self, file: MappedFile, position: int, limit: int) -> int:
        """Read in one file; its size if reading goes on in the next, else where records stop."""
        view = file.view()
        while position < limit:
            # The fast path stops at records that are new, unusual or damaged; the code below
            # handles them.
            position = self._skip_known(view, file.start, position, limit)
            if position >= limit:
                break
            checked = check_record(view, position, limit, check_crc=self._check_crc)
            if checked.kind is RecordKind.BLANK:
                # A blank covers the rest of the file (S-14).
                return file.size
            if checked.message is not None:
                problem = implausible(checked.message, file.start + position)
                if not problem:
                    self._gather(checked.message)
                    position += checked.size
                    continue
                # Treat an implausible head like a damaged body.
                checked = Checked(RecordKind.CORRUPT, reason=problem)
            following = self._after_damage(file, position, checked.reason)
            if following is None:
                self.end_reason = checked.reason
                return position
            position = following
        return position

    def _skip_known(self, view: memoryview, base: int, position: int, limit: int) -> int:
        """Step over sound records that are in queue and index already; the first other position.

        After a kill that is nearly all of them, so this loop is what a restart waits for: about
        1 us a record of 1 KiB, 0.4 of it CRC.
        """
        index = self._queue_dispatcher.index
        # Without an index, no entry can be missing from it.
        indexed_to = NEVER if index is None else index.end_physical
        unpack, known, check_crc = _HEAD.unpack_from, self._known, self._check_known
        last = limit - _BODY_AT - 3
        while position <= last:
            size, magic, crc, queue_id, physical, flags, body_size = unpack(view, position)
            body_at = position + _BODY_AT
            topic_at = body_at + body_size + 1
            end = position + size
            if (
                # Unusual layouts (V2, IPv6), lengths that do not fit, and wrong places go the slow
                # way.
                magic != MAGIC_V1
                or flags & _V6
                or physical != base + position
                or physical >= indexed_to  # of the last one, a full file may lack some keys
                or body_size < 0
                or end > limit
                or topic_at + 2 > end
            ):
                return position
            # A V1 record has one byte for the topic's length; two bytes after the topic hold the
            # properties' length.
            topic_end = topic_at + view[topic_at - 1]
            if topic_end + 2 > end:
                return position
            # Compare the topic as bytes, to avoid decoding it.
            queue = known.get((bytes(view[topic_at:topic_end]), queue_id))
            if (
                queue is None
                or physical + size > queue.max_physical  # S-32
                or view[topic_end] << 8 | view[topic_end + 1] != end - topic_end - 2
            ):
                return position
            # A kill leaves the page cache complete, so CRCs can wait until messages are read.
            if check_crc and crc32(view[body_at : topic_at - 1]) & 0x7FFFFFFF != crc:
                return position
            self.records += 1
            position = end
        return position

    def _gather(self, record: MessageExt) -> None:
        """Have a record dispatched, together with its neighbours."""
        self.records += 1
        # Queues are complete below this offset, so a record that they lack is of a deleted topic.
        if record.commit_log_offset < self._queues_from:
            self._index_alone(record)
            return
        queue = self._queues.get_or_create(record.topic, record.queue_id)
        self._known[queue.topic_bytes, queue.queue_id] = queue
        # Prepared and rolled back records have no queue offset (S-13).
        if record.sys_flag & _TRANSACTION in UNCOUNTED or self._follows(queue, record):
            self._add(queue, record)

    def _follows(self, queue: ConsumeQueue, record: MessageExt) -> bool:
        """Whether a record is the next of its queue, as far as can be told now.

        A queue whose topic was deleted and made again begins a second time with offset 0, and
        where records were lost the next one leaps over their places. A flipped bit may look like
        either, so the record after it has to agree.
        """
        if record.commit_log_offset + record.store_size <= queue.max_physical:
            self._index_alone(record)  # its entry is there (S-32), or its topic was deleted
            return False
        offset = record.queue_offset
        # Later offsets that go on behind a leap confirm it.
        leapt = self._leapt.pop(queue, None)
        if leapt is not None:
            if offset > leapt.queue_offset:
                self._add(queue, leapt)
                self._next[queue] = leapt.queue_offset + 1
            else:
                # Offsets go on below the leap, so the leaping record's own offset is wrong.
                _misplaced(queue, leapt)
        first = self._anew.pop(queue, None)
        # Go on behind the last record read here, or else behind the queue's last entry.
        following = self._next.get(queue, queue.max_offset)
        if offset > following:
            self._index_alone(record)
            # Hold a single leaping record back: a flipped bit is likelier than a lost stretch.
            # `run` accepts it if the queue has no later record.
            self._leapt[queue] = record
            return False
        if offset < following:
            # 0 followed by 1: the topic was deleted and made again.
            if first is not None and offset == 1:
                self._begin_anew(queue, first)
            elif offset == 0:
                # This may be a topic made again; the queue's next record decides.
                self._index_alone(record)
                self._anew[queue] = record
                return False
            else:
                # This offset is already in use.
                self._index_alone(record)
                _misplaced(queue, record)
                return False
        self._next[queue] = offset + 1
        return True

    def _begin_anew(self, queue: ConsumeQueue, record: MessageExt) -> None:
        """Forget the entries of a topic that was deleted before `record` came."""
        # Waiting records belong to the earlier queue: enter them before it is cleared.
        self._dispatch(record.commit_log_offset)
        log.warning("queue.begun_anew", topic=queue.topic, queue_id=queue.queue_id)
        queue.restart()
        self._next[queue] = 1
        self._add(queue, record)

    def _index_alone(self, record: MessageExt) -> None:
        if self._results:
            self._dispatch(record.commit_log_offset)  # the index is written in the log's order
        if record.sys_flag & _TRANSACTION != _ROLLBACK:
            index = self._queue_dispatcher.index
            # Reading the tag takes time, and only releases from 5.4 on index it.
            tag = record.tags if index is not None and index.tags else None
            hashes = hashes_of(record.topic, record.uniq_key, record.keys, tag)
            self._keys.add(hashes, record.commit_log_offset, record.store_timestamp_ms)
            if len(self._keys.hashes) >= _MOST_KEYS:
                self._add_keys()

    def _add_keys(self) -> None:
        """Have those indexed that need nothing else."""
        index = self._queue_dispatcher.index
        if index is not None and self._keys.hashes:
            # 0 bytes, because `_MOST_KEYS` already limits these columns.
            index.add(self._keys, len(self._keys.hashes), 0)
        self._keys = KeyColumns([], [], [])

    def _finish_index(self) -> None:
        """Write the index; without room for it the store serves all the same, and tries again."""
        index = self._queue_dispatcher.index
        if index is not None:
            try:
                index.flush()
            except DiskFullError as exc:
                log.warning("index.write_failed", error=str(exc), effect="it is tried again")

    def _add(self, queue: ConsumeQueue, record: MessageExt) -> None:
        self._messages.append(message_of(record))
        self._of_queues.append(queue)
        self._results.append(
            PutResult(
                PutStatus.PUT_OK,
                record.queue_offset,
                record.commit_log_offset,
                record.store_size,
                record.store_timestamp_ms,
            )
        )
        # Batches save appends to queues, and limit memory.
        if len(self._results) >= _BATCH:
            self._dispatch(record.commit_log_offset + record.store_size)

    def _dispatch(self, end: int) -> None:
        # Waiting keys first: they come before these records in the log.
        self._add_keys()
        self._queue_dispatcher.dispatch(
            StoredBatch(end, self._messages, self._of_queues, self._results)
        )
        self._messages, self._of_queues, self._results = [], [], []

    def _after_damage(self, file: MappedFile, position: int, reason: str) -> int | None:
        """Where reading goes on behind a bad record; None when the log ends before it."""
        # After a power cut, records behind a bad one must not survive: offsets could be given
        # twice.
        if file.start + position >= self._torn_from:
            return None
        following = next(sound_positions(file, position + 1), None)
        if following is None:
            # Nothing sound in the rest of this file; it is damage only if the next one goes on.
            after = self._log.files.find(file.end)
            # Nothing sound follows here or in the next file: the log ends here.
            if after is None or not is_sound(after, 0):
                return None
            following = file.size
        self.lost.append((file.start + position, following - position, reason or "zeros"))
        log.error(
            "record.lost", at=file.start + position, bytes=following - position, reason=reason
        )
        return following


def _misplaced(queue: ConsumeQueue, record: MessageExt) -> None:
    log.error(
        "record.misplaced",
        at=record.commit_log_offset,
        topic=queue.topic,
        queue_id=queue.queue_id,
        offset=record.queue_offset,
    )


def implausible(message: MessageExt, offset: int) -> str:
    """What is impossible about a record at `offset` of the log, though its CRC is right; or "".

    The CRC covers the body alone. A flipped bit elsewhere must not make recovery write a million
    fillers, or a file outside the store.
    """
    if message.commit_log_offset != offset:
        return f"it says that it stands at {message.commit_log_offset}"
    if not 0 <= message.queue_id < _MAX_QUEUES:
        return f"queue id {message.queue_id}"
    # Each message before it in its queue took at least the smallest record's place in the log.
    if not 0 <= message.queue_offset <= offset // FIXED_SIZE:
        return f"queue offset {message.queue_offset}, so early in the log"
    if not is_folder_name(message.topic):
        return f"topic {message.topic!r}"
    return ""


def walk(commit_log: CommitLog, start: int) -> tuple[int, int]:
    """Step from record to record by their lengths alone, 0.4 us each.

    Returns:
        The offset of the first thing that is no record of its place, or reaches over its file's
        end; and how many of those before have a place in a queue (S-22).
    """
    unpack = _STEP.unpack_from
    counted, offset = 0, start
    while (file := commit_log.files.find(offset)) is not None:
        view, base = file.view(), file.start
        last = file.size - _STEP.size
        while offset - base <= last:
            # The caller examines rarer V2 records one by one.
            size, magic, physical, flags = unpack(view, offset - base)
            if magic != MAGIC_V1 or physical != offset or size <= 0:
                break
            counted += flags & _TRANSACTION not in UNCOUNTED
            offset += size
        # A size that leads beyond the file was not a record's.
        if offset > file.end or check_record(view, offset - base).kind is not RecordKind.BLANK:
            return min(offset, file.end), counted
        offset = file.end
    return offset, counted


def sound_records(commit_log: CommitLog, start: int, end: int) -> Iterator[MessageExt]:
    """Every whole record that begins in [start, end), stepping over what is damaged."""
    offset = start
    while offset < end and (file := commit_log.files.find(offset)) is not None:
        position = offset - file.start
        while position < file.size and file.start + position < end:
            checked = check_record(file.view(), position, file.size)
            # A record left over from before a cut may name another offset.
            if checked.message is not None and checked.physical_offset == file.start + position:
                yield checked.message
                position += checked.size
            elif checked.kind is RecordKind.BLANK:
                break
            else:
                # Lengths behind a damaged record are unreliable, so search for the next magic.
                position = next(sound_positions(file, position + 1), file.size)
        offset = file.end


def sound_positions(file: MappedFile, position: int) -> Iterator[int]:
    """Positions from `position` on at which a whole record stands in its right place."""
    view = file.view()
    at = file.disk.next_data(file.path, position)
    step = _NEAR  # the first one is mostly not far, and often the only one that is wanted
    # Skip holes, which would be allocated by reading them.
    while at is not None:
        end = min(file.size, at + step)
        step = MIB
        # A magic may lie across the border of two chunks: look a little back, not ahead, as
        # reading ahead into a hole would fill it.
        first = max(position, at - _MAGIC_SIZE + 1)
        chunk = bytes(view[first:end])
        found = {first + n - _MAGIC_AT for magic in _MAGICS for n in _occurrences(chunk, magic)}
        yield from (start for start in sorted(found) if start >= position and is_sound(file, start))
        at = file.disk.next_data(file.path, end) if end < file.size else None


def is_sound(file: MappedFile, position: int) -> bool:
    """Whether a whole record stands at `position` and holds that position."""
    message = check_record(file.view(), position, file.size).message
    return message is not None and not implausible(message, file.start + position)


def _occurrences(data: bytes, wanted: bytes) -> Iterator[int]:
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + 1)


def message_of(record: MessageExt) -> StoredMessage:
    """A record as a message, as far as dispatching needs it: of its properties the tag."""
    tag = record.tags
    # Dispatching needs no body, and recovery may read gigabytes of them.
    return StoredMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        body=b"",
        properties=f"{names.TAGS}\x01{tag}\x02".encode() if tag else b"",
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=b"",
        store_host=b"",
        tags_code=tags_code(tag),
        delay_level=record.delay_level,
        uniq_key=record.uniq_key,
        keys=record.keys,
    )

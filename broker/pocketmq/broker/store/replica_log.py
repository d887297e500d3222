"""A log that another broker writes: appending its bytes, dispatching them, cutting them back.

A slave's log is a copy of its master's, byte for byte. The bytes come in pieces of any length: a
piece may end inside a record, which is dispatched when the rest is there.

    append     0..100..230      the record at 100 has 200 bytes: dispatched up to 100
    append     230..300         dispatched up to 300
    truncate   100              log, queues and index end at 100, also after a crash (W-4)

All of it runs on the event loop. Dispatching is done in portions, one per turn of the loop, so that
a slave that catches up still answers; `append` does not wait for it (H-24). While a long log comes
the portions are small: a slave has it sooner, and dispatches the last 256 MiB afterwards.

A store begins as one that leads. `follow` and `lead` change that; `MessageStore.confirm` sets how
far consumers see.
"""

from __future__ import annotations

import asyncio
import struct

import structlog

from pocketmq.broker.store.config import MIB
from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.broker.store.dispatch.log_scan import implausible, message_of
from pocketmq.broker.store.dispatch.stored_batches import StoredBatch
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.flush.flush_log import LogFlusher
from pocketmq.broker.store.flush.flush_service import FlushService
from pocketmq.broker.store.flush.retried_dispatch import Visibility
from pocketmq.broker.store.flush.store_files import StoreFiles
from pocketmq.broker.store.log.commit_log import UNCOUNTED
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue
from pocketmq.broker.store.readiness import Readiness
from pocketmq.broker.store.recovery.queue_recovery import (
    correct_min_offset,
    cut_at,
    zero_behind_end,
)
from pocketmq.broker.store.stored_message import PutResult, PutStatus, StoredMessage
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import BLANK, MAGIC_BLANK, RECORD
from pocketmq.protocol.stored.record_check import Checked, RecordKind, check_record
from pocketmq.runtime.errors import DiskError, PocketMQError

log = structlog.get_logger()

FOLLOWING = "the broker is a slave"
"""Among the reasons why the store takes no message."""

_TRANSACTION = MessageSysFlag.TRANSACTION_MASK
_RECORDS_PER_TURN = 512
_RECORDS_WHILE_CATCHING_UP = 32
_NEAR_BYTES = MIB // 8
_HEAD_BYTES = 8  # fewer of a record may all be zeros
_FAR_BYTES = 256 * MIB
_OFFSET_AT = RECORD.offset_of("PHYSICALOFFSET")
_OFFSET = struct.Struct(">q")


class NotFollowingError(PocketMQError):
    """Bytes of a master, and this broker writes the log itself."""

    def __init__(self) -> None:
        super().__init__("this broker follows no master")


class ReplicaGapError(PocketMQError):
    """Bytes that do not continue the log: appending them would leave a hole or overwrite."""

    def __init__(self, offset: int, end: int) -> None:
        self.offset = offset
        self.end = end
        super().__init__(f"bytes for offset {offset}, but the log ends at {end}")


class ReplicaLog:
    """The parts of a store that replication needs; `MessageStore.replica`.

    Args:
        files: the log is appended and cut, the others follow it.
        flusher: says how far the log is on the disk.
        flush: wakes the periodic passes.
        visibility: how far may be dispatched.
        readiness: why no message of producers is taken.
    """

    def __init__(
        self,
        files: StoreFiles,
        flusher: LogFlusher,
        flush: FlushService,
        visibility: Visibility,
        readiness: Readiness,
    ) -> None:
        self._log = files.commit_log
        self._queues = files.consume_queues
        self._dispatcher = files.queue_dispatcher
        self._flusher = flusher
        self._flush = flush
        self._checkpoint = files.checkpoint
        """It must not promise more than is left after a cut."""
        self._visibility = visibility
        self._readiness = readiness
        self._cut_to = -1
        """Where the log is cut, as long as a part of the cut has not been done."""
        self._scheduled = False
        self._grew = False
        """Whether bytes came since the last turn."""
        self._ended: asyncio.Future[None] | None = None
        """Resolved when no turn follows."""
        self._broken_at = -1
        """Where bytes stand that are no record; told once."""

    @property
    def is_following(self) -> bool:
        """Whether another broker writes this log."""
        return FOLLOWING in self._readiness.reasons

    @property
    def undispatched_bytes(self) -> int:
        """Bytes of the log that no consumer can see yet; also those of half a record."""
        return self._log.max_offset - self._dispatcher.offset

    def append(self, offset: int, data: bytes | memoryview) -> None:
        """Write the master's bytes; an empty log begins where they belong (H-26).

        Raises:
            NotFollowingError: this broker leads; nothing was written.
            ReplicaGapError: the log does not end at `offset`; nothing was written.
            DiskError: no space, or no file could be made; what was written before stays. Or a cut
                that had failed fails again; nothing was written.
        """
        if not data:
            return
        # One more frame may arrive after the roles have changed.
        if not self.is_following:
            raise NotFollowingError
        # Complete a failed cut before new bytes follow it.
        self._end_cut()
        end = self._log.max_offset
        # A gap would mix two logs (F-2), so the slave asks again from its end.
        if self._log.files.files and offset != end:
            raise ReplicaGapError(offset, end)
        self._log.append_raw(offset, data)
        self._grew = True
        # Time of the last record dispatched, by the master's clock.
        self._flush.appended(self._flush.stored_ms)
        if self._visibility.sync_flush:
            self._flusher.flush()
        # In a later turn, because the master is waiting for the acknowledgement.
        self.dispatch_soon()

    # -- roles ------------------------------------------------------------------------------------

    def follow(self) -> None:
        """From now on a master writes the log: puts are refused (H-3)."""
        self._readiness.block(FOLLOWING)
        self._visibility.hidden.clear()  # they are in the log, and are dispatched from there
        self.dispatch_soon()

    async def lead(self, *, is_confirmed: bool = True) -> None:
        """From now on this broker writes the log, and puts are taken.

        What the old master sent counts as confirmed and is dispatched first (D-13); half a record
        at the end is cut (H-140). Call `MessageStore.confirm` next if consumers must wait for
        replicas.

        Args:
            is_confirmed: False for a master that comes back while others are in sync: what lies
                behind the confirmed offset stays hidden until they have it, and its queue offsets
                are taken (H-146, H-147).

        Raises:
            DiskError: queues, index or the cut could not be written; it still follows.
        """
        await self._flushed()
        # Complete an unfinished cut before this broker's own messages follow.
        self._end_cut()
        visibility = self._visibility
        # What the old master sent counts as confirmed (D-13).
        if is_confirmed:
            visibility.confirmed = None
        visibility.hidden.clear()
        await self._turns_ended()
        self.dispatch_all()
        # New messages follow what consumers can see of each queue.
        for queue in self._queues:
            queue.next_offset = queue.max_offset
        whole = max(self._dispatcher.offset, self._log.min_offset)
        unconfirmed: list[StoredBatch] = []
        while (batch := self._read(whole, self._log.max_offset, 1)) is not None:
            unconfirmed.append(batch)
            whole = batch.end
        # Nobody will complete half a record of the old master, so cut it (H-140).
        if whole < self._log.max_offset:
            await self._cut(whole)
        for batch in unconfirmed:
            # Hidden until replicas have it, but its queue offsets are in use (H-147).
            visibility.hidden.append(batch)
            for queue, result in zip(batch.queues, batch.results, strict=True):
                queue.next_offset = max(queue.next_offset, result.queue_offset + 1)
        self._readiness.unblock(FOLLOWING)

    def hide_unconfirmed(self) -> None:
        """After a start: consumers see no more than what was confirmed before it (H-146).

        The log stays as it is; its rest is dispatched as it is confirmed. Call it after recovery,
        before anything is answered.
        """
        offset = max(self._checkpoint.confirm_phy_offset, self._log.min_offset)
        offset = min(offset, self._log.max_offset)
        self._visibility.confirmed = offset
        if self._dispatcher.offset <= offset:
            return
        self._cut_derived(offset)
        whole = max((queue.max_physical for queue in self._queues), default=0)
        # Go on dispatching where the queues were cut.
        self._dispatcher.offset = max(whole, self._log.min_offset)
        self._flush.cut(self._dispatcher.offset)

    # -- dispatching ------------------------------------------------------------------------------

    def dispatch_soon(self) -> None:
        """Dispatch what may be visible, from the loop's next turn on."""
        if not self._scheduled and self._dispatcher.offset < self._visibility.limit:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def dispatch_all(self) -> None:
        """Dispatch every whole record that may be visible, now.

        Raises:
            DiskError: queues or index could not be written.
        """
        while self._dispatch_some():
            pass

    # -- cutting ----------------------------------------------------------------------------------

    async def truncate(self, offset: int) -> int:
        """Cut log, queues and index at `offset`; nobody may append meanwhile (H-112, H-141).

        What is behind the cut becomes zeros and is synced, so that no crash brings it back (W-4).

        Args:
            offset: where a record begins, or the log's end.

        Returns:
            Bytes that were cut.

        Raises:
            StoreFileError: no record begins there: another log would be made of it.
            DiskError: the cut did not reach the disk. Before anything else is done with the log it
                is made once more: by the next call, or `append`, or `lead`.
        """
        self._end_cut()
        if offset >= self._log.max_offset:
            return 0
        # Inside a record, the two logs must differ before this offset (H-136).
        self._check_boundary(offset)
        return await self._cut(offset)

    async def _cut(self, offset: int) -> int:
        end = self._log.max_offset
        await self._flushed()
        # Set it first, so that the next call can complete a cut that fails.
        self._cut_to = offset
        self._end_cut()
        log.warning("replica.truncated", offset=offset, bytes=end - offset)
        return end - offset

    def _end_cut(self) -> None:
        """Do all that a cut consists of; again from the beginning where a part of it has failed."""
        offset = self._cut_to
        if offset < 0:
            return
        row = self._log.files
        # The log first: after a crash, recovery cuts the queues to the log; if it were still long,
        # they would be filled again.
        row.truncate(offset)
        self._cut_derived(offset)
        self._dispatcher.offset = min(self._dispatcher.offset, offset)
        # Earlier flushes prove nothing about bytes written after the cut.
        self._flusher.cut(offset)
        checkpoint = self._checkpoint
        # Otherwise, a restart would count records as confirmed that are gone (H-146).
        checkpoint.confirm_phy_offset = min(checkpoint.confirm_phy_offset, offset)
        self._flush.cut(offset)
        visibility = self._visibility
        visibility.hidden.clear()
        if visibility.confirmed is not None:
            visibility.confirmed = min(visibility.confirmed, offset)
        last = row.last
        if last is not None:
            # Sync before the cut counts as done, so that a power cut cannot bring the bytes back
            # (W-4).
            last.handle().sync()
        self._cut_to = -1

    def _cut_derived(self, offset: int) -> None:
        for queue in self._queues:
            cut_at(queue, offset)
            zero_behind_end(queue)
            queue.next_offset = queue.max_offset
            if queue.min_offset > queue.max_offset:
                correct_min_offset(queue, self._log.min_offset)
            # else it stays: it may be set behind files that a round of cleaning is to delete
        index = self._dispatcher.index
        if index is not None:
            index.truncate(offset)

    def _check_boundary(self, offset: int) -> None:
        file = self._log.files.find(offset)
        if file is None or offset < self._log.min_offset:
            # The two logs agree only before this log's beginning, so nothing can be kept.
            raise StoreFileError(
                self._log.files.directory,
                f"offset {offset} is outside the log, so the log cannot be cut there",
                advice="empty this replica's store, and start the replica again",
            )
        position = offset - file.start
        found = check_record(file.view(), position, file.wrote)
        sound = (
            found.kind in (RecordKind.END, RecordKind.BLANK)
            or (found.message is not None and found.physical_offset == offset)
            or _comes_in_part(file, position, file.wrote, found)
        )
        if not sound:
            raise StoreFileError(
                file.path,
                f"the log cannot be cut at offset {offset}, because no record begins there: "
                f"{found.reason or found.kind.name}",
                position=position,
                advice="empty this replica's store, and start the replica again",
            )

    async def _flushed(self) -> None:
        """No pass runs and the log is on the disk; a pass must not sync a file that is cut."""
        done: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()

        def resolve(status: PutStatus) -> None:
            if not done.done():
                done.set_result(status)

        self._flusher.wait(self._log.max_offset, resolve)
        if await done is not PutStatus.PUT_OK:
            raise DiskError(
                self._log.files.directory,
                "the log could not be flushed, which must come before a cut or before this broker "
                "leads",
            )

    def _turn(self) -> None:
        self._scheduled = False
        try:
            if self._dispatch_some(self._portion()):
                self.dispatch_soon()
        except DiskError as exc:
            log.error("replica.dispatch_failed", error=str(exc), offset=self._dispatcher.offset)
            # Nothing is lost: the next append or tick tries again.
        except Exception as exc:
            # Nobody awaits this turn: raise it, because a listener's error is a fault of the
            # broker.
            if self._ended is None or self._ended.done():
                raise
            self._ended.set_exception(exc)  # who waits tells it
        if self._ended is not None and not self._scheduled and not self._ended.done():
            self._ended.set_result(None)

    async def _turns_ended(self) -> None:
        """Dispatch what may be visible, portion by portion, or as far as the disk lets.

        What else goes wrong, as in a listener, is raised here.
        """
        self.dispatch_soon()
        if self._scheduled:
            self._ended = asyncio.get_running_loop().create_future()
            await self._ended

    def _portion(self) -> int:
        """How many records to dispatch in this turn."""
        grew, self._grew = self._grew, False
        # While catching up, dispatch less at a time: the master waits for this slave's reports.
        if grew and _NEAR_BYTES < self.undispatched_bytes < _FAR_BYTES:
            return _RECORDS_WHILE_CATCHING_UP
        return _RECORDS_PER_TURN

    def _dispatch_some(self, most: int = _RECORDS_PER_TURN) -> bool:
        """One portion; whether another may follow."""
        # An empty slave begins in the middle (H-26).
        start = max(self._dispatcher.offset, self._log.min_offset)
        batch = self._read(start, self._visibility.limit, most)
        # No progress: the rest of a record has not arrived.
        if batch is None or batch.end == self._dispatcher.offset:
            return False
        self._dispatcher.dispatch(batch)
        if batch.results:
            self._flush.stored_ms = batch.results[-1].store_timestamp_ms
        self._flush.dispatched()
        return True

    def _read(self, start: int, end: int, most: int) -> StoredBatch | None:
        """The next whole records of a file, or its blank end; None when there are none."""
        file = self._log.files.find(start)
        if file is None or start >= end:
            return None
        view = file.view()
        messages: list[StoredMessage] = []
        of_queues: list[ConsumeQueue] = []
        results: list[PutResult] = []
        following: dict[ConsumeQueue, int] = {}
        position, last = start - file.start, min(file.wrote, end - file.start)
        is_blank = False
        while position < last and len(messages) < most:
            checked = check_record(view, position, last, check_crc=False)
            record = checked.message
            if checked.kind is RecordKind.BLANK:
                # A blank counts only when it has arrived completely.
                is_blank = file.wrote == file.size
                break
            problem = checked.reason
            if record is not None:
                problem = implausible(record, file.start + position)
            if record is None or problem:
                is_torn = checked.kind is RecordKind.TORN
                is_torn = is_torn or _comes_in_part(file, position, last, checked)
                # A shorter rest is not judged: it may be the beginning of a record.
                if not is_torn and last - position >= _HEAD_BYTES:
                    self._tell_broken(file.start + position, problem or "zeros")
                break
            queue = self._queues.get_or_create(record.topic, record.queue_id)
            if self._begins_anew(queue, record, following):
                if messages:
                    break  # their entries must be written first
                log.info("queue.begun_anew", topic=queue.topic, queue_id=queue.queue_id)
                queue.restart()
            if record.sys_flag & _TRANSACTION not in UNCOUNTED:
                # Counted here, because the queue has these messages only after the dispatch.
                following[queue] = record.queue_offset + 1
            messages.append(message_of(record))
            of_queues.append(queue)
            results.append(_result_of(record))
            position += checked.size
        end = file.end if is_blank else file.start + position
        return StoredBatch(end, messages, of_queues, results) if end > start else None

    @staticmethod
    def _begins_anew(
        queue: ConsumeQueue, record: MessageExt, following: dict[ConsumeQueue, int]
    ) -> bool:
        """Whether the master's topic was deleted and made again: its queue begins with 0 again."""
        return (
            record.queue_offset == 0
            and following.get(queue, queue.max_offset) > 0
            and record.commit_log_offset >= queue.max_physical
            and record.sys_flag & _TRANSACTION not in UNCOUNTED
        )

    def _tell_broken(self, offset: int, reason: str) -> None:
        if self._broken_at != offset:
            self._broken_at = offset
            log.error("replica.no_record", offset=offset, reason=reason)


def _comes_in_part(file: MappedFile, position: int, last: int, found: Checked) -> bool:
    """Whether a record or a blank begins here whose rest, behind `last`, is still to come."""
    if found.kind is RecordKind.TORN:
        if last - position < _OFFSET_AT + _OFFSET.size:
            return True  # of its own offset nothing can be said yet
        (offset,) = _OFFSET.unpack_from(file.view(), position + _OFFSET_AT)
        return bool(offset == file.start + position)
    if last - position < _HEAD_BYTES:
        return False
    size, magic = BLANK.struct.unpack_from(file.view(), position)
    return bool(magic == MAGIC_BLANK and position + size == file.size > last)


def _result_of(record: MessageExt) -> PutResult:
    return PutResult(
        PutStatus.PUT_OK,
        record.queue_offset,
        record.commit_log_offset,
        record.store_size,
        record.store_timestamp_ms,
    )

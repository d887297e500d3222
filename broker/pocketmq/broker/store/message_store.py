"""The store: puts messages, gets them, survives a crash. Start reading here.

RocketMQ writes the messages of all topics into one log, one after the other: sequential writes are
what disks do best, however many topics there are. Reading one queue from that log would be slow, so
each queue has a *consume queue*, an array of 20-byte entries that say where its messages are:

    put_messages --> CommitLog.append           one log for all topics
                        |
                 QueueDispatcher.dispatch       at once, or once flushed (SYNC_FLUSH)
                   |          |         |
           ConsumeQueue   IndexService  listener     positions, keys, waiting consumers
                   |
    reads.get_message --> get_messages --> views of the log        (queue_reads.py)

Three messages of 112 bytes each, two of them for queue 1 of topic T:

    commit log       byte 0: U/0       byte 112: T/1      byte 224: T/1      maximum offset 336
    consume queues   U/0  entry 0 -> byte 0
                     T/1  entry 0 -> byte 112,  entry 1 -> byte 224          maximum offset 2

A consumer of T/1 that is at offset 1 asks for entry 1, which leads to byte 224. The commit log is
the truth: consume queues and index can be made again from it, and after a crash they are.

Call `load()` first: it makes a store out of files (opening.py, recovery.py). `start()` begins
flushing (flush.py) and cleaning (cleaning.py). `close()` ends both, and leaves the files so that
the next `load()` is quick. Between them `put_messages` and `reads.get_message` do the work.

Everything runs on the event loop's thread; only system calls that wait for the disk are handed to
a worker of the `Disk`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec
import structlog

from pocketmq.broker.store.cleaning import Cleaner, cleaning_service
from pocketmq.broker.store.config import FlushDiskType, StoreConfig
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.dispatch.after_put import AfterPut
from pocketmq.broker.store.dispatch.queue_dispatch import ArrivalListener, QueueDispatcher
from pocketmq.broker.store.dispatch.store_events import NO_STORE_EVENTS, StoreEvents
from pocketmq.broker.store.dispatch.stored_batches import PlacedBatch, StoredBatch
from pocketmq.broker.store.errors import IllegalPathError
from pocketmq.broker.store.flush.checkpoint import StoreCheckpoint
from pocketmq.broker.store.flush.flush_log import FlushCallback, LogFlusher
from pocketmq.broker.store.flush.flush_queues import IndexFlusher, QueueFlusher
from pocketmq.broker.store.flush.flush_service import SYNC_FAILED, Flushers, FlushService
from pocketmq.broker.store.flush.retried_dispatch import RetriedDispatch, Visibility
from pocketmq.broker.store.flush.store_files import StoreFiles
from pocketmq.broker.store.index.index_service import IndexService
from pocketmq.broker.store.log.commit_log import CommitLog
from pocketmq.broker.store.queues.consume_queue import ConsumeQueues
from pocketmq.broker.store.readiness import Readiness
from pocketmq.broker.store.reads.mend import Mender
from pocketmq.broker.store.reads.query import MessageQuery, QueryResult, query_messages
from pocketmq.broker.store.reads.queue_reads import LimitsNow, QueueReads
from pocketmq.broker.store.recovery.opening import StoreOpening
from pocketmq.broker.store.recovery.recovery import Recovery
from pocketmq.broker.store.replica_log import ReplicaLog
from pocketmq.broker.store.stored_message import (
    BatchResult,
    PutResult,
    PutStatus,
    QueueBatch,
    StoredMessage,
)
from pocketmq.protocol.messages.validation import is_folder_name
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.profile.broker import BrokerProfile
from pocketmq.runtime.signals import Signal

log = structlog.get_logger()

SHUT_DOWN = "the store is shut down"

_REFUSED = PutResult(PutStatus.SERVICE_NOT_AVAILABLE)
_ILLEGAL = PutResult(PutStatus.MESSAGE_ILLEGAL)


class MessageStore:
    """One broker's messages, as files that RocketMQ can read too.

    Args:
        config: where and how to keep them.
        disk: the file system, or a test's stand-in.
        clock: store timestamps and the flush and cleaning periods.
        profile: in what RocketMQ 4.9 and 5.x differ.
        on_arrival: told of messages that became readable, once per queue and batch.
        now: the options as they are now; by default `config` for ever.
        events: tells what happens to messages.
    """

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        clock: Clock,
        profile: BrokerProfile,
        *,
        on_arrival: ArrivalListener | None = None,
        now: Callable[[], StoreConfig] | None = None,
        events: StoreEvents = NO_STORE_EVENTS,
    ) -> None:
        # Absolute, because the process may change its directory.
        root = os.path.abspath(os.path.expanduser(config.store_path_root_dir))
        self.root = root
        """Directory of the store."""
        self._now = now or (lambda: config)
        # Under SYNC_FLUSH, the log is written and synced in small pieces.
        self._sync = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self.commit_log = commit_log = CommitLog(
            disk,
            root,
            config.mapped_file_size_commit_log,
            config=self._now,
            retry_topic_max=profile.stored_retry_topic_max_bytes,
            synced_often=self._sync,
        )
        self.consume_queues = consume_queues = ConsumeQueues(
            disk, root, config.queue_file_bytes, config.max_open_queue_files
        )
        self.checkpoint = StoreCheckpoint(disk, root)
        index_flusher = IndexFlusher(disk, self.checkpoint)
        self.index = (
            IndexService(
                disk,
                root,
                config.max_hash_slot_num,
                config.max_index_num,
                index_flusher.flush,
                tags=profile.tags_are_indexed,
            )
            if config.message_index_enable
            else None
        )
        self.queue_dispatcher = QueueDispatcher(
            config.delay_levels_ms(), self.index, on_arrival, events
        )
        self.grew: Signal[[]] = Signal()
        """The log has more bytes, or more of it is flushed: emitted once per append and flush."""
        self.about_to_put: Signal[[]] = Signal()
        """Emitted before each put is judged: a reason against it may be given to `readiness`."""
        self.readiness = Readiness()
        """Why no message is taken just now, if any reason is there (B-167)."""
        self._clock = clock
        self._profile = profile
        self.reads = QueueReads(
            commit_log,
            consume_queues,
            Mender(commit_log, self.queue_dispatcher),
            LimitsNow(self._now, disk.memory_bytes()),
            profile,
        )
        """What can be asked of its queues; whoever only reads is given this."""
        self._log_flusher = LogFlusher(
            self.commit_log,
            clock,
            config.sync_flush_timeout_ms,
            self._flushed,
            self._flush_failed,
            events,
        )
        self._events = events
        self._visibility = Visibility(self.commit_log, self._log_flusher, sync_flush=self._sync)
        files = StoreFiles(
            disk, root, commit_log, consume_queues, self.queue_dispatcher, self.checkpoint
        )
        least_pages = config.flush_consume_queue_least_pages
        queue_flusher = QueueFlusher(files, self._log_flusher, least_pages)
        self._flush = FlushService(
            files,
            self._now,
            clock,
            Flushers(self._log_flusher, queue_flusher, index_flusher),
            self.readiness,
        )
        self._opening = StoreOpening(files, self._flush)
        self._dispatch = RetriedDispatch(
            files, self._visibility, self._flush, self.readiness, clock
        )
        self.replica = ReplicaLog(
            files, self._log_flusher, self._flush, self._visibility, self.readiness
        )
        """The same log, as replication writes and cuts it."""
        self._cleaner = Cleaner(
            files,
            self._now,
            self.readiness,
            full_down_to_forcible=profile.full_down_to_forcible,
        )
        self._cleaning = cleaning_service(self._cleaner, disk, clock, self._now)
        self._after_put = AfterPut(self.index) if self.index is not None else None
        if self._after_put is not None:
            self.grew.connect(self._after_put.look)

    @property
    def config(self) -> StoreConfig:
        """The options as they are now."""
        return self._now()

    # -- start and stop ---------------------------------------------------------------------------

    def load(self) -> Recovery:
        """Open the store, recovering what a crash left; afterwards reads and puts work.

        Raises:
            StoreLockedError: another process has it open.
            StoreFileError: a commit-log file is missing or has a wrong length.
            DiskError: what was recovered could not be synced, or DLedger wrote the log.
        """
        # 5.x writes the process id into `abort`, 4.9 nothing.
        pid = str(os.getpid()) if self._profile.pid_in_abort_file else ""
        recovery = self._opening.load(check_crc=self.config.check_crc_on_recover, abort_text=pid)
        log.info("store.loaded", **msgspec.to_builtins(recovery), queues=len(self.consume_queues))
        return recovery

    def start(self) -> None:
        """Begin flushing and cleaning, on the running event loop."""
        self._flush.start()
        self._cleaning.start()
        self._dispatch.start()
        if self._after_put is not None:
            self._after_put.start()

    async def close(self) -> None:
        """Stop, flush everything, and leave the files so that the next load has nothing to do."""
        # First, so that nothing is appended after the last flush.
        self.readiness.block(SHUT_DOWN)
        if self._after_put is not None:
            self._after_put.stop()
        # This first shows what is still hidden.
        await self._dispatch.stop()
        await self._cleaning.stop()
        await self._flush.stop()
        self.close_files()

    def close_files(self) -> None:
        """Flush and release all files at once; for a store that was loaded but not started."""
        self._opening.close()

    # -- putting ---------------------------------------------------------------------------------

    @property
    def is_writeable(self) -> bool:
        """Whether puts are taken (B-167)."""
        return not self.readiness.reasons

    @property
    def unflushed_bytes(self) -> int:
        """Bytes of the log that a power cut would take now (B-162)."""
        return self._log_flusher.dirty_bytes

    def put_messages(self, messages: Sequence[StoredMessage]) -> list[PutResult]:
        """Append independent messages; each gets its own result, in the same order.

        PUT_OK means that they survive the death of this process. Under SYNC_FLUSH pass the end of
        the last record to `when_flushed` before acknowledging.
        """
        # Asked at each put, not by a timer: a lease that is over must not take one message more.
        self.about_to_put.emit()
        if self.readiness.reasons:
            return [_REFUSED] * len(messages)
        try:
            queues = self.consume_queues.of(messages)
        except IllegalPathError:
            return self._put_legal(messages)  # rare: so names are not looked at one by one before
        now_ms = self._clock.time_ms()
        # This wakes the flush passes, which rest while nothing is dirty.
        self._flush.appended(now_ms)
        results = self.commit_log.append(messages, queues, now_ms)
        # Up to the end of the log, because blanks count as dispatched too.
        batch = StoredBatch(self.commit_log.files.max_offset, messages, queues, results)
        if self._events.sink.is_on:
            self._events.stored(batch)  # before the dispatch, whose events come after it
        # From here on consumers see them, unless they have to wait for the disk or for replicas.
        # A disk that refuses the queues' entries changes no result: the log has the messages.
        self._dispatch.appended(batch)
        # Replication and waiting acknowledgements are connected to this.
        self.grew.emit()
        return results

    def _put_legal(self, messages: Sequence[StoredMessage]) -> list[PutResult]:
        """Put those whose topic can be a folder."""
        legal = [message for message in messages if is_folder_name(message.topic)]
        results = iter(self.put_messages(legal))
        return [
            next(results, _ILLEGAL) if is_folder_name(message.topic) else _ILLEGAL
            for message in messages
        ]

    def put_batch(self, batch: QueueBatch) -> BatchResult:
        """Append the messages of one batch request: all in one file, or none (S-14).

        PUT_OK means what it means for `put_messages`; pass the result's `end` to `when_flushed`.
        """
        # As in `put_messages`, because a lease may have ended.
        self.about_to_put.emit()
        if self.readiness.reasons:
            return BatchResult(PutStatus.SERVICE_NOT_AVAILABLE)
        try:
            queue = self.consume_queues.get_or_create(batch.topic, batch.queue_id)
        except IllegalPathError:
            return BatchResult(PutStatus.MESSAGE_ILLEGAL)
        now_ms = self._clock.time_ms()
        self._flush.appended(now_ms)
        result = self.commit_log.append_batch(batch, queue, now_ms)
        if result.status is PutStatus.PUT_OK:
            placed = PlacedBatch(batch, queue, result)
            if self._events.sink.is_on:
                self._events.stored_batch(placed)
            self._dispatch.appended(placed)
            self.grew.emit()
        return result

    def when_flushed(self, physical_offset_end: int, callback: FlushCallback) -> None:
        """Call back when a message may be acknowledged under this store's flush mode (B-144).

        Under ASYNC_FLUSH, or when the log is flushed that far, at once from inside this call.

        Args:
            physical_offset_end: end of the last record: `physical_offset + size`.
            callback: gets PUT_OK, or FLUSH_DISK_TIMEOUT when it took too long or failed.
        """
        if self._sync:
            self._log_flusher.wait(physical_offset_end, callback)
        else:
            callback(PutStatus.PUT_OK)

    async def flush(self) -> PutStatus:
        """Bring all that was put so far to the disk, whatever the flush mode.

        Returns:
            PUT_OK, or FLUSH_DISK_TIMEOUT when it took too long or failed.
        """
        return await self._log_flusher.reached(self.commit_log.max_offset)

    def _flushed(self) -> None:
        # With SYNC_FLUSH and no replicas, producers are answered in this pass, so show it all now.
        self._show(at_once=self._sync and not self.is_confirmed)
        self._flush.log_flushed()
        if self._sync and self.replica.is_following:
            self._log_flusher.flush()  # what came meanwhile: its master waits for it
        self.grew.emit()

    def confirm(self, offset: int | None) -> None:
        """Let consumers see the log up to `offset`, which all in-sync replicas have (H-144).

        None lets them see all of it, as without replicas.
        """
        self._visibility.confirmed = offset
        if offset is not None:
            # Saved for the next start, which shows consumers no more than this (H-146).
            self.checkpoint.confirm_phy_offset = offset
        self._show()

    @property
    def is_confirmed(self) -> bool:
        """Whether it is known what all in-sync replicas have; else nothing is held back."""
        return self._visibility.confirmed is not None

    @property
    def confirmed_offset(self) -> int:
        """All in-sync replicas have the log below it; without replicas its end."""
        confirmed = self._visibility.confirmed
        return self.commit_log.max_offset if confirmed is None else confirmed

    @property
    def shippable_offset(self) -> int:
        """How far the log may be sent to replicas: flushed, if producers wait for that (W-9)."""
        return self._log_flusher.flushed_offset if self._sync else self.commit_log.max_offset

    def _show(self, *, at_once: bool = False) -> None:
        """Dispatch what may be visible by now."""
        # A slave dispatches from the log, as it has no batches in memory.
        if self.replica.is_following:
            self.replica.dispatch_soon()
        else:
            self._dispatch.show(at_once=at_once)

    def _flush_failed(self, failure: Exception) -> None:
        log.error("log.flush_failed", error=str(failure))
        # Refuse puts until a restore has proved what is on the disk; RocketMQ only logs the error.
        self.readiness.block(SYNC_FAILED)

    # -- by place and by key ---------------------------------------------------------------------

    def lookup(self, physical_offset: int) -> memoryview | None:
        """The record at a physical offset; None if no readable one begins there."""
        # Not visible yet: it may be incomplete, or be lost in a power cut.
        if physical_offset >= self.queue_dispatcher.offset:
            return None
        return self.commit_log.record_at(physical_offset)

    def query(
        self,
        topic: str,
        key: str,
        max_count: int,
        begin_ms: int,
        end_ms: int,
        *,
        by_tag: bool = False,
    ) -> QueryResult:
        """Messages of a topic with this key or unique key, stored between, oldest first (S-48).

        Args:
            topic: of the messages.
            key: what they have.
            max_count: at most so many, and at most `max_msgs_num_batch`.
            begin_ms: stored then or later, epoch ms.
            end_ms: stored then or earlier.
            by_tag: `key` is a tag; none is found where the index has no tags, by profile.
        """
        if self.index is None:
            return QueryResult()
        # A client may ask for less than the broker's limit, but not for more (S-48).
        count = min(max_count, self.config.max_msgs_num_batch)
        wanted = MessageQuery(topic, key, count, begin_ms, end_ms, by_tag)
        return query_messages(self.index, self.commit_log, wanted)

    # -- queues ----------------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> int:
        """Remove a topic's queues; its records stay in the log until they expire."""
        gone = self.consume_queues.delete_topic(topic)
        # Forget the queues before the entries are counted.
        self._flush.forget(gone)
        self._flush.confirm_soon()
        return len(gone)

    def delete_expired_files(self) -> None:
        """Delete expired files in the next rounds, whatever the hour (S-70)."""
        self._cleaner.delete_soon()
        self._cleaning.wakeup()

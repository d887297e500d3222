"""How far consumers may see the log, and its dispatching up to there (S-20, S-24, H-144).

What could not be dispatched, because the disk refused, is tried again (S-35).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

import structlog

from pocketmq.broker.store.dispatch.log_scan import LogScan
from pocketmq.broker.store.dispatch.stored_batches import PlacedBatch, StoredBatch
from pocketmq.broker.store.flush.flush_log import LogFlusher
from pocketmq.broker.store.flush.flush_service import FlushService
from pocketmq.broker.store.flush.store_files import StoreFiles
from pocketmq.broker.store.log.commit_log import CommitLog
from pocketmq.broker.store.readiness import Readiness
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

BEHIND = "queues or index could not be written"

_CATCH_UP_S = 1.0

SHOWN_AT_ONCE = 1_000
"""Messages that become visible before other work goes on, or a few more."""


class Visibility:
    """How far consumers may see the log, and the batches that wait behind that limit.

    Args:
        commit_log: what is seen.
        flusher: says how far it is on the disk.
        sync_flush: only what is flushed may be seen.
    """

    def __init__(self, commit_log: CommitLog, flusher: LogFlusher, *, sync_flush: bool) -> None:
        self.hidden: deque[StoredBatch | PlacedBatch] = deque()
        """Appended by this broker, and beyond the limit."""
        self.confirmed: int | None = None
        """All in-sync replicas have the log below it; None: nobody waits for replicas."""
        self._log = commit_log
        self.flusher = flusher
        self.sync_flush = sync_flush

    @property
    def hides(self) -> bool:
        """Whether a batch may have to wait at all."""
        return self.sync_flush or self.confirmed is not None

    @property
    def limit(self) -> int:
        """Log offset up to which records may become visible."""
        # Under SYNC_FLUSH, unflushed messages stay hidden: a power cut could take back what
        # consumers have committed.
        end = self.flusher.flushed_offset if self.sync_flush else self._log.max_offset
        return end if self.confirmed is None else min(end, self.confirmed)

    def take(self) -> Iterator[StoredBatch | PlacedBatch]:
        """Batches that may be seen by now, in order; they do not wait any more."""
        limit = self.limit
        # In the log's order: queue entries must not overtake each other.
        while self.hidden and self.hidden[0].end <= limit:
            yield self.hidden.popleft()


class RetriedDispatch:
    """Dispatches what may be seen; when the disk refuses, it blocks the store and tries again every
    second.

    Args:
        files: What is read again, and where it is entered.
        visibility: Keeps what may not be seen yet.
        flush: Flushes what was entered.
        readiness: Why the store takes no message: `BEHIND` while something is not dispatched.
        clock: Of the tries.
    """

    def __init__(
        self,
        files: StoreFiles,
        visibility: Visibility,
        flush: FlushService,
        readiness: Readiness,
        clock: Clock,
    ) -> None:
        self._commit_log = files.commit_log
        self._consume_queues = files.consume_queues
        self._queue_dispatcher = files.queue_dispatcher
        self._visibility = visibility
        self._flush = flush
        self._readiness = readiness
        self._service = PeriodicService("CatchUp", clock, _CATCH_UP_S, self._catch_up)
        self._scheduled = False
        """Whether more is shown in the next turn of the loop."""
        self._is_stopping = False
        self._behind_end = 0
        """Log offset up to which messages may be seen that could not be dispatched."""

    def start(self) -> None:
        """Begin to try again when needed, on the running event loop."""
        self._is_stopping = False
        self._service.start()

    async def stop(self) -> None:
        """Try no more, and put nothing off any more."""
        # First: `show` must then dispatch everything, because no further turn of the loop comes.
        self._is_stopping = True
        self.show()
        await self._service.stop()

    def appended(self, batch: StoredBatch | PlacedBatch) -> None:
        """Make a batch visible: now, or once it is flushed and confirmed (S-20, S-24, H-144)."""
        visibility = self._visibility
        # Even if nothing is hidden now: earlier batches may still wait, and the order must hold.
        if visibility.hides or visibility.hidden:
            visibility.hidden.append(batch)
            if visibility.sync_flush:
                # Otherwise the batch would wait for the next periodic pass.
                visibility.flusher.flush()
        else:
            self._dispatch(batch)

    def show(self, *, at_once: bool = False) -> None:
        """Dispatch what may be visible by now; of very much the rest in the next turns.

        A replica that was away for long confirms all that was appended meanwhile.

        Args:
            at_once: All of it in this turn. Else producers may be told earlier that a message is
                stored: what they ask of it next is to be answered from the log, not by a lookup.
        """
        shown = 0
        for batch in self._visibility.take():
            self._dispatch(batch)
            shown += batch.count
            # Each message has a listener to run, so too many at once would block the loop.
            if shown >= SHOWN_AT_ONCE and not (at_once or self._is_stopping):
                if not self._scheduled:
                    self._scheduled = True
                    asyncio.get_running_loop().call_soon(self._show_more)
                break

    def _show_more(self) -> None:
        self._scheduled = False
        self.show()

    def _dispatch(self, batch: StoredBatch | PlacedBatch) -> None:
        """Enter a batch into its queues and the index; later, if the disk is full now."""
        # An earlier batch failed: this one must not overtake it.
        if BEHIND in self._readiness.reasons:
            self._behind_end = batch.end
            return
        try:
            self._queue_dispatcher.dispatch(batch)
        except DiskError as exc:
            # The messages are in the log, and will be visible once there is space (S-35).
            log.error("dispatch.failed", error=str(exc), offset=self._queue_dispatcher.offset)
            self._readiness.block(BEHIND)
            self._behind_end = batch.end
            self._service.resume()
        self._flush.dispatched()

    def _catch_up(self) -> float | None:
        """Dispatch from the log what could not be dispatched when it came."""
        if BEHIND not in self._readiness.reasons:
            return AT_REST
        self.show(at_once=True)  # notes how far that is; what is beyond is dispatched when seen
        scan = LogScan(
            self._commit_log, self._consume_queues, self._queue_dispatcher, check_crc=False
        )
        try:
            scan.run(self._queue_dispatcher.offset, self._behind_end)
        except DiskError as exc:
            log.warning("dispatch.failed", error=str(exc), offset=self._queue_dispatcher.offset)
            return None
        log.info("dispatch.caught_up", records=scan.records)
        self._readiness.unblock(BEHIND)
        self._flush.dispatched()
        return AT_REST

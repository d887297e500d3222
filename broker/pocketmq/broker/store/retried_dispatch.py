"""Dispatches what was stored, as soon as it may be seen, and again what could not be (S-35)."""

from __future__ import annotations

import structlog

from pocketmq.broker.store.commit_log import CommitLog
from pocketmq.broker.store.consume_queues import ConsumeQueues
from pocketmq.broker.store.flush_service import FlushService
from pocketmq.broker.store.log_scan import LogScan
from pocketmq.broker.store.queue_dispatch import PlacedBatch, QueueDispatcher, StoredBatch
from pocketmq.broker.store.visibility import Visibility
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

BEHIND = "queues or index could not be written"

_CATCH_UP_S = 1.0


class RetriedDispatch:
    """Dispatches what may be seen; when the disk refuses, it blocks the store and tries again every
    second.

    Args:
        commit_log: What is read again.
        consume_queues: Of a topic and queue id.
        queue_dispatcher: Enters records.
        visibility: Keeps what may not be seen yet.
        flush: Flushes what was entered.
        blocked_by: Why the store takes no message: `BEHIND` while something is not dispatched.
        clock: Of the tries.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        consume_queues: ConsumeQueues,
        queue_dispatcher: QueueDispatcher,
        visibility: Visibility,
        flush: FlushService,
        blocked_by: set[str],
        clock: Clock,
    ) -> None:
        self._commit_log = commit_log
        self._consume_queues = consume_queues
        self._queue_dispatcher = queue_dispatcher
        self._visibility = visibility
        self._flush = flush
        self._blocked_by = blocked_by
        self._service = PeriodicService("CatchUp", clock, _CATCH_UP_S, self._catch_up)

    def start(self) -> None:
        """Begin to try again when needed, on the running event loop."""
        self._service.start()

    async def stop(self) -> None:
        """Try no more."""
        await self._service.stop()

    def appended(self, batch: StoredBatch | PlacedBatch) -> None:
        """Make a batch visible: now, or once it is flushed and confirmed (S-20, S-24, H-144)."""
        visibility = self._visibility
        if visibility.hides:
            visibility.hidden.append(batch)
            if visibility.sync_flush:
                visibility.flusher.flush()
        else:
            self._dispatch(batch)

    def show(self) -> None:
        """Dispatch what may be visible by now."""
        for batch in self._visibility.take():
            self._dispatch(batch)

    def _dispatch(self, batch: StoredBatch | PlacedBatch) -> None:
        """Enter a batch into its queues and the index; later, if the disk is full now."""
        if BEHIND in self._blocked_by:
            return
        try:
            self._queue_dispatcher.dispatch(batch)
        except DiskError as exc:
            # The messages are in the log, and will be visible once there is space (S-35).
            log.error("dispatch.failed", error=str(exc), offset=self._queue_dispatcher.offset)
            self._blocked_by.add(BEHIND)
            self._service.resume()
        self._flush.dispatched()

    def _catch_up(self) -> float | None:
        """Dispatch from the log what could not be dispatched when it came."""
        if BEHIND not in self._blocked_by:
            return AT_REST
        visibility = self._visibility
        is_sync, flushed = visibility.sync_flush, visibility.flusher.flushed_offset
        end = flushed if is_sync else self._commit_log.max_offset
        scan = LogScan(
            self._commit_log, self._consume_queues, self._queue_dispatcher, check_crc=False
        )
        try:
            scan.run(self._queue_dispatcher.offset, end)
        except DiskError as exc:
            log.warning("dispatch.failed", error=str(exc), offset=self._queue_dispatcher.offset)
            return None
        log.info("dispatch.caught_up", records=scan.records)
        self._blocked_by.discard(BEHIND)
        self._flush.dispatched()
        return AT_REST

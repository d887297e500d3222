"""Dispatches what was stored, and again what could not be dispatched when it came (S-35)."""

from __future__ import annotations

import structlog

from pocketmq.broker.store.commit_log import CommitLog
from pocketmq.broker.store.consume_queues import ConsumeQueues
from pocketmq.broker.store.flush import LogFlusher
from pocketmq.broker.store.flush_service import FlushService
from pocketmq.broker.store.log_scan import LogScan
from pocketmq.broker.store.queue_dispatch import PlacedBatch, QueueDispatcher, StoredBatch
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

BEHIND = "queues or index could not be written"

_CATCH_UP_S = 1.0


class RetriedDispatch:
    """Dispatches at once; when the disk refuses, it blocks the store and tries again every second.

    Args:
        commit_log: What is read again.
        consume_queues: Of a topic and queue id.
        queue_dispatcher: Enters records.
        log_flusher: Knows how far the log is flushed.
        flush: Flushes what was entered.
        blocked_by: Why the store takes no message: `BEHIND` while something is not dispatched.
        clock: Of the tries.
        sync_flush: Only what is flushed may be seen.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        consume_queues: ConsumeQueues,
        queue_dispatcher: QueueDispatcher,
        log_flusher: LogFlusher,
        flush: FlushService,
        blocked_by: set[str],
        clock: Clock,
        *,
        sync_flush: bool,
    ) -> None:
        self._commit_log = commit_log
        self._consume_queues = consume_queues
        self._queue_dispatcher = queue_dispatcher
        self._log_flusher = log_flusher
        self._flush = flush
        self._blocked_by = blocked_by
        self._sync = sync_flush
        self._service = PeriodicService("CatchUp", clock, _CATCH_UP_S, self._catch_up)

    def start(self) -> None:
        """Begin to try again when needed, on the running event loop."""
        self._service.start()

    async def stop(self) -> None:
        """Try no more."""
        await self._service.stop()

    def dispatch(self, batch: StoredBatch | PlacedBatch) -> None:
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
        end = self._log_flusher.flushed_offset if self._sync else self._commit_log.max_offset
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

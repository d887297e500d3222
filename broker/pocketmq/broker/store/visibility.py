"""How far consumers may see the log: as far as it is safe (S-20, S-24, H-144)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pocketmq.broker.store.commit_log import CommitLog
from pocketmq.broker.store.flush import LogFlusher
from pocketmq.broker.store.queue_dispatch import PlacedBatch, StoredBatch


class Visibility:
    """The limit, and the batches that wait behind it.

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
        end = self.flusher.flushed_offset if self.sync_flush else self._log.max_offset
        return end if self.confirmed is None else min(end, self.confirmed)

    def take(self) -> Iterator[StoredBatch | PlacedBatch]:
        """Batches that may be seen by now, in order; they do not wait any more."""
        limit = self.limit
        while self.hidden and self.hidden[0].end <= limit:
            yield self.hidden.popleft()

"""What pops took, and its check points: stored before anything is answered or committed (K-103).

Several pops of one turn of the loop read first, and then store their check points together. Those
that may stay in memory for a while (K-100) are kept there (merge.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.pop.merge import Held
from pocketmq.broker.pop.merge_service import MergeService
from pocketmq.broker.pop.progress import PopProgress, QueueOf
from pocketmq.broker.pop.records import CheckPoint, MergeKey
from pocketmq.broker.pop.revive_log import ReviveLog
from pocketmq.broker.store import PutStatus, StoredMessage
from pocketmq.broker.store.reads.queue_reads import MOST_FILTERED_BYTES
from pocketmq.protocol.messages.message import Buffer
from pocketmq.protocol.messages.receipts import QueueKey


class Taken(NamedTuple):
    """Messages of one queue that nobody else gets while their check point is being stored."""

    point: CheckPoint
    next_offset: int
    """Where the group is behind them."""
    ahead: int | None
    """How far the queue was handed out before, if it was beyond the committed offset."""

    @property
    def queue(self) -> QueueOf:
        """Whose offset they move."""
        return self.point.group, self.point.topic, self.point.queue_id


class HandOut(msgspec.Struct, kw_only=True):
    """What a pop got; it grows queue by queue."""

    pop_time_ms: int
    revive_queue_id: int
    records: list[Buffer] = []
    count: int = 0
    size_bytes: int = 0
    retried: int = 0
    """How many of them are from the group's retry topic."""
    retried_bytes: int = 0
    starts: list[tuple[QueueKey, int]] = []
    offsets: list[tuple[QueueKey, Sequence[int]]] = []
    order_counts: list[str] = []
    rest: int = 0
    """Messages that another pop would find."""
    filter_bytes_left: int = MOST_FILTERED_BYTES
    """What its filter may still cost; the queues behind are left to the next pop."""
    taken: list[Taken] = []


def take_back(progress: PopProgress, outs: Sequence[HandOut]) -> None:
    """What was taken can be had again."""
    # In reverse order, because several pops may have moved the same queue.
    for out in reversed(outs):
        for taken in reversed(out.taken):
            progress.taken_back(taken.queue, taken.ahead, taken.point.count)


class TakenPoints:
    """Stores the check points of what pops took.

    Args:
        core: store, clock and statistics.
        offsets: committed offsets.
        revive_log: where check points go.
        progress: how far messages are handed out beyond the committed offset.
        merges: check points that are only in memory.
    """

    def __init__(
        self,
        core: BrokerCore,
        offsets: ConsumerOffsetManager,
        revive_log: ReviveLog,
        progress: PopProgress,
        merges: MergeService,
    ) -> None:
        self._core = core
        self._store = core.store
        self._offsets = offsets
        self._revive_log = revive_log
        self._progress = progress
        self._merges = merges
        self._merge = merges.merge

    def store(self, outs: Sequence[HandOut]) -> Sequence[HandOut]:
        """Store the check points of what was taken, in one append; what may be answered.

        When they cannot be stored, nothing is handed out.
        """
        if self._store_points(outs):
            return outs
        take_back(self._progress, outs)
        return [
            HandOut(
                pop_time_ms=out.pop_time_ms, revive_queue_id=out.revive_queue_id, rest=out.count
            )
            if out.taken
            else out
            for out in outs
        ]

    def _store_points(self, outs: Sequence[HandOut]) -> bool:
        """Store the check points, and move the groups on once they are safe (K-103)."""
        # With the buffer on, some check points may stay in memory (K-100).
        if self._merge.is_on:
            return self._keep_points(outs)
        log, now_ms = self._revive_log, self._core.clock.time_ms()
        moves: list[tuple[QueueOf, int]] = []
        messages: list[StoredMessage] = []
        for out in outs:
            for taken in out.taken:
                messages.append(log.check_point(taken.point, out.revive_queue_id))
                moves.append((taken.queue, taken.next_offset))
        if not messages:
            return True
        results = log.put(messages)
        if results is None:
            return False
        for (group, topic, _), _ in moves:
            self._core.stats.note_check_points(topic, group)

        def flushed(status: PutStatus) -> None:
            if status is not PutStatus.PUT_OK:
                return
            # Commit only now: a power cut could have taken the check points before (K-103).
            for key, next_offset in moves:
                # The offset was reset, or the topic or group was deleted: do not move it.
                if not self._progress.is_handed_out(key, next_offset):
                    continue
                if self._offsets.pending_reset(*key) is None:
                    self._offsets.commit(*key, next_offset, now_ms)
                self._progress.committed(key, next_offset)

        last = results[-1]
        log.when_kept(last.physical_offset + last.size, flushed)
        return True

    def _keep_points(self, outs: Sequence[HandOut]) -> bool:
        """The same with check points in memory, as far as they may stay there (K-100)."""
        kept: set[int] = set()
        keys: set[MergeKey] = set()
        held: list[Held] = []
        for out in outs:
            now_ms = out.pop_time_ms
            for taken in out.taken:
                point = taken.point
                each = Held(point, out.revive_queue_id, taken.next_offset, now_ms)
                held.append(each)
                # Acks find check points in memory by key, so only one with each key may be there
                # (K-74).
                if point.key not in keys and self._merge.takes(point, now_ms):
                    keys.add(point.key)
                    kept.add(id(each))
        if not held:
            return True
        stored = [each for each in held if id(each) not in kept]
        results = self._revive_log.put(
            [self._revive_log.check_point(each.point, each.revive_queue) for each in stored]
        )
        if results is None:
            return False
        for each in held:
            # In the order of the pops, written or not (K-103).
            self._merge.add(each, in_memory=id(each) in kept)
        self._merges.resume()
        if results:
            last = results[-1]
            self._merges.when_safe(stored, last.physical_offset + last.size)
        return True

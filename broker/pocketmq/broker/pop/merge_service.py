"""Writes check points that were kept in memory, and moves the groups' offsets (K-102, K-103)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence

import structlog

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.pop.merge import Held, PopMerge
from pocketmq.broker.pop.progress import PopProgress, QueueOf
from pocketmq.broker.pop.records import Ack
from pocketmq.broker.pop.revive_log import ReviveLog
from pocketmq.broker.store import PutStatus, StoredMessage
from pocketmq.broker.subject import Service
from pocketmq.operation.metrics import POP_SCAN_TIME
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

SCAN_S = 0.5

WRITTEN_AT_ONCE = 64
"""Records of check points and acks, or a few more, that are written before other work goes on."""


class MergeService(Service):
    """The edge of `PopMerge`.

    Args:
        core: store and clock.
        merge: what is kept in memory.
        revive_log: where records go.
        offsets: committed offsets.
        progress: how far queues are handed out.
        groups: by profile, what was handed out to missing ones is forgotten.
    """

    def __init__(
        self,
        core: BrokerCore,
        merge: PopMerge,
        revive_log: ReviveLog,
        offsets: ConsumerOffsetManager,
        progress: PopProgress,
        groups: SubscriptionGroupManager,
    ) -> None:
        self.merge = merge
        self._groups = groups
        self._forgets_missing = core.profile.broker.forgets_points_of_missing_groups
        self._core = core
        self._revive_log = revive_log
        self._offsets = offsets
        self._progress = progress
        self._late: list[tuple[Held, int]] = []
        """Written ones whose flush or copy took too long or failed, and where their records end."""
        self._service = PeriodicService("merge pops", core.clock, SCAN_S, self._scan)

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        """Write everything that is only in memory (K-104), and wait until it is on the disk.

        Offsets are saved after this: they have to be past what was handed out.
        """
        # First, so that no scan writes at the same time.
        await self._service.stop()
        # Write them all, because nobody else does after this (K-104).
        while self._write(math.inf):
            await self._core.clock.sleep(0)
        # Flush before the offsets are saved: otherwise a power cut could lose messages below them.
        await self._core.store.flush()
        self._ask_again()

    def resume(self) -> None:
        """Something is in memory."""
        self._service.resume()

    def forget(self) -> None:
        """This broker is a slave now: the next master knows only what was written."""
        self.merge.forget()
        self._late.clear()

    def follow(self, queue: QueueOf) -> None:
        """Move the group's offset past the pops that are settled."""
        offset = self.merge.settled(queue)
        # The first pop of the queue is still open (K-103).
        if offset is None:
            return
        # The topic or group was deleted: a new one must not begin at this offset.
        if not self._progress.is_handed_out(queue, offset):
            return
        if self._offsets.pending_reset(*queue) is None:
            self._offsets.commit(*queue, offset, self._core.clock.time_ms())
        # Even when a pending reset decides the offset, these pops are settled.
        self._progress.committed(queue, offset)

    def records(self, held: Held) -> list[StoredMessage]:
        """What is written of one: the check point, and an ack for each message acknowledged."""
        point = held.point
        acked = [
            point.offset_of(index) for index in range(point.count) if point.bit_map >> index & 1
        ]
        bits, point.bit_map = point.bit_map, 0  # its record never says it; its acks do (K-71)
        messages = [self._revive_log.check_point(point, held.revive_queue)]
        point.bit_map = bits
        for offset in acked:
            ack = Ack(
                offset=offset,
                broker_name=point.broker_name,
                group=point.group,
                pop_time_ms=point.pop_time_ms,
                queue_id=point.queue_id,
                start_offset=point.start_offset,
                topic=point.topic,
            )
            messages.append(self._revive_log.ack(ack, held.revive_queue, point.revive_time_ms))
        return messages

    def when_safe(self, stored: Sequence[Held], end: int) -> None:
        """Move the groups' offsets once these are as safe on the disk as the flush mode promises.

        Args:
            stored: their records are in the log.
            end: the log offset behind the last of them.
        """

        def kept(status: PutStatus) -> None:
            if status is not PutStatus.PUT_OK:
                self._late += [(held, end) for held in stored]
                self.resume()  # the next scan asks again, or the offset would stand still for good
                return
            for held in stored:
                held.is_safe = True
            # Each queue once, even if several of its check points became safe.
            for queue in dict.fromkeys(held.queue for held in stored):
                self.follow(queue)

        self._revive_log.when_kept(end, kept)

    def _ask_again(self) -> None:
        late, self._late = self._late, []
        if late:
            self.when_safe([held for held, _ in late], max(end for _, end in late))

    def _scan(self) -> float | Awaitable[float | None] | None:
        began_at = self._core.clock.monotonic()
        self._ask_again()
        if self._write(self._core.clock.time_ms()):
            # There is more: let other work run, and go on in the same scan.
            return self._go_on(began_at)
        return self._scanned(began_at)

    async def _go_on(self, began_at: float) -> float | None:
        """Write the rest of what is due."""
        clock = self._core.clock
        await clock.sleep(0)
        while self._write(clock.time_ms()):
            await clock.sleep(0)
        return self._scanned(began_at)

    def _scanned(self, began_at: float) -> float | None:
        """A scan is over: seconds until the next."""
        took_ms = int((self._core.clock.monotonic() - began_at) * 1000)
        self._core.stats.meters.note(POP_SCAN_TIME, took_ms)
        return None if len(self.merge) or self._late else AT_REST

    def _write(self, now_ms: float) -> bool:
        """Write some of what is due; whether there is more."""
        written = 0
        while (held := self.merge.next_due(now_ms)) is not None:
            if written >= WRITTEN_AT_ONCE:
                return True
            group = held.point.group
            if self._forgets_missing and self._groups.get(group) is None:
                reason = self._groups.why_not_made(group)
                if reason:  # nobody would be given it again (K-102)
                    log.warning("pop.check_point_forgotten", group=group, reason=reason)
                    self.merge.take(held.point.key)
                    self.merge.reset(held.queue)
                    continue
            results = self._revive_log.put(self.records(held))
            if results is None:
                log.warning("pop.check_point_not_stored", topic=held.point.topic)
                return False  # it stays in memory, and the next scan tries again
            written += len(results)
            # The queue's order keeps it until its records are safe.
            self.merge.written(held)
            self.when_safe([held], results[-1].physical_offset + results[-1].size)
        return False

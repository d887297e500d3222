"""When the offset of an owned queue jumps: the broker called it illegal, or an operator moved it.

Both drop the queue, write the new offset down and let the next rebalance take the queue anew from
there (C-43, C-70). Acknowledgements of messages pulled before must not undo the jump.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from pocketmq.client.consumer.offset_store import OffsetStore
from pocketmq.client.consumer.pull_plan import PullRequest
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.protocol.message import MessageQueue
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.profile import Profile

log = structlog.get_logger()

RESET_WAIT_S: Final = 10.0
"""Between dropping queues and setting their offsets, so that running listeners end (C-70)."""


class OffsetMoves:
    """The jumps of one consumer.

    Args:
        planner: Holds the owned queues.
        store: Where offsets are written down.
        clock: For the waits.
        profile: How long the first wait is, and whether offsets freeze.
    """

    def __init__(
        self, planner: RebalancePlanner, store: OffsetStore, clock: Clock, profile: Profile
    ) -> None:
        self._planner = planner
        self._store = store
        self._clock = clock
        self._profile = profile

    def drop_illegal(self, request: PullRequest) -> None:
        """At once: nothing of the queue counts from now on; `correct` must follow (C-43)."""
        log.warning(
            "offset.illegal",
            group=self._planner.group,
            queue=str(request.queue),
            next_offset=request.next_offset,
        )
        request.process_queue.dropped = True
        request.process_queue.correcting = True
        if self._profile.freeze_offset_when_illegal:
            self._store.table.freeze(request.queue, request.next_offset)

    async def correct(self, request: PullRequest) -> bool:
        """Write the right offset down and let go; whether a rebalance should follow at once."""
        queue, delay_ms = request.queue, self._profile.illegal_offset_delay_ms
        if delay_ms:
            await self._clock.sleep(delay_ms / 1000)
        if not self._is_still_ours(request):
            return False  # given up meanwhile; its next owner will find the same
        if not self._profile.freeze_offset_when_illegal:
            # May well be a step back.
            self._store.table.update(queue, request.next_offset, increase_only=False)
        await self._store.persist(queue)
        if self._is_still_ours(request):
            self._planner.forget(queue)
            self._store.table.remove(queue)
        return self._profile.freeze_offset_when_illegal

    async def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from other offsets; the caller has suspended the consumer (C-70)."""
        affected = [
            queue
            for queue in self._planner.process_queues
            if queue.topic == topic and queue in offsets
        ]
        for queue in affected:
            held = self._planner.process_queues[queue]
            held.dropped = True
            held.clear()
        await self._clock.sleep(RESET_WAIT_S)
        for queue in affected:
            if queue not in self._planner.process_queues:
                continue
            self._store.table.update(queue, offsets[queue], increase_only=False)
            await self._store.persist(queue)
            self._planner.forget(queue)
            self._store.table.remove(queue)
        log.info("offsets.reset", group=self._planner.group, topic=topic, queues=len(affected))

    def _is_still_ours(self, request: PullRequest) -> bool:
        return self._planner.process_queues.get(request.queue) is request.process_queue

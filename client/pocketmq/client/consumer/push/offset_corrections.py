"""Moves of an owned queue's offset: the broker called it illegal, or an operator reset it.

Both drop the queue, write the new offset down and let the next rebalance take the queue anew from
there (C-43, C-70). Acknowledgements of messages pulled before must not undo the jump.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from pocketmq.client.consumer.consuming.orderly import OrderlyConsumeService
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.progress.offset_store import OffsetStore
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.pulling.pull_plan import PullRequest
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.protocol.messages.message import MessageQueue

log = structlog.get_logger()

RESET_WAIT_S: Final = 10.0
"""Between dropping queues and setting their offsets, so that running listeners end (C-70). The most
where it is known when they do."""


class OffsetCorrections:
    """Carries out offset moves for one consumer.

    Args:
        member: Its clock, profile and tasks.
        planner: Owns the queues.
        buffers: What was pulled of each.
        store: Where offsets are written down.
        ordered: None: the listener is not an ordered one.
    """

    def __init__(
        self,
        member: Membership,
        planner: RebalancePlanner,
        buffers: dict[MessageQueue, ProcessQueue],
        store: OffsetStore,
        ordered: OrderlyConsumeService | None = None,
    ) -> None:
        self._member = member
        self._clock = member.instance.clock
        self._profile = member.instance.profile.client
        self._planner = planner
        self._buffers = buffers
        self._store = store
        waits = self._profile.reset_waits_for_ordered_listener
        self._waited_for = ordered if waits else None

    def correct(self, request: PullRequest) -> None:
        """The broker answered PULL_OFFSET_MOVED (21); returns at once (C-43).

        Messages of the queue that are in memory no longer count. The right offset is persisted
        later; then a rebalance takes the queue anew.
        """
        log.warning(
            "offset.illegal",
            group=self._member.group,
            queue=str(request.queue),
            next_offset=request.next_offset,
        )
        # Correct the offset before any wait: an answer that is under way must not move it again.
        self._planner.claims.correct(request.claim)
        if self._profile.freeze_offset_when_illegal:
            self._store.table.freeze(request.queue, request.next_offset)
        if self._member.state.running:
            self._member.instance.tasks.start(
                self._correct(request), name=f"correct {request.queue}"
            )

    async def _correct(self, request: PullRequest) -> None:
        queue, delay_ms = request.queue, self._profile.illegal_offset_delay_ms
        if delay_ms:
            # 4.9 leaves listeners 10 s to end; an offset of theirs would overwrite the corrected
            # one.
            await self._clock.sleep(delay_ms / 1000)
        if not self._is_still_ours(request):
            return  # given up meanwhile; its next owner will find the same
        if not self._profile.freeze_offset_when_illegal:
            # May well be a step back.
            self._store.table.update(queue, request.next_offset, increase_only=False)
        await self._store.persist(queue)
        if self._is_still_ours(request):
            self._forget(queue)
        if self._profile.freeze_offset_when_illegal and self._member.state.running:
            self._member.instance.rebalance_service.wakeup()

    async def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move to other offsets; the caller has suspended the consumer (C-70)."""
        claims = self._planner.claims
        affected = [
            claim.queue for claim in claims if claim.queue.topic == topic and claim.queue in offsets
        ]
        for queue in affected:
            claims.drop(queue)
            buffer = self._buffers.get(queue)
            if buffer is not None:
                # A listener that still runs finds its messages gone and moves no offset by them.
                buffer.clear()
        if self._waited_for is None:
            await self._clock.sleep(RESET_WAIT_S)
        for queue in affected:
            if self._waited_for is not None:
                await self._waited_for.listener_done(queue, RESET_WAIT_S)
            # The queue was given up meanwhile: its next owner reads the offset that the broker was
            # reset to.
            if queue not in claims:
                continue
            # A reset usually goes back.
            self._store.table.update(queue, offsets[queue], increase_only=False)
            await self._store.persist(queue)
            self._forget(queue)
        log.info("offsets.reset", group=self._member.group, topic=topic, queues=len(affected))

    def _forget(self, queue: MessageQueue) -> None:
        self._planner.forget(queue)
        self._buffers.pop(queue, None)
        self._store.table.remove(queue)

    def _is_still_ours(self, request: PullRequest) -> bool:
        return self._planner.claims.get(request.queue) is request.claim

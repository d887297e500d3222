"""A push consumer's queues: taking them and giving them up.

The rebalance (rebalance/planner.py) decides which queues are ours and calls this class to carry it
out. Taking a queue and giving it up are mirror images, and the offset is what is handed over:

    take     [lock]  find_start_offset: where the group goes on   start_pulling: buffer, first pull
    give up  persist the offset    wait for the listener, [unlock]    forget offset and buffer

Orderly consumers alone lock. Of two members, a second one comes, and orders/1 changes its owner:

    one      drops the claim: what its listeners still hold counts no more
             writes offset 17 to the broker, then forgets orders/1
    two      asks the broker for the offset: 17; pulls from there, in 5.x after 500 ms

A message that `one` was still consuming comes to `two` again: each message at least once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pocketmq.client.consumer.consuming.consume_service import ConsumeService
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.progress.offset_store import OffsetStore
from pocketmq.client.consumer.progress.start_offset import StartOffsets
from pocketmq.client.consumer.push.push_pulls import PushPulls
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.pulling.pull_plan import PullRequest
from pocketmq.client.rebalance.claims import Claim
from pocketmq.protocol.messages.message import MessageQueue

AssignmentListener = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], Any]
"""`listener(topic, all_queues, my_queues)`, async or plain."""


class PushQueues:
    """A push consumer for the rebalance.

    Args:
        member: Its group, subscriptions and state.
        buffers: What was pulled of each queue; filled and emptied here.
        store: Where offsets are written down.
        starts: Where to begin in a queue.
        consumption: Locks queues and lets go of them.
        pulls: Pulls the queues that are ours.
        on_changed: Told when the share of a topic is another one (C-27).
    """

    def __init__(
        self,
        member: Membership,
        buffers: dict[MessageQueue, ProcessQueue],
        store: OffsetStore,
        starts: StartOffsets,
        consumption: ConsumeService,
        pulls: PushPulls,
        on_changed: AssignmentListener | None,
    ) -> None:
        self._member = member
        self._instance = member.instance
        self._buffers = buffers
        self._store = store
        self._starts = starts
        self._consumption = consumption
        self._pulls = pulls
        self._on_changed = on_changed

    async def release(self, claim: Claim) -> bool:
        """Persist the offset and release the queue; False while a listener uses it (C-30)."""
        queue, table = claim.queue, self._store.table
        await self._store.persist(queue)
        written = table.get(queue)
        buffer = self._buffers.get(queue)
        if buffer is not None and not await self._consumption.release(buffer):
            return False
        if table.get(queue) != written:  # the listener has just ended
            await self._store.persist(queue)
        table.remove(queue)
        self._buffers.pop(queue, None)
        return True

    def release_foreign(self, queue: MessageQueue) -> None:
        """A topic was unsubscribed: nothing is written, nothing unlocked (C-26)."""
        self._store.table.remove(queue)
        self._buffers.pop(queue, None)

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Queue locks, for orderly consumption (C-25.3)."""
        return await self._consumption.lock(queues)

    def lock_refused(self) -> None:
        """Look again soon; in 4.9 at the next period (C-25.3, C-21)."""
        delay_ms = self._instance.profile.client.lock_retry_delay_ms
        if self._member.state.running and delay_ms is not None:
            self._instance.rebalance_service.wakeup_later(delay_ms)

    # behaviour 18
    async def find_start_offset(self, queue: MessageQueue) -> int:
        """Where the group goes on (C-33)."""
        return await self._starts.find(queue)

    # behaviour 29
    def start_pulling(self, claim: Claim, offset: int) -> None:
        """Begin to pull: 5.x after 500 ms, 4.9 at once (C-25.4)."""
        buffer = ProcessQueue(claim, self._instance.clock.monotonic())
        self._buffers[claim.queue] = buffer
        self._instance.pull_service.execute_later(
            self._pulls,
            PullRequest(buffer, offset),
            self._instance.profile.client.first_pull_delay_ms,
        )

    # behaviour 62
    async def assignment_changed(
        self, topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        """Renew the subscription, share limits out, tell the brokers and the user (C-27)."""
        self._member.subscriptions.renew(topic)
        self._pulls.share_limits()
        if self._member.state.running:
            await self._instance.heartbeat()
        if self._on_changed is not None:
            result = self._on_changed(topic, tuple(all_queues), tuple(mine))
            if inspect.isawaitable(result):
                await result

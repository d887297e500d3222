"""A push consumer's queues: how they come, what each pull brings, and how they go."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from pocketmq.client.consumer.offset_table import ReadOffsetType
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.client.consumer.pull_plan import (
    PULL_BATCH_BYTES,
    BeforePull,
    PullRequest,
    PullStatus,
    before_pull,
    pull_header,
)
from pocketmq.client.instance import ClientInstance
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol import properties as names
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.message import MessageExt, MessageQueue

if TYPE_CHECKING:
    from pocketmq.client.consumer.push import PushConsumer
    from pocketmq.client.consumer.push_parts import PushParts

AssignmentListener = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], Any]
"""`listener(topic, all_queues, my_queues)`, async or plain."""

PullListener = Callable[[MessageQueue], None]
"""`listener(queue)`: a pull of the queue is on its way."""


class PushQueues:
    """What the rebalance and the pull service ask of a push consumer.

    Args:
        consumer: Whose queues.
        parts: What it is made of.
        instance: Where it runs.
        on_assignment_changed: Told when the share of a topic is another one (C-27).
        on_pull: Told of each pull.
    """

    def __init__(
        self,
        consumer: PushConsumer,
        parts: PushParts,
        instance: ClientInstance,
        *,
        on_assignment_changed: AssignmentListener | None,
        on_pull: PullListener | None,
    ) -> None:
        self.group = consumer.group
        self._consumer = consumer
        self._settings = consumer.settings
        self._profile = instance.profile
        self._parts = parts
        self._instance = instance
        self._on_assignment_changed = on_assignment_changed
        self._on_pull = on_pull
        self.limits = self._settings.pull_limits(owned_queues=1)
        """Flow control; those per topic are shared out over the queues that we have."""

    # -- for the rebalance ----------------------------------------------------------------------

    async def release(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Write the offset down and let go (C-30)."""
        parts = self._parts
        await parts.offset_store.persist(queue)
        if parts.orderly is not None and not self._settings.is_broadcasting:
            if not await parts.orderly.release(queue, held):
                return False
            await parts.offset_store.persist(queue)  # the listener may just have ended
        parts.offsets.remove(queue)
        return True

    def release_foreign(self, queue: MessageQueue) -> None:
        """A topic was unsubscribed: nothing is written (C-26)."""
        self._parts.offsets.remove(queue)

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Queue locks, for orderly consumption (C-25.3)."""
        locks = self._parts.locks
        return queues if locks is None else await locks.lock(queues)

    async def find_start_offset(self, queue: MessageQueue) -> int:
        """C-33, from the store: what is in memory may be a former owner's (removeDirtyOffset)."""
        parts = self._parts
        parts.offsets.remove(queue)
        stored = await parts.offset_store.read(queue, ReadOffsetType.READ_FROM_STORE)
        return await parts.start_offsets.find(queue, stored)

    def start_pulling(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """C-25.4."""
        self._instance.pull_service.execute_later(
            self, PullRequest(queue, held, offset), self._profile.first_pull_delay_ms
        )

    async def assignment_changed(
        self, topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        """Renew the subscription, share limits out, tell the brokers and the user (C-27)."""
        self._consumer.renew_subscription(topic)
        self.limits = self._settings.pull_limits(len(self._parts.planner.owned()))
        if self._consumer.is_running:
            await self._instance.heartbeat()
        if self._on_assignment_changed is not None:
            result = self._on_assignment_changed(topic, tuple(all_queues), tuple(mine))
            if inspect.isawaitable(result):
                await result

    # -- for the pull service -------------------------------------------------------------------

    def before_pull(self, request: PullRequest) -> BeforePull:
        """C-36."""
        consumer = self._consumer
        return before_pull(
            request,
            self.limits,
            running=consumer.is_running,
            suspended=consumer.is_suspended,
            orderly=consumer.is_orderly and not self._settings.is_broadcasting,
            subscribed=consumer.subscription(request.queue.topic) is not None,
            now=self._instance.clock.monotonic(),
        )

    def pull_header(self, request: PullRequest, broker: BrokerAddress) -> PullMessageRequestHeader:
        """C-37."""
        subscription = self._consumer.subscription(request.queue.topic)
        assert subscription is not None, "before_pull lets no other through"
        if self._on_pull is not None:
            self._on_pull(request.queue)
        broadcasting = self._settings.is_broadcasting
        return pull_header(
            request,
            self.group,
            subscription,
            commit_offset=0 if broadcasting else self._parts.offsets.get(request.queue),
            max_msg_nums=self._settings.pull_batch_size,
            post_subscription=self._settings.post_subscription_when_pull,
            to_slave=broker.is_slave,
            max_msg_bytes=PULL_BATCH_BYTES if self._profile.pull_names_max_bytes else None,
        )

    async def find_start(self, request: PullRequest) -> bool:
        """The start offset once more, under the lock: its last owner may have moved it (C-36)."""
        offset = await self.find_start_offset(request.queue)
        if offset < 0:
            return False
        request.next_offset = offset
        request.previously_locked = True
        return True

    def pulled(
        self,
        request: PullRequest,
        status: PullStatus,
        header: PullMessageResponseHeader,
        messages: list[MessageExt],
    ) -> int | None:
        """C-41 to C-44."""
        held, queue, parts = request.process_queue, request.queue, self._parts
        request.next_offset = header.next_begin_offset
        if status is PullStatus.FOUND:
            wanted = self._consumer.wanted(queue.topic, messages)
            if not wanted:
                return 0
            least, most = str(header.min_offset), str(header.max_offset)
            for message in wanted:
                message.properties[names.MIN_OFFSET] = least
                message.properties[names.MAX_OFFSET] = most
            dispatch = held.put(wanted)
            parts.service.submit(wanted, held, queue, dispatch=dispatch)
            return self._settings.pull_interval_ms
        if status is PullStatus.OFFSET_ILLEGAL:
            parts.offset_moves.drop_illegal(request)
            if self._consumer.is_running:
                self._instance.tasks.start(self._correct(request), name=f"correct {queue}")
            return None
        if held.count == 0 and not held.dropped:
            parts.offsets.update(queue, request.next_offset, increase_only=True)
        return 0

    async def _correct(self, request: PullRequest) -> None:
        if await self._parts.offset_moves.correct(request) and self._consumer.is_running:
            self._instance.rebalance_service.wakeup()

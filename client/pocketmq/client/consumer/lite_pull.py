"""LitePullConsumer: queues are pulled in the background, the application polls (L-1 to L-7).

    consumer = LitePullConsumer("audit", nameservers="127.0.0.1:9876")
    await consumer.subscribe("Orders", "new")          # queues are shared out among the group
    async with consumer:
        while True:
            for message in await consumer.poll():
                ...

Instead of `subscribe`, `assign` takes queues by hand; the two exclude each other for life. There
is no retry topic and nothing is sent back: a message that was polled is done, as far as offsets
go, at the next commit. By default commits follow polls, at most every 5 s.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Unpack

from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.lite_queues import Assigned, LiteQueues
from pocketmq.client.consumer.offset_table import ReadOffsetType
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.client.consumer.pull_member import PullMember
from pocketmq.client.consumer.pull_plan import PullLimits, PullRequest
from pocketmq.client.consumer.pulled_ahead import PulledAhead
from pocketmq.client.consumer.queues_watch import QueuesListener, QueuesWatch
from pocketmq.client.consumer.start_offset import StartOffsets
from pocketmq.client.heartbeat import ConsumeFromWhere
from pocketmq.client.instance import ClientInstance
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.rebalance.rebalancer import Rebalancer
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.strategy import AllocateMessageQueueStrategy
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.message import MessageExt, MessageQueue
from pocketmq.protocol.subscription import SUB_ALL, TAG, SubscriptionData
from pocketmq.protocol.validation import check_topic

MIN_AUTO_COMMIT_MS: Final = 1_000


class LitePullConsumer(PullMember):
    """Polls what is pulled ahead.

    Args:
        group: Consumer group.
        strategy: Shares queues out among the members that subscribe.
        consume_from_where: Where a group begins that has no offset yet (C-33).
        consume_timestamp_ms: For `TIMESTAMP`; by default half an hour ago.
        pull_batch_size: Messages per pull.
        poll_timeout_ms: How long `poll` waits, on the clock.
        auto_commit: Commit in `poll`, at most every `auto_commit_interval_ms`.
        auto_commit_interval_ms: At least 1000.
        pull_threshold_for_all: Messages waiting over all queues above which pulling pauses.
        pull_threshold_for_queue: The same per queue.
        pull_threshold_size_for_queue_mib: The same in MiB.
        consume_max_span: Largest distance of cached offsets of a queue.
        options: See `ClientConfig`.
    """

    def __init__(
        self,
        group: str,
        *,
        strategy: AllocateMessageQueueStrategy | None = None,
        consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        consume_timestamp_ms: int | None = None,
        pull_batch_size: int = 10,
        poll_timeout_ms: int = 5_000,
        auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        pull_threshold_for_all: int = 10_000,
        pull_threshold_for_queue: int = 1_000,
        pull_threshold_size_for_queue_mib: int = 100,
        consume_max_span: int = 2_000,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(group, options, consume_from_where=consume_from_where)
        self.strategy = strategy or AllocateMessageQueueAveragely()
        self.pull_batch_size = pull_batch_size
        self.poll_timeout_ms = poll_timeout_ms
        self.auto_commit = auto_commit
        self.auto_commit_interval_ms = max(MIN_AUTO_COMMIT_MS, auto_commit_interval_ms)
        self.pull_threshold_for_all = pull_threshold_for_all
        self.limits = PullLimits(
            threshold_for_queue=pull_threshold_for_queue,
            threshold_size_for_queue_mib=pull_threshold_size_for_queue_mib,
            max_span=consume_max_span,
        )
        half_an_hour_ago = self.config.clock.time_ms() - 30 * 60 * 1000
        self._timestamp_ms = (
            half_an_hour_ago if consume_timestamp_ms is None else consume_timestamp_ms
        )
        self._mode = ""
        self._assigned: dict[MessageQueue, Assigned] = {}
        self._wanted: list[MessageQueue] = []
        """Assigned by hand before the start."""
        self._ahead = PulledAhead(self.config.clock)
        self._next_commit_at = 0.0
        self._rebalancer: Rebalancer | None = None
        self._lite_queues: LiteQueues | None = None
        self._queues_watch = QueuesWatch(group)

    # -- which queues ---------------------------------------------------------------------------

    async def subscribe(
        self, topic: str, expression: str = SUB_ALL, *, expression_type: str = TAG
    ) -> None:
        """Take a share of the topic's queues (L-2).

        Raises:
            ClientError: queues were assigned by hand.
            SubscriptionError: the expression names nothing.
        """
        check_topic(topic)
        self._enter_mode("subscribe")
        self._subscriptions[topic] = SubscriptionData.parse(
            topic, expression, self.config.clock.time_ms(), expression_type=expression_type
        )
        if self._instance is not None:
            await self._instance.refresh_route(topic)
            await self._instance.heartbeat()
            self._instance.rebalance_service.wakeup()

    def unsubscribe(self, topic: str) -> None:
        """Give the topic's queues up at the next rebalance."""
        self._subscriptions.pop(topic, None)

    async def assign(self, queues: Iterable[MessageQueue], expression: str = SUB_ALL) -> None:
        """Pull exactly these queues, in place of those assigned before (L-2).

        Raises:
            ClientError: a topic was subscribed.
        """
        self._enter_mode("assign")
        self._wanted = list(dict.fromkeys(queues))
        for queue in self._wanted:
            self._subscriptions.setdefault(
                queue.topic,
                SubscriptionData.parse(queue.topic, expression, self.config.clock.time_ms()),
            )
        if self._instance is not None:
            await self._follow_wishes(self._instance)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now, sorted."""
        return sorted(self._assigned)

    def on_queues_changed(self, topic: str, listener: QueuesListener) -> None:
        """Tell `listener(topic, queues)` when the topic's queues change; looked at every 30 s."""
        self._started()
        self._queues_watch.listen(topic, listener)
        self._subscriptions.setdefault(topic, SubscriptionData.parse(topic, None, 0))

    # -- messages -------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The messages of one pull; empty when none came in time (L-5).

        Args:
            timeout_ms: On the clock, in place of `poll_timeout_ms`.
        """
        self._started()
        if self.auto_commit and self.config.clock.monotonic() >= self._next_commit_at:
            self._next_commit_at = (
                self.config.clock.monotonic() + self.auto_commit_interval_ms / 1000
            )
            await self.commit()
        batch = self._ahead.take()
        if batch is None:
            wait_ms = self.poll_timeout_ms if timeout_ms is None else timeout_ms
            batch = await self._ahead.wait(wait_ms / 1000)
        if batch is None:
            return []
        messages, held, queue = batch
        offset = held.remove(messages)
        assigned = self._assigned.get(queue)
        if assigned is not None and assigned.held is held and offset >= 0:
            assigned.consume_offset = offset
        return messages

    async def commit(
        self, queues: Iterable[MessageQueue] | None = None, *, persist: bool = False
    ) -> None:
        """Note that what was polled is done; the broker hears of it within 5 s (L-5).

        Args:
            queues: Only these; by default all of ours.
            persist: Tell the broker now.
        """
        for queue in list(self._assigned if queues is None else queues):
            assigned = self._assigned.get(queue)
            if assigned is None or assigned.consume_offset < 0 or assigned.held.dropped:
                continue
            self._store.table.update(queue, assigned.consume_offset, increase_only=False)
            if persist:
                await self._store.persist(queue)

    async def committed(self, queue: MessageQueue) -> int:
        """Where the group goes on in a queue; negative when that is not known."""
        return await self._store.read(queue, ReadOffsetType.MEMORY_FIRST_THEN_STORE)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset; what was pulled ahead is forgotten (L-6).

        Raises:
            ClientError: the queue is not ours, or the offset is outside it.
        """
        if queue not in self._assigned:
            raise ClientError(f"{queue} is not assigned; seek works on queues of ours")
        least, most = await self.min_offset(queue), await self.max_offset(queue)
        if not least <= offset <= most:
            raise ClientError(f"offset {offset} of {queue} is not between {least} and {most}")
        assigned = self._assigned.get(queue)
        if assigned is None:
            raise ClientError(f"{queue} was given up while its bounds were asked for")
        self._ahead.forget(queue)
        assigned.held.clear()
        assigned.consume_offset = offset
        self._store.table.update(queue, offset, increase_only=False)
        # The old request's answer, still under way, must not count.
        assigned.request = PullRequest(queue, assigned.held, offset)
        self._queues.pull(assigned)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the queue's oldest message."""
        await self.seek(queue, await self.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the queue's next message."""
        await self.seek(queue, await self.max_offset(queue))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pull nothing more of these queues; what was pulled can still be polled."""
        for queue in queues:
            if queue in self._assigned:
                self._assigned[queue].paused = True

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Pull them again, within a second."""
        for queue in queues:
            if queue in self._assigned:
                self._assigned[queue].paused = False

    # -- for the instance and the queues --------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """From the start to the stop."""
        return self._instance is not None

    async def rebalance(self) -> bool:
        """Shares change in subscribe mode only."""
        if self._mode != "subscribe" or self._rebalancer is None:
            return True
        return await self._rebalancer.run(list(self._subscriptions))

    # -- inside ---------------------------------------------------------------------------------

    async def persist_offsets(self) -> None:
        """Write committed offsets down (P-5)."""
        await self._store.persist_all(list(self._assigned))

    async def _started_in(self, instance: ClientInstance) -> None:
        queues = self._lite_queues = LiteQueues(
            self,
            instance,
            self._store,
            StartOffsets(
                instance.api, instance.addresses, self._consume_from_where, self._timestamp_ms
            ),
            self._assigned,
            self._ahead,
        )
        self._rebalancer = Rebalancer(
            RebalancePlanner(self._group, instance.client_id, self.strategy, passive=False),
            queues,
            api=instance.api,
            addresses=instance.addresses,
            clock=instance.clock,
            rebalance_soon=instance.rebalance_service.wakeup,
            broadcasting=False,
        )
        self._queues_watch.start(instance.clock, instance.routes)
        self._ahead.open()
        self._next_commit_at = instance.clock.monotonic() + self.auto_commit_interval_ms / 1000
        if self._mode == "assign":
            await self._follow_wishes(instance)

    async def _stopping(self) -> None:
        if self._rebalancer is not None:
            self._rebalancer.stop()
        await self._queues_watch.stop()
        await self.persist_offsets()
        for assigned in self._assigned.values():
            assigned.held.dropped = True
        self._assigned.clear()
        self._ahead.close()

    async def _follow_wishes(self, instance: ClientInstance) -> None:
        """Drop queues that are not wished for any more, then pull the new ones."""
        for queue in [queue for queue in self._assigned if queue not in self._wanted]:
            self._assigned[queue].held.dropped = True
            await self._queues.release(queue, self._assigned[queue].held)
        for queue in self._wanted:
            if queue in self._assigned:
                continue
            await instance.addresses.any_replica(queue)
            offset = await self._queues.find_start_offset(queue)
            if offset < 0:
                raise ClientError(f"where to begin in {queue} cannot be found out now; try again")
            self._queues.start_pulling(queue, ProcessQueue(instance.clock.monotonic()), offset)

    def _enter_mode(self, mode: str) -> None:
        if self._mode not in ("", mode):
            raise ClientError(
                f"consumer {self._group} was told to {self._mode}; "
                "subscribe and assign exclude each other"
            )
        self._mode = mode

    @property
    def _queues(self) -> LiteQueues:
        if self._lite_queues is None:
            raise self._not_running()
        return self._lite_queues

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
from dataclasses import dataclass
from typing import Unpack

from pocketmq.client.config import settings_of
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.progress.offset_table import ReadOffsetType
from pocketmq.client.consumer.progress.skipped import is_watched
from pocketmq.client.consumer.progress.start_offset import StartOffsets
from pocketmq.client.consumer.pull.lite_queues import LiteQueues
from pocketmq.client.consumer.pull.lite_settings import LitePullOptions, LitePullSettings
from pocketmq.client.consumer.pull.pull_member import PullMember
from pocketmq.client.consumer.pull.pulled_ahead import PulledAhead
from pocketmq.client.consumer.pull.queues_watch import QueuesListener, QueuesWatch
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.rebalance.rebalance_events import RebalanceEvents
from pocketmq.client.rebalance.rebalancer import Rebalancer
from pocketmq.client.selector import MessageSelector
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.strategy import AllocateMessageQueueStrategy
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.messages.subscription import SUB_ALL, TAG, SubscriptionData
from pocketmq.protocol.messages.validation import check_topic


@dataclass(frozen=True, slots=True)
class _LiteParts:
    """What a running lite pull consumer is made of."""

    queues: LiteQueues
    rebalancer: Rebalancer
    watch: QueuesWatch


class LitePullConsumer(PullMember):
    """Polls what is pulled ahead.

    Args:
        group: Consumer group.
        strategy: Shares queues out among the members that subscribe.
        options: See `LitePullSettings` and `ClientConfig`.
    """

    def __init__(
        self,
        group: str,
        *,
        strategy: AllocateMessageQueueStrategy | None = None,
        **options: Unpack[LitePullOptions],
    ) -> None:
        self.settings, client_options = settings_of(LitePullSettings, options)
        super().__init__(group, client_options, consume_from_where=self.settings.consume_from_where)
        self.strategy = strategy or AllocateMessageQueueAveragely()
        self._timestamp_ms = self.settings.timestamp_ms(self.config.clock.time_ms())
        self._mode = ""
        self._wanted: list[MessageQueue] = []
        """Assigned by hand."""
        self._ahead = PulledAhead(self.config.clock)
        self._next_commit_at = 0.0
        self._parts: _LiteParts | None = None

    # -- which queues ---------------------------------------------------------------------------

    async def subscribe(
        self, topic: str, expression: str | MessageSelector = SUB_ALL, *, expression_type: str = TAG
    ) -> None:
        """Take a share of the topic's queues (L-2).

        Raises:
            ClientError: queues were assigned by hand.
            SubscriptionError: the expression names nothing.
            FilterError: it is SQL92, and wrong; says where and why.
        """
        check_topic(topic)
        self._enter_mode("subscribe")
        selector = MessageSelector.of(expression, expression_type)
        self._subscriptions.set(topic, selector.expression, expression_type=selector.type)
        if self._instance is not None:
            await self._instance.lookups.refresh_route(topic)
            await self._instance.heartbeat()
            self._instance.rebalance_service.wakeup()

    def unsubscribe(self, topic: str) -> None:
        """Give the topic's queues up at the next rebalance."""
        self._subscriptions.remove(topic)

    async def assign(self, queues: Iterable[MessageQueue], expression: str = SUB_ALL) -> None:
        """Pull exactly these queues, in place of those assigned before (L-2).

        Raises:
            ClientError: a topic was subscribed.
        """
        self._enter_mode("assign")
        self._wanted = list(dict.fromkeys(queues))
        for queue in self._wanted:
            self._subscriptions.set_quietly(
                SubscriptionData.parse(
                    queue.topic, expression, self.config.clock.time_ms(), refuse_blanks=True
                )
            )
        if self._parts is not None:
            await self._parts.queues.follow(self._wanted)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now, sorted."""
        return [] if self._parts is None else sorted(self._parts.queues.assigned)

    def on_queues_changed(self, topic: str, listener: QueuesListener) -> None:
        """Tell `listener(topic, queues)` when the topic's queues change; looked at every 30 s."""
        self._made.watch.listen(topic, listener)
        self._subscriptions.set_quietly(SubscriptionData.parse(topic, None, 0))

    # -- messages -------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The messages of one pull; empty when none came in time (L-5).

        Args:
            timeout_ms: On the clock, in place of `poll_timeout_ms`.
        """
        queues, clock = self._made.queues, self.config.clock
        if self.settings.auto_commit and clock.monotonic() >= self._next_commit_at:
            self._next_commit_at = clock.monotonic() + self.settings.commit_interval_s
            await self.commit()
        batch = self._ahead.take()
        if batch is None:
            wait_ms = self.settings.poll_timeout_ms if timeout_ms is None else timeout_ms
            batch = await self._ahead.wait(wait_ms / 1000)
        if batch is None:
            return []
        queues.polled(batch)
        return batch.messages

    async def commit(
        self, queues: Iterable[MessageQueue] | None = None, *, persist: bool = False
    ) -> None:
        """Commit what was polled; written to the broker within 5 s (L-5).

        Args:
            queues: Only these; by default all of ours.
            persist: Write to the broker now.
        """
        ours = {} if self._parts is None else self._parts.queues.assigned
        for queue in list(ours if queues is None else queues):
            assigned = ours.get(queue)
            # Skip a queue that was not polled yet or was given up: its new owner's offset must not
            # be overwritten.
            if assigned is None or assigned.consume_offset < 0 or assigned.buffer.claim.dropped:
                continue
            # After a seek the offset may go back.
            self._store.table.update(queue, assigned.consume_offset, increase_only=False)
            if persist:
                await self._store.persist(queue)

    async def committed(self, queue: MessageQueue) -> int:
        """The group's consumer offset of a queue; negative when it is not known."""
        return await self._store.read(queue, ReadOffsetType.MEMORY_FIRST_THEN_STORE)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset; what was pulled ahead is forgotten (L-6).

        Raises:
            ClientError: the queue is not ours, or the offset is outside it.
        """
        queues = self._made.queues
        if queue not in queues.assigned:
            raise ClientError(
                f"{queue} is not assigned to this consumer; seek() works only with assigned queues"
            )
        # Check the range first: a pull from outside of it would get OFFSET_ILLEGAL, and the queue
        # would silently begin elsewhere.
        least, most = await self.min_offset(queue), await self.max_offset(queue)
        if not least <= offset <= most:
            raise ClientError(
                f"offset {offset} is outside {queue}; seek to an offset from {least} to {most}"
            )
        if not queues.seek(queue, offset):
            raise ClientError(
                f"{queue} is no longer assigned to this consumer, so seek() did not move its offset"
            )

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the queue's oldest message."""
        await self.seek(queue, await self.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the queue's next message."""
        await self.seek(queue, await self.max_offset(queue))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pull nothing more of these queues; what was pulled can still be polled."""
        if self._parts is not None:
            self._parts.queues.pause(queues, paused=True)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Pull them again, within a second."""
        if self._parts is not None:
            self._parts.queues.pause(queues, paused=False)

    # -- for the instance and the queues --------------------------------------------------------

    async def rebalance(self) -> bool:
        """Shares change in subscribe mode only."""
        # In assign mode the application decides who gets which queue (L-2).
        if self._mode != "subscribe" or self._parts is None:
            return True
        # Not topics that are only watched: nobody subscribed them.
        topics = [each.topic for each in self._subscriptions.announced]
        return await self._parts.rebalancer.run(topics)

    # -- inside ---------------------------------------------------------------------------------

    async def persist_offsets(self) -> None:
        """Persist committed offsets (P-5)."""
        await self._store.persist_all(self.assignment)

    async def _started_as(self, member: Membership) -> None:
        instance = member.instance
        planner = RebalancePlanner(self._group, instance.client_id, self.strategy, passive=False)
        starts = StartOffsets(
            instance.api,
            instance.addresses,
            self._store,
            self.settings.consume_from_where,
            self._timestamp_ms,
            memory_first=True,
            watch_since_ms=instance.clock.time_ms()
            if is_watched(instance.config.nameservers)
            else None,
        )
        queues = LiteQueues(member, self.settings, planner, self._store, starts, self._ahead)
        rebalancer = Rebalancer(
            planner,
            queues,
            api=instance.api,
            addresses=instance.addresses,
            clock=instance.clock,
            events=RebalanceEvents(instance.events),
        )
        watch = QueuesWatch(self._group, instance.clock, instance.routes)
        self._parts = _LiteParts(queues, rebalancer, watch)
        watch.start()
        self._ahead.open()
        self._next_commit_at = instance.clock.monotonic() + self.settings.commit_interval_s
        if self._mode == "assign":
            await queues.follow(self._wanted)

    async def _stopping(self) -> None:
        parts = self._parts
        if parts is not None:
            parts.rebalancer.stop()
            await parts.watch.stop()
            await self.persist_offsets()
            self._parts = None
            parts.queues.forget_all()
        self._ahead.close()

    def _enter_mode(self, mode: str) -> None:
        if self._mode not in ("", mode):
            raise ClientError(
                f"consumer {self._group} already uses {self._mode}(); one consumer cannot use "
                "both subscribe() and assign()"
            )
        self._mode = mode

    @property
    def _made(self) -> _LiteParts:
        if self._parts is None:
            raise self._not_running()
        return self._parts

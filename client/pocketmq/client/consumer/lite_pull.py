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

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack

from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.offset_table import Offset, ReadOffsetType
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.client.consumer.pull_member import BROKER_SUSPEND_MS, PullMember
from pocketmq.client.consumer.pull_plan import (
    BeforePull,
    PullLimits,
    PullRequest,
    PullStatus,
    Step,
    before_pull,
)
from pocketmq.client.consumer.start_offset import StartOffsets
from pocketmq.client.heartbeat import ConsumeFromWhere
from pocketmq.client.instance import ClientInstance
from pocketmq.client.rebalance.averagely import AllocateMessageQueueAveragely
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.rebalance.rebalancer import Rebalancer
from pocketmq.client.rebalance.strategy import AllocateMessageQueueStrategy
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.headers.pull import (
    LitePullMessageRequestHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)
from pocketmq.protocol.message import MessageExt, MessageQueue
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.subscription import SUB_ALL, TAG, SubscriptionData
from pocketmq.protocol.validation import check_topic
from pocketmq.runtime.periodic import PeriodicService

FLOW_CONTROL_MS: Final = 50
PAUSED_MS: Final = 1_000
TOPIC_CHECK_S: Final = 30.0
FIRST_TOPIC_CHECK_S: Final = 10.0
MIN_AUTO_COMMIT_MS: Final = 1_000

_MANY: Final = BeforePull(Step.WAIT, FLOW_CONTROL_MS, "too many messages wait to be polled")
_PAUSED: Final = BeforePull(Step.WAIT, PAUSED_MS, "the queue is paused")
_FORGET: Final = BeforePull(Step.FORGET)

QueuesListener = Callable[[str, Sequence[MessageQueue]], Any]
"""`listener(topic, queues)`: the topic has other queues now."""


@dataclass(slots=True)
class _Assigned:
    """One queue of ours."""

    held: ProcessQueue
    request: PullRequest
    consume_offset: int = Offset.NOT_FOUND
    """First offset not yet polled."""
    paused: bool = False


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
        self._assigned: dict[MessageQueue, _Assigned] = {}
        self._wanted: list[MessageQueue] = []
        """Assigned by hand before the start."""
        self._batches: deque[tuple[list[MessageExt], ProcessQueue, MessageQueue]] = deque()
        self._pollers: deque[asyncio.Future[None]] = deque()
        self._next_commit_at = 0.0
        self._planner: RebalancePlanner | None = None
        self._rebalancer: Rebalancer | None = None
        self._starts: StartOffsets | None = None
        self._topic_listeners: dict[str, tuple[QueuesListener, list[MessageQueue]]] = {}
        self._topic_check: PeriodicService | None = None

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
        known = self._started().routes.subscribe.get(topic, [])
        self._topic_listeners[topic] = (listener, list(known))
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
        batch = self._next_batch()
        if batch is None:
            wait_ms = self.poll_timeout_ms if timeout_ms is None else timeout_ms
            batch = await self._wait_for_batch(wait_ms / 1000)
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
        self._batches = deque(batch for batch in self._batches if batch[2] != queue)
        assigned.held.clear()
        assigned.consume_offset = offset
        self._store.table.update(queue, offset, increase_only=False)
        # The old request's answer, still under way, must not count.
        assigned.request = PullRequest(queue, assigned.held, offset)
        self._started().pull_service.execute_now(self, assigned.request)

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

    # -- for the rebalance ----------------------------------------------------------------------

    async def rebalance(self) -> bool:
        """Shares change in subscribe mode only."""
        if self._mode != "subscribe" or self._rebalancer is None:
            return True
        return await self._rebalancer.run(list(self._subscriptions))

    async def release(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Write the committed offset down and forget the queue (C-30)."""
        await self._store.persist(queue)
        self._store.table.remove(queue)
        self._assigned.pop(queue, None)
        return True

    def release_foreign(self, queue: MessageQueue) -> None:
        """The topic was unsubscribed (C-26)."""
        self._assigned.pop(queue, None)
        self._store.table.remove(queue)

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Lite pull knows no locks (L-7)."""
        return queues

    async def find_start_offset(self, queue: MessageQueue) -> int:
        """C-33, memory first (L-4)."""
        stored = await self._store.read(queue, ReadOffsetType.MEMORY_FIRST_THEN_STORE)
        return Offset.FAILED if self._starts is None else await self._starts.find(queue, stored)

    def start_pulling(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """Begin to pull ahead."""
        assigned = _Assigned(held, PullRequest(queue, held, offset))
        self._assigned[queue] = assigned
        self._started().pull_service.execute_now(self, assigned.request)

    async def assignment_changed(
        self, topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        """Tell the brokers (C-27)."""
        if self._instance is not None:
            await self._instance.heartbeat()

    # -- for the pull service -------------------------------------------------------------------

    def before_pull(self, request: PullRequest) -> BeforePull:
        """Flow control over all queues and per queue (L-1d)."""
        assigned = self._assigned.get(request.queue)
        if assigned is None or assigned.request is not request:
            return _FORGET
        if assigned.paused:
            return _PAUSED
        if len(self._batches) * self.pull_batch_size > self.pull_threshold_for_all:
            return _MANY
        return before_pull(
            request,
            self.limits,
            running=self._instance is not None,
            suspended=False,
            orderly=False,
            subscribed=request.queue.topic in self._subscriptions,
            now=self.config.clock.monotonic(),
        )

    def pull_header(self, request: PullRequest, broker: BrokerAddress) -> PullMessageRequestHeader:
        """Held, with the subscription's text; code 361 from 5.0 on (L-3)."""
        subscription = self._subscriptions[request.queue.topic]
        header_type = (
            LitePullMessageRequestHeader
            if self.profile.lite_pull_code
            else PullMessageRequestHeader
        )
        return header_type(
            consumer_group=self._group,
            topic=request.queue.topic,
            queue_id=request.queue.queue_id,
            queue_offset=request.next_offset,
            max_msg_nums=self.pull_batch_size,
            sys_flag=PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL,
            suspend_timeout_millis=BROKER_SUSPEND_MS,
            sub_version=0 if subscription.expression_type == TAG else subscription.sub_version,
            subscription=subscription.sub_string,
            expression_type=subscription.expression_type,
        )

    async def find_start(self, request: PullRequest) -> bool:
        """Never asked for: there are no locks."""
        return True

    def pulled(
        self,
        request: PullRequest,
        status: PullStatus,
        header: PullMessageResponseHeader,
        messages: list[MessageExt],
    ) -> int | None:
        """Line messages up for `poll`; an illegal offset simply goes on elsewhere (L-4)."""
        assigned = self._assigned.get(request.queue)
        if assigned is None or assigned.request is not request or assigned.held.dropped:
            return None
        request.next_offset = header.next_begin_offset
        if status is PullStatus.FOUND:
            subscription = self._subscriptions.get(request.queue.topic)
            if subscription is not None and subscription.tags_set:
                messages = [each for each in messages if subscription.matches_tag(each.tags)]
            if messages:
                assigned.held.put(messages)
                self._batches.append((messages, assigned.held, request.queue))
                self._wake_poller()
        return 0

    # -- inside ---------------------------------------------------------------------------------

    async def persist_offsets(self) -> None:
        """Write committed offsets down (P-5)."""
        await self._store.persist_all(list(self._assigned))

    async def _started_in(self, instance: ClientInstance) -> None:
        self._starts = StartOffsets(
            instance.api, instance.routes, self._consume_from_where, self._timestamp_ms
        )
        self._planner = RebalancePlanner(
            self._group, instance.client_id, self.strategy, passive=False
        )
        self._rebalancer = Rebalancer(
            self._planner,
            self,
            api=instance.api,
            routes=instance.routes,
            clock=instance.clock,
            refresh_route=instance.refresh_route,
            rebalance_soon=instance.rebalance_service.wakeup,
            broadcasting=False,
        )
        self._topic_check = PeriodicService(
            f"topics of {self._group}",
            instance.clock,
            TOPIC_CHECK_S,
            self._look_at_topics,
            initial_delay_s=FIRST_TOPIC_CHECK_S,
        )
        self._topic_check.start()
        self._next_commit_at = instance.clock.monotonic() + self.auto_commit_interval_ms / 1000
        if self._mode == "assign":
            await self._follow_wishes(instance)

    async def _stopping(self) -> None:
        if self._rebalancer is not None:
            self._rebalancer.stop()
        if self._topic_check is not None:
            await self._topic_check.stop()
        await self.persist_offsets()
        for assigned in self._assigned.values():
            assigned.held.dropped = True
        self._assigned.clear()
        self._batches.clear()
        for poller in self._pollers:
            if not poller.done():
                poller.set_result(None)

    async def _follow_wishes(self, instance: ClientInstance) -> None:
        """Drop queues that are not wished for any more, then pull the new ones."""
        for queue in [queue for queue in self._assigned if queue not in self._wanted]:
            self._assigned[queue].held.dropped = True
            await self.release(queue, self._assigned[queue].held)
        for queue in self._wanted:
            if queue in self._assigned:
                continue
            if instance.routes.broker(queue.broker_name) is None:
                await instance.refresh_route(queue.topic)
            offset = await self.find_start_offset(queue)
            if offset < 0:
                raise ClientError(f"where to begin in {queue} cannot be found out now; try again")
            self.start_pulling(queue, ProcessQueue(instance.clock.monotonic()), offset)

    def _next_batch(self) -> tuple[list[MessageExt], ProcessQueue, MessageQueue] | None:
        while self._batches:
            batch = self._batches.popleft()
            if not batch[1].dropped:
                return batch
        return None

    async def _wait_for_batch(
        self, timeout_s: float
    ) -> tuple[list[MessageExt], ProcessQueue, MessageQueue] | None:
        clock = self.config.clock
        ends_at = clock.monotonic() + timeout_s
        while self._instance is not None and (left_s := ends_at - clock.monotonic()) > 0:
            poller: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._pollers.append(poller)
            try:
                async with clock.timeout(left_s):
                    with clock.peer_wait():
                        await poller
            except TimeoutError:
                return self._next_batch()
            finally:
                if poller in self._pollers:
                    self._pollers.remove(poller)
            batch = self._next_batch()
            if batch is not None:
                return batch
        return None

    def _wake_poller(self) -> None:
        while self._pollers:
            poller = self._pollers.popleft()
            if not poller.done():
                poller.set_result(None)
                return

    def _look_at_topics(self) -> None:
        """Tell listeners of topics whose queues are others now (L-1f)."""
        instance = self._instance
        if instance is None:
            return
        for topic, (listener, known) in list(self._topic_listeners.items()):
            now = list(instance.routes.subscribe.get(topic, []))
            if now != known:
                self._topic_listeners[topic] = (listener, now)
                try:
                    listener(topic, now)
                except Exception:  # a listener's bug must not end the look-out
                    self.log.exception("queues_listener.failed", topic=topic)

    def _enter_mode(self, mode: str) -> None:
        if self._mode not in ("", mode):
            raise ClientError(
                f"consumer {self._group} was told to {self._mode}; "
                "subscribe and assign exclude each other"
            )
        self._mode = mode

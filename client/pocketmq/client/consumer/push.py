"""PushConsumer: messages come to a listener, or to an `async for` (behaviour sheet 5).

    consumer = PushConsumer("billing", nameservers="127.0.0.1:9876")
    consumer.subscribe("Orders", "new || changed")
    consumer.listen(on_message)                  # async def on_message(message): ...
    async with consumer:
        await until_done()

    async with consumer:                         # without listen()
        async for message in consumer:           # a message is done when the next one is asked for
            ...

What happens inside: the rebalance decides which queues are ours (rebalance/), the pull service
pulls each of them all the time (pull_service.py), a process queue holds what was pulled and not
yet done (process_queue.py), the consume service calls the listener (concurrent.py, orderly.py),
and the offset store notes and writes down how far we are (offset_store.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Protocol, Self, Unpack

import structlog

from pocketmq.client.config import ClientConfig, ClientOptions
from pocketmq.client.consumer.concurrent import ConcurrentConsumeService
from pocketmq.client.consumer.listener import (
    BatchListener,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ListenerThreads,
    MessageListener,
    PooledThreads,
)
from pocketmq.client.consumer.offset_store import OffsetStore, RemoteBrokerOffsetStore
from pocketmq.client.consumer.offset_table import ReadOffsetType
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.client.consumer.pull_plan import (
    BeforePull,
    PullLimits,
    PullRequest,
    PullStatus,
    before_pull,
    pull_header,
)
from pocketmq.client.consumer.start_offset import find_start_offset
from pocketmq.client.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from pocketmq.client.instance import ClientInstance, acquire, release
from pocketmq.client.producer.producer import Producer
from pocketmq.client.rebalance.averagely import AllocateMessageQueueAveragely
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.rebalance.rebalancer import Rebalancer
from pocketmq.client.rebalance.strategy import AllocateMessageQueueStrategy
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol import properties as names
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo, ProcessQueueInfo
from pocketmq.protocol.body import mq_key
from pocketmq.protocol.errors import BrokerNotFoundError, ClientError
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.protocol.message import Message, MessageExt, MessageQueue
from pocketmq.protocol.subscription import TAG, SubscriptionData
from pocketmq.protocol.validation import (
    CLIENT_INNER_PRODUCER_GROUP,
    check_client_group,
    check_topic,
    retry_topic,
)
from pocketmq.runtime.errors import ConfigError, PocketMQError

log = structlog.get_logger()

DEFAULT_MAX_RECONSUME_TIMES: Final = 16
RESET_WAIT_S: Final = 10.0
"""Between dropping queues and setting their offsets, so that running listeners end (C-70)."""
PULL_BATCH_BYTES: Final = 262_144
FALLBACK_DELAY_LEVEL: Final = 3


class ConsumeService(Protocol):
    """Concurrent or orderly consumption."""

    listener_calls: int

    def start(self) -> None: ...
    async def stop(self, await_termination_s: float = 0.0) -> None: ...
    def submit(
        self,
        messages: list[MessageExt],
        held: ProcessQueue,
        queue: MessageQueue,
        *,
        dispatch: bool,
    ) -> None: ...


class PushConsumer:
    """Consumes topics as a member of a group.

    Args:
        group: Consumer group; legal characters, at most 120 (4.9: 255) of them (C-1).
        message_model: Who of the group gets a message.
        consume_from_where: Where a group begins that has no offset yet (C-33).
        consume_timestamp: For `TIMESTAMP`: `yyyyMMddHHmmss` in local time, or epoch ms; by default
            half an hour before now.
        strategy: Shares queues out among the members; must be the same on all of them.
        consume_thread_max: Listener calls at the same time.
        consume_message_batch_max_size: Messages per call of a batch listener.
        pull_batch_size: Messages per pull.
        pull_interval_ms: Between two pulls that found something.
        pull_threshold_for_queue: Cached messages per queue above which pulling pauses.
        pull_threshold_size_for_queue_mib: The same in MiB.
        pull_threshold_for_topic: Shared out over the owned queues; -1 for off (C-27).
        pull_threshold_size_for_topic_mib: The same in MiB.
        consume_concurrently_max_span: Largest distance of cached offsets (C-36).
        max_reconsume_times: -1 for 16 (concurrent) or for ever (orderly).
        consume_timeout_min: Minutes after which a message at the head is sent back (C-53).
        suspend_current_queue_time_ms: Pause of an orderly queue after a failure (C-61).
        post_subscription_when_pull: Send the subscription with every pull (C-37).
        await_termination_ms_when_shutdown: Real ms for running listeners to end by themselves.
        threads: Runs plain listeners; by default a pool of `consume_thread_max` threads.
        on_assignment_changed: Called with (topic, all queues, my queues) after a change (C-27).
        options: See `ClientConfig`.
    """

    def __init__(
        self,
        group: str,
        *,
        message_model: MessageModel = MessageModel.CLUSTERING,
        consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        consume_timestamp: str | int | None = None,
        strategy: AllocateMessageQueueStrategy | None = None,
        consume_thread_max: int = 20,
        consume_message_batch_max_size: int = 1,
        pull_batch_size: int = 32,
        pull_interval_ms: int = 0,
        pull_threshold_for_queue: int = 1_000,
        pull_threshold_size_for_queue_mib: int = 100,
        pull_threshold_for_topic: int = -1,
        pull_threshold_size_for_topic_mib: int = -1,
        consume_concurrently_max_span: int = 2_000,
        max_reconsume_times: int = -1,
        consume_timeout_min: float = 15,
        suspend_current_queue_time_ms: int = 1_000,
        post_subscription_when_pull: bool = False,
        await_termination_ms_when_shutdown: int = 0,
        threads: ListenerThreads | None = None,
        on_assignment_changed: AssignmentListener | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.config = ClientConfig.of(options)
        self.profile = self.config.profile
        check_client_group(group, max_chars=self.profile.group_name_max_chars_client)
        _check_ranges(
            consume_thread_max=(consume_thread_max, 1, 1_000),
            consume_message_batch_max_size=(consume_message_batch_max_size, 1, 1_024),
            pull_batch_size=(pull_batch_size, 1, 1_024),
            pull_interval_ms=(pull_interval_ms, 0, 65_535),
            pull_threshold_for_queue=(pull_threshold_for_queue, 1, 65_535),
            pull_threshold_size_for_queue_mib=(pull_threshold_size_for_queue_mib, 1, 1_024),
            consume_concurrently_max_span=(consume_concurrently_max_span, 1, 65_535),
        )
        self._group = group
        self._message_model = message_model
        self._consume_from_where = consume_from_where
        self.consume_timestamp_ms = _timestamp_ms(
            consume_timestamp, self.config.clock.time_ms() - 30 * 60 * 1000
        )
        self.strategy = strategy or AllocateMessageQueueAveragely()
        self.consume_thread_max = consume_thread_max
        self.consume_message_batch_max_size = consume_message_batch_max_size
        self.pull_batch_size = pull_batch_size
        self.pull_interval_ms = pull_interval_ms
        self.limits = PullLimits(
            threshold_for_queue=pull_threshold_for_queue,
            threshold_size_for_queue_mib=pull_threshold_size_for_queue_mib,
            max_span=consume_concurrently_max_span,
        )
        self.pull_threshold_for_topic = pull_threshold_for_topic
        self.pull_threshold_size_for_topic_mib = pull_threshold_size_for_topic_mib
        self.max_reconsume_times = max_reconsume_times
        self.consume_timeout_min = consume_timeout_min
        self.suspend_current_queue_time_ms = suspend_current_queue_time_ms
        self.post_subscription_when_pull = post_subscription_when_pull
        self.await_termination_ms_when_shutdown = await_termination_ms_when_shutdown
        self._threads = threads
        self._on_assignment_changed = on_assignment_changed

        self._subscriptions: dict[str, SubscriptionData] = {}
        self._listener: Callable[..., Any] | None = None
        self._one_by_one = True
        self._instance: ClientInstance | None = None
        self._running = False
        self._suspended = False
        self.log = log.bind(group=group)

    # -- before the start -----------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str = "*", *, expression_type: str = TAG) -> None:
        """Consume a topic, or of it only the tags that `TagA || TagB` names (C-15).

        On a running consumer the brokers hear of it at once.

        Raises:
            IllegalNameError: no such topic can exist.
            SubscriptionError: the expression names nothing.
        """
        check_topic(topic)
        self._subscriptions[topic] = SubscriptionData.parse(
            topic, expression, self.config.clock.time_ms(), expression_type=expression_type
        )
        if self._instance is not None and self._running:
            self._instance.tasks.start(self._announce(topic), name=f"subscribe {topic}")

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic: here at the next rebalance, there at the next heartbeat."""
        self._subscriptions.pop(topic, None)

    def listen(self, listener: MessageListener) -> None:
        """Let `listener(message)` consume, many messages at a time.

        An async function runs on the loop, a plain one in a thread. What it raises, or
        `ConsumeConcurrentlyStatus.RECONSUME_LATER`, has the message delivered again later.
        """
        self._set_listener(listener, one_by_one=True)

    def listen_batch(self, listener: BatchListener) -> None:
        """Let `listener(messages, context)` consume batches of `consume_message_batch_max_size`.

        `context.ack_index` tells which of them succeeded (C-55).
        """
        self._set_listener(listener, one_by_one=False)

    def _set_listener(self, listener: Callable[..., Any], *, one_by_one: bool) -> None:
        if self._listener is not None:
            raise ClientError(f"consumer {self._group} has a listener already; one is enough")
        if self._running:
            raise ClientError(f"consumer {self._group} runs already; set the listener before")
        self._listener = listener
        self._one_by_one = one_by_one

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and begin to consume (C-1 to C-13).

        Raises:
            ClientError: started twice, or nothing is subscribed.
            DuplicateGroupError: this client id has a consumer of the group already.
            BrokerError: a broker does not understand a subscription.
        """
        if self._instance is not None:
            raise ClientError(f"consumer {self._group} is started already")
        clustering = not self._is_broadcasting
        if clustering:
            topic = retry_topic(self._group)
            self._subscriptions[topic] = SubscriptionData.parse(
                topic, "*", self.config.clock.time_ms()
            )
        self.config = await self.config.with_identity(unique=clustering)
        instance = acquire(self.config)
        try:
            instance.register_consumer(self)
        except ClientError:
            await release(instance)
            raise
        self._instance = instance
        self.log = self.log.bind(client_id=instance.client_id)
        try:
            await self._start_in(instance)
        except BaseException:
            await self.stop()
            raise
        self.log.info(
            "consumer.started",
            topics=sorted(self._subscriptions),
            strategy=self.strategy.name,
            model=self._message_model.value,
        )

    async def _start_in(self, instance: ClientInstance) -> None:
        self._planner = RebalancePlanner(
            self._group,
            instance.client_id,
            self.strategy,
            broadcasting=self._is_broadcasting,
        )
        self._rebalancer = Rebalancer(
            self._planner,
            self,
            api=instance.api,
            routes=instance.routes,
            clock=instance.clock,
            refresh_route=instance.refresh_route,
            rebalance_soon=self._rebalance_soon,
            broadcasting=self._is_broadcasting,
        )
        self._offset_store: OffsetStore = RemoteBrokerOffsetStore(
            self._group, instance.api, instance.routes, instance.refresh_route
        )
        await self._offset_store.load()
        self._offsets = self._offset_store.table
        self._inner_producer = Producer(CLIENT_INNER_PRODUCER_GROUP)
        self._inner_producer.attach(instance)
        self._service: ConsumeService = self._make_service(instance)
        self._service.start()
        self._running = True
        instance.start()
        for topic in sorted(self._subscriptions):
            try:
                await instance.refresh_route(topic)
            except PocketMQError as exc:
                instance.route_failed(topic, exc)
        await self._check_subscriptions(instance)
        await instance.heartbeat()
        instance.rebalance_service.wakeup()

    def _make_service(self, instance: ClientInstance) -> ConsumeService:
        self._concurrent = ConcurrentConsumeService(
            self._group,
            instance.clock,
            self._listener,
            one_by_one=self._one_by_one,
            offsets=self._offsets,
            sends_back=self,
            threads=self._threads
            or PooledThreads(f"consume-{self._group}", self.consume_thread_max),
            max_workers=self.consume_thread_max,
            batch_max_size=1 if self._one_by_one else self.consume_message_batch_max_size,
            consume_timeout_s=self.consume_timeout_min * 60,
            broadcasting=self._is_broadcasting,
            skip_send_back_of_dropped=self.profile.skip_send_back_of_dropped,
            process_queues=lambda: list(self._planner.process_queues.values()),
        )
        return self._concurrent

    async def _check_subscriptions(self, instance: ClientInstance) -> None:
        """Ask a broker of each topic whether it understands what is not a tag (C-11)."""
        for subscription in self._subscriptions.values():
            if subscription.expression_type == TAG:
                continue
            address = instance.routes.broker_of_topic(subscription.topic, lambda names: names[0])
            if address is not None:
                await instance.api.check_client(
                    address, instance.client_id, self._group, subscription
                )

    async def stop(self) -> None:
        """Leave the group: end the listener, write offsets down, unregister (C-71).

        The others get our queues at once. May be called twice.
        """
        instance, self._instance = self._instance, None
        if instance is None:
            return
        self._running = False
        if hasattr(self, "_service"):
            self._rebalancer.stop()
            await self._service.stop(self.await_termination_ms_when_shutdown / 1000)
            await self._offset_store.persist_all(self._planner.owned())
        await instance.unregister(consumer_group=self._group)
        if hasattr(self, "_planner"):
            self._planner.forget_all()
        await release(instance)
        self.log.info("consumer.stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def suspend(self) -> None:
        """Pause pulling and rebalancing; heartbeats go on, so the queues stay ours (C-72)."""
        self._suspended = True

    def resume(self) -> None:
        """Go on after `suspend`, with a rebalance at once."""
        self._suspended = False
        if self._instance is not None:
            self._instance.rebalance_service.wakeup()

    # -- looking at it --------------------------------------------------------------------------

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._group

    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]`; known once started (P-1)."""
        return self._started().client_id

    @property
    def message_model(self) -> MessageModel:
        """Who of the group gets a message."""
        return self._message_model

    @property
    def consume_type(self) -> ConsumeType:
        """For heartbeats."""
        return ConsumeType.PASSIVELY

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """For heartbeats and C-33."""
        return self._consume_from_where

    @property
    def subscriptions(self) -> Sequence[SubscriptionData]:
        """What is consumed, `%RETRY%group` included."""
        return list(self._subscriptions.values())

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now, sorted; `%RETRY%group`'s included."""
        return self._planner.owned() if hasattr(self, "_planner") else []

    def story(self, topic: str | None = None) -> str:
        """Why we have these queues: the last rebalance decisions in words."""
        return self._planner.story(topic) if hasattr(self, "_planner") else ""

    def offsets_in_memory(self, topic: str) -> Mapping[MessageQueue, int]:
        """The next offset to consume of each queue of a topic (221)."""
        return {
            queue: offset for queue, offset in self._offsets.offsets.items() if queue.topic == topic
        }

    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing, as operators see it (307)."""
        instance = self._started()
        clock = instance.clock
        epoch_at_zero_ms = clock.time_ms() - clock.monotonic() * 1000

        def moment_ms(at: float) -> int:
            return round(epoch_at_zero_ms + at * 1000)

        table = {}
        for queue, held in self._planner.process_queues.items():
            first = held.first_offset
            table[mq_key(queue)] = ProcessQueueInfo(
                commit_offset=self._offsets.get(queue),
                cached_msg_min_offset=first if first is not None else 0,
                cached_msg_max_offset=(first or 0) + held.span,
                cached_msg_count=held.count,
                cached_msg_size_in_mib=held.body_mib,
                locked=held.locked,
                try_unlock_times=held.lock_tries,
                last_lock_timestamp=moment_ms(held.last_lock_at),
                droped=held.dropped,
                last_pull_timestamp=moment_ms(held.last_pull_at),
                last_consume_timestamp=moment_ms(held.last_consume_at),
            )
        return ConsumerRunningInfo(
            properties={
                "PROP_CONSUME_TYPE": self.consume_type.value,
                "PROP_NAMESERVER_ADDR": ";".join(self.config.nameservers),
                "PROP_CONSUMEORDERLY": "false",
                "PROP_THREADPOOL_CORE_SIZE": str(self.consume_thread_max),
                "PROP_CLIENT_VERSION": f"V{self.profile.client_version}",
                "PROP_CONSUMER_START_TIMESTAMP": str(self.consume_timestamp_ms),
            },
            subscription_set=list(self._subscriptions.values()),
            mq_table=table,
        )

    # -- iterating ------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[MessageExt]:
        """Messages one by one; each is done when the next one is asked for.

        Leaving the loop early leaves the last message undone: it comes again to somebody.
        """
        if self._listener is not None:
            raise ClientError(f"consumer {self._group} has a listener; it gets the messages")
        self._started()
        return _MessageIterator(self._concurrent)

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        """Have the broker deliver a message again, later (C-55); whether somebody has it now.

        Args:
            message: As a listener got it.
            delay_level: 0: the broker decides by the number of tries; -1: to the dead letter topic.
        """
        instance = self._started()
        try:
            address = instance.routes.master(message.broker_name)
            if address is None:
                raise BrokerNotFoundError(message.broker_name)
            await instance.api.send_back(
                address,
                ConsumerSendMsgBackRequestHeader(
                    offset=message.commit_log_offset,
                    group=self._group,
                    delay_level=delay_level,
                    origin_msg_id=message.msg_id,
                    origin_topic=message.topic,
                    max_reconsume_times=self._max_reconsume_times,
                ),
            )
        except PocketMQError as exc:
            self.log.warning(
                "send_back.failed",
                broker=message.broker_name,
                msg_id=message.msg_id,
                reason=str(exc),
            )
            return await self._send_to_retry_topic(message)
        return True

    async def _send_to_retry_topic(self, message: MessageExt) -> bool:
        """What is left when the broker takes nothing back: a plain message (C-55)."""
        properties = dict(message.properties)
        properties.pop(names.TRANSACTION_PREPARED, None)
        properties.setdefault(names.ORIGIN_MESSAGE_ID, message.msg_id)
        properties[names.RETRY_TOPIC] = message.topic
        properties[names.RECONSUME_TIME] = str(message.reconsume_times + 1)
        properties[names.MAX_RECONSUME_TIMES] = str(self._max_reconsume_times)
        properties[names.DELAY] = str(FALLBACK_DELAY_LEVEL + message.reconsume_times)
        copy = Message(
            retry_topic(self._group), message.body, flag=message.flag, properties=properties
        )
        try:
            await self._inner_producer.send(copy)
        except PocketMQError as exc:
            self.log.warning("retry.send_failed", msg_id=message.msg_id, reason=str(exc))
            return False
        return True

    # -- for the rebalance ----------------------------------------------------------------------

    async def rebalance(self) -> bool:
        """One round for all topics (C-22)."""
        if self._suspended or not self._running:
            return self.profile.rebalance_min_interval_ms is None
        return await self._rebalancer.run(list(self._subscriptions))

    async def persist_offsets(self) -> None:
        """Write all owned queues' offsets down (P-5)."""
        if self._running:
            await self._offset_store.persist_all(self._planner.owned())

    async def release(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Write the offset down and forget it (C-30)."""
        await self._offset_store.persist(queue)
        self._offsets.remove(queue)
        return True

    def release_foreign(self, queue: MessageQueue) -> None:
        """A topic was unsubscribed: nothing to write (C-26)."""

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Concurrent consumers need no locks."""
        return queues

    async def find_start_offset(self, queue: MessageQueue) -> int:
        """C-33, from the store: what is in memory may be a former owner's (removeDirtyOffset)."""
        self._offsets.remove(queue)
        stored = await self._offset_store.read(queue, ReadOffsetType.READ_FROM_STORE)
        return await find_start_offset(
            queue,
            stored,
            self._consume_from_where,
            max_offset=self._max_offset,
            search_offset=self._search_offset,
        )

    def start_pulling(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """C-25.4."""
        self._started().pull_service.execute_later(
            self, PullRequest(queue, held, offset), self.profile.first_pull_delay_ms
        )

    async def assignment_changed(
        self, topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        """Renew the subscription, share topic limits out, tell the brokers and the user (C-27)."""
        subscription = self._subscriptions.get(topic)
        if subscription is not None:
            self._subscriptions[topic] = SubscriptionData.parse(
                topic,
                subscription.sub_string,
                self.config.clock.time_ms(),
                expression_type=subscription.expression_type,
            )
        self._share_out_topic_limits()
        instance = self._instance
        if instance is not None:
            await instance.heartbeat()
        if self._on_assignment_changed is not None:
            result = self._on_assignment_changed(topic, tuple(all_queues), tuple(mine))
            if isinstance(result, Awaitable):
                await result

    def _share_out_topic_limits(self) -> None:
        owned = len(self._planner.owned())
        if owned == 0:
            return
        count, mib = self.pull_threshold_for_topic, self.pull_threshold_size_for_topic_mib
        limits = self.limits
        self.limits = PullLimits(
            threshold_for_queue=(
                max(1, count // owned) if count != -1 else limits.threshold_for_queue
            ),
            threshold_size_for_queue_mib=(
                max(1, mib // owned) if mib != -1 else limits.threshold_size_for_queue_mib
            ),
            max_span=limits.max_span,
        )

    def _rebalance_soon(self) -> None:
        delay_ms = self.profile.lock_retry_delay_ms
        if self._instance is not None and delay_ms is not None:
            self._instance.rebalance_service.wakeup_later(delay_ms)

    # -- for the pull service -------------------------------------------------------------------

    def before_pull(self, request: PullRequest) -> BeforePull:
        """C-36."""
        return before_pull(
            request,
            self.limits,
            running=self._running,
            suspended=self._suspended,
            orderly=False,
            subscribed=request.queue.topic in self._subscriptions,
            now=self.config.clock.monotonic(),
        )

    def pull_header(self, request: PullRequest, broker: BrokerAddress) -> PullMessageRequestHeader:
        """C-37."""
        return pull_header(
            request,
            self._group,
            self._subscriptions[request.queue.topic],
            commit_offset=0 if self._is_broadcasting else self._offsets.get(request.queue),
            max_msg_nums=self.pull_batch_size,
            post_subscription=self.post_subscription_when_pull,
            to_slave=broker.is_slave,
        )

    async def find_start(self, request: PullRequest) -> bool:
        """The start offset under the lock (C-36); concurrent consumers never need it."""
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
        held = request.process_queue
        request.next_offset = header.next_begin_offset
        if status is PullStatus.FOUND:
            wanted = self._filtered(request.queue.topic, messages)
            if not wanted:
                return 0
            for message in wanted:
                message.properties[names.MIN_OFFSET] = str(header.min_offset)
                message.properties[names.MAX_OFFSET] = str(header.max_offset)
            dispatch = held.put(wanted)
            self._service.submit(wanted, held, request.queue, dispatch=dispatch)
            return self.pull_interval_ms
        if status is PullStatus.OFFSET_ILLEGAL:
            self._correct_offset(request)
            return None
        if held.count == 0 and not held.dropped:
            self._offsets.update(request.queue, request.next_offset, increase_only=True)
        return 0

    def _filtered(self, topic: str, messages: list[MessageExt]) -> list[MessageExt]:
        """Only messages whose tag is wanted: the broker compared hashes only (C-41, B-57)."""
        subscription = self._subscriptions.get(topic)
        if subscription is None or not subscription.tags_set:
            return messages
        return [message for message in messages if subscription.matches_tag(message.tags)]

    def _correct_offset(self, request: PullRequest) -> None:
        """The offset is outside the queue: write the right one down, take the queue anew (C-43)."""
        queue, held = request.queue, request.process_queue
        self.log.warning("offset.illegal", queue=str(queue), next_offset=request.next_offset)
        held.dropped = True
        instance = self._instance
        if instance is None:
            return
        if self.profile.freeze_offset_when_illegal:
            self._offsets.freeze(queue, request.next_offset)
        instance.tasks.start(self._replace_offset(request), name=f"correct offset of {queue}")

    async def _replace_offset(self, request: PullRequest) -> None:
        queue, delay_ms = request.queue, self.profile.illegal_offset_delay_ms
        if delay_ms:
            await self.config.clock.sleep(delay_ms / 1000)
            self._offsets.update(queue, request.next_offset, increase_only=False)
        if self._planner.process_queues.get(queue) is not request.process_queue:
            return
        await self._offset_store.persist(queue)
        if self._planner.process_queues.get(queue) is request.process_queue:
            self._planner.forget(queue)
            self._offsets.remove(queue)
        if self._instance is not None and self.profile.freeze_offset_when_illegal:
            self._instance.rebalance_service.wakeup()

    # -- for brokers ----------------------------------------------------------------------------

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from other offsets (C-70); returns at once."""
        instance = self._instance
        if instance is not None:
            instance.tasks.start(self._reset(topic, dict(offsets)), name=f"reset {topic}")

    async def _reset(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        self.suspend()
        try:
            affected = [
                queue
                for queue in self._planner.process_queues
                if queue.topic == topic and queue in offsets
            ]
            for queue in affected:
                held = self._planner.process_queues[queue]
                held.dropped = True
                held.clear()
            await self.config.clock.sleep(RESET_WAIT_S)
            for queue in affected:
                self._offsets.update(queue, offsets[queue], increase_only=False)
                await self._offset_store.persist(queue)
                self._planner.forget(queue)
                self._offsets.remove(queue)
            self.log.info("offsets.reset", topic=topic, queues=len(affected))
        finally:
            self.resume()

    # -- inside ---------------------------------------------------------------------------------

    async def _announce(self, topic: str) -> None:
        instance = self._started()
        try:
            await instance.refresh_route(topic)
        except PocketMQError as exc:
            instance.route_failed(topic, exc)
        await instance.heartbeat()

    async def _max_offset(self, queue: MessageQueue) -> int:
        return await self._started().api.max_offset(self._master(queue), queue)

    async def _search_offset(self, queue: MessageQueue) -> int:
        return await self._started().api.search_offset(
            self._master(queue), queue, self.consume_timestamp_ms
        )

    def _master(self, queue: MessageQueue) -> str:
        address = self._started().routes.master(queue.broker_name)
        if address is None:
            raise BrokerNotFoundError(queue.broker_name)
        return address

    @property
    def _is_broadcasting(self) -> bool:
        return self._message_model is MessageModel.BROADCASTING

    @property
    def _max_reconsume_times(self) -> int:
        times = self.max_reconsume_times
        return DEFAULT_MAX_RECONSUME_TIMES if times == -1 else times

    def _started(self) -> ClientInstance:
        if self._instance is None:
            raise ClientError(
                f"consumer {self._group} is not running; use `async with`, or start() it first"
            )
        return self._instance


class _MessageIterator:
    """`async for message in consumer`: the previous message is done when the next is asked for."""

    def __init__(self, service: ConcurrentConsumeService) -> None:
        self._service = service
        self._last: tuple[list[MessageExt], ProcessQueue, MessageQueue] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageExt:
        last, self._last = self._last, None
        if last is not None and not last[1].dropped:
            messages, held, queue = last
            await self._service.settle(
                messages,
                held,
                queue,
                ConsumeConcurrentlyStatus.CONSUME_SUCCESS,
                ConsumeConcurrentlyContext(queue),
            )
        work = await self._service.next_work()
        if work is None:
            raise StopAsyncIteration
        self._last = work
        return work[0][0]


AssignmentListener = Callable[[str, tuple[MessageQueue, ...], tuple[MessageQueue, ...]], Any]
"""`listener(topic, all_queues, my_queues)`, async or plain."""


def _check_ranges(**options: tuple[int, int, int]) -> None:
    for name, (value, least, most) in options.items():
        if not least <= value <= most:
            raise ConfigError(name, f"{value} is not between {least} and {most}")


def _timestamp_ms(value: str | int | None, default_ms: int) -> int:
    """Epoch ms of `yyyyMMddHHmmss` in local time, as RocketMQ writes it."""
    if value is None:
        return default_ms
    if isinstance(value, int):
        return value
    try:
        moment = datetime.strptime(value, "%Y%m%d%H%M%S")  # noqa: DTZ007 - local by definition
    except ValueError as exc:
        raise ConfigError(
            "consume_timestamp", f"{value!r} is no time", advice="write it as 20131231235959"
        ) from exc
    return round(moment.timestamp() * 1000)

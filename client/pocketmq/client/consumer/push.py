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
pulls each of them all the time (pull_service.py), a process queue holds what was pulled and not yet
done (process_queue.py), the consume service calls the listener (concurrent.py, orderly.py), and the
offset store notes and writes down how far we are (offset_store.py).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

import structlog

from pocketmq.client.config import ClientConfig
from pocketmq.client.consumer.listener import ListenerThreads
from pocketmq.client.consumer.local_offsets import OffsetFiles
from pocketmq.client.consumer.message_iterator import MessageIterator
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
from pocketmq.client.consumer.push_parts import PushParts
from pocketmq.client.consumer.running_info import running_info
from pocketmq.client.consumer.settings import PushOptions, PushSettings
from pocketmq.client.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from pocketmq.client.instance import ClientInstance, acquire, release
from pocketmq.client.rebalance.averagely import AllocateMessageQueueAveragely
from pocketmq.client.rebalance.strategy import AllocateMessageQueueStrategy
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol import properties as names
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.message import MessageExt, MessageQueue
from pocketmq.protocol.subscription import TAG, SubscriptionData
from pocketmq.protocol.validation import check_client_group, check_topic, retry_topic
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

AssignmentListener = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], Any]
"""`listener(topic, all_queues, my_queues)`, async or plain."""


class PushConsumer:
    """Consumes topics as a member of a group.

    Args:
        group: Consumer group; legal characters, at most 120 (4.9: 255) of them (C-1).
        strategy: Shares queues out among the members; must be the same on all of them.
        threads: Runs plain listeners; by default a pool of `consume_thread_max` threads.
        offset_files: Holds a broadcasting consumer's progress; by default its own file (C-66).
        on_assignment_changed: Called after our share of a topic has changed (C-27).
        options: See `PushSettings` and `ClientConfig`.
    """

    def __init__(
        self,
        group: str,
        *,
        strategy: AllocateMessageQueueStrategy | None = None,
        threads: ListenerThreads | None = None,
        offset_files: OffsetFiles | None = None,
        on_assignment_changed: AssignmentListener | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        self.settings, client_options = PushSettings.of(options)
        self.config = ClientConfig.of(client_options)
        self.profile = self.config.profile
        check_client_group(group, max_chars=self.profile.group_name_max_chars_client)
        self._group = group
        self.strategy = strategy or AllocateMessageQueueAveragely()
        self.consume_timestamp_ms = self.settings.consume_timestamp_ms(self.config.clock.time_ms())
        self.limits = self.settings.pull_limits(owned_queues=1)
        self.threads = threads
        """Runs plain listeners; None until started, unless given."""
        self.offset_files = offset_files
        self._on_assignment_changed = on_assignment_changed
        self._subscriptions: dict[str, SubscriptionData] = {}
        self.listener: Callable[..., Any] | None = None
        self.one_by_one = True
        self._orderly = False
        self._instance: ClientInstance | None = None
        self._parts: PushParts | None = None
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
        """Stop consuming a topic: at the next rebalance, and for brokers at the next heartbeat."""
        self._subscriptions.pop(topic, None)

    def listen(self, listener: Callable[[MessageExt], Any], *, orderly: bool = False) -> None:
        """Let `listener(message)` consume.

        An async function runs on the loop, a plain one in a thread. What it raises, or
        `ConsumeConcurrentlyStatus.RECONSUME_LATER`, has the message delivered again later.

        Args:
            listener: Returns None or a status.
            orderly: One message of a queue after the other; a failed one is tried again before any
                later one (C-58). Otherwise many at a time, in no order.
        """
        self._set_listener(listener, one_by_one=True, orderly=orderly)

    def listen_batch(
        self, listener: Callable[[list[MessageExt], Any], Any], *, orderly: bool = False
    ) -> None:
        """Let `listener(messages, context)` consume up to `consume_message_batch_max_size` at once.

        The context is a `ConsumeConcurrentlyContext`, whose `ack_index` tells how many succeeded
        (C-55), or a `ConsumeOrderlyContext`, which knows manual commits (C-59).
        """
        self._set_listener(listener, one_by_one=False, orderly=orderly)

    def _set_listener(
        self, listener: Callable[..., Any], *, one_by_one: bool, orderly: bool
    ) -> None:
        if not callable(listener):
            raise ClientError(f"consumer {self._group}: a {type(listener).__name__} cannot listen")
        if self.listener is not None:
            raise ClientError(f"consumer {self._group} has a listener already; one is enough")
        if self._instance is not None:
            raise ClientError(f"consumer {self._group} runs already; set the listener before")
        self.listener = listener
        self.one_by_one = one_by_one
        self._orderly = orderly

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and begin to consume (C-1 to C-13).

        Raises:
            ClientError: it is started already.
            DuplicateGroupError: this client id has a consumer of the group already.
            BrokerError: a broker does not understand a subscription.
        """
        if self._instance is not None:
            raise ClientError(f"consumer {self._group} is started already")
        clustering = not self.settings.is_broadcasting
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
            model=self.message_model.value,
            orderly=self._orderly,
        )

    async def _start_in(self, instance: ClientInstance) -> None:
        parts = PushParts(self, instance)
        await parts.offset_store.load()
        self._parts = parts
        parts.service.start()
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
        parts = self._parts
        if parts is not None:
            parts.rebalancer.stop()
            await parts.service.stop(self.settings.await_termination_ms_when_shutdown / 1000)
            parts.threads.close()
            await parts.offset_store.persist_all(parts.planner.owned())
            if parts.orderly is not None:
                await parts.orderly.unlock_all()
        await instance.unregister(consumer_group=self._group)
        if parts is not None:
            parts.planner.forget_all()
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
        return self.settings.message_model

    @property
    def consume_type(self) -> ConsumeType:
        """For heartbeats."""
        return ConsumeType.PASSIVELY

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """Where the group begins when it has no offset (C-33)."""
        return self.settings.consume_from_where

    @property
    def is_orderly(self) -> bool:
        """Whether the listener gets messages in order."""
        return self._orderly

    @property
    def subscriptions(self) -> Sequence[SubscriptionData]:
        """What is consumed, `%RETRY%group` included."""
        return list(self._subscriptions.values())

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now, sorted; `%RETRY%group`'s included."""
        return [] if self._parts is None else self._parts.planner.owned()

    def story(self, topic: str | None = None) -> str:
        """Why we have these queues: the last rebalance decisions in words."""
        return "" if self._parts is None else self._parts.planner.story(topic)

    def offsets_in_memory(self, topic: str) -> Mapping[MessageQueue, int]:
        """The next offset to consume of each queue of a topic (221)."""
        return {
            queue: offset
            for queue, offset in self._made.offsets.offsets.items()
            if queue.topic == topic
        }

    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing, as operators see it (307)."""
        clock, parts = self._started().clock, self._made
        return running_info(
            {
                "PROP_CONSUME_TYPE": self.consume_type.value,
                "PROP_NAMESERVER_ADDR": ";".join(self.config.nameservers),
                "PROP_CONSUMEORDERLY": str(self._orderly).lower(),
                "PROP_THREADPOOL_CORE_SIZE": str(self.settings.consume_thread_max),
                "PROP_CLIENT_VERSION": f"V{self.profile.client_version}",
                "PROP_CONSUMER_START_TIMESTAMP": str(self.consume_timestamp_ms),
            },
            self._subscriptions.values(),
            parts.planner.process_queues,
            parts.offsets,
            epoch_at_zero_ms=clock.time_ms() - clock.monotonic() * 1000,
        )

    # -- messages by hand -----------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[MessageExt]:
        """Messages one by one; each is done when the next one is asked for.

        Leaving the loop early leaves the last message undone: it comes again to somebody.
        """
        concurrent = self._made.concurrent
        if self.listener is not None or concurrent is None:
            raise ClientError(f"consumer {self._group} has a listener; it gets the messages")
        return MessageIterator(concurrent)

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        """Have the broker deliver a message again, later (C-55); whether somebody has it now.

        Args:
            message: As a listener or an `async for` got it.
            delay_level: 0: the broker decides by the number of tries; -1: to the dead letter topic.
        """
        return await self._made.send_back.send_back(message, delay_level)

    # -- for the rebalance ----------------------------------------------------------------------

    async def rebalance(self) -> bool:
        """One round for all topics (C-22)."""
        if self._suspended or not self._running or self._parts is None:
            return self.profile.rebalance_min_interval_ms is None
        return await self._parts.rebalancer.run(list(self._subscriptions))

    async def persist_offsets(self) -> None:
        """Write all owned queues' offsets down (P-5)."""
        if self._running and self._parts is not None:
            await self._parts.offset_store.persist_all(self._parts.planner.owned())

    async def release(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Write the offset down and let go (C-30)."""
        parts = self._made
        await parts.offset_store.persist(queue)
        if parts.orderly is not None and not self.settings.is_broadcasting:
            if not await parts.orderly.release(queue, held):
                return False
            await parts.offset_store.persist(queue)  # the listener may just have ended
        parts.offsets.remove(queue)
        return True

    def release_foreign(self, queue: MessageQueue) -> None:
        """A topic was unsubscribed: nothing is written (C-26)."""
        self._made.offsets.remove(queue)

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Queue locks, for orderly consumption (C-25.3)."""
        locks = self._made.locks
        return queues if locks is None else await locks.lock(queues)

    async def find_start_offset(self, queue: MessageQueue) -> int:
        """C-33, from the store: what is in memory may be a former owner's (removeDirtyOffset)."""
        parts = self._made
        parts.offsets.remove(queue)
        stored = await parts.offset_store.read(queue, ReadOffsetType.READ_FROM_STORE)
        return await parts.start_offsets.find(queue, stored)

    def start_pulling(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """C-25.4."""
        self._started().pull_service.execute_later(
            self, PullRequest(queue, held, offset), self.profile.first_pull_delay_ms
        )

    async def assignment_changed(
        self, topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        """Renew the subscription, share limits out, tell the brokers and the user (C-27)."""
        subscription = self._subscriptions.get(topic)
        if subscription is not None:
            self._subscriptions[topic] = SubscriptionData.parse(
                topic,
                subscription.sub_string,
                self.config.clock.time_ms(),
                expression_type=subscription.expression_type,
            )
        self.limits = self.settings.pull_limits(len(self.assignment))
        if self._instance is not None:
            await self._instance.heartbeat()
        if self._on_assignment_changed is not None:
            result = self._on_assignment_changed(topic, tuple(all_queues), tuple(mine))
            if inspect.isawaitable(result):
                await result

    def rebalance_soon(self) -> None:
        """A lock was refused (C-25.3)."""
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
            orderly=self._orderly and not self.settings.is_broadcasting,
            subscribed=request.queue.topic in self._subscriptions,
            now=self.config.clock.monotonic(),
        )

    def pull_header(self, request: PullRequest, broker: BrokerAddress) -> PullMessageRequestHeader:
        """C-37."""
        broadcasting = self.settings.is_broadcasting
        return pull_header(
            request,
            self._group,
            self._subscriptions[request.queue.topic],
            commit_offset=0 if broadcasting else self._made.offsets.get(request.queue),
            max_msg_nums=self.settings.pull_batch_size,
            post_subscription=self.settings.post_subscription_when_pull,
            to_slave=broker.is_slave,
            max_msg_bytes=PULL_BATCH_BYTES if self.profile.pull_names_max_bytes else None,
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
        held, queue, parts = request.process_queue, request.queue, self._made
        request.next_offset = header.next_begin_offset
        if status is PullStatus.FOUND:
            wanted = self._filtered(queue.topic, messages)
            if not wanted:
                return 0
            least, most = str(header.min_offset), str(header.max_offset)
            for message in wanted:
                message.properties[names.MIN_OFFSET] = least
                message.properties[names.MAX_OFFSET] = most
            dispatch = held.put(wanted)
            parts.service.submit(wanted, held, queue, dispatch=dispatch)
            return self.settings.pull_interval_ms
        if status is PullStatus.OFFSET_ILLEGAL:
            parts.offset_moves.drop_illegal(request)
            if self._instance is not None:
                self._instance.tasks.start(self._correct(request), name=f"correct {queue}")
            return None
        if held.count == 0 and not held.dropped:
            parts.offsets.update(queue, request.next_offset, increase_only=True)
        return 0

    def _filtered(self, topic: str, messages: list[MessageExt]) -> list[MessageExt]:
        """Only messages whose tag is wanted: the broker compared hashes only (C-41, B-57)."""
        subscription = self._subscriptions.get(topic)
        if subscription is None or not subscription.tags_set:
            return messages
        return [message for message in messages if subscription.matches_tag(message.tags)]

    async def _correct(self, request: PullRequest) -> None:
        if await self._made.offset_moves.correct(request) and self._instance is not None:
            self._instance.rebalance_service.wakeup()

    # -- for brokers ----------------------------------------------------------------------------

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from other offsets (C-70); returns at once."""
        if self._instance is not None:
            self._instance.tasks.start(self._reset(topic, dict(offsets)), name=f"reset {topic}")

    async def _reset(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        self.suspend()
        try:
            await self._made.offset_moves.reset(topic, offsets)
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

    def _started(self) -> ClientInstance:
        if self._instance is None:
            raise self._not_running()
        return self._instance

    @property
    def _made(self) -> PushParts:
        if self._parts is None:
            raise self._not_running()
        return self._parts

    def _not_running(self) -> ClientError:
        return ClientError(
            f"consumer {self._group} is not running; use `async with`, or start() it first"
        )

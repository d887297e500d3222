"""PushConsumer: messages come to a listener, or to an `async for` (C-1 to C-72).

    consumer = PushConsumer("billing", nameservers="127.0.0.1:9876")
    consumer.subscribe("Orders", "new || changed")
    consumer.listen(on_message)                  # async def on_message(message): ...
    async with consumer:
        await until_done()

    async with consumer:                         # without listen()
        async for message in consumer:           # a message is done when the next one is asked for
            ...

"Push" is what it looks like to the listener; on the wire the consumer pulls, and the broker holds a
pull for up to 15 s when there is nothing. A message passes these places:

    rebalance/           which queues are ours: a claim for each
    pull_service.py      one pull per queue is always pending; push_pulls.py says whether and how
    process_queue.py     pulled and not yet done
    concurrent.py        calls the listener, many messages at a time; or orderly.py, one by one
    offset_table.py      the smallest offset not yet done, per queue
    offset_store.py      writes it to the broker every 5 s, when a queue is given up, at the end

With `client_rebalance=False` the brokers say which queues are ours and whether they are popped;
assigned_pops.py then takes the place of the first two, and acks that of the last two (docs/pop.md).

A crash between two writes delivers up to 5 s of messages again; none is lost. push_parts.py makes
these parts and connects them; this class is what the application and the client instance see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from pocketmq.client.config import settings_of
from pocketmq.client.consumer.consuming.listener import (
    BatchListener,
    MessageListener,
    OrderlyListener,
)
from pocketmq.client.consumer.consuming.message_iterator import MessageIterator
from pocketmq.client.consumer.membership.direct import DirectConsumption
from pocketmq.client.consumer.membership.group_member import GroupMember
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.membership.running_info import running_info
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.consumer.push.push_parts import Hooks, Listening, PushParts, push_parts
from pocketmq.client.consumer.push.push_pulls import PullListener
from pocketmq.client.consumer.push.push_queues import AssignmentListener
from pocketmq.client.consumer.settings import PushOptions, PushSettings
from pocketmq.client.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from pocketmq.client.instance import ClientInstance
from pocketmq.client.listener_threads import ListenerThreads
from pocketmq.client.selector import MessageSelector
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.strategy import AllocateMessageQueueStrategy
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.messages.subscription import TAG
from pocketmq.protocol.messages.validation import check_topic, retry_topic
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.files.text_files import TextFiles


class PushConsumer(GroupMember):
    """Consumes topics as a member of a group.

    Args:
        group: Consumer group; legal characters, at most 120 (4.9: 255) of them (C-1).
        strategy: Shares queues out among the members; must be the same on all of them.
        threads: Runs plain listeners; by default a pool of `consume_thread_max` threads.
        offset_files: File system for a broadcasting consumer's progress (C-66).
        on_assignment_changed: Called after our share of a topic has changed (C-27).
        on_pull: Called with the queue of each pull or pop that is sent.
        options: See `PushSettings` and `ClientConfig`.
    """

    def __init__(
        self,
        group: str,
        *,
        strategy: AllocateMessageQueueStrategy | None = None,
        threads: ListenerThreads | None = None,
        offset_files: TextFiles | None = None,
        on_assignment_changed: AssignmentListener | None = None,
        on_pull: PullListener | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        self.settings, client_options = settings_of(PushSettings, options)
        super().__init__(group, client_options)
        self.strategy = strategy or AllocateMessageQueueAveragely()
        now_ms = self.config.clock.time_ms()
        self._consume_timestamp_ms = self.settings.consume_timestamp_ms(now_ms)
        self._hooks = Hooks(
            threads=threads,
            offset_files=offset_files,
            on_assignment_changed=on_assignment_changed,
            on_pull=on_pull,
        )
        self._listening = Listening()
        self._change_listening: Callable[[Listening], Listening] = lambda listening: listening
        self._parts: PushParts | None = None

    # -- before the start -----------------------------------------------------------------------

    def subscribe(
        self, topic: str, expression: str | MessageSelector = "*", *, expression_type: str = TAG
    ) -> None:
        """Consume a topic, or of it only the tags that `TagA || TagB` names (C-15),
        or what a `MessageSelector.by_sql` chooses.

        On a running consumer the brokers hear of it at once.

        Raises:
            IllegalNameError: no such topic can exist.
            SubscriptionError: the expression names nothing.
            FilterError: it is SQL92, and wrong; says where and why.
        """
        check_topic(topic)
        selector = MessageSelector.of(expression, expression_type)
        self._subscriptions.set(topic, selector.expression, expression_type=selector.type)
        if self._instance is not None and self.is_running:
            self._instance.tasks.start(self._announce(topic), name=f"subscribe {topic}")

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic: at the next rebalance, and for brokers at the next heartbeat."""
        self._subscriptions.remove(topic)

    def listen(self, listener: MessageListener, *, orderly: bool = False) -> None:
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
        self, listener: BatchListener | OrderlyListener, *, orderly: bool = False
    ) -> None:
        """Let `listener(messages, context)` consume up to `consume_message_batch_max_size` at once.

        The context is a `ConsumeConcurrentlyContext`, whose `ack_index` tells how many succeeded
        (C-55), or a `ConsumeOrderlyContext`, which knows manual commits (C-59).
        """
        self._set_listener(listener, one_by_one=False, orderly=orderly)

    def change_listening(self, change: Callable[[Listening], Listening]) -> None:
        """Wrap the listener, whether it is set already or later; for tracing.

        Raises:
            ClientError: the consumer runs already.
        """
        if self._instance is not None:
            raise ClientError(
                f"consumer {self._group} is already running; change its listener before start()"
            )
        self._change_listening = change
        self._listening = change(self._listening)

    def _set_listener(
        self, listener: Callable[..., Any], *, one_by_one: bool, orderly: bool
    ) -> None:
        if not callable(listener):
            raise ClientError(
                f"consumer {self._group}: the listener is a "
                f"{type(listener).__name__}; pass a function"
            )
        if self._listening.listener is not None:
            raise ClientError(
                f"consumer {self._group} already has a listener; a consumer can have only one "
                "listener"
            )
        if self._instance is not None:
            raise ClientError(
                f"consumer {self._group} is already running; set its listener before start()"
            )
        self._listening = self._change_listening(
            Listening(listener=listener, one_by_one=one_by_one, orderly=orderly)
        )

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and begin to consume (C-1 to C-13).

        Raises:
            ClientError: it is started already.
            DuplicateGroupError: this client id has a consumer of the group already.
            BrokerError: a broker does not understand a subscription.
        """
        clustering = not self.settings.is_broadcasting
        member = await self._join_group(unique=clustering)
        if clustering:
            # Failed messages come back in the retry topic. Broadcasting has no retries (C-55).
            self._subscriptions.set(retry_topic(self._group), "*")
        try:
            await self._start_as(member)
        except BaseException:
            # A half-started consumer would stay in the group, hold queues and consume nothing.
            await self.stop()
            raise
        self.log.info(
            "consumer.started",
            topics=sorted(self._subscriptions.topics),
            strategy=self.strategy.name,
            model=self.message_model.value,
            orderly=self.is_orderly,
        )

    # behaviour 63
    async def _start_as(self, member: Membership) -> None:
        instance = member.instance
        parts = push_parts(
            member,
            self.settings,
            self.strategy,
            self._listening,
            self._hooks,
            self._consume_timestamp_ms,
        )
        # Load the offsets before anything is pulled: they say where to begin.
        await parts.store.load()
        self._parts = parts
        parts.consumption.start()
        self._state.start()
        instance.start()
        # Heartbeats go to the brokers of known routes, and the first rebalance asks them who is in
        # the group: so routes first, then the heartbeat, then the rebalance.
        await self._refresh_routes(instance)
        # If a broker refuses the subscription, fail at the start and not at a later pull.
        await self._check_subscriptions(instance)
        await instance.heartbeat()
        instance.rebalance_service.wakeup()

    async def _check_subscriptions(self, instance: ClientInstance) -> None:
        """Ask a broker of each topic whether it understands what is not a tag (C-11)."""
        for subscription in self._subscriptions:
            # Every broker understands tags; the question costs a round trip.
            if subscription.expression_type == TAG:
                continue
            address = instance.routes.broker_of_topic(subscription.topic, lambda names: names[0])
            if address is not None:
                await instance.api.check_client(
                    address, instance.client_id, self._group, subscription
                )

    async def stop(self) -> None:
        """Leave the group: end the listener, write offsets down, unregister (C-71).

        The other members can take its queues at once. May be called twice.
        """
        instance, self._instance = self._instance, None
        if instance is None:
            return
        self._state.stop()
        parts = self._parts
        if parts is not None:
            # The order matters: first nothing new comes, then listeners end, then their offsets are
            # written, and only then do locks and membership go. Another member that got a queue
            # earlier would begin at an old offset.
            parts.rebalancer.stop()
            if parts.pops is not None:
                await parts.pops.stop()
            await parts.consumption.stop(self.settings.await_termination_ms_when_shutdown / 1000)
            parts.threads.close()
            await parts.store.persist_all(parts.planner.owned())
            await parts.consumption.unlock_all()
        await self._leave(instance)
        if parts is not None:
            parts.planner.forget_all()
            parts.buffers.clear()

    def suspend(self) -> None:
        """Pause pulling and rebalancing; heartbeats go on, so the queues stay ours (C-72)."""
        self._state.suspend()

    def resume(self) -> None:
        """Go on after `suspend`, with a rebalance at once."""
        self._state.resume()
        if self._instance is not None:
            self._instance.rebalance_service.wakeup()

    # -- state ----------------------------------------------------------------------------------

    @property
    def message_model(self) -> MessageModel:
        """Clustering or broadcasting."""
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
        return self._listening.orderly

    @property
    def is_suspended(self) -> bool:
        """Between `suspend` and `resume`."""
        return self._state.suspended

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now, sorted; `%RETRY%group`'s included.

        Those that are popped come after them; queue id -1 stands for all queues of a broker.
        """
        if self._parts is None:
            return []
        pops = self._parts.pops
        return self._parts.planner.owned() + ([] if pops is None else pops.owned)

    def story(self, topic: str | None = None) -> str:
        """Why we have these queues: the last rebalance decisions in words."""
        return "" if self._parts is None else self._parts.planner.story(topic)

    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing, as operators see it: GET_CONSUMER_RUNNING_INFO (307)."""
        clock, parts = self._started().clock, self._made
        return running_info(
            {
                "PROP_CONSUME_TYPE": self.consume_type.value,
                "PROP_NAMESERVER_ADDR": ";".join(self.config.nameservers),
                "PROP_CONSUMEORDERLY": str(self.is_orderly).lower(),
                "PROP_THREADPOOL_CORE_SIZE": str(self.settings.consume_thread_max),
                "PROP_CLIENT_VERSION": f"V{self.profile.client_version}",
                "PROP_CONSUMER_START_TIMESTAMP": str(self._consume_timestamp_ms),
            },
            self._subscriptions,
            list(parts.buffers.values()),
            parts.store.table,
            popped=() if parts.pops is None else parts.pops.queues,
            epoch_at_zero_ms=clock.time_ms() - clock.monotonic() * 1000,
        )

    @property
    def direct(self) -> DirectConsumption | None:
        """Consumes single messages by hand (309); None where an iterator takes the messages."""
        return None if self._parts is None else self._parts.direct

    # -- messages by hand -----------------------------------------------------------------------

    def __aiter__(self) -> MessageIterator:
        """Messages one by one; each is done when the next one is asked for.

        Leaving the loop early leaves the last message undone: it is delivered again. `take`
        ends after a number of messages, and `done` of the iterator marks the last one by hand.
        """
        return self._iterate(None)

    def take(self, count: int) -> MessageIterator:
        """The next `count` messages, for `async for`; after the loop all of them are done.

        Raises:
            ClientError: A listener gets the messages.
        """
        return self._iterate(count)

    def _iterate(self, count: int | None) -> MessageIterator:
        concurrent = self._made.concurrent
        if self._listening.listener is not None or concurrent is None:
            raise ClientError(
                f"consumer {self._group} has a listener, which gets the messages; to iterate "
                "over messages, set no listener"
            )
        return MessageIterator(concurrent, count, self._made.consume_events)

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        """Have the broker deliver a message again, later (C-55); whether a broker has it now.

        Args:
            message: As a listener or an `async for` got it.
            delay_level: 0: the broker decides by the number of tries; -1: to the dead letter topic.
        """
        return await self._made.send_back.send_back(message, delay_level)

    # -- for the instance and its parts ---------------------------------------------------------

    async def rebalance(self) -> bool:
        """One round for all topics (C-22)."""
        if self.is_suspended or not self.is_running or self._parts is None:
            return self.profile.client.rebalance_min_interval_ms is None
        return await self._parts.rebalancer.run(self._subscriptions.topics)

    async def persist_offsets(self) -> None:
        """Persist all owned queues' offsets (P-5)."""
        if self.is_running and self._parts is not None:
            await self._parts.store.persist_all(self._parts.planner.owned())

    def persist_at_once(self) -> bool:
        """`persist_offsets` where every broker of its queues is connected."""
        if not self.is_running or self._parts is None:
            return True
        return self._parts.store.persist_at_once(self._parts.planner.owned())

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move to other offsets (C-70); returns at once."""
        if self._instance is not None:
            self._instance.tasks.start(self._reset(topic, dict(offsets)), name=f"reset {topic}")

    async def _reset(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        self.suspend()
        try:
            await self._made.moves.reset(topic, offsets)
        finally:
            self.resume()

    # -- inside ---------------------------------------------------------------------------------

    async def _announce(self, topic: str) -> None:
        instance = self._started()
        try:
            await instance.lookups.refresh_route(topic)
        except PocketMQError as exc:
            instance.lookups.route_failed(topic, exc)
        await instance.heartbeat()

    @property
    def _table(self) -> OffsetTable:
        return self._made.store.table

    @property
    def _made(self) -> PushParts:
        if self._parts is None:
            raise self._not_running()
        return self._parts

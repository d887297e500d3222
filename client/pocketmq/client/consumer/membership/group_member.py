"""Base class of all consumers, with or without a listener: a member of its group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import structlog

from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.membership.direct import DirectConsumption
from pocketmq.client.consumer.membership.membership import Membership, RunState
from pocketmq.client.consumer.membership.missing_topics import look_for
from pocketmq.client.consumer.membership.subscriptions import Subscriptions
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.group_client import GroupClient
from pocketmq.client.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from pocketmq.client.instance import ClientInstance
from pocketmq.client.instances import release
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class GroupMember(GroupClient):
    """A consumer as its client instance sees it."""

    KIND = "consumer"

    def __init__(self, group: str, options: ClientOptions) -> None:
        super().__init__(group, options)
        self._subscriptions = Subscriptions(self.config.clock.time_ms)
        self._state = RunState()
        self.log = log.bind(group=group)

    async def _join_group(self, *, unique: bool) -> Membership:
        """As `_join`, with log context bound to the client id."""
        instance = await self._join(lambda each: each.register_consumer(self), unique=unique)
        self.log = self.log.bind(client_id=instance.client_id)
        return Membership(self._group, instance, self._subscriptions, self._state)

    async def _leave(self, instance: ClientInstance) -> None:
        """Unregister at the brokers, and close what no other client uses."""
        await instance.unregister(consumer_group=self._group)
        await release(instance)
        self.log.info("consumer.stopped")

    async def _refresh_routes(self, instance: ClientInstance) -> None:
        """Fetch the routes of all topics; a missing one may appear later."""
        missing: list[str] = []
        for topic in sorted(self._subscriptions.topics):
            try:
                if not await instance.lookups.refresh_route(topic) and not is_retry(topic):
                    missing.append(topic)
            except PocketMQError as exc:
                instance.lookups.route_failed(topic, exc)
        if missing:
            self.log.warning(
                "topic.missing",
                topics=missing,
                advice="create it (`pocketmq topic create`); the consumer goes on looking for it",
            )
            instance.tasks.start(look_for(instance, missing), name="look for missing topics")

    # -- for the instance -----------------------------------------------------------------------

    @property
    @abstractmethod
    def consume_type(self) -> ConsumeType:
        """For heartbeats."""

    @property
    @abstractmethod
    def message_model(self) -> MessageModel:
        """Who of the group gets a message."""

    @property
    @abstractmethod
    def consume_from_where(self) -> ConsumeFromWhere:
        """Where the group begins when it has no offset (C-33)."""

    @property
    def subscriptions(self) -> Sequence[SubscriptionData]:
        """What is consumed; a push consumer's `%RETRY%group` included."""
        return list(self._subscriptions)

    @property
    def announced(self) -> Sequence[SubscriptionData]:
        """What heartbeats say of `subscriptions`."""
        return self._subscriptions.announced

    @property
    def is_running(self) -> bool:
        """From the start to the stop."""
        return self._state.running

    @abstractmethod
    async def rebalance(self) -> bool:
        """One round for all topics (C-22); whether all assignments are complete."""

    @abstractmethod
    async def persist_offsets(self) -> None:
        """Persist offsets (P-5)."""

    def persist_at_once(self) -> bool:
        """`persist_offsets` if that needs no waiting; False: it does, and nothing was done."""
        return False

    @abstractmethod
    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator reset the group's offsets (C-70)."""

    @abstractmethod
    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing, as operators see it: GET_CONSUMER_RUNNING_INFO (307)."""

    @property
    def direct(self) -> DirectConsumption | None:
        """Consumes single messages by hand (309); None of a consumer without a listener."""
        return None

    def offsets_in_memory(self, topic: str) -> Mapping[MessageQueue, int]:
        """The next offset to consume of each queue of a topic.

        Asks by GET_CONSUMER_STATUS_FROM_CLIENT (221).
        """
        return {
            queue: offset for queue, offset in self._table.offsets.items() if queue.topic == topic
        }

    # -- inside ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _table(self) -> OffsetTable:
        """Offsets in memory."""

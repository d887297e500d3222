"""What pull and lite pull consumers share: membership in a group, without a listener.

The application drives them: heartbeats say CONSUME_ACTIVELY; nothing is sent back or retried.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.membership.group_member import GroupMember
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.membership.running_info import running_info
from pocketmq.client.consumer.progress.offset_store import OffsetStore, RemoteBrokerOffsetStore
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo
from pocketmq.protocol.messages.message import MessageQueue

BROKER_SUSPEND_MS: Final = 20_000
"""For how long a broker may hold a pull of theirs (L-1b)."""


class PullMember(GroupMember):
    """A consumer without a listener."""

    def __init__(
        self,
        group: str,
        options: ClientOptions,
        *,
        consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
    ) -> None:
        super().__init__(group, options)
        self._consume_from_where = consume_from_where
        self._offset_store: OffsetStore | None = None

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group.

        Raises:
            ClientError: it is started already.
            DuplicateGroupError: this client id has a consumer of the group already.
        """
        member = await self._join_group(unique=True)
        instance = member.instance
        self._offset_store = RemoteBrokerOffsetStore(self._group, instance.api, instance.addresses)
        self._state.start()
        instance.start()
        await self._refresh_routes(instance)
        await self._started_as(member)
        await instance.heartbeat()
        instance.rebalance_service.wakeup()
        self.log.info("consumer.started", topics=sorted(self._subscriptions.topics))

    async def stop(self) -> None:
        """Persist offsets and leave the group; may be called twice."""
        instance, self._instance = self._instance, None
        if instance is None:
            return
        self._state.stop()
        await self._stopping()
        await self._leave(instance)

    @abstractmethod
    async def _started_as(self, member: Membership) -> None:
        """The instance runs; the first heartbeat follows."""

    @abstractmethod
    async def _stopping(self) -> None:
        """Persist offsets before the consumer stops."""

    # -- offsets --------------------------------------------------------------------------------

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The topic's readable queues, sorted (P-13); empty without a route."""
        instance = self._started()
        if topic not in instance.routes.subscribe:
            await instance.lookups.refresh_route(topic)
        return list(instance.routes.subscribe.get(topic, ()))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
        instance = self._started()
        return await instance.api.max_offset(await instance.addresses.master(queue), queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The queue's oldest offset still stored."""
        instance = self._started()
        return await instance.api.min_offset(await instance.addresses.master(queue), queue)

    async def search_offset(self, queue: MessageQueue, time_ms: int) -> int:
        """The first offset stored at or after a moment."""
        instance = self._started()
        return await instance.api.search_offset(
            await instance.addresses.master(queue), queue, time_ms
        )

    # -- for the instance -----------------------------------------------------------------------

    @property
    def consume_type(self) -> ConsumeType:
        """For heartbeats."""
        return ConsumeType.ACTIVELY

    @property
    def message_model(self) -> MessageModel:
        """For heartbeats."""
        return MessageModel.CLUSTERING

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """Where the group begins when it has no offset (C-33)."""
        return self._consume_from_where

    async def rebalance(self) -> bool:
        """Nothing to share out, unless a subclass says otherwise."""
        return True

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Operators move push consumers only; whoever pulls says itself where (C-70)."""
        self.log.info("offsets.reset_ignored", topic=topic, queues=len(offsets))

    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing, as operators see it: GET_CONSUMER_RUNNING_INFO (307)."""
        return running_info(
            {
                "PROP_CONSUME_TYPE": self.consume_type.value,
                "PROP_NAMESERVER_ADDR": ";".join(self.config.nameservers),
                "PROP_CLIENT_VERSION": f"V{self.profile.client_version}",
            },
            self._subscriptions,
            (),
            self._store.table,
            epoch_at_zero_ms=0,
        )

    @property
    def _table(self) -> OffsetTable:
        return self._store.table

    @property
    def _store(self) -> OffsetStore:
        if self._offset_store is None:
            raise self._not_running()
        return self._offset_store

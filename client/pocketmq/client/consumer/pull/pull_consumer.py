"""PullConsumer: the application says which queue, from where, and how much.

    async with PullConsumer("audit", nameservers="127.0.0.1:9876") as consumer:
        for queue in await consumer.queues("Orders"):
            offset = max(0, await consumer.consume_offset(queue))
            result = await consumer.pull(queue, "*", offset)
            ...
            consumer.update_consume_offset(queue, result.next_begin_offset)

Queues are not divided among members, and nothing is delivered again by itself. Updated offsets are
persisted every 5 s and at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Unpack

from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.progress.offset_table import ReadOffsetType
from pocketmq.client.consumer.pull.pull_member import BROKER_SUSPEND_MS, PullMember
from pocketmq.client.instance import ClientInstance
from pocketmq.client.pulling.pull_plan import STATUS_BY_CODE, PullStatus, all_bytes
from pocketmq.client.pulling.pull_service import NO_REAL_TIMEOUT_S
from pocketmq.client.selector import MessageSelector
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.messages.subscription import SUB_ALL, TAG, SubscriptionData
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.stored.record import decode_records

PULL_TIMEOUT_S: Final = 10.0
"""Real seconds for a pull that is not held (`consumerPullTimeoutMillis`)."""
HELD_PULL_TIMEOUT_S: Final = 30.0
"""Seconds on the clock for one that is (`consumerTimeoutMillisWhenSuspend`)."""


@dataclass(slots=True)
class PullResult:
    """What one pull brought."""

    status: PullStatus
    next_begin_offset: int
    """Where to pull next, whatever the status; with OFFSET_ILLEGAL the corrected offset."""
    min_offset: int
    max_offset: int
    messages: list[MessageExt] = field(default_factory=list)


def read_pull(
    response: Command, queue: MessageQueue, subscription: SubscriptionData, max_body_bytes: int
) -> PullResult:
    """What an answer to PULL_MESSAGE (11) brought.

    Raises:
        BrokerError: the broker refused.
    """
    status = STATUS_BY_CODE.get(response.code)
    if status is None:
        raise BrokerError(response.code, response.remark)
    found = response.header(PullMessageResponseHeader)
    messages: list[MessageExt] = []
    if status is PullStatus.FOUND:
        messages = [
            message
            for message in decode_records(
                response.body_view, broker_name=queue.broker_name, max_body_bytes=max_body_bytes
            )
            if subscription.matches_tag(message.tags)
        ]
    return PullResult(status, found.next_begin_offset, found.min_offset, found.max_offset, messages)


class PullConsumer(PullMember):
    """Reads queues by hand.

    Args:
        group: Consumer group, under which offsets are kept.
        options: See `ClientConfig`.
    """

    def __init__(self, group: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(group, options)

    async def pull(
        self,
        queue: MessageQueue,
        expression: str | MessageSelector,
        offset: int,
        max_count: int = 32,
        *,
        wait: bool = False,
    ) -> PullResult:
        """Read messages of one queue.

        Args:
            queue: Which one.
            expression: `*`, tags as `TagA || TagB`, or a `MessageSelector.by_sql`.
            offset: Of the first message wanted.
            max_count: At most so many; brokers give at most 32.
            wait: When there is nothing, let the broker wait up to 20 s for a message.

        Raises:
            BrokerError: the broker refused.
            RemotingError: it could not be asked.
            TimeoutError: a held pull was not answered within 30 s on the clock.
        """
        instance = self._started()
        subscription = MessageSelector.of(expression, TAG).subscription(queue.topic, 0)
        # Heartbeats say that the group wants all messages of the topic, as RocketMQ's do. Which of
        # them this pull wants, its own header says.
        if queue.topic not in self._subscriptions.by_topic:
            self._subscriptions.set(queue.topic, SUB_ALL)
        header = PullMessageRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_count,
            sys_flag=PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if wait else 0),
            suspend_timeout_millis=BROKER_SUSPEND_MS,  # counts only with the flag
            max_msg_bytes=all_bytes(instance.profile),
            subscription=subscription.sub_string,
            expression_type=subscription.expression_type,
            bname=queue.broker_name,
        )
        response = await self._ask(instance, queue, header, wait=wait)
        return read_pull(response, queue, subscription, self.config.max_body_bytes)

    async def consume_offset(self, queue: MessageQueue, *, from_store: bool = False) -> int:
        """The group's offset; -1 when none is stored, -2 when the broker cannot be asked.

        Args:
            queue: The queue.
            from_store: Ask the broker even if an offset is in memory.
        """
        kind = (
            ReadOffsetType.READ_FROM_STORE if from_store else ReadOffsetType.MEMORY_FIRST_THEN_STORE
        )
        return await self._store.read(queue, kind)

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Set the group's offset in memory; persisted every 5 s and at the end."""
        self._store.table.update(queue, offset, increase_only=False)

    async def persist_offsets(self) -> None:
        """Persist every updated offset now."""
        await self._store.persist_all(list(self._store.table.offsets))

    async def _started_as(self, member: Membership) -> None:
        """Topics become known with the first pull."""

    async def _stopping(self) -> None:
        await self.persist_offsets()

    async def _ask(
        self,
        instance: ClientInstance,
        queue: MessageQueue,
        header: PullMessageRequestHeader,
        *,
        wait: bool,
    ) -> Command:
        broker = await instance.addresses.any_replica(queue)
        channel = await instance.api.channel(broker.address)
        if not wait:
            return await channel.request(header, timeout_s=PULL_TIMEOUT_S)
        answer = channel.request(header, timeout_s=NO_REAL_TIMEOUT_S)
        async with instance.clock.timeout(HELD_PULL_TIMEOUT_S):
            with instance.clock.peer_wait():
                return await answer

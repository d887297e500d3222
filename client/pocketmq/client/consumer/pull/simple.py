"""SimpleConsumer: take messages one by one, from any queue, and say when each is done.

    consumer = SimpleConsumer("billing", nameservers="127.0.0.1:9876")
    consumer.subscribe("Orders", "new || changed")
    async with consumer:
        while messages := await consumer.receive(16, invisible_s=30):
            for message in messages:
                ...
                await consumer.ack(message)

The broker hands a message to one member of the group and hides it from the others for
`invisible_s`. A message that is not acknowledged in time is delivered again, also when its receiver
died. There is no rebalance: a group may have more members than there are queues.
"""

from __future__ import annotations

from typing import Final, Unpack

from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.popping.requests import PopClient
from pocketmq.client.consumer.pull.pull_member import PullMember
from pocketmq.client.heartbeat import ConsumeFromWhere
from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.headers.pop import PopMessageRequestHeader
from pocketmq.protocol.messages.message import MessageExt

MOST_MESSAGES: Final = 32
"""A broker hands out at most so many at once."""

TURN_S: Final = 1.0
"""With several brokers or topics, each is waited on for so long before the next."""


class SimpleConsumer(PullMember):
    """Receives, acknowledges, and changes how long a message stays hidden.

    Args:
        group: Consumer group.
        consume_from_where: Where a group without offsets begins; FIRST_OFFSET or the last message.
        options: See `ClientConfig`.
    """

    def __init__(
        self,
        group: str,
        *,
        consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(group, options, consume_from_where=consume_from_where)
        self._client: PopClient | None = None
        self._turn = 0

    def subscribe(self, topic: str, expression: str = "*") -> None:
        """Receive a topic's messages, all or those with certain tags.

        Args:
            topic: Its name.
            expression: `*`, or tags as `TagA || TagB`.

        Raises:
            SubscriptionError: the expression names no tag.
        """
        self._subscriptions.set(topic, expression)

    async def receive(
        self, max_count: int = 16, *, invisible_s: float = 60.0, wait_s: float = 15.0
    ) -> list[MessageExt]:
        """The next messages; none when none came within `wait_s`.

        Args:
            max_count: At most so many; a broker hands out at most 32.
            invisible_s: For how long nobody else gets them. `ack` them before it is over.
            wait_s: How long to wait for the first, on the clock.

        Raises:
            ClientError: nothing is subscribed.
            BrokerError: a broker refused.
            RemotingError: one could not be asked.
        """
        instance = self._started()
        if self._client is None or not self._subscriptions.topics:
            raise ClientError("nothing is subscribed; call subscribe() before start()")
        clock = instance.clock
        until = clock.monotonic() + wait_s
        wait_now_s = 0.0  # first a look at all
        looked = 0
        places: list[tuple[str, str]] = []
        while True:
            if looked % max(1, len(places)) == 0:  # once in a round
                places = await self._places(instance)
            left_s = max(0.0, until - clock.monotonic())
            if places:
                self._turn += 1
                topic, broker_name = places[self._turn % len(places)]
                # The first round does not wait: a message at the last of ten brokers must not wait
                # for nine long polls.
                slice_s = min(wait_now_s, left_s)
                messages = await self._pop(topic, broker_name, max_count, invisible_s, slice_s)
                if messages:
                    return messages
                looked += 1
                if looked < len(places):
                    continue
                wait_now_s = wait_s if len(places) == 1 else TURN_S
            else:
                # There is no route yet: the topic may be made while we wait.
                await clock.sleep(min(TURN_S, left_s))
            if clock.monotonic() >= until:
                return []

    async def ack(self, *messages: MessageExt) -> None:
        """Acknowledge messages; they are not delivered again.

        Those of one broker go in one request, and so do those of other calls in the same turn of
        the loop: a call for each message tells which were refused, and costs no request more.

        Raises:
            BadRequestError: one was not received by a `SimpleConsumer`; none is acknowledged.
            BrokerError: a broker refused one, and the others are acknowledged if they can be.
            RemotingError: it could not be asked.
        """
        await self._pops().ack(*messages)

    async def change_invisible(
        self, message: MessageExt, invisible_s: float, *, suspend: bool = False
    ) -> None:
        """Hide a message for this long from now on: longer to work on it, or shorter to retry.

        Ask before its time is over: the broker does not look, and a message that has come again
        meanwhile is then there twice (K-54).

        The message has a new receipt then, which `ack` uses. With `suspend` its coming again counts
        as no try (K-57); brokers before 5.5 count it.

        Raises:
            BadRequestError: it was not received by a `SimpleConsumer`.
            BrokerError: the broker refused; the old time holds.
            RemotingError: it could not be asked.
        """
        hidden_ms = round(invisible_s * 1000)
        await self._pops().change_invisible(message, hidden_ms, suspend=suspend)

    # -- inside ---------------------------------------------------------------------------------

    def _pops(self) -> PopClient:
        if self._client is None:
            raise self._not_running()
        return self._client

    async def _places(self, instance: ClientInstance) -> list[tuple[str, str]]:
        """(topic, broker name) of everything that may hold messages."""
        places: list[tuple[str, str]] = []
        routes = instance.routes
        for topic in sorted(self._subscriptions.topics):
            if topic not in routes.subscribe:
                await instance.lookups.refresh_route(topic)
            places += [(topic, name) for name in routes.readable_brokers(topic)]
        return places

    async def _pop(
        self, topic: str, broker_name: str, max_count: int, invisible_s: float, wait_s: float
    ) -> list[MessageExt]:
        instance, subscription = self._started(), self._subscriptions.by_topic.get(topic)
        if subscription is None:
            return []  # unsubscribed meanwhile
        header = PopMessageRequestHeader(
            consumer_group=self._group,
            topic=topic,
            queue_id=-1,
            max_msg_nums=min(max_count, MOST_MESSAGES),
            invisible_time=round(invisible_s * 1000),
            poll_time=round(wait_s * 1000),
            born_time=instance.clock.time_ms(),
            init_mode=0 if self._consume_from_where is ConsumeFromWhere.FIRST_OFFSET else 1,
            exp_type=subscription.expression_type,
            exp=subscription.sub_string,
            bname=broker_name,
        )
        messages = await self._pops().pop(broker_name, header)
        wanted = self._subscriptions.wanted(topic, messages)
        if len(wanted) != len(messages):  # hashes of tags collided: nobody else wants them either
            kept = set(map(id, wanted))
            await self.ack(*(message for message in messages if id(message) not in kept))
        return wanted

    async def _started_as(self, member: Membership) -> None:
        self._client = PopClient(self._group, member.instance, self.config.max_body_bytes)

    async def _stopping(self) -> None:
        self._client = None

    async def persist_offsets(self) -> None:
        """The broker knows where the group is."""

"""Admin requests for messages: by offset, by id, by key."""

from __future__ import annotations

from pocketmq.client.admin.base import AdminBase
from pocketmq.client.admin.reads import read_queue
from pocketmq.client.consumer.pull.pull_consumer import PullResult
from pocketmq.client.selector import MessageSelector
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerNotFoundError
from pocketmq.protocol.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.scalars import INT64_MAX
from pocketmq.protocol.stored.record import decode_record, decode_records
from pocketmq.runtime.addresses import address_text


class MessageAdmin(AdminBase):
    """Finds and reads messages."""

    async def read(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: str | MessageSelector = "*",
        max_count: int = 32,
        wait_ms: int = 0,
    ) -> PullResult:
        """Read messages of one queue without a group of one's own: PULL_MESSAGE (11).

        No group is created, and no offset is committed.

        Args:
            queue: Which one.
            offset: Of the first message wanted.
            expression: `*`, tags as `TagA || TagB`, or a `MessageSelector.by_sql`.
            max_count: At most so many; brokers give at most 32.
            wait_ms: When there is nothing, for how long the broker may wait for a message.

        Raises:
            BrokerError: the broker refused.
            RequestTimeoutError: it did not answer; with `wait_ms` this also happens on a manual
                clock that stands: ask again.
        """
        try:
            address = await self._started().addresses.master(queue)
        except BrokerNotFoundError:  # a system topic may have no route
            address = await self._masters.of_broker(queue.broker_name)
        return await read_queue(
            self._api,
            address,
            queue,
            expression,
            offset,
            max_count=max_count,
            wait_ms=wait_ms,
            max_body_bytes=self.config.max_body_bytes,
        )

    async def view_message(self, offset_msg_id: str, *, topic: str | None = None) -> MessageExt:
        """The message that is stored where the id says: VIEW_MESSAGE_BY_ID (33).

        Raises:
            IllegalNameError: it is no offset message id.
            BrokerError: nothing is stored there (any more).
        """
        ip, port, offset = parse_offset_msg_id(offset_msg_id)
        address = address_text(ip, port)
        return await self.message_at(address, offset, topic=topic)

    async def message_at(
        self, address: str, offset: int, *, topic: str | None = None
    ) -> MessageExt:
        """The message whose record begins at a log offset of a broker: VIEW_MESSAGE_BY_ID (33).

        Raises:
            BrokerError: no record begins there.
        """
        response = await self._api.call(
            address, ViewMessageRequestHeader(offset=offset, topic=topic)
        )
        return decode_record(response.body_view)

    async def query_messages(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = 32,
        begin_ms: int = 0,
        end_ms: int = INT64_MAX,
        by_uniq_key: bool = False,
        by_tag: bool = False,
        everywhere: bool = False,
    ) -> list[MessageExt]:
        """Messages by one of their KEYS, UNIQ_KEY or tag, oldest first: QUERY_MESSAGE (12).

        Args:
            topic: Where they are stored.
            key: What they have.
            max_count: At most so many on each broker.
            begin_ms: Stored then or later, epoch ms.
            end_ms: Stored then or earlier.
            by_uniq_key: `key` is a UNIQ_KEY.
            by_tag: `key` is a tag. Brokers before 5.4, and ours with their profiles, find none:
                they look for a key of that name, and what they find is left out.
            everywhere: Ask every master, and not those of the topic's route: system topics may
                have none.
        """
        header = QueryMessageRequestHeader(
            topic=topic,
            key=key,
            max_num=max_count,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=by_uniq_key or None,
            index_type="T" if by_tag else None,
        )
        found: list[MessageExt] = []
        masters = self._masters
        targets = await (masters.all() if everywhere else masters.of_topic(topic))
        for broker_name, address in targets.items():
            response = await self._api.call(address, header, ok=(ResponseCode.QUERY_NOT_FOUND,))
            if response.code == ResponseCode.SUCCESS:
                found += decode_records(response.body_view, broker_name=broker_name)
        # The index holds hashes: others may collide.
        matching = [message for message in found if _has(message, key, by_uniq_key, by_tag)]
        # A broker gives a message as often as its KEYS name the key.
        once = {(each.broker_name, each.commit_log_offset): each for each in matching}
        return sorted(once.values(), key=lambda message: message.store_timestamp_ms)


def _has(message: MessageExt, key: str, by_uniq_key: bool, by_tag: bool) -> bool:
    """Whether a message is one that was asked for."""
    if by_uniq_key:
        return message.uniq_key == key
    return message.tags == key if by_tag else key in message.key_list

"""How a failed message gets back to its broker, to be delivered again later (C-55, C-60)."""

from __future__ import annotations

import structlog

from pocketmq.client.instance import ClientInstance
from pocketmq.client.producer.producer import Producer
from pocketmq.protocol.errors import BrokerNotFoundError
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import Message, MessageExt
from pocketmq.protocol.messages.validation import CLIENT_INNER_PRODUCER_GROUP, retry_topic
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

FALLBACK_DELAY_LEVEL = 3


class SendBack:
    """Sends failed messages of one consumer back.

    Args:
        group: Consumer group.
        instance: Its connections.
        max_reconsume_times: Tells the broker when to give up (B-82).
    """

    def __init__(self, group: str, instance: ClientInstance, max_reconsume_times: int) -> None:
        self._group = group
        self._instance = instance
        self._max_reconsume_times = max_reconsume_times
        self._producer = Producer(CLIENT_INNER_PRODUCER_GROUP)
        self._producer.attach(instance)

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        """Have it delivered again, later; whether the broker has it.

        Asks by CONSUMER_SEND_MSG_BACK (36); if that fails, sends a copy to `%RETRY%group`.

        Args:
            message: As a listener got it.
            delay_level: 0: the broker decides by the number of tries; -1: to the dead letter topic.
        """
        try:
            address = self._instance.routes.master(message.broker_name)
            # Only the broker that stores the message can take it back: the request names its place
            # in that broker's log.
            if address is None:
                raise BrokerNotFoundError(message.broker_name)
            await self._instance.api.send_back(
                address,
                ConsumerSendMsgBackRequestHeader(
                    offset=message.commit_log_offset,
                    group=self._group,
                    delay_level=delay_level,
                    origin_msg_id=message.msg_id,
                    origin_topic=message.topic,
                    max_reconsume_times=self._max_reconsume_times,
                    bname=message.broker_name,
                ),
            )
        except PocketMQError as exc:
            log.warning(
                "send_back.failed",
                group=self._group,
                broker=message.broker_name,
                msg_id=message.msg_id,
                reason=str(exc),
            )
            # The broker is away or refuses, but any broker of the retry topic can store a copy
            # (C-55).
            return await self.send_copy(message)
        return True

    async def send_copy(self, message: MessageExt, *, times: int | None = None) -> bool:
        """Send it as a plain message to `%RETRY%group`; whether that worked.

        The broker delivers it again, or makes it a dead letter when its count is too high (B-86).

        Args:
            message: As a listener got it.
            times: The count that the copy carries; by default one more than the message has.
        """
        properties = dict(message.properties)
        # With this property, a broker would take the copy for a half message and hide it.
        properties.pop(names.TRANSACTION_PREPARED, None)
        # A second retry keeps the id of the first message, not of the copy before it.
        properties.setdefault(names.ORIGIN_MESSAGE_ID, message.msg_id)
        properties[names.RETRY_TOPIC] = message.topic
        properties[names.RECONSUME_TIME] = str(
            message.reconsume_times + 1 if times is None else times
        )
        properties[names.MAX_RECONSUME_TIMES] = str(self._max_reconsume_times)
        properties[names.WAIT] = "true"  # a message from the broker may have WAIT=false
        # As the broker does for a send-back: the first retry waits 10 s, which is level 3.
        properties[names.DELAY] = str(FALLBACK_DELAY_LEVEL + message.reconsume_times)
        copy = Message(
            retry_topic(self._group), message.body, flag=message.flag, properties=properties
        )
        try:
            await self._producer.send(copy)
        except PocketMQError as exc:
            log.warning(
                "retry.send_failed", group=self._group, msg_id=message.msg_id, reason=str(exc)
            )
            return False
        return True

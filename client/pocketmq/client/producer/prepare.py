"""Prepares a message for sending: UNIQ_KEY, compressed body, properties, header (P-43, P-44).

Made once per send; every try of the send shares it, so that duplicates share one key. What a
message says beside its body travels as one text, and is stored as it came:

    Message("orders", b"hello", tags="new", keys="order-17")

    KEYS=order-17; TAGS=new; WAIT=true; UNIQ_KEY=7F00...0001;      "=": byte 0x01, ";": byte 0x02

A body of 4 KiB or more is compressed, and a bit of the header's `sys_flag` says so. `message` and
`batch` prepare; `header` is called for each try, because the queue and the moment of birth differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from pocketmq.client.producer.settings import ProducerSettings
from pocketmq.protocol.command import Buffer
from pocketmq.protocol.compression import compress
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.headers.replies import (
    SendReplyMessageRequestHeader,
    SendReplyMessageRequestHeaderV2,
)
from pocketmq.protocol.headers.send import (
    SendBatchMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.protocol.scalars import MessageSysFlag

# A module's name is looked up in a third of the time of an attribute.
_UNIQ_KEY: Final = names.UNIQ_KEY
_MESSAGE_TYPE: Final = names.MESSAGE_TYPE
_TRANSACTION_PREPARED: Final = names.TRANSACTION_PREPARED


class Prepared(msgspec.Struct, gc=False):
    """What every try of one send has in common.

    A msgspec struct because one is made per message.
    """

    topic: str
    body: Buffer
    flag: int
    sys_flag: int
    uniq_key: str
    properties: str = ""
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    is_batch: bool = False
    is_reply: bool = False
    is_plain: bool = False
    """Its header differs from those of others to the same queue in birth and properties only."""


class Preparer:
    """Prepares the messages of one producer.

    Args:
        group: Producer group.
        settings: What is compressed and how, the largest batch, what headers say.
        new_uniq_key: Makes a UNIQ_KEY.
        time_ms: The moment of birth.
    """

    def __init__(
        self,
        group: str,
        settings: ProducerSettings,
        *,
        new_uniq_key: Callable[[], str],
        time_ms: Callable[[], int],
    ) -> None:
        self._group = group
        self._compress_body_over = settings.compress_body_over
        self._compression = settings.compression_kind
        self._compression_level = settings.compression_level
        self._compressed_flag = settings.compression_kind.sys_flag
        self._max_message_size = settings.max_message_size
        self._create_topic_key = settings.create_topic_key
        self._default_topic_queue_nums = settings.default_topic_queue_nums
        self._single: type[SendMessageRequestHeaderV2] | type[SendMessageRequestHeader] = (
            SendMessageRequestHeaderV2 if settings.send_smart_msg else SendMessageRequestHeader
        )
        self._reply: type[SendMessageRequestHeaderV2] | type[SendMessageRequestHeader] = (
            SendReplyMessageRequestHeaderV2
            if settings.send_smart_msg
            else SendReplyMessageRequestHeader
        )
        self._new_uniq_key = new_uniq_key
        self.time_ms = time_ms

    def message(self, message: Message) -> Prepared:
        """Prepare one message; gives it a UNIQ_KEY (S-8) if it has none and leaves its body alone.

        Its properties become the text that travels and is stored (S-6).

        Raises:
            IllegalMessageError: a property holds a separator.
        """
        properties = message.properties
        # A send that is tried again after an error keeps its key, so that consumers recognize the
        # copy.
        uniq_key = properties.get(_UNIQ_KEY)
        if uniq_key is None:
            uniq_key = properties[_UNIQ_KEY] = self._new_uniq_key()
        body: Buffer = message.body
        sys_flag = 0
        if len(body) >= self._compress_body_over:
            # The message keeps its own body: the application may send it again.
            body = compress(message.body, self._compression, self._compression_level)
            sys_flag = self._compressed_flag
        is_reply = properties.get(_MESSAGE_TYPE) == names.REPLY_TYPE
        if _TRANSACTION_PREPARED in properties:
            sys_flag |= MessageSysFlag.TRANSACTION_PREPARED
        topic, flag = message.topic, message.flag
        # Such messages differ only in born time and properties (`SendTemplate`).
        if not (topic[0] == "%" or is_reply or sys_flag or flag):
            text = encode_properties(properties)
            return Prepared(topic, body, 0, 0, uniq_key, text, is_plain=True)
        prepared = Prepared(topic, body, flag, sys_flag, uniq_key)
        prepared.is_reply = is_reply
        if topic[0] == "%" and is_retry(topic):
            # The counts of a message for a retry topic travel in the header (C-55).
            prepared.reconsume_times = int(properties.pop(names.RECONSUME_TIME, "0"))
            times = properties.pop(names.MAX_RECONSUME_TIMES, None)
            prepared.max_reconsume_times = None if times is None else int(times)
        prepared.properties = encode_properties(properties)
        return prepared

    def batch(self, messages: Sequence[Message]) -> Prepared:
        """Prepare messages that travel together, each with its own UNIQ_KEY (P-49).

        Raises:
            IllegalMessageError: they are too large together, or a property holds a separator.
        """
        keys = []
        for message in messages:
            key = message.properties.get(names.UNIQ_KEY)
            if key is None:
                key = message.properties[names.UNIQ_KEY] = self._new_uniq_key()
            keys.append(key)
        topic = messages[0].topic
        body = encode_batch(messages)
        if len(body) > self._max_message_size:
            raise IllegalMessageError(
                f"the batch has {len(body)} bytes, but may have at most "
                f"{self._max_message_size}; send fewer messages at once",
                topic=topic,
            )
        prepared = Prepared(topic, body, 0, 0, ",".join(keys))
        prepared.is_batch = True
        # Their own properties travel in the body; the header carries what the broker must know.
        wait = messages[0].properties.get(names.WAIT)
        prepared.properties = encode_properties({names.WAIT: wait} if wait else {})
        return prepared

    def header(
        self, prepared: Prepared, queue: MessageQueue
    ) -> SendMessageRequestHeaderV2 | SendMessageRequestHeader:
        """The header of one try."""
        header_type = self._single
        if prepared.is_batch:
            header_type = SendBatchMessageRequestHeader
        elif prepared.is_reply:
            header_type = self._reply
        return header_type(
            producer_group=self._group,
            topic=prepared.topic,
            default_topic=self._create_topic_key,
            default_topic_queue_nums=self._default_topic_queue_nums,
            queue_id=queue.queue_id,
            sys_flag=prepared.sys_flag,
            born_timestamp=self.time_ms(),
            flag=prepared.flag,
            properties=prepared.properties,
            reconsume_times=prepared.reconsume_times,
            max_reconsume_times=prepared.max_reconsume_times,
            batch=prepared.is_batch,
            broker_name=queue.broker_name,
        )

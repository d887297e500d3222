"""The header and the message of a reply: pushed to the requester, and stored (R-11, R-13)."""

from __future__ import annotations

from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.protocol.headers.replies import ReplyMessageRequestHeader
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.properties import decode_properties, encode_again
from pocketmq.protocol.messages.subscription import tags_code

SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2


def requester_of(header: SendHeader) -> str | None:
    """Client id of the requester that waits for this reply."""
    return decode_properties(header.properties).get(names.MESSAGE_REPLY_TO_CLIENT)


def pushed(
    header: SendHeader, born_host: str, store_host: str, now_ms: int, added: dict[str, str]
) -> ReplyMessageRequestHeader:
    """The header under which a reply is pushed; its body is the reply's, compressed or not.

    Args:
        header: of the reply as it was sent.
        born_host: `ip:port` of the replier.
        store_host: `ip:port` of this broker.
        now_ms: the time.
        added: what the broker adds to a reply (`stamp.traced`).
    """
    properties = decode_properties(header.properties) | added
    properties[names.PUSH_REPLY_TIME] = str(now_ms)
    return ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=encode_again(properties),
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode,
        born_host=born_host,
        store_host=store_host,
        store_timestamp=now_ms,
    )


def stored(
    header: SendHeader,
    body: bytes,
    queue_id: int,
    born_host: bytes,
    store_host: bytes,
    added: dict[str, str],
) -> StoredMessage:
    """The reply as it lies in `<cluster>_REPLY_TOPIC`, where nobody reads it.

    As in RocketMQ its flags are 0 and its properties those that were sent, with what is added: by
    profile the broker's region and that it traces (R-13).
    """
    properties = decode_properties(header.properties) | added
    return StoredMessage(
        topic=header.topic,
        queue_id=queue_id,
        body=body,
        properties=encode_again(properties).encode(),
        flag=header.flag,
        sys_flag=0,
        born_timestamp_ms=header.born_timestamp,
        born_host=born_host,
        store_host=store_host,
        reconsume_times=header.reconsume_times,
        tags_code=tags_code(properties.get(names.TAGS)),
        uniq_key=properties.get(names.UNIQ_KEY),
        keys=properties.get(names.KEYS),
        wait_store_ok=properties.get(names.WAIT) != "false",
    )

"""Request and reply between clients (E-28; R-5, R-11)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.scalars import Int32, Int64


class SendReplyMessageRequestHeader(SendMessageRequestHeader, kw_only=True):
    """SEND_REPLY_MESSAGE (324): the fields of a send, long names."""

    CODE: ClassVar[int] = RequestCode.SEND_REPLY_MESSAGE


class SendReplyMessageRequestHeaderV2(SendMessageRequestHeaderV2, kw_only=True):
    """SEND_REPLY_MESSAGE_V2 (325): the fields of a send, one letter each."""

    CODE: ClassVar[int] = RequestCode.SEND_REPLY_MESSAGE_V2


class ReplyMessageRequestHeader(Header, kw_only=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326): a broker passes a reply on to the client that asked."""

    CODE: ClassVar[int] = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT

    producer_group: str
    """Of the replier."""

    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    """As the replier sent it; may be -1."""

    sys_flag: Int32
    """Says whether the body is compressed."""

    born_timestamp: Int64
    flag: Int32
    born_host: str
    """`ip:port` of the replier."""

    store_host: str
    """`ip:port` of the broker."""

    store_timestamp: Int64
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    bname: str | None = None

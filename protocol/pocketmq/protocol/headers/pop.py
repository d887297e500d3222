"""Popping messages, and who consumes which queue when a broker decides it (K-1 to K-66)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.pop import (
    BatchAckBody,
    MessageRequestModes,
    QueryAssignmentBody,
    QueueAssignments,
    RequestModeBody,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32, Int64


class PopMessageResponseHeader(Header, kw_only=True):
    """What was popped; the four numbers are on every answer, whatever its code (K-1, K-37)."""

    ON_EVERY_ANSWER: ClassVar[bool] = True

    pop_time: Int64 = 0
    """Epoch ms, the broker's clock; with it each receipt handle of the answer is made."""

    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    rest_num: Int64 = 0
    """Messages that another pop would find."""

    start_offset_info: str | None = None
    """`mark queueId startOffset;...`, see `receipts`."""

    msg_offset_info: str | None = None
    """`mark queueId offset,offset;...`, in the order of the body."""

    order_count_info: str | None = None
    """Of an ordered pop: how often each message was handed out before."""


class PopMessageRequestHeader(Header, kw_only=True):
    """POP_MESSAGE (200050): take messages that stay invisible to others for a while (K-30)."""

    CODE: ClassVar[int] = RequestCode.POP_MESSAGE
    RESPONSE = PopMessageResponseHeader

    consumer_group: str
    topic: str
    queue_id: Int32
    """Negative: any queue of the topic."""

    max_msg_nums: Int32
    invisible_time: Int64
    """Milliseconds."""

    poll_time: Int64
    """How long the request may wait for a message, in ms; 0: not at all."""

    born_time: Int64 = 0
    """When the client sent it, epoch ms; 0 means now."""

    init_mode: Int32 = 0
    """Where a group begins that has no offset: 0 at the queue's first message, 1 at its last."""

    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None
    """An ordered pop that repeats one gets the same messages again (K-112)."""

    bname: str | None = None


class AckMessageRequestHeader(Header, kw_only=True):
    """ACK_MESSAGE (200051): a popped message is consumed (K-50)."""

    CODE: ClassVar[int] = RequestCode.ACK_MESSAGE

    consumer_group: str
    topic: str
    """Where the message lies: its retry topic, if it came from there."""

    queue_id: Int32
    extra_info: str
    """The receipt handle."""

    offset: Int64
    bname: str | None = None


class BatchAckMessageRequestHeader(Header, kw_only=True):
    """BATCH_ACK_MESSAGE (200151): several popped messages are consumed (K-52)."""

    CODE: ClassVar[int] = RequestCode.BATCH_ACK_MESSAGE
    BODY = BatchAckBody


class ChangeInvisibleTimeResponseHeader(Header, kw_only=True):
    """From what the message's new receipt handle is made (K-48)."""

    ON_EVERY_ANSWER: ClassVar[bool] = True

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0


class ChangeInvisibleTimeRequestHeader(Header, kw_only=True):
    """CHANGE_MESSAGE_INVISIBLETIME (200053): a popped message is wanted later again (K-55)."""

    CODE: ClassVar[int] = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    RESPONSE = ChangeInvisibleTimeResponseHeader

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    """The receipt handle; the answer's values make a new one."""

    offset: Int64
    invisible_time: Int64
    """Milliseconds from now."""

    suspend: bool | None = None
    """When it comes again, that counts as no try (K-57)."""
    bname: str | None = None


class NotificationResponseHeader(Header, kw_only=True):
    """Whether a pop would find something."""

    ON_EVERY_ANSWER: ClassVar[bool] = True

    has_msg: bool = False
    polling_full: bool = False


class NotificationRequestHeader(Header, kw_only=True):
    """NOTIFICATION (200054): wait until there is something to pop (K-65)."""

    CODE: ClassVar[int] = RequestCode.NOTIFICATION
    RESPONSE = NotificationResponseHeader

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64 = 0
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None
    """Only messages that match count (K-66)."""
    bname: str | None = None


class PollingInfoResponseHeader(Header, kw_only=True):
    """How many pops wait."""

    ON_EVERY_ANSWER: ClassVar[bool] = True

    polling_num: Int32 = 0


class PollingInfoRequestHeader(Header, kw_only=True):
    """POLLING_INFO (200055): how many pops wait under exactly this queue id (K-66)."""

    CODE: ClassVar[int] = RequestCode.POLLING_INFO
    RESPONSE = PollingInfoResponseHeader

    consumer_group: str
    topic: str
    queue_id: Int32
    bname: str | None = None


class PeekMessageRequestHeader(Header, kw_only=True):
    """PEEK_MESSAGE (200052): look at messages without taking them."""

    CODE: ClassVar[int] = RequestCode.PEEK_MESSAGE
    RESPONSE = PopMessageResponseHeader

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    bname: str | None = None


class QueryAssignmentRequestHeader(Header, kw_only=True):
    """QUERY_ASSIGNMENT (400): the broker says which queues a client consumes (K-20)."""

    CODE: ClassVar[int] = RequestCode.QUERY_ASSIGNMENT
    BODY = QueryAssignmentBody
    RESPONSE_BODY = QueueAssignments


class SetMessageRequestModeRequestHeader(Header, kw_only=True):
    """SET_MESSAGE_REQUEST_MODE (401): whether a group pulls or pops a topic (K-26)."""

    CODE: ClassVar[int] = RequestCode.SET_MESSAGE_REQUEST_MODE
    BODY = RequestModeBody


class GetAllMessageRequestModeRequestHeader(Header, kw_only=True):
    """GET_ALL_MESSAGE_REQUEST_MODE (402): for slaves (K-26)."""

    CODE: ClassVar[int] = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
    RESPONSE_BODY = MessageRequestModes
